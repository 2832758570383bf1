"""The tokenizer.json of transformers, made here by hand of real SentencePiece models, and back."""

import base64
import io
import json

import pytest
import sentencepiece
import tensorflow as tf
from google.protobuf import empty_pb2, unknown_fields

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.conversion.tokenizer_json import FastTokenizer, albert_tokenizer_json
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.sentencepiece import (
    FastSentencePieceTokenizer,
    SentencePieceTokenizer,
    SentencePieceVocabulary,
)
from tests.fuzz import fuzzed_texts
from tests.tiny import CORPUS, TINY

QUOTES = [{"type": "Replace", "pattern": {"String": marks}, "content": '"'} for marks in ("``", "''")]
CASED = {"lowercase": False, "strip_accents": True}
TEXTS = [
    *CORPUS.splitlines(),
    "In 2010, 1,5 € (or £ 3.2) – ½ ﬁfty “Naïve” ､",
    "  two  spaces　",
    "ÅΩ 12,",
    "",
]


def field_of(message, number):
    """The last value of a field of a protocol buffer, read independently of the code."""
    fields = unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(message))
    return [field.data for field in fields if field.field_number == number][-1]


def tokenizer_json(model, lowercase=True, strip_accents=True):
    """What transformers 5 writes of the bytes of a SentencePiece model."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [[processor.id_to_piece(i), processor.get_score(i)] for i in range(len(processor))]
    added = [
        {"id": i, "content": piece, "special": True, "normalized": False}
        for i, (piece, _) in enumerate(pieces[:5])
    ]
    normalizers = [
        *QUOTES,
        *([{"type": "NFKD"}, {"type": "StripAccents"}] * strip_accents),
        *([{"type": "Lowercase"}] * lowercase),
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(model)).decode()},
    ]
    words = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, words]},
        "model": {"type": "Unigram", "unk_id": 1, "vocab": pieces, "byte_fallback": False},
    }


def charsmap(model):
    return field_of(field_of(model, 3), 2)


@pytest.fixture(scope="module")
def real_model(published_vocabulary):
    return published_vocabulary.read_bytes()


def write(folder, values):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    return folder / "tokenizer.json"


def check_same(rebuilt, model):
    """Pieces, scores and types; and the tokens of texts."""
    ours, theirs = (sentencepiece.SentencePieceProcessor(model_proto=x) for x in (rebuilt, model))
    assert len(ours) == len(theirs)
    for i in range(len(theirs)):
        assert ours.id_to_piece(i) == theirs.id_to_piece(i)
        assert ours.get_score(i) == theirs.get_score(i)
        assert ours.is_control(i) == theirs.is_control(i)
        assert ours.is_unknown(i) == theirs.is_unknown(i)
    texts = [*TEXTS, *(text.decode("utf-8", "replace") for text in fuzzed_texts(2000, longest=2000))]
    texts += [
        piece.replace("▁", " ") for piece in SentencePieceVocabulary({"spiece.model": model}).pieces[5:]
    ]
    assert ours.encode(texts) == theirs.encode(texts)


def test_the_published_vocabulary(real_model, tmp_path):
    rebuilt = FastTokenizer(write(tmp_path, tokenizer_json(real_model)))
    assert len(rebuilt.pieces) == 30000
    assert rebuilt.settings("sentencepiece") == {"lowercase": True, "strip_accents": True}
    (content,) = rebuilt.files().values()
    assert charsmap(content) == charsmap(real_model)
    check_same(content, real_model)


def test_tokens_inside_the_graph(tiny_vocabulary, tmp_path):
    """TF Text reads the model with two readers of its own."""
    model = tiny_vocabulary.read_bytes()
    (rebuilt,) = FastTokenizer(write(tmp_path, tokenizer_json(model))).files().values()
    check_same(rebuilt, model)
    for tokenizer in (SentencePieceTokenizer, FastSentencePieceTokenizer):
        ours, theirs = (
            tokenizer(SentencePieceVocabulary({"spiece.model": x}))(tf.constant(TEXTS))
            for x in (rebuilt, model)
        )
        assert ours.to_list() == theirs.to_list()


@pytest.mark.parametrize("settings", [CASED, {"lowercase": True, "strip_accents": False}])
def test_the_form_that_transformers_5_writes(tiny_vocabulary, tmp_path, settings):
    """User-defined pieces, which the model finds whole, are none that were added: these lose their ▁."""
    model = tiny_vocabulary.read_bytes()
    ours, theirs = albert_tokenizer_json(model, settings), tokenizer_json(model, **settings)
    for key in ("normalizer", "pre_tokenizer", "model"):
        assert ours[key] == theirs[key]
    assert [token["content"] for token in ours["added_tokens"]] == [
        token["content"] for token in theirs["added_tokens"]
    ]
    rebuilt = FastTokenizer(write(tmp_path, ours))
    assert rebuilt.settings("sentencepiece") == settings
    check_same(*rebuilt.files().values(), model)


def at(values, *keys):
    """What is at a path of keys in nested containers."""
    return at(values[keys[0]], *keys[1:]) if keys else values


WRONG = {
    "another kind": (["model"], {"type": "BPE"}),
    "another unknown": (["model"], {"unk_id": 0}),
    "other ids": (["model", "vocab"], {0: ["[PAD]", 0.0]}),
    "a double": (["model", "vocab"], {60: ["qqq", -1.1]}),
    "of transformers 4": (["model", "vocab"], {60: ["9,", -108.0]}),
    "no table": (["normalizer", "normalizers"], {-1: {"type": "NFC"}}),
    "damaged": (["normalizer", "normalizers", -1], {"precompiled_charsmap": "AA"}),
    "no space": (["pre_tokenizer", "pretokenizers", 1], {"prepend_scheme": "never"}),
    "words": (["pre_tokenizer", "pretokenizers", 0], {"type": "Digits"}),
    "more": (["added_tokens", 4], {"id": 200, "content": "<new>"}),
    "split off": (["added_tokens", 4], {"id": 12, "content": "."}),
    "without [CLS]": (["post_processor"], {"type": "Sequence"}),
    "not its form": (["normalizer"], {"normalizers": None}),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_rebuilt_exactly(case, tiny_vocabulary, tmp_path):
    keys, change = WRONG[case]
    values = tokenizer_json(tiny_vocabulary.read_bytes())
    values["post_processor"] = albert_tokenizer_json(tiny_vocabulary.read_bytes(), CASED)["post_processor"]

    def rebuild():
        fast = FastTokenizer(write(tmp_path, values))
        fast.settings("sentencepiece")
        fast.check_special_tokens(SentencePieceVocabulary(fast.files()), is_generic=True)

    rebuild()
    for key, value in change.items():
        at(values, *keys)[key] = value
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        rebuild()


@pytest.fixture
def folder(tiny_vocabulary, tmp_path):
    """What transformers 5 writes of a model with its tokenizer: no spiece.model."""
    run, folder = tmp_path / "original", tmp_path / "hf"
    albert_tf.save(albert_tf.AlbertPretrainer(TINY), run, tiny_vocabulary, tokenizer=CASED)
    convert("run", "huggingface", run, folder)
    for name in ("spiece.model", "spiece.tokenizer.json"):
        (folder / name).unlink()
    write(folder, tokenizer_json(tiny_vocabulary.read_bytes(), **CASED))
    return folder


def test_convert_rebuilds(folder, tiny_vocabulary, tmp_path):
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done.vocabulary == "rebuilt from tokenizer.json"
    run = RunDirectory(tmp_path / "run")
    check_same(run.vocabulary.read_bytes(), tiny_vocabulary.read_bytes())
    assert run.tokenizer == CASED


def test_a_model_without_a_table_of_normalisation(tmp_path):
    """As SentencePiece's `identity` makes it."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.lower().splitlines()),
        model_writer=content,
        vocab_size=120,
        normalization_rule_name="identity",
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
        **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1},
    )
    (tmp_path / "spiece.model").write_bytes(content.getvalue())
    config = TINY.replace(vocab_size=120, num_hidden_layers=1)
    albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / "run", tmp_path / "spiece.model")
    convert("run", "huggingface", tmp_path / "run", tmp_path / "hf")
    convert("huggingface", "run", tmp_path / "hf", tmp_path / "back")
    assert RunDirectory(tmp_path / "back").vocabulary.read_bytes() == content.getvalue()
    (tmp_path / "hf" / "spiece.model").unlink()
    convert("huggingface", "run", tmp_path / "hf", tmp_path / "rebuilt")
    ours, theirs = (
        albert_tf.Tokenizer(tmp_path / run / "spiece.model")(TEXTS).to_list() for run in ("rebuilt", "run")
    )
    assert ours == theirs


