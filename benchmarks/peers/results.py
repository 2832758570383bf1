"""The measurements, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.markdown_tables import format_header, format_row
from benchmarks.peers.cases import MATMUL, OURS, PEERS, TEXT, UPDATE, Case


class Turn(NamedTuple):
    """The measurements of one program in one round.

    Attributes:
      seconds: seconds of each call.
      peak: peak of resident memory, bytes.
    """

    seconds: Sequence[float]
    peak: int

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)


# By the name of a peer: its turn in each round. None: it failed.
Rounds = Mapping[str, Sequence["Turn | None"]]


def turns_of(rounds: Rounds, name: str) -> list[Turn]:
    """The turns of a peer that did not fail."""
    return [turn for turn in rounds.get(name, ()) if turn is not None]


def median_seconds(rounds: Rounds, name: str) -> float | None:
    """The median of a peer's turns; None without any."""
    turns = turns_of(rounds, name)
    return statistics.median(turn.median for turn in turns) if turns else None


def median_peak(rounds: Rounds, name: str) -> float:
    """The median of a peer's peaks, bytes."""
    return statistics.median(turn.peak for turn in turns_of(rounds, name))


def time_ratio(rounds: Rounds, name: str, base: str = OURS) -> float | None:
    """The median, over the rounds, of a peer's time divided by the base's; None where no round has both.

    Only turns of one round are compared, because they follow each other.
    """
    pairs = zip(rounds.get(name, ()), rounds.get(base, ()), strict=False)
    ratios = [turn.median / base_turn.median for turn, base_turn in pairs if turn and base_turn]
    return statistics.median(ratios) if ratios else None


def format_case_header(peers: Sequence[str]) -> str:
    """The first two lines of the table, with a column for each peer, ours first."""
    return format_header(["case", *(PEERS[name].title for name in peers)])


def format_case(case: Case, rounds: Rounds, peers: Sequence[str], flops: int, sentences: int) -> str:
    """The line of a case in the table.

    Args:
      case: the case.
      rounds: its turns.
      peers: names of the peers, a column each.
      flops: floating-point operations of its matrix products.
      sentences: number of sentences of a TEXT case.
    """
    return format_row([case.name, *(format_cell(case, rounds, name, flops, sentences) for name in peers)])


def format_cell(case: Case, rounds: Rounds, name: str, flops: int, sentences: int) -> str:
    """Our time; the ratio of another program to ours."""
    seconds = median_seconds(rounds, name)
    if seconds is None:
        return "–" if PEERS[name].supports(case) else ""
    ratio = time_ratio(rounds, name)
    cell = f"{ratio:.2f}" if name != OURS and ratio is not None else format_time(case, seconds, sentences)
    if name == MATMUL:
        cell += f", {flops / seconds / 1e9:.0f} GFLOP/s"
    elif case.kind == UPDATE:
        cell += f", {median_peak(rounds, name) / 1e9:.1f} GB"
    return cell


def format_time(case: Case, seconds: float, sentences: int) -> str:
    """Milliseconds; for TEXT the number of sentences per second."""
    if case.kind == TEXT:
        return f"{sentences / seconds:.1f} a second"
    return f"{1000 * seconds:.{0 if seconds >= 0.1 else 1}f} ms"


def to_json(measured: Mapping[Case, Rounds]) -> dict[str, Any]:
    """All turns as values for JSON, by case and peer."""
    return {
        case.name: {name: [turn and turn._asdict() for turn in turns] for name, turns in rounds.items()}
        for case, rounds in measured.items()
    }
