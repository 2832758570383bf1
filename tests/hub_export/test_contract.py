"""Modules of each kind of tokenizer: as Model Garden's exporter writes them, and as tutorials use them."""

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

import albert_tf
from albert_tf.constants import ENCODER_INPUTS
from albert_tf.conversion.convert import convert
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import VOCABULARY_FILES
from albert_tf.text.vocabulary_training import train_vocabulary
from hub_export.export import export, save_preprocessor
from hub_export.modules import Preprocessor
from tests.hub_export import contract
from tests.tiny import TINY

KINDS = ("sentencepiece", "wordpiece", "byte_level_bpe")
ROOT = Path(__file__).resolve().parents[2]
GARDEN = ROOT / ".venv-peers/model-garden/bin/python"


@pytest.fixture(scope="module")
def vocabularies(tiny_vocabulary, byte_pairs, tiny_corpus, made_once):
    def write(folder):
        folder.mkdir()
        train_vocabulary(tiny_corpus, folder / "vocab.txt", 300, kind="wordpiece")

    wordpiece = made_once("wordpiece", write) / "vocab.txt"
    return {"sentencepiece": tiny_vocabulary, "wordpiece": wordpiece, "byte_level_bpe": byte_pairs}


@pytest.fixture(scope="module", params=KINDS)
def preprocessors(request, vocabularies, tmp_path_factory):
    """The kind of a tokenizer, the tokenizer, and its preprocessor's folder."""
    folder = tmp_path_factory.mktemp("preprocessor")
    tokenizer = open_tokenizer(vocabularies[request.param])
    save_preprocessor(Preprocessor(tokenizer, contract.LENGTH), folder)
    return SimpleNamespace(kind=request.param, tokenizer=tokenizer, folder=str(folder))


@pytest.fixture(scope="module")
def recorded(golden):
    """The contract of Model Garden's modules by kind of tokenizer; of byte-level BPE it has none."""
    found = json.loads((golden / "hub/model_garden.json").read_text())
    return {**found, "byte_level_bpe": found["sentencepiece"]}


def assert_covers(found, expected, where=""):
    """What is expected is there; a module may have more."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, f"{where}/{name}"
            assert_covers(found[name], value, f"{where}/{name}")
    else:
        assert found == expected, where


def test_a_preprocessor_has_the_shapes_of_published_ones(preprocessors, recorded):
    found = contract.of_preprocessor(tf.saved_model.load(preprocessors.folder))
    assert_covers(found, recorded[preprocessors.kind]["preprocessor"])
    # No published module of the other kinds has offsets: they are those of the tokens.
    tokens = found["tokens"], found["tokens in a dataset"]
    for name, of_tokens in zip(("offsets", "offsets in a dataset"), tokens, strict=True):
        assert found[name] == [of_tokens, *[of_tokens.replace("int32", "int64")] * 2]
    assert found["special tokens beside offsets"] == found["special tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tokenize", "tokenize_with_offsets", "bert_pack_inputs"])
def test_a_part_is_saved_without_the_others(name, preprocessors, tmp_path):
    tokens = preprocessors.tokenizer(tf.constant(contract.TEXTS))
    given = [tokens, tokens] if name == "bert_pack_inputs" else tf.constant(contract.TEXTS)
    part = getattr(tf.saved_model.load(preprocessors.folder), name)
    gc.collect()
    tf.saved_model.save(part, str(tmp_path))
    found, expected = (tf.nest.flatten(x(given)) for x in (tf.saved_model.load(str(tmp_path)), part))
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    for ours, theirs in zip(found, expected, strict=True):
        tf.debugging.assert_equal(ours, theirs)
    if name != "bert_pack_inputs":
        first = found[0].merge_dims(1, 2) if preprocessors.kind == "wordpiece" else found[0]
        assert first.to_list() == tokens.to_list()


@pytest.fixture(scope="module", params=KINDS)
def modules(request, vocabularies, tmp_path_factory):
    """The kind of a tokenizer, and the folder of all modules of a run with it, which is no more."""
    folder = tmp_path_factory.mktemp("modules")
    vocabulary = vocabularies[request.param]
    config = TINY.replace(vocab_size=len(open_tokenizer(vocabulary).vocabulary))
    albert_tf.save(albert_tf.AlbertPretrainer(config), folder / "run", vocabulary=vocabulary)
    export(folder / "run", folder / "hub", seq_length=contract.LENGTH)
    shutil.rmtree(folder / "run")
    return request.param, folder / "hub"


@pytest.mark.slow
def test_an_encoder_has_the_shapes_and_attributes_of_published_ones(
    modules, vocabularies, recorded, tmp_path
):
    kind, folder = modules
    main = VOCABULARY_FILES[kind][0]
    encoder = tf.saved_model.load(str(folder / "encoder"))
    found, expected = contract.of_encoder(encoder), recorded[kind]["encoder"]
    if kind == "byte_level_bpe":
        size = found["masked words"]["mlm_logits"]
        expected = {**expected, "masked words": {}, "masked words with positions": {}}
        assert size.startswith("float32 [3, 2, ")
        del expected["sp_model_file"]
        assert Path(encoder.merges_file.asset_path.numpy().decode()).name == "merges.txt"
    assert_covers(found, expected)
    assert {name for name in contract.VOCABULARY_ATTRIBUTES if name in found} == {
        "sp_model_file" if kind == "sentencepiece" else "vocab_file"
    }
    assert found["do_lower_case"] == "bool []"
    assert encoder.do_lower_case.numpy() == (kind != "byte_level_bpe")
    assert len(encoder.variables) == len(encoder.trainable_variables)
    convert("hub", "run", folder / "encoder", tmp_path / "run")
    assert RunDirectory(tmp_path / "run").tokenizer["lowercase"] == (kind != "byte_level_bpe")
    again, first = (open_tokenizer(path).vocabulary for path in (tmp_path / "run" / main, vocabularies[kind]))
    assert again.files == first.files
    ids = {name: tf.ones([2, 5], tf.int32) for name in ENCODER_INPUTS}
    masked = {**ids, "masked_lm_positions": tf.ones([2, 2], tf.int32)}
    heads = {"mlm": masked, "sop": ids}
    answers = {name: getattr(encoder, name)(given) for name, given in heads.items()}
    parts = {name: getattr(encoder, name) for name in heads}
    del encoder
    gc.collect()
    for name, part in parts.items():
        tf.saved_model.save(part, str(tmp_path / name))
        again = tf.saved_model.load(str(tmp_path / name))(heads[name])
        np.testing.assert_array_equal(again[f"{name}_logits"], answers[name][f"{name}_logits"])


def pairs_model(folder, seq_length):
    """Parts of a preprocessor, which itself is dropped, and an encoder, in two Keras models."""
    preprocessor = hub.load(str(folder / "preprocessor"))
    texts = [keras.Input([], dtype=tf.string, name=name) for name in ("sentence1", "sentence2")]
    tokenize = hub.KerasLayer(preprocessor.tokenize, name="tokenizer")
    pack = hub.KerasLayer(preprocessor.bert_pack_inputs, arguments={"seq_length": seq_length}, name="packer")
    preprocess = keras.Model(texts, pack([tokenize(text) for text in texts]))
    ids = {name: keras.Input([None], dtype=tf.int32, name=name) for name in ENCODER_INPUTS}
    outputs = hub.KerasLayer(str(folder / "encoder"), trainable=True)(ids)
    return preprocess, keras.Model(ids, keras.layers.Dense(2)(outputs["pooled_output"]))


ASK = """
import json, sys
import tensorflow as tf, tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
first, second = json.loads(sys.argv[2])
def ask(first, second):
    [output] = signature(sentence1=tf.constant(first), sentence2=tf.constant(second)).values()
    return output.numpy().tolist()
