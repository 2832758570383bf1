"""Tokenizers in folders of transformers: the same ids, or refused by the name of the setting."""

import dataclasses
import json
import os
import random
import shutil
import subprocess

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.config_formats import (
    HUGGING_FACE_ALLOWED,
    HUGGING_FACE_IGNORED,
    HUGGING_FACE_READ,
    hugging_face_fields,
)
from albert_tf.conversion.convert import convert
from albert_tf.conversion.huggingface_config import hugging_face_config, tokenizer_config
from albert_tf.conversion.huggingface_tokenizer import (
    TOKENIZER_CONFIG_ALLOWED,
    TOKENIZER_CONFIG_IGNORED,
    TOKENIZER_CONFIG_READ,
    with_tokenizer,
)
from albert_tf.conversion.tokenizer_json import PART_KEYS, albert_tokenizer_json
from albert_tf.conversion.transfer import ForeignModel
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import KIND_DEFAULTS, read_vocabulary
from tests.albert_tf.conversion import tokenizers_script as script
from tests.albert_tf.conversion.huggingface_files import fast_bert
from tests.albert_tf.conversion.test_interoperability import BERT, ROBERTA
from tests.tiny import CORPUS, TINY, change_json

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789äöüéÉçñßÄ日本語中국σΣά.,!?-'\"()@#_"
PIECES = [
    *[
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "The",
        "cafe",
        "café",
        "Café",
        "日本",
        "##本",
        "he",
    ],
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS if letter != "本"),
    *("hive", "keeper", "##ing"),
]
CONFIGS = {
    "albert": (TINY, "sentencepiece"),
    "bert": (BERT.replace(vocab_size=len(PIECES)), "wordpiece"),
    "roberta": (ROBERTA, "byte_level_bpe"),
}
COMMON = """
    _name_or_path architectures bos_token_id chunk_size_feed_forward dtype eos_token_id id2label
    initializer_range is_encoder_decoder label2id max_position_embeddings model_type output_attentions
    output_hidden_states pad_token_id problem_type return_dict tie_word_embeddings transformers_version
"""
NAMED_ALIKE = f"""{COMMON}
    vocab_size attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size intermediate_size
    layer_norm_eps num_attention_heads num_hidden_layers type_vocab_size
"""
# The keys that transformers 5.23 writes: of config.json by family, of tokenizer.json by parts' types.
KEYS = {
    "albert": NAMED_ALIKE + " classifier_dropout_prob embedding_size inner_group_num num_hidden_groups",
    "bert": NAMED_ALIKE + " add_cross_attention classifier_dropout is_decoder use_cache",
    "roberta": NAMED_ALIKE + " add_cross_attention classifier_dropout is_decoder use_cache",
    "distilbert": COMMON
    + """
        vocab_size activation attention_dropout dim dropout hidden_dim n_heads n_layers qa_dropout
        seq_classif_dropout sinusoidal_pos_embds
    """,
    "tokenizer_config.json": """
        add_prefix_space backend bos_token cls_token do_lower_case eos_token errors is_local keep_accents
        local_files_only mask_token model_input_names model_max_length pad_token remove_space sep_token
        strip_accents tokenize_chinese_chars tokenizer_class trim_offsets unk_token
    """,
    "tokenizer.json": """
        added_tokens decoder model normalizer padding post_processor pre_tokenizer truncation version
    """,
    "BertNormalizer": "clean_text handle_chinese_chars lowercase strip_accents type",
    "BertPreTokenizer": "type",
    "ByteLevel": "add_prefix_space trim_offsets type use_regex",
    "WordPiece": "continuing_subword_prefix max_input_chars_per_word type unk_token vocab",
    "BPE": """
        byte_fallback continuing_subword_prefix dropout end_of_word_suffix fuse_unk ignore_merges merges
        type unk_token vocab
    """,
    "Unigram": "byte_fallback type unk_id vocab",
    "Sequence": "normalizers pretokenizers type",
}
# Those of older versions that are in published folders.
OLDER_KEYS = {
    "albert": "down_scale_factor gap_size layers_to_keep net_structure_type num_memory_blocks",
    "bert": """
        directionality finetuning_task gradient_checkpointing pooler_fc_size pooler_type
        position_embedding_type torch_dtype num_labels language output_past
    """,
    "distilbert": "tie_weights_ output_past pruned_heads",
    "tokenizer_config.json": """
        added_tokens_decoder additional_special_tokens auto_map clean_up_tokenization_spaces
        do_basic_tokenize init_inputs max_len name_or_path never_split padding_side sp_model_kwargs
        special_tokens_map_file tokenizer_file truncation_side use_fast
    """,
}

