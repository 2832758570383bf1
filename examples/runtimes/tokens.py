"""Tokenizes text for a converted network without TensorFlow, with the ids of `albert_tf.Tokenizer`."""

from __future__ import annotations

import bisect
import json
import re
import string
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece

PADDING, START, SEPARATOR = 0, 2, 3  # [PAD], [CLS], [SEP]

# Unicode's Default_Ignorable_Code_Point, which NFKC_Casefold drops.
IGNORABLE = dict.fromkeys(
    code
    for first, last in (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F)),
        *((0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
)


class ConvertedTokenizer:
    """The tokenizer in the folder of a converted network.

    Its ids are those of TF Text, with one exception: where two splits of a word are equally likely, such as
    `! !!!` and `!!! !`, rounding decides, and TF Text has another version of SentencePiece.

    Args:
      folder: folder that `python -m hub_export --to` wrote.
    """

    def __init__(self, folder: str | Path):
        settings, config, task = (
            json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
            for name in ("tokenizer", "config", "task")
        )
        self.lowercase, self.strip_accents = settings["lowercase"], settings["strip_accents"]
        self.max_length = task.get("seq_length", config["max_position_embeddings"])
        self.task = {} if task["model"] in ("encoder", "pretrainer") else task  # {}: not fine-tuned
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "spiece.model")))

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, without special tokens. For a tagger, each word is encoded by itself."""
        if self.task.get("model") == "token_classifier":
            return [piece for word in self.split_words(text) for piece in self.encode_word(word)]
        return self.pieces.encode(self.normalize(text))

    def encode_word(self, word: str) -> list[int]:
        """The token ids of a word for a tagger, at least one."""
        return self.pieces.encode(self.normalize(word)) or [self.pieces.unk_id()]

    def split_words(self, text: str) -> list[str]:
        """The words of a text for a tagger: split at spaces, and at punctuation marks if the task says so."""
        if self.task.get("words") == "punctuation":
            text = "".join(f" {character} " if is_punctuation(character) else character for character in text)
        return text.split()

    def normalize(self, text: str) -> str:
        """Normalizes text as the vocabulary's training text was."""
        return normalize_text(text, self.lowercase, self.strip_accents)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """The characters [start, end) of each token in the text."""
        ends = [0]  # length of the normalised text after each character
        for chunk in re.findall(r"\s|\S+", text):  # each is normalised by itself
            start = ends[-1]
            ends += [start + len(self.normalize(chunk[:size])) for size in range(1, len(chunk) + 1)]
        offsets = self.pieces.encode(self.normalize(text), return_type="offset_mapping")["offsets"]
        return [
            (bisect.bisect_right(ends, start) - 1, bisect.bisect_left(ends, end)) for start, end in offsets
        ]

    def __call__(
        self, texts: Sequence[str], length: int | None = None, pairs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The model's inputs, int32 [B, S] by name.

        Args:
          texts: B first segments.
          length: S. Longer rows are cut, and the export's `seq_length` is the limit. None: the longest row's.
          pairs: B second segments; empty: none.
        """
        firsts = [self.encode(text) for text in texts]
        seconds = [self.encode(text) for text in pairs] or [[]] * len(texts)
        specials = 3 if pairs else 2
        longest = max(len(first) + len(second) for first, second in zip(firsts, seconds, strict=True))
        length = min(length or longest + specials, self.max_length)
        ids, mask, types = (np.full([len(firsts), length], filler, np.int32) for filler in (PADDING, 0, 0))
        budget = length - specials
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            # The longer segment loses tokens at its end.
            first = first[: max(budget - budget // 2, budget - len(second))]
            row = [START, *first, SEPARATOR, *second[: budget - len(first)], *([SEPARATOR] if pairs else [])]
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
            types[number, len(first) + 2 : len(row)] = 1
        return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def is_punctuation(character: str) -> bool:
    """Whether a character is a mark or symbol of ASCII, or punctuation of Unicode."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def normalize_text(text: str, lowercase: bool, strip_accents: bool) -> str:
    """Text in the form that the vocabulary was trained on. The order of the steps matters."""
    if strip_accents:
        decomposed = unicodedata.normalize("NFD", text)
        text = "".join(character for character in decomposed if unicodedata.category(character) != "Mn")
    if lowercase:  # NFKC_Casefold: Unicode standard, section 3.13
        for _ in range(2):
            text = unicodedata.normalize("NFD", text).translate(IGNORABLE).casefold()
            text = unicodedata.normalize("NFKC", text)
    return text
