"""Text to the inputs of an exported encoder, without TensorFlow: as the module `preprocessor` does."""

from __future__ import annotations

import json
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
    """The tokenizer in the assets of an exported encoder.

    Its ids are the module's. Only where two ways to cut a word are equally likely, such as `! !!!` and
    `!!! !`, rounding decides, and TF Text has another version of SentencePiece, which may round otherwise.

    Args:
      encoder: folder of the module.
    """

    def __init__(self, encoder: str | Path):
        assets = Path(encoder) / "assets"
        settings, config = (
            json.loads((assets / name).read_text(encoding="utf-8"))
            for name in ("tokenizer.json", "albert_config.json")
        )
        self.lowercase, self.strip_accents = settings["lowercase"], settings["strip_accents"]
        self.longest = config["max_position_embeddings"]
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(assets / "spiece.model"))

    def ids(self, text: str) -> list[int]:
        """The token ids of a text, no special tokens among them."""
        return self.pieces.encode(normalized(text, self.lowercase, self.strip_accents))

    def inputs(self, texts: Sequence[str], length: int | None = None) -> dict[str, np.ndarray]:
        """The encoder's inputs, int32 [B, S] by name.

        Args:
          texts: a segment each, B of them.
          length: S, which longer texts are cut to; None: that of the longest text. At most as many as the
            model has positions.
        """
        rows = [self.ids(text) for text in texts]
        length = min(length or 2 + max(map(len, rows)), self.longest)
        rows = [[START, *row[: length - 2], SEPARATOR] for row in rows]
        ids = np.array([row + [PADDING] * (length - len(row)) for row in rows], np.int32)
        mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], np.int32)
        return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


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
