import functools
import gzip
import hashlib
import json
import re
import shutil
import unicodedata

import hypothesis.strategies as st
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tf_keras as keras
from hypothesis import given, settings

import albert_tf
from albert_tf.errors import InputError
from albert_tf.text import tokenizer as tokenizer_module
from albert_tf.text.files import check_text_files, decode_text, describe_difference, file_identities
from albert_tf.text.sentencepiece import SentencePieceTokenizer
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import VOCABULARY_FILES
from tests.other_tokenizer import IDS, WordTokenizer
from tests.tiny import CORPUS


@pytest.fixture(scope="module")
def real_tokenizer(published_vocabulary):
    return albert_tf.Tokenizer(published_vocabulary)


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
def test_cased_text_is_composed_by_sentencepiece(published_vocabulary, strip_accents):
    """NFD text and its composed form are the same to a cased vocabulary."""
    tokenizer = albert_tf.Tokenizer(published_vocabulary, lowercase=False, strip_accents=strip_accents)
    composed = ["한국어", "naïve façade", "The Å", "ｆｕｌｌ ｗｉｄｔｈ"]
    decomposed = [unicodedata.normalize("NFD", text) for text in composed]
    assert tokenizer(composed).to_list() == tokenizer(decomposed).to_list()
    reference = sentencepiece.SentencePieceProcessor(model_file=str(published_vocabulary))
    if not strip_accents:
        assert tokenizer(composed).to_list() == [reference.encode(text) for text in composed]


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


def test_a_single_text_is_refused(tiny_tokenizer):
    with pytest.raises(InputError, match=r"text='Buy now!' is not a list of texts: give a list"):
        tiny_tokenizer("Buy now!")


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
            (None, "None"),
            ([[1, None]], "None"),
            ([1, [2]], re.escape("[1, [2]]")),
            ({"a": 1}, "'a'"),
            ([10**30], "10{30}"),
            (tf.sparse.from_dense([[1]]), "SparseTensor"),
        ):
            with pytest.raises(InputError, match=named):
                tokenizer.detokenize(wrong)


#

TEXT = "Ein Wörterbuch, 字典, словарь 👍🏽\n".encode() * 200
FRENCH = "La pluie a cessé.\n".encode("latin-1")


def check(path, content):
    path.write_bytes(content)
    check_text_files([str(path)])


def test_text_of_all_kinds(tmp_path):
    for content in (b"", TEXT.replace(b" ", b"\0"), b"a\r\n", b"\xef\xbb\xbf" + TEXT, TEXT * 500):
        check(tmp_path / "text.txt", content)
        check(tmp_path / "text.gz", gzip.compress(content, 1))
    check(tmp_path / "text.gz", gzip.compress(TEXT) + gzip.compress(TEXT))  # as `cat` joins them


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (TEXT + FRENCH + TEXT, 201),
        (TEXT * 500 + FRENCH, 100_001),
        (TEXT + "字".encode()[:2], 201),  # cut off in a character
        (TEXT.decode().encode("utf-16"), 1),
        (TEXT.replace(b"\n", b"\r") + FRENCH, 201),
        (TEXT.replace(b"\n", b"\r\n") * 500 + FRENCH, 100_001),  # one pair on both sides of a part's border
        (b"x" * ((1 << 20) - 1) + b"\r\n" + FRENCH, 2),
    ],
)
def test_the_first_line_that_is_not_utf8_is_named(content, line, tmp_path):
    for name, stored in (("text.txt", content), ("text.gz", gzip.compress(content, 1))):
        with pytest.raises(InputError, match=rf"{name}:{line}: not UTF-8"):
            check(tmp_path / name, stored)
    with pytest.raises(InputError, match=rf"text:{line}: not UTF-8"):
        decode_text(content, "text")


def test_whole_text_loses_its_byte_order_mark():
    assert decode_text(b"\xef\xbb\xbf" + TEXT, "text") == TEXT.decode()


