import functools
import json
import shutil
import unicodedata

import hypothesis.strategies as st
import pytest
import sentencepiece
import tensorflow as tf
import tf_keras as keras
from hypothesis import given, settings

import albert_tf
from albert_tf.errors import InputError
from tests.tiny import CORPUS


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


@pytest.fixture(scope="module")
def words_tokenizer(tmp_path_factory):
    """A Tokenizer of WordPiece."""
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    path.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able ! a ##b # ## ###".replace(" ", "\n"))
    return albert_tf.Tokenizer(path)


def test_detokenize_by_sentencepiece(tiny_tokenizer, tiny_vocabulary):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tiny_vocabulary))
    texts = [*CORPUS.splitlines()[:5], "", "für 🐝", "  two  blanks "]
    ids = tiny_tokenizer(texts)
    expected = [processor.decode(row) for row in ids.to_list()]
    assert [text.decode() for text in tiny_tokenizer.detokenize(ids).numpy()] == expected
    assert expected[0] == CORPUS.splitlines()[0].lower()


def test_detokenize_by_wordpiece(words_tokenizer):
    ids = words_tokenizer(["Unaffable! zz", "", " ab\ta "])
    assert words_tokenizer.detokenize(ids).numpy().tolist() == [b"unaffable ! [UNK]", b"", b"ab a"]
    assert words_tokenizer.detokenize([6, 7, 4]).numpy() == b"##affable [MASK]"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(), max_size=20))
def test_detokenize_by_bytes_is_the_very_text(byte_pairs, texts):
    tokenizer = _byte_tokenizer(byte_pairs)
    assert [text.decode() for text in tokenizer.detokenize(tokenizer(texts)).numpy()] == texts


@functools.cache
def _byte_tokenizer(path):
    return albert_tf.Tokenizer(path)


def test_detokenize_takes_ids_in_any_form(tiny_tokenizer, words_tokenizer, byte_pairs):
    """Padding and the frame of a model's input are no text."""
    for tokenizer in (tiny_tokenizer, words_tokenizer, albert_tf.Tokenizer(byte_pairs)):
        tokens = tokenizer(["a! ab", "ab"])
        expected = tokenizer.detokenize(tokens).numpy().tolist()
        packed = albert_tf.pack([tokens], 16, tokenizer.input_format)["input_word_ids"]
        pair = albert_tf.pack([tokens, tokens[:, :0]], 16, tokenizer.input_format)["input_word_ids"]
        for ids in (
            tokens.to_list(),
            packed,
            packed.numpy(),
            packed.numpy().tolist(),
            tf.cast(packed, tf.int64),
            pair,
        ):
            assert tokenizer.detokenize(ids).numpy().tolist() == expected
        traced = tf.function(tokenizer.detokenize, input_signature=[tf.TensorSpec([None, None], tf.int32)])
        assert traced(packed).numpy().tolist() == expected
        assert tokenizer.detokenize(packed[0]).numpy() == expected[0]
        assert tokenizer.detokenize([[]]).numpy().tolist() == [b""]
        for wrong, named in (
            ([[tokenizer.vocab_size]], str(tokenizer.vocab_size)),
            ([[-1]], "-1"),
            ([1.5], "1.5"),
            (3, "shape"),
        ):
            with pytest.raises(InputError, match=named):
                tokenizer.detokenize(wrong)
