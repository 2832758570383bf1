"""From text to the answers of an exported classifier: kinds of tokenizers, networks without a pooler."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.predict import predict_files
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.recipes import PretrainingRecipe
from albert_tf.tasks.columns import Columns
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import VOCABULARY_FILES
from albert_tf.text.vocabulary_training import train_vocabulary
from hub_export.export import export
from hub_export.module_comparison import example_ids
from tests.tiny import DOCUMENTS, TINY, write_jsonl

LOOP = {"log_every": 0, "eval_every": 0, "checkpoint_every": 0}

# Neither has a pooler, and layers share nothing.
UNSHARED = TINY.replace(embedding_size=TINY.hidden_size, num_hidden_layers=2, sharing="none", pooler="none")
CONFIGS = {
    "albert": TINY,
    "roberta": UNSHARED.replace(type_vocab_size=1, position_offset=2, layer_norm_eps=1e-5),
    "distilbert": UNSHARED.replace(type_vocab_size=0),
}


# Each family once, and each kind of tokenizer that the commands of test_cli.py do not have.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kind"),
    [("albert", "wordpiece"), ("roberta", "byte_level_bpe"), ("distilbert", "wordpiece")],
)
def test_from_text_to_an_answer(family, kind, tiny_corpus, tmp_path):
    vocabulary = tmp_path / ("bpe" if kind == "byte_level_bpe" else "vocab.txt")
    train_vocabulary(tiny_corpus, vocabulary, 300, kind=kind)
    config = CONFIGS[family]
    assert config.family == family
    recipe = PretrainingRecipe().replace(
        optimizer="adamw", learning_rate=1e-3, batch_size=4, steps=2, warmup_steps=1, seq_length=32
    )
    if config.pooler == "none":
        with pytest.raises(InputError, match=r"sentence_objective='sop' .* pooler"):
            Pretraining(output=tmp_path, config=config, recipe=recipe, train=[], vocabulary=vocabulary)
        recipe = recipe.replace(sentence_objective="none", input_format="full_sentences")
    run, tuned = tmp_path / "run", tmp_path / "tuned"
    places = {"train": [str(tiny_corpus)], "eval": [str(tiny_corpus)], "vocabulary": vocabulary}
    pretrain(Pretraining(output=run, config=config, recipe=recipe, **places))
    assert json.loads((run / "tokenizer.json").read_text())["kind"] == kind
    assert albert_tf.load(run).config.vocab_size == len(
        albert_tf.Tokenizer(run / VOCABULARY_FILES[kind][0]).vocabulary
    )
    assert np.isfinite(evaluate_run(run, [str(tiny_corpus)], 4)["eval_mlm_loss"])
    (filled,) = albert_tf.pipeline(run, batch_size=1)(["The bees are [MASK] there."])
    assert len(filled) == 5 and all(answer["token"] for answer in filled)

    texts = [text for document in DOCUMENTS[:4] for text in document]
    rows = [{"text": text, "label": "yes" if "the" in text.lower() else "no"} for text in texts]
    table = write_jsonl(tmp_path / "table.jsonl", rows)
    told: list[str] = []
    recipe = {"batch_size": 8, "steps": 3, "warmup_steps": 1, "seq_length": 32}
    finetune(classification(tuned, table, run, recipe), told.append)
    new = "new: classifier" if family == "albert" else "new: pooler, classifier"
    assert told[0] == f"weights from {str(run)!r}; {new}"
    assert albert_tf.load(tuned).config.pooler == ("relu" if family == "distilbert" else "tanh")
    files = predict_files(load_finetuned(tuned), table)
    predicted = [json.loads(line) for line in files["table.jsonl"].splitlines()]
    export(tuned, tmp_path / "hub", check=False)
    served = tf.saved_model.load(str(tmp_path / "hub/serving/1"))
    answers = served.signatures["serving_default"](text=tf.constant(texts))
    assert [label.decode() for label in answers["label"].numpy()] == [row["prediction"] for row in predicted]
    np.testing.assert_allclose(answers["score"], [row["score"] for row in predicted], atol=1e-5)
    model = albert_tf.TextClassifier.from_pretrained(tuned)
    model.save(str(tmp_path / "own.keras"))
    again = albert_tf.TextClassifier.load(tmp_path / "own.keras")
    np.testing.assert_allclose(again.predict(texts), model.predict(texts), atol=1e-6)


def classification(output, table, run, recipe):
    """Settings of a classifier that begins with a run."""
    places = {"output": output, "train": table, "eval": table, "init_from": run}
    columns = Columns("text", None, "label")
    return Finetuning(task="classification", columns=columns, recipe=recipe, loop=LOOP, **places)


@pytest.fixture(scope="module")
def without_pooler(byte_pairs, tmp_path_factory):
    """A pre-trained run of a network that has no pooler."""
    run = tmp_path_factory.mktemp("roberta") / "run"
    config = CONFIGS["roberta"].replace(vocab_size=len(open_tokenizer(byte_pairs).vocabulary))
    albert_tf.save(albert_tf.AlbertPretrainer(config, sentence_objective="none"), run, byte_pairs)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 0])
def test_a_roberta_with_another_vocabulary(types, tiny_corpus, tiny_vocabulary, tmp_path):
    """Whose inputs have type 1, which the network does not know: its only type is that of all tokens."""
    config = CONFIGS["roberta"].replace(type_vocab_size=types)
    model = albert_tf.AlbertPretrainer(config, sentence_objective="none")
    albert_tf.save(model, tmp_path / "run", tiny_vocabulary)
    export(tmp_path / "run", tmp_path / "hub", seq_length=16)
    ids = example_ids(2, 5)
    ones = {**ids, "input_type_ids": tf.ones_like(ids["input_type_ids"])}
    outputs = [model(inputs)["sequence_output"] for inputs in (ids, ones)]
    np.testing.assert_array_equal(*outputs)
    metrics = evaluate_run(tmp_path / "run", [str(tiny_corpus)], 4, seq_length=32)
    assert metrics["examples"] > 0 and np.isfinite(metrics["eval_mlm_loss"])


@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_an_export_without_a_pooler_gives_the_first_state(without_pooler, xla, tmp_path):
    export(without_pooler, tmp_path, seq_length=16, xla=xla, check=xla)
    module = tf.saved_model.load(str(tmp_path / "encoder"))
    ids = example_ids(2, 5)
    outputs = module(ids)
    expected = albert_tf.load(without_pooler).encoder(ids)
    assert "pooled_output" not in expected
    for name in ("default", "pooled_output"):
        np.testing.assert_allclose(outputs[name], expected["sequence_output"][:, 0], atol=1e-5)
    served = tf.saved_model.load(str(tmp_path / "serving/1")).signatures
    np.testing.assert_allclose(served["tokens"](**ids)["pooled_output"], outputs["default"], atol=1e-5)
    assert "the network has no pooler" in (tmp_path / "README.md").read_text()


def test_a_head_on_the_mean_needs_no_pooler(without_pooler, tmp_path):
    first = albert_tf.TextClassifier.from_pretrained(without_pooler, labels=["a", "b"])
    assert first.classifier.config == albert_tf.load(without_pooler).config.with_pooler()
    assert first.predict(["A text."]).shape == (1, 2)
    mean = albert_tf.TextClassifier.from_pretrained(without_pooler, labels=["a", "b"], pooling="mean")
    assert mean.classifier.config.pooler == "none"
    mean.save_run(tmp_path / "run")
    # From a fine-tuned run without a pooler to a head that reads one.
    again = albert_tf.TextClassifier.from_pretrained(tmp_path / "run", labels=["a", "b"], pooling="first")
    assert again.classifier.config.pooler != "none"


@pytest.mark.slow
def test_a_run_without_a_pooler_is_fine_tuned_on_the_mean(without_pooler, tmp_path):
    rows = [{"text": text, "label": "ab"[n % 2]} for n, text in enumerate(DOCUMENTS[0])]
    table = write_jsonl(tmp_path / "table.jsonl", rows)
    recipe = {"batch_size": 4, "steps": 1, "warmup_steps": 0, "seq_length": 32, "pooling": "mean"}
    finetune(classification(tmp_path / "run", table, without_pooler, recipe))
    assert albert_tf.load(tmp_path / "run").config.pooler == "none"