ORDINARY = ["", " ", "Café CAFÉ café naïve", "The hive. the HIVE", " the", "\tthe\n", "x", "  two  Spaces "]
# Not for ALBERT, whose tokenizer there is none of Google's: docs/checkpoints.md.
UNUSUAL = [
    *(
        "日本 the日本語x 国",
        "''so'' ``it''",
        "a\u00a0b\u3000c",
        "don't x's",
        "ß STRASSE ΟΔΟΣ ΣΊ",
        "\u200bz\u00adz",
    ),
    *("a" * 99, "a" * 100, "ab" * 51, "ab " + "é" * 120, "a" * 201, "http://a.b/C?d=É", "😀 e\u0301 \u2028x"),
]


def random_texts(alphabet, count=60):
    source = random.Random(0)
    return ["".join(source.choices(alphabet, k=source.randrange(30))) for _ in range(count)]


def write_folder(folder, family, vocabulary):
    """The config and the tokenizer's files of a folder, but no weights."""
    config, kind = CONFIGS[family]
    folder.mkdir(parents=True)
    files = read_vocabulary(vocabulary, kind)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if family == "albert":
        fast = albert_tokenizer_json(files["spiece.model"], KIND_DEFAULTS[kind])
        (folder / "tokenizer.json").write_text(json.dumps(fast))
    (folder / "config.json").write_text(json.dumps(hugging_face_config(config, {"model": "encoder"})))
    settings = tokenizer_config(kind, KIND_DEFAULTS[kind], config, {"model": "encoder"})
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory, tiny_vocabulary, byte_pairs):
    """A folder of transformers for each kind of tokenizer; they are only read."""
    folder = tmp_path_factory.mktemp("tokenizers")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    vocabularies = {"albert": tiny_vocabulary, "bert": folder / "vocab.txt", "roberta": byte_pairs}
    for family, vocabulary in vocabularies.items():
        write_folder(folder / "base" / family, family, vocabulary)
    return folder / "base"


def read_tokenizer(folder, scratch, vocabulary=None):
    """The tokenizer in a folder, as `convert` puts it into a run."""
    source = ForeignModel(None, AlbertConfig.from_json_file(folder / "config.json"), {}, {}, None)
    found = with_tokenizer(source, folder, scratch, vocabulary)
    return open_tokenizer(found.vocabulary, **found.tokenizer)


@pytest.fixture
def made(base, tmp_path):
    """Makes a copy of a folder, to be changed."""
    return lambda family: shutil.copytree(base / family, tmp_path / "folder")


def unknown_keys(keys):
    """Keys in no table."""
    fields = [field.name for field in dataclasses.fields(AlbertConfig)]
    network = {*HUGGING_FACE_READ, *HUGGING_FACE_ALLOWED, *HUGGING_FACE_IGNORED}
    tables = {
        family: {*network, *hugging_face_fields(family, fields)}
        for family in ("albert", "bert", "roberta", "distilbert")
    }
    tables["tokenizer_config.json"] = {
        *TOKENIZER_CONFIG_READ,
        *TOKENIZER_CONFIG_ALLOWED,
        *TOKENIZER_CONFIG_IGNORED,
    }
    kinds = {"wordpiece": "WordPiece", "byte_level_bpe": "BPE", "sentencepiece": "Unigram"}
    tables |= {
        kinds.get(part, part): {*read, *known, *unread} for part, (read, known, unread) in PART_KEYS.items()
    }
    # Which are compared as they are.
    tables["Sequence"] = {"normalizers", "pretokenizers", "type"}
    return {
        (name, key)
        for name, found in keys.items()
        for key in set(found) - tables[name]
        if not key.startswith("_")
    }


def test_each_key_that_transformers_writes_is_in_a_table():
    for keys in (KEYS, OLDER_KEYS):
        assert unknown_keys({name: found.split() for name, found in keys.items()}) == set()
    assert unknown_keys({"bert": ["embedding_size"]}) == {("bert", "embedding_size")}


def test_no_key_is_in_two_tables():
    for read, known, unread in [
        (HUGGING_FACE_READ, HUGGING_FACE_ALLOWED, HUGGING_FACE_IGNORED),
        (TOKENIZER_CONFIG_READ, TOKENIZER_CONFIG_ALLOWED, TOKENIZER_CONFIG_IGNORED),
        *PART_KEYS.values(),
    ]:
        assert len({*read, *known, *unread}) == len(read) + len(known) + len(unread)


def test_add_prefix_space(made, tmp_path):
    folder = made("roberta")
    change_json(folder / "tokenizer_config.json", add_prefix_space=True)
    with_space, without = read_tokenizer(folder, tmp_path), read_tokenizer(made_without(folder), tmp_path)
    texts = ["the hive", "", " ", "  x", "\tx", "é"]
    expected = [text and " " * (text[0] != " ") + text for text in texts]
    assert with_space(texts).to_list() == without(expected).to_list() != without(texts).to_list()
    _, starts, limits = with_space.tokenize_with_offsets(tf.constant(texts))
    _, first, last = without.tokenize_with_offsets(tf.constant(expected))
    for text, *spans in zip(texts, *(x.to_list() for x in (starts, limits, first, last)), strict=True):
        added = int(text[:1] not in ("", " "))
        assert spans[0] == [max(place - added, 0) for place in spans[2]]
        assert spans[1] == [place - added for place in spans[3]]


