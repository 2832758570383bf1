"""Settings of `prepare`, without TensorFlow, so that flags and their help need not wait for it."""

from __future__ import annotations

import dataclasses

from albert_tf.constants import INPUT_FORMATS, OUTPUT_FORMATS
from albert_tf.errors import check_choice, check_range

MAX_SHARDS = 99_999  # of a split: their names have five digits


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparationSettings:
    """Settings that decide about the content of a prepared corpus.

    Args:
      input_format: of the text; lines: a sentence a line, blank lines between documents.
      text_field: of jsonl, where the text is.
      shards: training files; the tokens of each are held in memory.
      eval_share: of the documents, by hash, that goes into evaluation files.
      dedup: drop repeated documents.
      seed: of the order of the documents, and of examples.
      format: what is stored: documents, or examples with masks and pairs in them.
      seq_length: of examples, tokens.
      max_predictions: of examples, masked tokens at most; none: 15 % of seq_length.
      dupe_factor: examples of the same training text; of evaluation text it is one.
    Raises:
      ValueError: a value is impossible.
    """

    input_format: str = dataclasses.field(default="lines", metadata={"choices": INPUT_FORMATS})
    text_field: str = "text"
    shards: int = 16
    eval_share: float = 0.0
    dedup: bool = False
    seed: int = 0
    format: str = dataclasses.field(default="documents", metadata={"choices": OUTPUT_FORMATS})
    seq_length: int = 512
    max_predictions: int | None = None
    dupe_factor: int = 10

    def __post_init__(self) -> None:
        check_choice("input_format", self.input_format, INPUT_FORMATS)
        check_choice("format", self.format, OUTPUT_FORMATS)
        check_range("shards", self.shards, at_least=1, at_most=MAX_SHARDS)
        check_range("dupe_factor", self.dupe_factor, at_least=1)
        check_range("eval_share", self.eval_share, at_least=0, below=1)
