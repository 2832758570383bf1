"""Folders of transformers' tokenizers with random settings, in an environment of its own: `python … FOLDER`.

`FOLDER/base` has a folder of transformers of each kind, and `FOLDER/texts.json` the texts for each. Writes
`FOLDER/made/<number>`, with what AutoTokenizer makes of the texts in `ids.json`, or why it opens no such
folder; and `FOLDER/keys.json`, the keys that transformers writes.
"""

import json
import random
import shutil
import sys
from pathlib import Path

COUNT = 240
PAIR = ("the keeper", "it is a hive")

CLASSES = {
    "albert": ("AlbertTokenizer",),
    "bert": ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    "roberta": ("RobertaTokenizer", "RobertaTokenizerFast"),
}
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
SETTINGS = {
    "albert": ("do_lower_case", "keep_accents", "add_prefix_space"),
    "bert": ("do_lower_case", "strip_accents", "tokenize_chinese_chars"),
    "roberta": ("add_prefix_space", "trim_offsets"),
}
# Changes to files that were saved, some without effect: the file, the path of keys, possible values.
REMOVED = "(removed)"
CHANGES = [
    ("tokenizer_config.json", ["do_lower_case"], (True, False, REMOVED)),
    ("tokenizer_config.json", ["strip_accents"], (True, False, None, REMOVED)),
    ("tokenizer_config.json", ["tokenize_chinese_chars"], (True, False, REMOVED)),
    ("tokenizer_config.json", ["keep_accents"], (True, False, REMOVED)),
    ("tokenizer_config.json", ["add_prefix_space"], (True, False, REMOVED)),
    ("tokenizer_config.json", ["tokenizer_class"], (REMOVED, *GENERIC, "BertTokenizer", "GPT2Tokenizer")),
    ("tokenizer_config.json", ["cls_token"], ("the", "[MASK]", "<s>", "[CLS]", REMOVED)),
    ("tokenizer_config.json", ["sep_token"], ("the", "[SEP]", "</s>")),
    ("tokenizer_config.json", ["bos_token"], ("the", None)),
    ("tokenizer_config.json", ["unk_token"], ("the", "[MASK]", "[UNK]")),
    ("tokenizer_config.json", ["image_token"], ("the",)),
    ("tokenizer_config.json", ["extra_special_tokens"], ([], ["the"], ["hive"])),
    ("tokenizer_config.json", ["additional_special_tokens"], ([], ["the"])),
    ("tokenizer_config.json", ["added_tokens_decoder"], ({"7": {"content": "he"}}, {})),
    ("tokenizer_config.json", ["split_special_tokens"], (True,)),
    ("tokenizer_config.json", ["model_max_length"], (5,)),
    ("tokenizer_config.json", ["padding_side"], ("left", "right")),
    ("tokenizer_config.json", ["add_bos_token"], (True, False)),
    ("special_tokens_map.json", ["cls_token"], ("the", "[CLS]", "<s>")),
    ("special_tokens_map.json", ["mask_token"], ({"content": "the", "lstrip": True}, "[MASK]", "<mask>")),
    ("special_tokens_map.json", ["additional_special_tokens"], (["keeper"], [])),
    ("added_tokens.json", ["the"], (70,)),
    ("tokenizer.json", ["normalizer", "lowercase"], (True, False)),
    ("tokenizer.json", ["normalizer", "clean_text"], (False, True)),
    ("tokenizer.json", ["normalizer", "handle_chinese_chars"], (True, False)),
    ("tokenizer.json", ["normalizer", "strip_accents"], (True, False, None)),
    ("tokenizer.json", ["normalizer"], (None, {"type": "Lowercase"}, {"type": "NFKC"})),
    ("tokenizer.json", ["pre_tokenizer"], (None, {"type": "Whitespace"}, {"type": "BertPreTokenizer"})),
    ("tokenizer.json", ["pre_tokenizer", "add_prefix_space"], (True, False)),
    ("tokenizer.json", ["pre_tokenizer", "use_regex"], (True, False)),
    ("tokenizer.json", ["post_processor"], (None,)),
    ("tokenizer.json", ["model", "max_input_chars_per_word"], (5, 100, 200)),
    ("tokenizer.json", ["model", "continuing_subword_prefix"], ("@@",)),
    ("tokenizer.json", ["model", "ignore_merges"], (True, False)),
    ("tokenizer.json", ["model", "byte_fallback"], (True, False)),
    ("tokenizer.json", ["model", "fuse_unk"], (True, False)),
    (
        "tokenizer.json",
        ["truncation"],
        ({"direction": "Left", "max_length": 4, "strategy": "LongestFirst", "stride": 0},),
    ),
    ("tokenizer.json", ["added_tokens", 0, "lstrip"], (True,)),
]