def made_without(folder):
    other = shutil.copytree(folder, folder.with_name("without"))
    change_json(other / "tokenizer_config.json", add_prefix_space=False)
    return other


def test_ideographs_as_letters(made, tmp_path):
    folder = made("bert")
    change_json(folder / "tokenizer_config.json", tokenize_chinese_chars=False)
    tokenizer = read_tokenizer(folder, tmp_path)
    names = [[PIECES[number] for number in ids] for ids in tokenizer(["日本 x日"]).to_list()]
    assert names == [["日本", "x", "##日"]]


def test_words_of_more_than_100_characters_are_unknown(made, tmp_path):
    tokenizer = read_tokenizer(made("bert"), tmp_path)
    lengths = tokenizer(["a" * 100, "a" * 101]).row_lengths().numpy().tolist()
    assert lengths == [100, 1]


def test_case_in_tokenizer_json_alone(made, tmp_path):
    """AutoTokenizer takes it where the class is any, and lowercases where it is BERT's own."""
    folder = made("bert")
    frame = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    fast = fast_bert(PIECES, frame, strip_accents=None, lowercase=False)
    for key in ("type", "unk_token", "continuing_subword_prefix"):  # which older files do not name
        del fast["model"][key]
    (folder / "tokenizer.json").write_text(json.dumps(fast))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert not read_tokenizer(folder, tmp_path).lowercase
    assert not read_tokenizer(folder, tmp_path, folder / "vocab.txt").lowercase
    for config in ("{}", '{"tokenizer_class": "BertTokenizerFast"}'):
        (folder / "tokenizer_config.json").write_text(config)
        with pytest.raises(InputError, match="lowercase is False"):
            read_tokenizer(folder, tmp_path)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not read_tokenizer(folder, tmp_path).lowercase
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in [*PIECES[:-2], "b", "a"]))
    with pytest.raises(InputError, match=r"vocab\.txt"):
        read_tokenizer(folder, tmp_path)


def test_the_forms_of_published_files(made, tmp_path):
    """Those of transformers 4: no type of the model, another key of Metaspace, scores that were changed."""
    folder = made("albert")
    fast = json.loads((folder / "tokenizer.json").read_text())
    del fast["model"]["type"], fast["model"]["byte_fallback"]
    fast["model"]["vocab"][60][1] -= 100
    words = fast["pre_tokenizer"]["pretokenizers"][1]
    del words["prepend_scheme"], words["split"]
    words["add_prefix_space"] = True
    (folder / "tokenizer.json").write_text(json.dumps(fast))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    assert read_tokenizer(folder, tmp_path).settings == {"lowercase": True, "strip_accents": True}
    (folder / "spiece.model").unlink()
    with pytest.raises(InputError, match="score"):
        read_tokenizer(folder, tmp_path)


REFUSED = [
    ("bert", "tokenizer_config.json", {"cls_token": "the"}),
    ("bert", "tokenizer_config.json", {"image_token": "the"}),
    ("bert", "tokenizer_config.json", {"extra_special_tokens": ["the"]}),
    ("bert", "tokenizer_config.json", {"added_tokens_decoder": {"7": {"content": "cafe"}}}),
    ("bert", "tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}),
    ("bert", "tokenizer_config.json", {"added_tokens_decoder": ["cafe"]}),
    ("bert", "tokenizer_config.json", {"tokenizer_class": 5}),
    ("bert", "tokenizer_config.json", {"tokenizer_class": "TokenizersBackend"}),
    ("bert", "tokenizer_config.json", {"do_lower_case": "yes"}),
    ("bert", "tokenizer_config.json", {"do_basic_tokenize": False}),
    ("bert", "tokenizer_config.json", {"padding_side": "left"}),
    ("bert", "tokenizer_config.json", {"model_input_names": ["input_ids"]}),
    ("bert", "special_tokens_map.json", {"sep_token": {"content": "the", "lstrip": False}}),
    ("bert", "added_tokens.json", {"cafe": 77}),
    ("albert", "tokenizer_config.json", {"add_prefix_space": False}),
    ("albert", "tokenizer_config.json", {"keep_accents": True}),
    ("albert", "tokenizer_config.json", {"remove_space": False}),
    ("albert", "tokenizer.json", {"truncation": {"direction": "Left"}}),
    ("roberta", "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"}),
    ("roberta", "config.json", {"pad_token_id": 0}),
]


