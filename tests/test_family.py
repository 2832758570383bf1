"""From text to the answers of an exported classifier, with each kind of tokenizer."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.finetuning.predict import predicted_files
from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.trained import read_trained
from albert_tf.pretraining.run import pretrain
from albert_tf.pretraining.settings import Pretraining
from albert_tf.recipes import PretrainingRecipe
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tokenizers import train_vocabulary
from hub_export.export import export
from tests.tiny import DOCUMENTS, TINY

LOOP = {"log_every": 0, "eval_every": 0, "checkpoint_every": 0}


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level_bpe"])
def test_from_text_to_an_answer(kind, tiny_corpus, tmp_path):
    vocabulary = tmp_path / ("bpe" if kind == "byte_level_bpe" else "vocab.txt")
    train_vocabulary(tiny_corpus, vocabulary, 300, kind=kind)
    recipe = PretrainingRecipe().replace(
        optimizer="adamw", learning_rate=1e-3, batch_size=4, steps=2, warmup_steps=1, seq_length=32
    )
    run, tuned = tmp_path / "run", tmp_path / "tuned"
    places = {"train": [str(tiny_corpus)], "eval": [str(tiny_corpus)], "vocabulary": vocabulary}
    pretrain(Pretraining(output=run, config=TINY, recipe=recipe, **places))
    assert json.loads((run / "tokenizer.json").read_text())["kind"] == kind
    assert albert_tf.load(run).config.vocab_size == len(
        albert_tf.Tokenizer(run / vocabulary_of(kind)).vocabulary
    )
    (filled,) = albert_tf.pipeline(run, batch_size=1)(["The bees are [MASK] there."])
    assert len(filled) == 5 and all(answer["token"] for answer in filled)

    table = tmp_path / "table.jsonl"
    texts = [text for document in DOCUMENTS[:4] for text in document]
    rows = [{"text": text, "label": "yes" if "the" in text.lower() else "no"} for text in texts]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    finetune(
        Finetuning(
            output=tuned,
            task="classification",
            train=table,
            eval=table,
            columns=Columns("text", None, "label"),
            init_from=run,
            recipe={"batch_size": 8, "steps": 3, "warmup_steps": 1, "seq_length": 32},
            loop=LOOP,
        )
    )
    files = predicted_files(read_trained(tuned), table)
    predicted = [json.loads(line) for line in files["table.jsonl"].splitlines()]
    export(tuned, tmp_path / "hub")
    served = tf.saved_model.load(str(tmp_path / "hub/serving/1"))
    answers = served.signatures["serving_default"](text=tf.constant(texts))
    assert [label.decode() for label in answers["label"].numpy()] == [row["prediction"] for row in predicted]
    np.testing.assert_allclose(answers["score"], [row["score"] for row in predicted], atol=1e-5)
    model = albert_tf.TextClassifier.from_run(tuned)
    model.save(str(tmp_path / "own.keras"))
    again = albert_tf.TextClassifier.load(tmp_path / "own.keras")
    np.testing.assert_allclose(again.predict(texts), model.predict(texts), atol=1e-6)


def vocabulary_of(kind):
    return {"wordpiece": "vocab.txt", "byte_level_bpe": "vocab.json"}[kind]
