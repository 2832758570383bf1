"""Vocabularies beside checkpoints of BERT, RoBERTa and DistilBERT."""

import json
import shutil

import pytest

import albert_tf
from albert_tf.config import REPOSITORIES, published_format
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.tokenizer_config import read_tokenizer_kind
from tests.albert_tf.conversion.huggingface_files import fast_bert
from tests.albert_tf.conversion.loopback import put_repository

WORDS = "".join(
    f"{piece}\n" for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(85)))
)


def of_transformers(lowercase, strip_accents):
    """The settings of its BertTokenizer."""
    usual = {"tokenize_chinese_chars": True, "like_transformers": True}
    return {"lowercase": lowercase, "strip_accents": strip_accents, **usual}


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize(
    ("values", "lowercase", "strip_accents"),
    [
        ({"do_lower_case": False}, False, False),
        ({"do_lower_case": True, "strip_accents": None}, True, True),
        ({"do_lower_case": True, "strip_accents": False}, True, False),
    ],
)
def test_wordpiece(shared, tmp_path, family, values, lowercase, strip_accents):
    folder = shutil.copytree(shared / "golden" / "family" / "hf" / family, tmp_path / "hf")
    (folder / "vocab.txt").write_text(WORDS)
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done.vocabulary == "vocab.txt"
    run = RunDirectory(tmp_path / "run")
    assert read_tokenizer_kind(run.vocabulary) == "wordpiece"
    assert run.tokenizer == of_transformers(lowercase, strip_accents)
    convert("run", "huggingface", tmp_path / "run", tmp_path / "back")
    assert (tmp_path / "back" / "vocab.txt").read_text() == WORDS
    written = json.loads((tmp_path / "back" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "BertTokenizer" and written["do_lower_case"] is lowercase
    types = ["token_type_ids"] * (family == "bert")
    assert written["model_input_names"] == ["input_ids", *types, "attention_mask"]
    convert("huggingface", "run", tmp_path / "back", tmp_path / "again")
    assert RunDirectory(tmp_path / "again").tokenizer == run.tokenizer


@pytest.fixture
def roberta(byte_pairs, tmp_path):
    """The config of a run of that vocabulary, converted to `hf`."""
    config = albert_tf.PRESETS["roberta_base"].replace(
        vocab_size=len(json.loads((byte_pairs / "vocab.json").read_text())),
        **{"embedding_size": 8, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1},
    )
    albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / "run", byte_pairs)
    convert("run", "huggingface", tmp_path / "run", tmp_path / "hf")
    return config


def test_byte_level_bpe(roberta, byte_pairs, tmp_path):
    """With RoBERTa's ids, and settings that mean nothing to it."""
    written = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())
    mask = written.pop("mask_token")
    assert mask["content"] == "<mask>" and mask["lstrip"] and not mask["rstrip"]
    assert written == {
        "tokenizer_class": "RobertaTokenizer",
        "model_max_length": 512,
        "model_input_names": ["input_ids", "attention_mask"],
        "add_prefix_space": False,
    }
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["pad_token_id"] == 1
    done = convert("huggingface", "run", tmp_path / "hf", tmp_path / "back")
    assert done.vocabulary == "vocab.json"
    back = RunDirectory(tmp_path / "back")
    assert back.tokenizer == {"lowercase": False, "strip_accents": False, "add_prefix_space": False}
    assert back.config == roberta
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "back" / name).read_bytes() == (byte_pairs / name).read_bytes()