def flipped(position):
    content = bytearray(gzip.compress(TEXT))
    content[position] ^= 4
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(TEXT)[:-1], gzip.compress(TEXT)[:-100], flipped(30), flipped(-6), TEXT],
    ids=["a byte short", "100 bytes short", "data flipped", "checksum flipped", "not packed"],
)
def test_a_damaged_compressed_file(content, tmp_path):
    with pytest.raises(InputError, match=r"text\.gz is damaged or cut off"):
        check(tmp_path / "text.gz", content)


def test_a_mended_file_is_checked_again(tmp_path):
    for _ in range(2):
        with pytest.raises(InputError, match="damaged"):
            check(tmp_path / "text.gz", gzip.compress(TEXT)[:-3])
        check(tmp_path / "text.gz", gzip.compress(TEXT))


# A further kind of tokenizer, with other special ids and another frame, goes through pre-training.


@pytest.fixture
def vocabulary(tmp_path, monkeypatch):
    monkeypatch.setitem(tokenizer_module.TOKENIZER_CLASSES, "words", WordTokenizer)
    monkeypatch.setitem(VOCABULARY_FILES, "words", ("words.txt",))
    (tmp_path / "words.txt").touch()
    (tmp_path / "words.txt.tokenizer.json").write_text(json.dumps({"kind": "words"}))
    return tmp_path / "words.txt"


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_pretraining_batches(vocabulary, tiny_corpus, objective):
    dataset = albert_tf.pretraining_dataset(
        tiny_corpus, vocabulary, batch_size=8, seq_length=32, sentence_objective=objective, repeat=False
    )
    for batch in dataset.as_numpy_iterator():
        ids, mask = batch["input_word_ids"], batch["input_mask"]
        assert not batch["input_type_ids"].any()
        is_real = mask.any(axis=1)
        assert (ids[is_real, 0] == 0).all()
        assert (ids[is_real][mask[is_real] == 0] == 1).all()
        expected = [0, 2] if objective == "none" else [0, 2, 2, 2]
        for row, length in zip(ids[is_real], mask[is_real].sum(axis=1), strict=True):
            special = [token for token in row[:length] if token in (0, 2)]
            assert special == expected and row[length - 1] == 2
        rows, columns = np.nonzero(batch["masked_lm_weights"])
        masked = ids[rows, batch["masked_lm_positions"][rows, columns]]
        assert (masked == IDS.mask).any() and (masked >= IDS.mask).all()


def test_kinds_are_told_by_the_settings(vocabulary, tiny_vocabulary):
    assert isinstance(open_tokenizer(vocabulary), WordTokenizer)
    found = open_tokenizer(tiny_vocabulary, lowercase=False)
    assert isinstance(found, SentencePieceTokenizer) and found.kind == "sentencepiece"
    assert found.settings == {"lowercase": False, "strip_accents": True}
    assert found.vocabulary.files == {"spiece.model": tiny_vocabulary.read_bytes()}
    (vocabulary.parent / "words.txt.tokenizer.json").write_text(json.dumps({"kind": "letters"}))
    with pytest.raises(InputError, match="'letters'"):
        open_tokenizer(vocabulary)


#


def identities(folder, **contents):
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return file_identities([str(folder / name) for name in contents])


def test_small_files_are_read_whole_and_large_ones_from_the_first_byte_to_the_last(tmp_path):
    (found,) = identities(tmp_path, text=b"abc")
    assert found == {"name": "text", "bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
    content = bytearray(1 << 22)
    before = identities(tmp_path, text=content)
    for place, is_seen in ((0, True), (len(content) - 1, True), (1 << 17, False)):
        content[place] ^= 1
        assert (identities(tmp_path, text=content) != before) == is_seen
        content[place] ^= 1


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"a": b"1", "b": b"2"}, None),
        ({"a": b"1"}, "b is missing"),
        ({"a": b"1", "b": b"2", "c": b"3"}, "c is new"),
        ({"b": b"2", "a": b"1"}, "b has changed: it was a"),
        ({"a": b"1", "b": b"3"}, "b has changed"),
    ],
)
def test_differences_are_named(tmp_path, now, message):
    before = identities(tmp_path / "before", a=b"1", b=b"2")
    found = describe_difference(before, identities(tmp_path / "now", **now))
    assert found is None if message is None else message in found
