import json
import shutil
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
import tf_keras as keras

import albert_tf


@pytest.fixture(scope="module")
def real_model(shared):
    return shared / "data/vocabulary/30k-clean.model"


@pytest.fixture(scope="module")
def real_tokenizer(real_model):
    return albert_tf.Tokenizer(real_model)


@pytest.fixture(scope="module")
def recorded(golden):
    return json.loads((golden / "hub/preprocessor.json").read_text())


def test_tokens_of_the_published_preprocessor(real_tokenizer, recorded):
    """Eagerly, in a pipeline and in a function."""
    assert real_tokenizer(recorded["sentences"]).to_list() == recorded["tokens"]
    dataset = tf.data.Dataset.from_tensor_slices(recorded["sentences"]).batch(4).map(real_tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == recorded["tokens"]
    traced = tf.function(real_tokenizer, input_signature=[tf.TensorSpec([None], tf.string)])
    ids = traced(tf.constant(recorded["sentences"]))
    assert ids.dtype == tf.int32
    assert ids.to_list() == recorded["tokens"]
    special = real_tokenizer.vocabulary.special_ids
    assert recorded["special_tokens"] == {
        "vocab_size": real_tokenizer.vocab_size,
        "padding_id": special.padding,
        "start_of_sequence_id": special.start,
        "end_of_segment_id": special.separator,
        "mask_id": special.mask,
    }


@pytest.mark.parametrize("strip_accents", [True, False])
def test_cased_text_is_composed_by_sentencepiece(real_model, strip_accents):
    """NFD text and its composed form are the same to a cased vocabulary."""
    tokenizer = albert_tf.Tokenizer(real_model, lowercase=False, strip_accents=strip_accents)
    composed = ["한국어", "naïve façade", "The Å", "ｆｕｌｌ ｗｉｄｔｈ"]
    decomposed = [unicodedata.normalize("NFD", text) for text in composed]
    assert tokenizer(composed).to_list() == tokenizer(decomposed).to_list()
    reference = sentencepiece.SentencePieceProcessor(model_file=str(real_model))
    if not strip_accents:
        assert tokenizer(composed).to_list() == [reference.encode(text) for text in composed]


def test_bytes_that_are_no_text(tiny_tokenizer):
    bad, nul = tiny_tokenizer([b"\xff\xfe", b"a\x00b"]).to_list()
    assert 1 in bad and 1 in nul
    assert tiny_tokenizer([b"", b" ", b"\r\n"]).to_list() == [[], [], []]


def test_config_round_trip(tiny_vocabulary):
    tokenizer = albert_tf.Tokenizer(tiny_vocabulary, lowercase=False, strip_accents=False, name="cased")
    again = albert_tf.Tokenizer.from_config(tokenizer.get_config())
    assert again.get_config() == tokenizer.get_config()
    text = ["The Façade"]
    assert (
        again(text).to_list()
        == tokenizer(text).to_list()
        != albert_tf.Tokenizer(tiny_vocabulary)(text).to_list()
    )


def test_saved_model_outlives_the_file(tiny_vocabulary, tmp_path):
    model_file = shutil.copy(tiny_vocabulary, tmp_path / "spiece.model")
    text = keras.Input([], dtype=tf.string)
    model = keras.Model(text, albert_tf.Tokenizer(model_file)(text).to_tensor())
    expected = model(tf.constant(["the sea", "a"])).numpy()
    tf.saved_model.save(model, str(tmp_path / "saved"))
    (tmp_path / "spiece.model").unlink()
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    assert loaded(tf.constant(["the sea", "a"])).numpy().tolist() == expected.tolist()


def test_outlives_a_new_random_seed(tiny_vocabulary):
    tokenizer = albert_tf.Tokenizer(tiny_vocabulary)
    text = tf.constant(["a cup of tea"])
    dataset = tf.data.Dataset.from_tensors(text).map(tokenizer)
    before = tokenizer(text).to_list()
    tf.random.set_seed(1)  # empties TensorFlow's cache of ops, in which TF Text keeps unnamed models
    assert tokenizer(text).to_list() == before
    assert next(iter(dataset)).to_list() == before