@pytest.mark.parametrize(("family", "name", "values"), REFUSED)
def test_refused_by_name(made, tmp_path, family, name, values):
    folder, (key,) = made(family), values
    read_tokenizer(folder, tmp_path)
    change_json(folder / name, **values)
    said = {"keep_accents": "strip_accents", "added_tokens_decoder": "cafe", "truncation": "direction"}
    with pytest.raises(InputError, match=said.get(key, next(iter(values)) if key != "cafe" else "cafe")):
        read_tokenizer(folder, tmp_path)


def test_an_unknown_key_is_told(made, tmp_path, caplog):
    folder = made("bert")
    change_json(folder / "tokenizer_config.json", split_hyphens=True, model_max_length=5)
    read_tokenizer(folder, tmp_path)
    assert "split_hyphens" in caplog.text and "model_max_length" not in caplog.text


def test_settings_stay_in_runs_and_in_what_is_written(made, tmp_path):
    folder = made("roberta")
    albert_tf.save(albert_tf.AlbertEncoder(ROBERTA.replace(num_hidden_layers=1)), tmp_path / "run")
    convert("run", "huggingface", tmp_path / "run", tmp_path / "weights")
    shutil.copy(tmp_path / "weights" / "model.safetensors", folder)
    change_json(folder / "config.json", num_hidden_layers=1)
    change_json(folder / "tokenizer_config.json", add_prefix_space=True)
    convert("huggingface", "run", folder, tmp_path / "there")
    assert RunDirectory(tmp_path / "there").tokenizer["add_prefix_space"] is True
    tokenizer = albert_tf.Tokenizer(tmp_path / "there" / "vocab.json")
    assert tokenizer(["the"]).to_list() == tokenizer([" the"]).to_list()
    convert("run", "huggingface", tmp_path / "there", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "tokenizer_config.json").read_text())["add_prefix_space"] is True


@pytest.fixture(scope="module")
def theirs(base, interop_python):
    """Folders that transformers made with random settings, each with its ids of the texts; and these."""
    words = CORPUS.splitlines()[:30]
    unusual = [*ORDINARY, *UNUSUAL, *random_texts(LETTERS + "   "), *words]
    texts = {"albert": [*ORDINARY, *words], "bert": unusual, "roberta": unusual}
    (base.parent / "texts.json").write_text(json.dumps(texts))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([interop_python, script.__file__, base.parent], check=True, env=environment, timeout=600)
    return base.parent, texts


@pytest.mark.slow
def test_ids_are_those_of_transformers_or_the_folder_is_refused(theirs, tmp_path):
    """Whatever settings it was made with, in whatever of its forms it lies, and whatever was changed."""
    place, texts = theirs
    accepted, refused, differing = [], [], []
    for folder in sorted((place / "made").iterdir()):
        expected = json.loads((folder / "ids.json").read_text())
        changed = bool(expected["changed"])
        try:
            tokenizer = read_tokenizer(folder, tmp_path)
        except InputError as error:
            refused.append((changed, expected["settings"], str(error)))
            continue
        if "error" in expected:
            continue
        accepted.append(changed)
        input_format = tokenizer.vocabulary.input_format
        first, second = tokenizer(list(script.PAIR)).to_list()
        pair = [*input_format.start, *first, *input_format.between, *second, *input_format.end]
        ids = tokenizer(texts[expected["family"]]).to_list()
        if ids != expected["ids"] or pair != expected["pair"]:
            wrong = [
                text
                for text, a, b in zip(texts[expected["family"]], ids, expected["ids"], strict=True)
                if a != b
            ]
            differing.append((folder.name, expected["settings"], expected["changed"], wrong[:3]))
    assert differing == []
    # Of what transformers writes by itself nothing is refused but this.
    assert all(settings.get("add_prefix_space") is False for changed, settings, _ in refused if not changed)
    assert accepted.count(False) > 60 and accepted.count(True) > 40
    assert sum(changed for changed, *_ in refused) > 40


@pytest.mark.slow
def test_each_key_that_this_version_of_transformers_writes_is_in_a_table(theirs):
    place, _ = theirs
    keys = json.loads((place / "keys.json").read_text())
    assert keys.keys() >= {"albert", "bert", "roberta", "distilbert", "BertNormalizer", "Unigram", "BPE"}
    assert unknown_keys(keys) == set()


def test_a_tagger_of_byte_level_bpe_reads_words_with_a_space_before_them():
    """Without this setting transformers refuses lists of words, and reads them otherwise than we do."""
    kind, (config, _) = "byte_level_bpe", CONFIGS["roberta"]
    for model, is_added in (("classifier", False), ("token_classifier", True)):
        settings = tokenizer_config(kind, KIND_DEFAULTS[kind], config, {"model": model})
        assert settings["add_prefix_space"] is is_added
