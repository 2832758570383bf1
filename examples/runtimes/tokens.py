"""Text to the inputs of a converted network, without TensorFlow: as `albert_tf.Tokenizer` and `pack` do."""

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

# Unicode's Default_Ignorable_Code_Point, which its NFKC_Casefold drops.
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


class Tokens:
    """The tokenizer in the folder of a converted network.

    Its ids are those of TF Text. Only where two ways to cut a word are equally likely, such as `! !!!` and
    `!!! !`, rounding decides, and TF Text has another version of SentencePiece, which may round otherwise.

    Args:
      folder: what `python -m hub_export --to` has written.
    """

    def __init__(self, folder: str | Path):
        settings, config, task = (
            json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
            for name in ("tokenizer", "config", "task")
        )
        self.lowercase, self.strip_accents = settings["lowercase"], settings["strip_accents"]
        self.longest = task.get("seq_length", config["max_position_embeddings"])
        self.task = {} if task["model"] in ("encoder", "pretrainer") else task  # of a fine-tuned network
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "spiece.model")))

    def ids(self, text: str) -> list[int]:
        """The token ids of a text, no special tokens among them. A tagger reads each word by itself."""
        if self.task.get("model") == "token_classifier":
            return [piece for word in self.words(text) for piece in self.word_ids(word)]
        return self.pieces.encode(self.normalized(text))

    def word_ids(self, word: str) -> list[int]:
        """The token ids of a word for a tagger, at least one."""
        return self.pieces.encode(self.normalized(word)) or [self.pieces.unk_id()]

    def words(self, text: str) -> list[str]:
        """The words of a text, which a tagger labels: split at spaces, and perhaps at punctuation marks."""
        if self.task.get("words") == "punctuation":
            text = "".join(f" {character} " if is_punctuation(character) else character for character in text)
        return text.split()

    def normalized(self, text: str) -> str:
        """Text as the vocabulary has it."""
        return normalized(text, self.lowercase, self.strip_accents)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters [start, end) of the text that each of its tokens is of."""
        ends = [0]  # of the normalised text, after each character
        for run in re.findall(r"\s|\S+", text):  # normalised each by itself
            before = ends[-1]
            ends += [before + len(self.normalized(run[:size])) for size in range(1, len(run) + 1)]
        offsets = self.pieces.encode(self.normalized(text), return_type="offset_mapping")["offsets"]
        return [
            (bisect.bisect_right(ends, start) - 1, bisect.bisect_left(ends, end)) for start, end in offsets
        ]

    def inputs(
        self, texts: Sequence[str], length: int | None = None, pairs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The model's inputs, int32 [B, S] by name.

        Args:
          texts: a segment each, B of them.
          length: S, which longer rows are cut to; None: that of the longest. At most the `seq_length` of the
            export.
          pairs: the second segment of each text; none.
        """
        firsts = [self.ids(text) for text in texts]
        seconds = [self.ids(text) for text in pairs] or [[]] * len(texts)
        specials = 3 if pairs else 2
        longest = max(len(first) + len(second) for first, second in zip(firsts, seconds, strict=True))
        length = min(length or longest + specials, self.longest)
        ids, mask, types = (np.full([len(firsts), length], filler, np.int32) for filler in (PADDING, 0, 0))
        budget = length - specials
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            # The longer one loses tokens at its end.
            first = first[: max(budget - budget // 2, budget - len(second))]
            row = [START, *first, SEPARATOR, *second[: budget - len(first)], *([SEPARATOR] if pairs else [])]
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
            types[number, len(first) + 2 : len(row)] = 1
        return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def is_punctuation(character: str) -> bool:
    """True for ASCII's marks and symbols, and for Unicode's punctuation."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def normalized(text: str, lowercase: bool, strip_accents: bool) -> str:
    """Text in the form that the vocabulary was trained on: the order of the steps matters."""
    if strip_accents:
        apart = unicodedata.normalize("NFD", text)
        text = "".join(character for character in apart if unicodedata.category(character) != "Mn")
    if lowercase:  # NFKC_Casefold: Unicode standard, section 3.13
        for _ in range(2):
            text = unicodedata.normalize("NFD", text).translate(IGNORABLE).casefold()
            text = unicodedata.normalize("NFKC", text)
    return text
