"""PyTorch and transformers, in an environment of their own, open what is written here, and the reverse."""

import json
import os
import subprocess

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.conversion.tokenizer_json import FastTokenizer
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.vocabulary_training import train_vocabulary
from tests.albert_tf.conversion import transformers_script as script
from tests.tiny import CORPUS, TINY

pytestmark = pytest.mark.slow

B, S = 3, 20

BERT = TINY.replace(vocab_size=300, embedding_size=32, sharing="none", hidden_act="gelu_erf")
ROBERTA = BERT.replace(position_offset=2, layer_norm_eps=1e-5, pooler="none")
DISTILBERT = BERT.replace(type_vocab_size=0, pooler="none")
OURS = {
    "pretraining": lambda: albert_tf.AlbertPretrainer(TINY),
    "groups": lambda: albert_tf.AlbertPretrainer(TINY.replace(num_hidden_groups=3, inner_group_num=2)),
    "unshared": lambda: albert_tf.AlbertPretrainer(TINY.replace(sharing="none", hidden_act="gelu_erf")),
    "mlm": lambda: albert_tf.AlbertPretrainer(TINY.replace(hidden_act="relu"), sentence_objective="none"),
    "encoder": lambda: albert_tf.AlbertEncoder(TINY.replace(embedding_size=32)),
    "projected": lambda: albert_tf.AlbertEncoder(TINY.replace(embedding_size=32, project_embeddings=True)),
    "classification": lambda: albert_tf.AlbertClassifier(TINY, num_labels=3),
    "regression": lambda: albert_tf.AlbertClassifier(TINY, num_labels=1),
    "multi_label": lambda: albert_tf.AlbertClassifier(TINY, num_labels=3),
    "token_classification": lambda: albert_tf.AlbertTokenClassifier(TINY, num_labels=3),
    "question_answering": lambda: albert_tf.AlbertSpanLabeler(TINY),
    "multiple_choice": lambda: albert_tf.AlbertMultipleChoice(TINY, num_choices=1),
    "bert pretraining": lambda: albert_tf.AlbertPretrainer(BERT, "nsp"),
    "bert mlm": lambda: albert_tf.AlbertPretrainer(BERT.replace(hidden_act="gelu"), "none"),
    "bert classification": lambda: albert_tf.AlbertClassifier(BERT, num_labels=3),
    "roberta mlm": lambda: albert_tf.AlbertPretrainer(ROBERTA, "none"),
    "roberta encoder": lambda: albert_tf.AlbertEncoder(ROBERTA.with_pooler()),
    "roberta classification": lambda: albert_tf.AlbertClassifier(ROBERTA.with_pooler(), num_labels=3),
    "roberta question_answering": lambda: albert_tf.AlbertSpanLabeler(ROBERTA),
    "distilbert mlm": lambda: albert_tf.AlbertPretrainer(DISTILBERT, "none"),
    "distilbert classification": lambda: albert_tf.AlbertClassifier(DISTILBERT.with_pooler(), num_labels=3),
    "distilbert token_classification": lambda: albert_tf.AlbertTokenClassifier(DISTILBERT, num_labels=3),
}


def outputs(model, inputs):
    """Our outputs under the names that transformers has for them."""
    if not model.config.type_vocab_size:
        inputs = {name: value for name, value in inputs.items() if name != "input_type_ids"}
    if isinstance(model, albert_tf.AlbertMultipleChoice):
        model.num_choices = 1
        result = model({name: value[:, None] for name, value in inputs.items()})
    else:
        positions = np.tile(np.arange(S, dtype=np.int32), [B, 1])
        result = model({**inputs, "masked_lm_positions": positions})
    if isinstance(model, albert_tf.AlbertPretrainer):
        mlm = "logits" if model.sentence_objective == "none" else "prediction_logits"
        names = {"mlm_logits": mlm, "sop_logits": "sop_logits", "nsp_logits": "seq_relationship_logits"}
        result = {there: result[here] for here, there in names.items() if here in result}
    if isinstance(model, albert_tf.AlbertEncoder):
        result = {"pooler_output": result["pooled_output"]}
    return {name: result[name] for name in result if name.endswith(("logits", "pooler_output"))}


def family_vocabularies(folder, corpus):
    """The file of a vocabulary of each family, with as many pieces as its networks have embeddings."""
    train_vocabulary(corpus, folder / "vocab.txt", BERT.vocab_size, kind="wordpiece")
    train_vocabulary(corpus, folder / "bpe", ROBERTA.vocab_size, kind="byte_level_bpe")
    return {
        "bert": folder / "vocab.txt",
        "roberta": folder / "bpe" / "vocab.json",
        "distilbert": folder / "vocab.txt",
    }


