"""What was measured, and a table of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.peers.compared import MATMUL, OURS, PEERS, TEXT, UPDATE, Case


class Turn(NamedTuple):
    """What one program did when it was asked once.

    Attributes:
      seconds: of each call.
      peak: resident memory, bytes.
    """

    seconds: Sequence[float]
    peak: int

    @property
    def middle(self) -> float:
        """The median, seconds."""
        return statistics.median(self.seconds)


# By the name of the peer: its turns in the order of the rounds, None for one without an answer.
Rounds = Mapping[str, Sequence["Turn | None"]]


def turns_of(rounds: Rounds, name: str) -> list[Turn]:
    """Its turns that had an answer."""
    return [turn for turn in rounds.get(name, ()) if turn is not None]


def seconds(rounds: Rounds, name: str) -> float | None:
    """The median of its turns; None without any."""
    turns = turns_of(rounds, name)
    return statistics.median(turn.middle for turn in turns) if turns else None


def peak(rounds: Rounds, name: str) -> float:
    """The median of its peaks, bytes."""
    return statistics.median(turn.peak for turn in turns_of(rounds, name))


def ratio(rounds: Rounds, name: str, base: str = OURS) -> float | None:
    """How many times as long as the base it took: the median of the ratios of the rounds.

    Only turns of one round are compared, since they follow each other; None where no round has both.
    """
    pairs = zip(rounds.get(name, ()), rounds.get(base, ()), strict=False)
    ratios = [turn.middle / other.middle for turn, other in pairs if turn and other]
    return statistics.median(ratios) if ratios else None


def heading(peers: Sequence[str]) -> str:
    """The first two lines of a table in Markdown, with a column for each peer, ours first."""
    header = ["case", *(PEERS[name].title for name in peers)]
    return row(header) + "\n" + "|---" * len(header) + "|"


def line(case: Case, rounds: Rounds, peers: Sequence[str], operations: int, sentences: int) -> str:
    """The line of a case.

    Args:
      case: the case.
      rounds: its turns.
      peers: of the columns.
      operations: multiplications and additions of its matrix products.
      sentences: that a case of text has.
    """
    return row([case.name, *(cell(case, rounds, name, operations, sentences) for name in peers)])


def row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def cell(case: Case, rounds: Rounds, name: str, operations: int, sentences: int) -> str:
    """Of ours, what it took; of the others, the ratio to that."""
    took = seconds(rounds, name)
    if took is None:
        return "" if not PEERS[name].does(case) else "–"
    relative = ratio(rounds, name)
    parts = [f"{relative:.2f}" if name != OURS and relative is not None else absolute(case, took, sentences)]
    if name == MATMUL:
        parts.append(f"{operations / took / 1e9:.0f} GFLOP/s")
    elif case.kind == UPDATE:
        parts.append(f"{peak(rounds, name) / 1e9:.1f} GB")
    return ", ".join(parts)


def absolute(case: Case, took: float, sentences: int) -> str:
    """A time as one reads it."""
    if case.kind == TEXT:
        return f"{sentences / took:.1f} a second"
    return f"{1000 * took:.{0 if took >= 0.1 else 1}f} ms"


def as_json(measured: Mapping[Case, Rounds]) -> dict[str, Any]:
    """All turns, to be kept."""
    return {
        case.name: {name: [turn and turn._asdict() for turn in turns] for name, turns in rounds.items()}
        for case, rounds in measured.items()
    }
