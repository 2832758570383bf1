import gzip
import os
import signal
import time

import pytest
import tensorflow as tf

from albert_tf.data.dataset import pretraining_dataset
from albert_tf.errors import InputError, Terminated
from albert_tf.signals import signal_handlers
from albert_tf.tasks.masked_words import tokens_with_masks
from albert_tf.text import vocabulary_training
from albert_tf.text.packing import pack
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.tokenizer import Tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.text.vocabulary_training import USER_DEFINED, train_vocabulary
from tests.albert_tf.commands import mistake
from tests.tiny import CORPUS, TINY


def test_has_alberts_ids(tiny_vocabulary):
    vocabulary = SentencePieceVocabulary.from_file(tiny_vocabulary)
    assert len(vocabulary) == TINY.vocab_size
    assert vocabulary.pieces[:13] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *USER_DEFINED)
    assert not any(character.isupper() for piece in vocabulary.pieces[5:] for character in piece)


def test_same_bytes_every_time_and_compressed_input(tmp_path):
    text = CORPUS * 2
    (tmp_path / "corpus.txt").write_text(text)
    (tmp_path / "corpus.txt.gz").write_bytes(gzip.compress(text.encode()))
    plain = train_vocabulary(tmp_path / "corpus.txt", tmp_path / "a.model", 200, max_sentences=101)
    packed = train_vocabulary(tmp_path / "*.gz", tmp_path / "b.model", 200, max_sentences=101)
    assert plain.files == packed.files == SentencePieceVocabulary.from_file(tmp_path / "a.model").files
    sampled = train_vocabulary(tmp_path / "corpus.txt", tmp_path / "c.model", 200)
    assert sampled.pieces != plain.pieces
    with pytest.raises(ValueError, match="max_sentences=100 must"):
        train_vocabulary(tmp_path / "corpus.txt", tmp_path / "d.model", 200, max_sentences=100)


def test_damaged_input(tmp_path):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(CORPUS.encode())[:-20])
    with pytest.raises(ValueError, match=r"cut\.gz is damaged or cut off"):
        train_vocabulary(tmp_path / "cut.gz", tmp_path / "m.model", 200)
    assert not list(tmp_path.glob("*.model*"))


def test_remembers_how_text_was_normalised(tmp_path):
    """`Tokenizer` and `pretraining_dataset` refuse what contradicts it instead of giving other tokens."""
    path, cased = tmp_path / "m.model", {"lowercase": False, "strip_accents": False}
    (tmp_path / "text.txt").write_text(f"Élan vital\n{CORPUS}")
    train_vocabulary(tmp_path / "text.txt", path, 200, **cased)
    assert resolve_settings(path) == cased
    message = r"lowercase=True contradicts lowercase=False in .*m\.tokenizer\.json"
    with pytest.raises(ValueError, match=message):
        Tokenizer(path, lowercase=True)
    with pytest.raises(ValueError, match=message):
        pretraining_dataset(tmp_path / "text.txt", path, lowercase=True)
    pieces = SentencePieceVocabulary.from_file(path).pieces
    read = Tokenizer(path)
    for tokenizer in (Tokenizer(path, **cased), read, Tokenizer.from_config(read.get_config())):
        assert "".join(pieces[token] for token in tokenizer(["Élan"]).to_list()[0]) == "▁Élan"
        assert tokenizer.get_config().items() >= cased.items()
    batch = next(iter(pretraining_dataset(tmp_path / "text.txt", path, 2, 16)))
    assert batch["input_word_ids"].shape == (2, 16)


@pytest.mark.parametrize(("kind", "name"), [("sentencepiece", "m.model"), ("wordpiece", "vocab.txt")])
def test_a_vocabulary_and_its_settings_are_replaced(kind, name, tmp_path, caplog):
    caplog.set_level("INFO", "absl")
    text, path = tmp_path / "text.txt", tmp_path / name
    text.write_text(CORPUS)
    train_vocabulary(text, path, 200, lowercase=False, kind=kind)
    assert not caplog.messages
    train_vocabulary(text, path, 200, kind=kind)
    assert caplog.messages == [f"replaces {path}"]
    assert Tokenizer(path).tokenize.lowercase
    with pytest.raises(FileExistsError, match=r"text\.txt exists and is not a vocabulary"):
        train_vocabulary(text, text, 200, kind=kind)