def main(folder: Path) -> None:
    """All of it."""
    import transformers

    transformers.logging.set_verbosity_error()
    source = random.Random(0)
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    keys = {}
    for number in range(COUNT):
        family = source.choice(tuple(CLASSES))
        made = folder / "made" / f"{number:03}"
        settings = {name: source.choice((True, False)) for name in SETTINGS[family]}
        settings = {name: value for name, value in settings.items() if source.random() < 0.6}
        write(folder / "base" / family, made, source.choice(CLASSES[family]), settings, source)
        for path in (made / "tokenizer.json", made / "tokenizer_config.json"):
            collect(path, keys)
        changes = [] if number % 3 == 0 else source.sample(CHANGES, source.randint(1, 3))
        changed = [name for name in (change(made, *what, source) for what in changes) if name]
        found = {"family": family, "settings": settings, "changed": changed}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(made)
            found["ids"] = tokenizer(texts[family], add_special_tokens=False)["input_ids"]
            found["pair"] = tokenizer(*PAIR)["input_ids"]
        except Exception as error:  # of tokenizers, whose errors have no class of their own
            found["error"] = repr(error)
        (made / "ids.json").write_text(json.dumps(found), encoding="utf-8")
    for name in ("AlbertConfig", "BertConfig", "RobertaConfig", "DistilBertConfig"):
        config = getattr(transformers, name)(num_labels=3, problem_type="regression", architectures=["A"])
        keys[config.model_type] = set(config.to_dict())
    (folder / "keys.json").write_text(json.dumps({name: sorted(keys[name]) for name in keys}))


def write(base: Path, made: Path, kind: str, settings: dict, source: random.Random) -> None:
    """What `save_pretrained` writes of a tokenizer, alone, or with the vocabulary's files, or these alone."""
    import transformers

    tokenizer = getattr(transformers, kind).from_pretrained(base, **settings)
    tokenizer.save_pretrained(made)
    (made / "config.json").write_bytes((base / "config.json").read_bytes())
    form = source.choice(("fast", "both", "files"))
    for name in ("vocab.txt", "vocab.json", "merges.txt", "spiece.model"):
        if form != "fast" and (base / name).exists():
            shutil.copy(base / name, made)
    # Of a spiece.model alone transformers makes other ids than SentencePiece.
    if form == "files" and not (base / "spiece.model").exists():
        (made / "tokenizer.json").unlink()


def change(made: Path, name: str, path: list, values: tuple, source: random.Random) -> str:
    """Changes a key in a file, which may not have it; what was changed, empty if nothing was."""
    file, value = made / name, source.choice(values)
    if not file.exists() and name == "tokenizer.json":
        return ""
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    part = content
    for key in path[:-1]:
        part = part[key]
        if part is None:
            return ""
    if value == REMOVED:
        part.pop(path[-1], None)
    else:
        part[path[-1]] = value
    file.write_text(json.dumps(content), encoding="utf-8")
    return f"{name}: {path} = {value!r}"


def collect(file: Path, keys: dict) -> None:
    """Adds the keys of a file, if it exists, and of the parts of a tokenizer.json by their types."""
    name, values = file.name, json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    keys.setdefault(name, set()).update(values)
    if values and name == "tokenizer.json":
        for part in ("normalizer", "pre_tokenizer", "model", "truncation", "padding"):
            if values[part]:
                keys.setdefault(values[part].get("type", part), set()).update(values[part])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