@pytest.mark.parametrize(
    ("lowercase", "strips", "expected"), [(True, None, True), (True, False, False), (False, None, False)]
)
def test_wordpiece_of_a_fast_tokenizer_alone(shared, tmp_path, lowercase, strips, expected):
    folder = shutil.copytree(shared / "golden" / "family" / "hf" / "bert", tmp_path / "hf")
    values = fast_bert(WORDS.split(), lowercase=lowercase, strip_accents=strips)
    (folder / "tokenizer.json").write_text(json.dumps(values))
    config = {"do_lower_case": lowercase, "strip_accents": strips}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done.vocabulary == "rebuilt from tokenizer.json"
    run = RunDirectory(tmp_path / "run")
    assert run.vocabulary.read_text() == WORDS
    assert run.tokenizer == of_transformers(lowercase, expected)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("model", {"continuing_subword_prefix": "@@"}),
        ("normalizer", {"clean_text": False}),
        ("pre_tokenizer", {"type": "Whitespace"}),
        ("model", {"vocab": {"x": 7}}),
        ("model", {"vocab": {str(n): n for n in range(5, 91)}}),  # one more than embeddings
    ],
)
def test_fast_tokenizers_that_are_others(shared, tmp_path, part, changes):
    folder = shutil.copytree(shared / "golden" / "family" / "hf" / "bert", tmp_path / "hf")
    values = fast_bert(WORDS.split(), lowercase=True, strip_accents=None)
    values[part] |= changes
    (folder / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        convert("huggingface", "run", folder, tmp_path / "run")


@pytest.mark.parametrize("as_pairs", [True, False])
def test_byte_level_bpe_of_a_fast_tokenizer_alone(roberta, tiny_corpus, tmp_path, as_pairs):
    ids = json.loads((tmp_path / "hf" / "vocab.json").read_text())
    lines = (tmp_path / "hf" / "merges.txt").read_text().splitlines()[1:]
    values = {
        "added_tokens": [{"id": ids.pop("<mask>"), "content": "<mask>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "model": {"type": "BPE", "vocab": ids, "merges": [x.split() if as_pairs else x for x in lines]},
    }
    (tmp_path / "hf" / "tokenizer.json").write_text(json.dumps(values))
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "hf" / name).unlink()
    convert("huggingface", "run", tmp_path / "hf", tmp_path / "back")
    texts = tiny_corpus.read_text().splitlines()
    first, second = (
        albert_tf.Tokenizer(tmp_path / run / "vocab.json")(texts).to_list() for run in ("run", "back")
    )
    assert first == second


def test_google_bert(shared, tmp_path):
    folder = shutil.copytree(shared / "golden" / "family" / "bert_tf1", tmp_path / "google")
    (folder / "vocab.txt").write_text(WORDS)
    settings = {"lowercase": False, "strip_accents": False}
    convert("google", "run", folder, tmp_path / "run", tokenizer=settings)
    googles = {"tokenize_chinese_chars": True, "like_transformers": False}
    assert RunDirectory(tmp_path / "run").tokenizer == {**settings, **googles}
    convert("run", "google", tmp_path / "run", tmp_path / "back")
    names = {"bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "vocab.txt"}
    assert {path.name for path in (tmp_path / "back").iterdir()} == {*names, "vocab.txt.tokenizer.json"}
    convert("google", "run", tmp_path / "back", tmp_path / "again")
    assert RunDirectory(tmp_path / "again").tokenizer == {**settings, **googles}
    for name, words, lowercase in (
        ("cased", WORDS.replace("\n7", "\nT"), False),
        ("uncased", WORDS, True),
    ):
        (folder / "vocab.txt").write_text(words)
        convert("google", "run", folder, tmp_path / name)
        assert RunDirectory(tmp_path / name).tokenizer["lowercase"] == lowercase


def test_published_names(server, shared, tmp_path):
    assert REPOSITORIES.keys() < albert_tf.PRESETS.keys()
    assert all(
        published_format(name) == published_format(REPOSITORIES[name]) == "huggingface"
        for name in REPOSITORIES
    )
    folder = shutil.copytree(shared / "golden" / "family" / "hf" / "bert", tmp_path / "hf")
    (folder / "vocab.txt").write_text(WORDS)
    put_repository(server, "google-bert/bert-base-uncased", folder)
    convert("huggingface", "run", "bert_base_uncased", tmp_path / "run")
    assert RunDirectory(tmp_path / "run").vocabulary.name == "vocab.txt"