def test_a_folder_with_files_is_not_replaced(tmp_path):
    (tmp_path / "bpe").mkdir()
    (tmp_path / "bpe/vocab.json").touch()
    (tmp_path / "text.txt").write_text(CORPUS)
    with pytest.raises(FileExistsError, match="bpe exists already"):
        train_vocabulary(tmp_path / "text.txt", tmp_path / "bpe", 300, kind="byte_level_bpe")


@pytest.mark.parametrize("more", ["йод и ёлка, и ёж\n" * 200, "é" * 60, "é" * 20])
def test_says_how_many_marks_are_lost(more, tmp_path):
    (tmp_path / "text.txt").write_text(f"{CORPUS}\n{more}")
    lines = []
    train_vocabulary(tmp_path / "text.txt", tmp_path / "m.model", 200, report=lines.append)
    losing = sum(character in "йёé" for character in more) / sum(map(str.isalpha, CORPUS + more))
    assert len(lines) == (losing > 0.01)
    assert all(line.startswith(f"{losing:.1%} of the letters lose their marks") for line in lines)
    train_vocabulary(tmp_path / "text.txt", tmp_path / "m.model", 200, True, False, report=lines.append)
    assert len(lines) == (losing > 0.01)


def test_long_lines_count(tmp_path):
    """SentencePiece alone would skip a line of more than 4192 bytes and find no text at all."""
    (tmp_path / "line.txt").write_text(CORPUS.replace("\n", " "))
    assert len(train_vocabulary(tmp_path / "line.txt", tmp_path / "m.model", 200)) == 200


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        ("\n \n\r\n", 200, "the input holds no text"),
        ("a few words\n" * 3, 3000, r"vocab_size=3000 is too large.* \d+ at most"),
        (CORPUS, 0, "vocab_size=0"),
        (CORPUS, 20, r"vocab_size=20 is too small.* need \d+$"),
    ],
)
def test_impossible_sizes(text, size, message, tmp_path):
    (tmp_path / "text.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        train_vocabulary(tmp_path / "text.txt", tmp_path / "m.model", size)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_places_that_are_not_there(tiny_corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.txt"):
        train_vocabulary(tmp_path / "absent.txt", tmp_path / "m.model")
    with pytest.raises(OSError, match=r"cannot be written \(.*m\.model'"):
        train_vocabulary(tiny_corpus, tiny_corpus / "m.model")


def test_a_signal_is_answered_while_a_trainer_computes(tiny_corpus, tmp_path, monkeypatch):
    """Trainers are libraries that return to Python when they are done."""

    def train(sentences, *_, **__):
        assert list(sentences)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(20)

    def end(*_):
        raise Terminated(143)

    monkeypatch.setitem(vocabulary_training._TRAINERS, "sentencepiece", train)
    monkeypatch.setattr(vocabulary_training, "_SECONDS_TO_END", 0.1)
    start = time.monotonic()
    with signal_handlers({signal.SIGUSR1: end}), pytest.raises(Terminated):
        train_vocabulary(tiny_corpus, tmp_path / "m.model", 200)
    assert time.monotonic() - start < 15
    assert not list(tmp_path.iterdir())


def test_what_ends_the_text_is_not_taken_for_its_size(tmp_path, monkeypatch):
    """The file is cut off behind what the first sentences are made of, after it was checked."""
    packed = gzip.compress(b"".join(b"%s %d\n" % (CORPUS.encode(), number) for number in range(200)))
    (tmp_path / "cut.gz").write_bytes(packed[:-8])
    monkeypatch.setattr(vocabulary_training, "check_text_files", lambda _: None)
    with pytest.raises(InputError, match=r"cut\.gz is damaged or cut off"):
        train_vocabulary(tmp_path / "cut.gz", tmp_path / "m.model", 200)


