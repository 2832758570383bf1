import errno
import os

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.filesystem import list_entries
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.files import expand_globs, input_files
from albert_tf.text.sentencepiece import SentencePieceVocabulary, starts_word
from albert_tf.text.text_tokenizer import as_list
from albert_tf.text.tokenizer_config import read_vocabulary


def test_starts_word():
    # Neither the apostrophe nor the dash is in Google's set of marks.
    beginning = ["▁the", "▁", ",", "€", "£", "–", "'s", "1", "a1", "é", "語", "<unk>"]
    pieces = [*beginning, "ing", "ING", "...", "e-mail", "[MASK]"]
    assert list(filter(starts_word, pieces)) == beginning


def test_pieces_of_the_published_vocabulary(published_vocabulary):
    vocabulary = SentencePieceVocabulary.from_file(published_vocabulary)
    lines = published_vocabulary.with_suffix(".vocab").read_text().split("\n")[:-1]
    assert list(vocabulary.pieces) == [line.split("\t")[0] for line in lines]
    assert len(vocabulary) == 30000
    assert vocabulary.ordinary_ids.tolist() == list(range(5, 30000))
    assert vocabulary.starts_word.tolist() == [starts_word(piece) for piece in vocabulary.pieces]


ALBERTS = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({}, "<pad> must be at id 0"),
        ({**ALBERTS, "control_symbols": ["[CLS]", "[SEP]"]}, r"\[MASK\] must be at id 4"),
        ({**ALBERTS, "control_symbols": ["[SEP]", "[CLS]", "[MASK]"]}, r"\[CLS\] must be at id 2"),
    ],
)
def test_a_special_piece_that_is_missing_or_elsewhere(ids, message, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a few words", "and a few more words"] * 10),
        model_prefix=str(tmp_path / "m"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
        **ids,
    )
    with pytest.raises(InputError, match=rf"m\.model: {message}"):
        SentencePieceVocabulary.from_file(tmp_path / "m.model")


def test_no_vocabulary(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.model"):
        SentencePieceVocabulary.from_file(tmp_path / "absent.model")
    with pytest.raises(InputError, match=r"is a folder: .*spiece\.model"):
        SentencePieceVocabulary.from_file(tmp_path)
    for content in (b"", b"some text, not a model"):
        (tmp_path / "text.model").write_bytes(content)
        with pytest.raises(InputError, match=r"text\.model is not a SentencePiece model"):
            SentencePieceVocabulary.from_file(tmp_path / "text.model")


#


class Column:
    """As a pandas Series."""

    def __init__(self, *values):
        self.values = np.array(values, object)

    def to_numpy(self):
        return self.values


FORMS = (
    ["a", "é"], ("a", "é"), np.array(["a", "é"]), np.array(["a", "é"], object),
    np.array([b"a", "é".encode()]), tf.constant(["a", "é"]), Column("a", "é"),
)  # fmt: skip


@pytest.mark.parametrize("texts", FORMS, ids=lambda texts: type(texts).__name__)
def test_forms_of_the_same_texts(texts, tiny_tokenizer):
    assert tiny_tokenizer(texts).to_list() == tiny_tokenizer(tf.constant(["a", "é"])).to_list()
    assert as_list(texts) == ["a", "é"]


def test_bytes_and_no_texts(tiny_tokenizer):
    texts = [b"a", b"the\xffsea"]
    expected = tiny_tokenizer(tf.constant(texts)).to_list()
    for form in (texts, np.array(texts), np.array(texts, object)):
        assert tiny_tokenizer(form).to_list() == expected
    assert tiny_tokenizer([]).to_list() == []


WRONG = [
    (["a", None], r"text\[1\]=None"),
    (Column("a", float("nan")), r"text\[1\]=nan"),
    ([["a"]], r"text\[0\]=\['a'\]"),
    (np.array([1.5]), r"text\[0\]=1.5"),
    (tf.constant([1]), "text is a tensor of int32"),
    ({"a": 1}, "text={'a': 1}"),
]


@pytest.mark.parametrize(("texts", "message"), WRONG)
def test_what_is_not_a_text(texts, message, tiny_tokenizer):
    with pytest.raises(InputError, match=f"^{message}"):
        tiny_tokenizer(texts)


#


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "c.gz", "odd[1].txt", "odd1.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_globs_and_lists(folder):
    def names(inputs):
        return [path.rpartition("/")[2] for path in input_files(inputs)]

    found = names([folder / "c.gz", str(folder / "*.txt"), folder / "a.txt"])
    assert found == ["c.gz", "a.txt", "b.txt", "odd1.txt", "odd[1].txt"]
    assert names(folder / "odd[1].txt") == ["odd[1].txt"]  # a file of that name, not a pattern
    (folder / "odd[1].txt").unlink()
    assert names(folder / "odd[1].txt") == ["odd1.txt"]
    assert input_files(["a.txt", "?.txt", "odd[1]*"]) == ["a.txt", "b.txt", "odd1.txt"]
    assert input_files("./?.txt") == ["./a.txt", "./b.txt"]


def test_what_is_not_there(folder):
    for inputs in (str(folder / "*.text"), [folder / "a.txt", folder / "d.text"]):
        with pytest.raises(FileNotFoundError, match=r"\.text: no such file"):
            input_files(inputs)
    with pytest.raises(FileNotFoundError, match="no input files"):
        input_files([])


def test_a_loop_of_links_is_there_and_cannot_be_read(folder):
    loop = folder / "loop"
    loop.symlink_to("loop")
    (folder / "lost").symlink_to("nowhere")
    readers = (expand_globs, lambda path: RunDirectory(path).task, read_vocabulary)
    for read in (*readers, lambda path: list_entries(str(path))):
        with pytest.raises(OSError, match="cannot be read") as error:
            read(loop)
        assert error.value.errno == errno.ELOOP
        assert str(error.value.filename).startswith(str(loop))
    with pytest.raises(FileNotFoundError, match="lost"):
        expand_globs("lost")


def test_folders_are_matched_and_are_no_files(folder):
    (folder / "part-1").mkdir()
    assert expand_globs(["part-*", "a.txt"]) == ["part-1", "a.txt"]
    with pytest.raises(IsADirectoryError, match="part-1 is a folder"):
        input_files("part-*")


def test_names_that_are_not_utf_8(folder):
    """TensorFlow takes no others."""
    name = os.fsdecode(b"caf\xe9.txt")
    (folder / name).write_text("text")
    for inputs in (name, "caf*", folder / "caf?.txt"):
        with pytest.raises(InputError, match="UTF-8"):
            expand_globs(inputs)