def test_convert_refuses_a_tokenizer_that_is_not_here(folder, tiny_vocabulary, tmp_path):
    smaller = json.loads((folder / "tokenizer.json").read_text())
    del smaller["model"]["vocab"][-128:]
    cases = {
        "smaller": (smaller, "vocab_size=200"),
        "lower": (tokenizer_json(tiny_vocabulary.read_bytes()), "lowercase is True"),
    }
    for name, (content, message) in cases.items():
        write(folder, content)
        with pytest.raises(InputError, match=rf"tokenizer\.json.*{message}"):
            convert("huggingface", "run", folder, tmp_path / name)
        assert not (tmp_path / name).exists()
    done = convert("huggingface", "run", folder, tmp_path / "given", vocabulary=tiny_vocabulary)
    assert done.vocabulary == str(tiny_vocabulary)
    assert RunDirectory(tmp_path / "given").tokenizer == CASED


def test_a_vocabulary_beside_it_has_the_same_scores_and_normalisation(tiny_vocabulary, tmp_path):
    model = tiny_vocabulary.read_bytes()
    vocabulary = SentencePieceVocabulary({"spiece.model": model}, "spiece.model")

    def check(change):
        values = tokenizer_json(model)
        change(values)
        FastTokenizer(write(tmp_path, values)).check_vocabulary(vocabulary)

    def scored(score):
        return lambda values: values["model"]["vocab"][60].__setitem__(1, score)

    old = tokenizer_json(model)["model"]["vocab"][60][1]
    for same in (lambda values: None, scored(old - 100)):  # as transformers 4 has those of "9,"
        check(same)
    table = base64.b64encode(b"AAAA").decode()
    cases = {
        "unk_id is 7": lambda values: values["model"].update(unk_id=7),
        "unk_id is None": lambda values: values["model"].update(unk_id=None),
        "score": scored(old - 1),
        "score of .* is 'x'": scored("x"),
        "precompiled_charsmap": lambda values: at(values, "normalizer", "normalizers", -1).update(
            precompiled_charsmap=table
        ),
    }
    for value, change in cases.items():
        with pytest.raises(InputError, match=rf"tokenizer\.json: .*{value}.*spiece\.model"):
            check(change)