def test_words_around_a_lone_cr_are_two(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"alpha beta\rgamma delta\rgamma delta\ralpha beta\r" * 20)
    pieces = train_vocabulary(tmp_path / "text.txt", tmp_path / "vocab.txt", 60, kind="wordpiece").pieces
    assert {"alpha", "beta", "gamma", "delta"} <= set(pieces)
    assert not any("betag" in piece or "ag" in piece for piece in pieces)


#

# With the ids of BERT's special pieces, and those of RoBERTa's but for the mask's.
SPECIAL_IDS = {"wordpiece": (0, 1, 2, 3, 4), "byte_level_bpe": (1, 3, 0, 2, 4)}


@pytest.mark.parametrize("kind", SPECIAL_IDS)
def test_a_vocabulary_is_opened_as_it_was_trained(kind, tiny_corpus, tmp_path):
    output = tmp_path / ("bpe" if kind == "byte_level_bpe" else "own.txt")
    vocabulary = train_vocabulary(tiny_corpus, output, 300, kind=kind, strip_accents=False)
    assert vocabulary.special_ids == SPECIAL_IDS[kind]
    tokenizer = Tokenizer(output, strip_accents=False)
    assert tokenizer.tokenize.kind == kind and 270 < tokenizer.vocab_size == len(vocabulary) <= 300
    assert tokenizer.tokenize.settings["lowercase"] == (kind == "wordpiece")
    tokens = [str(vocabulary.texts[i]) for i in tokenizer(["The bees are still there."]).flat_values]
    assert "".join(tokens).replace("##", "").lower() == "thebeesarestillthere."
    assert len(tokens) < 16  # frequent pieces were joined
    packed = pack([tokenizer(["The bees."])], 16, tokenizer)["input_word_ids"][0].numpy()
    assert (packed[0], packed[-1]) == (vocabulary.special_ids.start, vocabulary.special_ids.padding)
    own, usual = (
        tokens_with_masks(tf.constant([f"The {mask} bees"]), tokenizer.tokenize).to_list()
        for mask in (vocabulary.special_pieces[-1], "[MASK]")
    )
    assert own == usual and vocabulary.special_ids.mask in own[0]
    with pytest.raises(FileExistsError):
        train_vocabulary(tiny_corpus, tiny_corpus, 300, kind=kind)


@pytest.mark.parametrize("kind", SPECIAL_IDS)
def test_the_same_text_gives_the_same_vocabulary(kind, tiny_corpus, tmp_path):
    first, *others = (train_vocabulary(tiny_corpus, tmp_path / f"{n}", 300, kind=kind) for n in range(4))
    assert all(other.pieces == first.pieces for other in others)


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 6), ("byte_level_bpe", 100)])
def test_sizes_that_are_too_small(kind, size, tiny_corpus, tmp_path):
    with pytest.raises(InputError, match=f"vocab_size={size} is too small"):
        train_vocabulary(tiny_corpus, tmp_path / "new", size, kind=kind)
    assert not list(tmp_path.iterdir())


def test_a_word_too_long_to_be_a_piece_is_left_out(tiny_corpus, tmp_path):
    (tmp_path / "text.txt").write_text(tiny_corpus.read_text() + "\u0e01" * 120 + " " + "ab" * 60 + "\n")
    pieces = train_vocabulary(tmp_path / "text.txt", tmp_path / "vocab.txt", 3000, kind="wordpiece").pieces
    assert "ab" * 60 in pieces and not any("\u0e01" in piece for piece in pieces)


def test_frequent_words_reach_the_trainer_in_parts():
    sizes = []

    def train(tokenizer, trainer, texts):
        sizes.extend(map(len, texts))
        raise KeyError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyError):
        patch.setattr(vocabulary_training, "_train_tokenizer", train)
        vocabulary_training.train_wordpiece([b"the " * 2500], 100)
    assert sizes == [4000, 4000, 2000]


def test_a_setting_of_another_kind_is_refused(tiny_corpus, tmp_path, capsys):
    words = ["vocab", "--input", tiny_corpus, "--output", tmp_path / "vocab.txt", "--kind", "wordpiece"]
    assert "--max_sentences: of no use to --kind wordpiece" in mistake(capsys, *words, "--max_sentences", 101)