print(json.dumps([ask(first, second), [ask(*pair) for pair in zip(first, second)]]))
"""


@pytest.mark.slow
def test_parts_of_the_modules_as_the_tutorial_of_glue_uses_them(modules, two_replicas, tmp_path):
    """Pairs, another length, a dataset, `fit` on two devices; then another process, and single texts."""
    _, folder = modules
    with two_replicas.scope():
        preprocess, classifier = pairs_model(folder, 16)
        classifier.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    gc.collect()
    first, second = contract.TEXTS, contract.TEXTS[::-1]
    rows = ({"sentence1": first * 4, "sentence2": second * 4}, [0, 1, 0] * 4)
    data = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
    data = data.map(lambda texts, labels: (preprocess(texts), labels))
    assert {spec.shape for spec in data.element_spec[0].values()} == {tf.TensorShape([4, 16])}
    before = [weight.numpy() for weight in classifier.trainable_weights]
    classifier.fit(data, verbose=0)
    after = [weight.numpy() for weight in classifier.trainable_weights]
    assert sum(np.abs(b - a).max() > 1e-6 for a, b in zip(before, after, strict=True)) > len(before) - 3
    whole = keras.Model(preprocess.inputs, classifier(preprocess(preprocess.inputs)))
    expected = whole.predict([np.array(first), np.array(second)], verbose=0)
    whole.save(tmp_path / "whole", include_optimizer=False)
    command = [sys.executable, "-c", ASK, str(tmp_path / "whole"), json.dumps([first, second])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    together, alone = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(together, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose([row for [row] in alone], expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_recorded_contract_is_that_of_model_garden(kind, vocabularies, recorded, tmp_path):
    """Of modules that its exporter writes now, whose tokens are ours."""
    if not GARDEN.exists():
        pytest.skip(f"no {GARDEN.relative_to(ROOT)}: `make bench` creates the environment")
    tokenizer = open_tokenizer(vocabularies[kind])
    program = Path(contract.__file__).with_name("garden_exporter.py")
    size = str(len(tokenizer.vocabulary))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [GARDEN, program, vocabularies[kind], size, tmp_path]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    preprocessor, encoder = (
        tf.saved_model.load(str(tmp_path / name)) for name in ("preprocessor", "encoder")
    )
    assert contract.of_preprocessor(preprocessor) == recorded[kind]["preprocessor"]
    assert contract.of_encoder(encoder) == recorded[kind]["encoder"]
    ours = Preprocessor(tokenizer, contract.LENGTH)
    text = tf.constant(contract.TEXTS)
    tokens, theirs = ours.tokenize(text), preprocessor.tokenize(text)
    assert tokens.to_list() == theirs.to_list()
    for segments in ([tokens], [tokens, tokens[::-1]]):
        expected = preprocessor.bert_pack_inputs(segments, seq_length=tf.constant(16))
        for name, tensor in ours.bert_pack_inputs(segments, seq_length=tf.constant(16)).items():
            np.testing.assert_array_equal(tensor, expected[name])
    if kind == "wordpiece":
        for found, expected in zip(
            ours.tokenize_with_offsets(text), preprocessor.tokenize_with_offsets(text), strict=True
        ):
            assert found.to_list() == expected.to_list()
