import json
import shutil

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary
from hub_export.modules import Preprocessor
from tests.fuzz import fuzzed_texts, normalized
from tests.hub_export.conftest import LENGTH

NAMES = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def recorded(golden):
    return json.loads((golden / "hub/preprocessor.json").read_text())


@pytest.fixture(scope="module")
def real_folder(published_vocabulary, tmp_path_factory):
    """The preprocessor with the published vocabulary, moved after it was saved, without its file."""
    folder = tmp_path_factory.mktemp("real")
    vocabulary = shutil.copyfile(published_vocabulary, folder / "30k-clean.model")
    tf.saved_model.save(
        Preprocessor(SentencePieceTokenizer(SentencePieceVocabulary.from_file(vocabulary))),
        str(folder / "written"),
    )
    vocabulary.unlink()
    return (folder / "written").rename(folder / "moved")


@pytest.fixture(scope="module")
def real(real_folder):
    return tf.saved_model.load(str(real_folder))


def assert_packed(actual, expected):
    assert sorted(actual) == sorted(NAMES)
    for name in NAMES:
        assert actual[name].dtype == tf.int32
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def test_preprocessor_1_default_call_is_the_published_one(real, recorded):
    sentences = tf.constant(recorded["sentences"])
    assert_packed(real(sentences), recorded["default"])
    assert_packed(real(sentences, training=True), recorded["default"])


def test_preprocessor_3_tokenize_with_offsets(real, recorded):
    tokens, starts, limits = real.tokenize_with_offsets(tf.constant(recorded["sentences"]))
    assert [x.dtype for x in (tokens, starts, limits)] == [tf.int32, tf.int64, tf.int64]
    assert tokens.to_list() == recorded["tokens"]
    spans = {
        text: [text.encode()[a:b].decode() for a, b in zip(row_starts, row_limits, strict=True)]
        for text, row_starts, row_limits in zip(
            recorded["sentences"], starts.to_list(), limits.to_list(), strict=True
        )
    }
    assert "".join(spans["Hello world, this is ALBERT!"]) == "Hello world, this is ALBERT!"
    assert spans["Hello world, this is ALBERT!"][:4] == ["Hello", " world", ",", " this"]
    assert spans["The café's naïve façade — déjà vu…"][:2] == ["The", " café"]
    assert spans[""] == []


def test_preprocessor_2_3_and_7_fuzzed_texts_as_python_reads_them(real, published_vocabulary):
    texts = fuzzed_texts(10_000)
    assert max(map(len, texts)) == 100_000
    reference = sentencepiece.SentencePieceProcessor(model_file=str(published_vocabulary))
    expected = [reference.encode(normalized(text)) for text in texts]
    sizes = np.array([len(text) for text in texts])
    assert real.tokenize(tf.constant(texts)).to_list() == expected
    tokens, starts, limits = real.tokenize_with_offsets(tf.constant(texts))
    assert tokens.to_list() == expected
    rows = np.repeat(np.arange(len(texts)), tokens.row_lengths())
    starts, limits = starts.values.numpy(), limits.values.numpy()
    assert starts.min() >= 0
    assert np.all(starts <= limits)
    assert np.all(limits <= sizes[rows])
    assert np.all((np.diff(starts) >= 0) | (np.diff(rows) > 0))


def test_preprocessor_4_packs_are_the_published_ones(real, recorded):
    tokens = real.tokenize(tf.constant(recorded["sentences"]))
    assert len(recorded["pairs_with_reversed_batch"]) == 4
    for expected in recorded["pairs_with_reversed_batch"]:
        packed = real.bert_pack_inputs([tokens, tokens[::-1]], seq_length=expected["seq_length"])
        assert_packed(packed, expected)
        packed = real.bert_pack_inputs([tokens, tokens[::-1]], tf.constant(expected["seq_length"]))
        assert_packed(packed, expected)
    default = next(pack for pack in recorded["pairs_with_reversed_batch"] if pack["seq_length"] == 128)
    assert_packed(real.bert_pack_inputs([tokens, tokens[::-1]]), default)
    assert_packed(real.bert_pack_inputs([tokens]), recorded["default"])
    assert_packed(real.bert_pack_inputs([tokens], tf.constant(128)), recorded["default"])


def test_preprocessor_6_special_tokens_are_the_published_ones(real, recorded):
    def values(tensors):
        assert all(tensor.dtype == tf.int32 and tensor.shape == [] for tensor in tensors.values())
        return {name: int(tensor) for name, tensor in tensors.items()}

    assert values(real.tokenize.get_special_tokens_dict()) == recorded["special_tokens"]
    assert values(tf.function(real.tokenize.get_special_tokens_dict)()) == recorded["special_tokens"]


def test_preprocessor_8_in_dataset_map_through_keras_layer(real_folder, recorded):
    layer = hub.KerasLayer(str(real_folder))
    assert layer.weights == []
    dataset = tf.data.Dataset.from_tensor_slices(recorded["sentences"]).batch(5).map(layer)
    batches = list(dataset)
    for name in NAMES:
        rows = np.concatenate([batch[name] for batch in batches])
        np.testing.assert_array_equal(rows, recorded["default"][name])
    assert dataset.element_spec["input_mask"].shape.as_list() == [None, 128]


def test_preprocessor_8_two_segments_of_a_length_of_ones_own_in_a_keras_model(real, recorded):
    texts = [keras.Input([], dtype=tf.string, name=name) for name in ("first", "second")]
    tokenize = hub.KerasLayer(real.tokenize)
    pack = hub.KerasLayer(real.bert_pack_inputs, arguments={"seq_length": 64})
    model = keras.Model(texts, pack([tokenize(text) for text in texts]))
    sentences = tf.constant(recorded["sentences"])
    expected = next(pack for pack in recorded["pairs_with_reversed_batch"] if pack["seq_length"] == 64)
    assert_packed(model([sentences, sentences[::-1]]), expected)


def test_preprocessor_4_words_of_tokens_pack_like_their_tokens(preprocessor):
    words = tf.ragged.constant([[[7, 8], [9]], [], [[5], [], [6, 7, 8]]], dtype=tf.int32, ragged_rank=2)
    tokens = words.merge_dims(1, 2)
    for given in ([words], [words, words], [words, tokens], [tokens, words]):
        expected = preprocessor.bert_pack_inputs([tokens] * len(given), 7)
        assert_packed(preprocessor.bert_pack_inputs(given, 7), expected)


def test_preprocessor_4_the_length_of_the_export_is_the_default(preprocessor, run):
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(run / "spiece.model"))
    texts = ["The old clock", "tide " * 50]
    packed = preprocessor(tf.constant(texts))
    expected = [[2, *pieces.encode(text.lower())[: LENGTH - 2], 3] for text in texts]
    rows = [row + [0] * (LENGTH - len(row)) for row in expected]
    np.testing.assert_array_equal(packed["input_word_ids"], rows)
    tokens = preprocessor.tokenize(tf.constant(texts))
    assert preprocessor.bert_pack_inputs([tokens, tokens])["input_mask"].shape == [2, LENGTH]


def test_module_in_memory_behaves_as_the_loaded_one(piece_tokenizer, preprocessor):
    memory = Preprocessor(piece_tokenizer, LENGTH)
    text = tf.constant(["A stone wall", ""])
    assert_packed(hub.KerasLayer(memory)(text), preprocessor(text))
    tokens = memory.tokenize(text)
    assert_packed(memory.bert_pack_inputs([tokens]), preprocessor.bert_pack_inputs([tokens]))