@pytest.fixture(scope="module")
def exchange(tmp_path_factory, tiny_vocabulary, tiny_corpus, interop_python):
    """A folder with ours, theirs, and what transformers computed of both; our models; the inputs."""
    folder = tmp_path_factory.mktemp("exchange")
    rng = np.random.default_rng(0)
    mask = np.ones([B, S], np.int32)
    mask[1, 13:] = 0
    inputs = {
        "input_word_ids": np.where(mask, rng.integers(5, 200, [B, S], dtype=np.int32), 1),  # as RoBERTa pads
        "input_mask": mask,
        "input_type_ids": rng.integers(0, 2, [B, S], dtype=np.int32),
    }
    np.savez(folder / "inputs.npz", **inputs)
    models = {name: make() for name, make in OURS.items()}
    vocabularies = family_vocabularies(folder, tiny_corpus)
    for name, model in models.items():
        for variable in model.variables:
            variable.assign_add(rng.normal(0, 0.05, variable.shape))
        vocabulary = vocabularies.get(name.partition(" ")[0], tiny_vocabulary)
        task = {"multi_label": True} if name == "multi_label" else None
        albert_tf.save(model, folder / "runs" / name, vocabulary, task=task)
        convert("run", "huggingface", folder / "runs" / name, folder / "ours" / name)
    command = [interop_python, script.__file__, folder]
    subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, timeout=600)
    return folder, models, inputs


@pytest.mark.parametrize("name", OURS)
def test_transformers_opens_what_is_written_here(exchange, name):
    folder, models, inputs = exchange
    theirs = dict(np.load(folder / "ours" / f"{name}.npz"))
    assert theirs.pop("missing_keys").tolist() == []
    # None of these has a pooler there.
    without = ("mlm", "token_classification", "question_answering")
    layer = {**dict.fromkeys(without, "albert.pooler"), "bert mlm": "bert.pooler.dense"}.get(name)
    assert theirs.pop("unexpected_keys").tolist() == ([f"{layer}.bias", f"{layer}.weight"] if layer else [])
    ours = outputs(models[name], inputs)
    assert theirs and theirs.keys() <= ours.keys()
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=0, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", OURS)
def test_transformers_answers_texts_as_the_pipeline(exchange, name):
    """From what AutoTokenizer makes of them: the same ids, segments and masks."""
    folder, *_ = exchange
    theirs, run = json.loads((folder / "ours" / f"{name}.json").read_text()), folder / "runs" / name
    vocabulary = RunDirectory(run).vocabulary
    tokenizer = open_tokenizer(vocabulary)
    assert theirs["tokens"] == tokenizer(script.SENTENCES).to_list()
    if "answers" not in theirs:
        return
    pipeline = albert_tf.pipeline(run)
    if pipeline.task == "fill_mask":
        found = [[answer["score"] for answer in pipeline(script.MASKED, top_k=10)]]
        ordinary = np.array(theirs["answers"])[:, tokenizer.vocabulary.ordinary_ids]
        expected = -np.sort(-ordinary)[:, :10]
    elif pipeline.task == "regression":
        found, expected = [[answer["score"]] for answer in pipeline(script.PAIRS)], theirs["answers"]
    else:
        answers = [sorted(found, key=lambda x: x["label"]) for found in pipeline(script.PAIRS, top_k=3)]
        found, expected = [[x["score"] for x in labels] for labels in answers], theirs["answers"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_vocabulary_in_what_transformers_writes(exchange, tiny_vocabulary, tmp_path):
    """It writes a tokenizer.json, and leaves the spiece.model out that it was given."""
    written = exchange[0] / "tokenizers" / "pretraining"
    assert not (written / "spiece.model").exists()
    rebuilt = FastTokenizer(written / "tokenizer.json")
    assert rebuilt.settings("sentencepiece") == {"lowercase": True, "strip_accents": True}
    ours, theirs = (
        SentencePieceVocabulary(rebuilt.files()),
        SentencePieceVocabulary.from_file(tiny_vocabulary),
    )
    assert ours.pieces == theirs.pieces and ours.ordinary_ids.tolist() == theirs.ordinary_ids.tolist()
    tokens = [
        SentencePieceTokenizer(vocabulary)(CORPUS.splitlines()).to_list() for vocabulary in (ours, theirs)
    ]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("name", script.THEIRS)
def test_what_transformers_writes_opens_here(exchange, name, tmp_path):
    folder, _, inputs = exchange
    source = folder / "theirs" / name
    assert (source / "model.safetensors.index.json").exists() is (name == "pretraining")
    done = convert("huggingface", "run", source, tmp_path / "run")
    assert done.unused == [] and all(fresh.startswith("pooler/") for fresh in done.newly_initialized)
    model = albert_tf.load(tmp_path / "run")
    theirs, ours = np.load(folder / "theirs" / f"{name}.npz"), outputs(model, inputs)
    assert theirs.keys() and theirs.keys() <= ours.keys(), task_of(model)
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=0, atol=1e-5, err_msg=key)
