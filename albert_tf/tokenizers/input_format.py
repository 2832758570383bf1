"""The input format: special tokens around segments, their number, type ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple


class SpecialIds(NamedTuple):
    """The ids of the special tokens of a vocabulary."""

    padding: int
    unknown: int
    start: int  # [CLS]
    separator: int  # [SEP]
    mask: int


ALBERT_IDS = SpecialIds(padding=0, unknown=1, start=2, separator=3, mask=4)


@dataclasses.dataclass(frozen=True)
class InputFormat:
    """The special tokens of an input, as ids.

    ALBERT's and BERT's inputs are `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]`, RoBERTa's are `<s> a </s>` and
    `<s> a </s></s> b </s>` without type ids.

    Args:
      start: before the first segment.
      between: between two segments.
      end: after the last segment.
      padding: after the input.
      has_type_ids: True if the segments after the first one, with what follows them, have type 1.
    """

    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    padding: int = 0
    has_type_ids: bool = True

    @classmethod
    def of_bert(cls, ids: SpecialIds) -> InputFormat:
        """`[CLS] a [SEP] b [SEP]` with these special ids."""
        return cls((ids.start,), (ids.separator,), (ids.separator,), ids.padding)

    def num_special_tokens(self, num_segments: int) -> int:
        """The number of special tokens in an input of some segments."""
        return len(self.start) + (num_segments - 1) * len(self.between) + len(self.end)

    @property
    def framing_ids(self) -> tuple[int, ...]:
        """The ids that stand around segments."""
        return *self.start, *self.between, *self.end

    def bounds(self, lengths: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The column of the first token of each segment, and the one after its last.

        Args:
          lengths: tokens of each segment: numbers, arrays or tensors of one shape.
        """
        begins: list[Any] = []
        ends: list[Any] = []
        for length in lengths:
            begins.append(ends[-1] + len(self.between) if ends else len(self.start))
            ends.append(begins[-1] + length)
        return begins, ends


ALBERT_FORMAT = InputFormat.of_bert(ALBERT_IDS)
