"""What decides how text is prepared, apart from TensorFlow, so that flags and their help need not wait."""

from __future__ import annotations

import dataclasses

from albert_tf.choices import INPUT_FORMATS, OUTPUT_FORMATS
from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparationSettings:
    """What decides how text is prepared.

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
        for field in dataclasses.fields(PreparationSettings):
            choices, value = field.metadata.get("choices"), getattr(self, field.name)
            if choices and value not in choices:
                raise InputError(f"{field.name}={value!r} is none of {', '.join(choices)}")
        for name in ("shards", "dupe_factor"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.eval_share < 1:
            raise InputError(f"eval_share={self.eval_share} must be at least 0 and below 1")
