import pytest
import sentencepiece

from albert_tf.errors import InputError
from albert_tf.text.sentencepiece import SentencePieceVocabulary, starts_word


def test_starts_word():
    # Neither the apostrophe nor the dash is in Google's set of marks.
    beginning = ["▁the", "▁", ",", "€", "£", "–", "'s", "1", "a1", "é", "語", "<unk>"]
    pieces = [*beginning, "ing", "ING", "...", "e-mail", "[MASK]"]
    assert list(filter(starts_word, pieces)) == beginning


def test_pieces_of_the_published_vocabulary(shared):
    vocabulary = SentencePieceVocabulary.from_file(shared / "data/vocabulary/30k-clean.model")
    lines = (shared / "data/vocabulary/30k-clean.vocab").read_text().split("\n")[:-1]
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
