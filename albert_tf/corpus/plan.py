"""What `prepare` is asked for, and where it keeps what is done: settings, unfinished work, stats.json."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from albert_tf.corpus.settings import PreparationSettings
from albert_tf.corpus.whole_files import read_json, write_json
from albert_tf.data.prepared import BYTES, EVAL, MOST_SHARDS, STATS, TRAIN, read_stats, shard_name, stats_path
from albert_tf.errors import InputError, WorkFailed
from albert_tf.records import defaults
from albert_tf.text.vocabulary import Vocabulary

_UNFINISHED = "unfinished"
_SETTINGS = "settings.json"

# The files of unfinished work: what tasks have finished, and what they are writing.
_WORK = re.compile(
    r"settings\.json|run-\d{6}(\.json)?|(train|eval)-\d{5}-of-\d{5}\.tfrecord\.json|[0-9a-f]{32}\.tmp"
)

# What the counts of dropped text mean.
_DROPPED = {
    "dropped_invalid_json": "lines that are not JSON",
    "dropped_without_text_field": "lines without the text field",
    "dropped_empty": "texts that are empty",
}

# Counts in the order in which text becomes documents. A part of a long document is a document of its own.
_IN_ORDER = (
    "documents_read",
    "further_parts_of_long_documents",
    *_DROPPED,
    "dropped_duplicate",
    "documents",
    "sentences",
    "tokens",
    "examples",
)


class PreparationFailed(WorkFailed):
    """A task failed: what is finished stays, and the same command goes on from there. Or there is no text."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation(PreparationSettings):
    """A corpus to prepare, in a form that travels to other machines.

    Args:
      files: path and size of each input file.
      output: the folder to write.
      model: the SentencePiece vocabulary, the content of its file.
      lowercase: as the vocabulary was trained.
      strip_accents: as the vocabulary was trained.
    Raises:
      ValueError: a value is impossible.
    """

    files: tuple[tuple[str, int], ...]
    output: str
    model: bytes = dataclasses.field(repr=False)
    lowercase: bool = True
    strip_accents: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards > MOST_SHARDS:
            raise InputError(f"shards={self.shards} must be at most {MOST_SHARDS}")

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary in model."""
        return Vocabulary.from_bytes(self.model)

    @property
    def shard_counts(self) -> dict[str, int]:
        """How many shards each split has."""
        return shard_counts(self.shards, self.eval_share)

    @property
    def shard_names(self) -> list[str]:
        """The files to make."""
        return shard_names(self.shards, self.eval_share)

    @property
    def eval_shards(self) -> list[str]:
        """Those of them with held-out documents."""
        return [name for name in self.shard_names if name.startswith(f"{EVAL}-")]

    def settings(self) -> dict[str, Any]:
        """All that decides about the content, for stats.json."""
        values = dataclasses.asdict(self)
        del values["output"], values["model"]
        if self.format == "documents":
            for name in ("seq_length", "max_predictions", "dupe_factor"):
                del values[name]
        return {
            **values,
            "files": [list(file) for file in self.files],
            "vocabulary": self.vocabulary.fingerprint,
        }

    def unfinished(self, *names: str) -> str:
        """A path in the folder of what is not done yet."""
        return os.path.join(self.output, _UNFINISHED, *names)  # noqa: PTH118, of any filesystem

    def shard_path(self, name: str) -> str:
        """Where a finished shard lies."""
        return os.path.join(self.output, name)  # noqa: PTH118


def shard_counts(shards: int, eval_share: float) -> dict[str, int]:
    """How many shards each split has."""
    return {TRAIN: shards, EVAL: max(1, round(shards * eval_share)) if eval_share else 0}


def shard_names(shards: int, eval_share: float) -> list[str]:
    """The files that a corpus of so many shards has."""
    return [
        shard_name(split, i, n) for split, n in shard_counts(shards, eval_share).items() for i in range(n)
    ]


def state_of(plan: Preparation) -> str:
    """What there is in the output folder, in a word; nothing is changed.

    A setting that an older version did not write down yet has its default.

    Returns:
      "new", "goes on", "done", "starts over" (other settings) or "has lost shards" (all are made again).

    Raises:
      ValueError: the folder holds a corpus prepared with other settings, or a damaged stats.json.
      FileExistsError: it is a file, or holds something that `prepare` has not written.
    """
    if tf.io.gfile.exists(plan.output) and not tf.io.gfile.isdir(plan.output):
        raise FileExistsError(f"{plan.output} is not a folder: name another one")
    settings, default = plan.settings(), defaults(Preparation)
    if tf.io.gfile.exists(stats_path(plan.output)):
        stats = read_stats(plan.output)
        made_with = {**default, **stats["settings"]}
        differing = [
            f"{name} is {made_with.get(name)!r} there and {value!r} here"
            for name, value in settings.items()
            if made_with.get(name) != value
        ]
        if differing:
            raise InputError(
                f"{plan.output} holds a corpus prepared with other settings: {'; '.join(differing)}. "
                "Name another --output, or delete that one"
            )
        if all(tf.io.gfile.exists(plan.shard_path(name)) for name in stats["shards"]):
            return "done"
        state = "has lost shards"
    else:
        there = read_json(plan.unfinished(_SETTINGS))
        goes_on = there is not None and {**default, **there} == {**default, **settings}
        state = "new" if there is None else "goes on" if goes_on else "starts over"
    _check_own(plan)
    return state


def _check_own(plan: Preparation) -> None:
    """FileExistsError if the output folder holds an input, or what no `prepare` has written."""
    inside = os.path.join(_absolute(plan.output), "")  # noqa: PTH118
    inputs = [file for file, _ in plan.files if _absolute(file).startswith(inside)]
    own = {STATS, _UNFINISHED, *_begun_shards(plan)}
    if tf.io.gfile.exists(stats_path(plan.output)):
        own |= read_stats(plan.output)["shards"].keys()
    others = [plan.shard_path(name) for name in sorted(_names(plan.output) - own)]
    work = _names(plan.unfinished())
    others += [plan.unfinished(name) for name in sorted(work) if not _WORK.fullmatch(name)]
    if found := [*inputs, *others]:
        what = "the input" if inputs else "something that is not of a corpus begun there"
        raise FileExistsError(f"{plan.output} holds {what} ({found[0]}): name a folder of its own")


def _names(folder: str) -> set[str]:
    """What is in a folder; nothing where there is none."""
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
    return {name.rstrip("/") for name in names}


def _absolute(path: str) -> str:
    """A path that other paths of the same file can be compared with."""
    return path if "://" in path else os.path.realpath(path)


def _begun_shards(plan: Preparation) -> list[str]:
    """The shards that the unfinished work in the output folder makes, whichever settings it has."""
    there = read_json(plan.unfinished(_SETTINGS))
    if there is None:
        return []
    settings = {**defaults(Preparation), **there}
    return shard_names(settings["shards"], settings["eval_share"])


def begin(plan: Preparation, state: str) -> None:
    """Makes the output folder ready for a plan that is not done.

    Args:
      plan: what to prepare.
      state: of the folder, as `state_of` says.
    """
    if state == "goes on":
        return
    if state == "has lost shards":
        tf.io.gfile.remove(stats_path(plan.output))  # what it was made of is there no longer
    if state == "starts over":
        for name in _begun_shards(plan):
            if tf.io.gfile.exists(plan.shard_path(name)):
                tf.io.gfile.remove(plan.shard_path(name))
    if tf.io.gfile.exists(
        plan.unfinished()
    ):  # of other settings, or what a killed process had begun to remove
        tf.io.gfile.rmtree(plan.unfinished())
    tf.io.gfile.makedirs(plan.unfinished())
    write_json(plan.unfinished(_SETTINGS), plan.settings())


def has_finished_tasks(plan: Preparation) -> bool:
    """Whether a second start would go on from something."""
    folder = plan.unfinished()
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
    return any(name.endswith(".json") and name != _SETTINGS for name in names)


@contextmanager
def nothing_left_of_a_failure(plan: Preparation) -> Iterator[None]:
    """Removes the folders that the block has made if it fails before any task is finished."""
    made, folder = [], plan.output
    while folder and not tf.io.gfile.exists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)  # noqa: PTH120
    try:
        yield
    except Exception:
        if not has_finished_tasks(plan):
            if tf.io.gfile.exists(plan.unfinished()):
                tf.io.gfile.rmtree(plan.unfinished())
            for folder in made:
                if tf.io.gfile.exists(folder) and not tf.io.gfile.listdir(folder):
                    tf.io.gfile.rmtree(folder)
        raise


def finish(plan: Preparation) -> dict[str, Any]:
    """Writes stats.json from what the tasks have counted, and removes what is no longer needed.

    Returns:
      The content of stats.json.
    Raises:
      PreparationFailed: there is not one document; then no shard is left.
    """
    counts: Counter[str] = Counter()
    shards: dict[str, Any] = {}
    for name in sorted(tf.io.gfile.listdir(plan.unfinished())):
        if name.startswith("run-") and name.endswith(".json"):
            counts.update((read_json(plan.unfinished(name)) or {})["counts"])
    for name in plan.shard_names:
        shards[name] = read_json(plan.unfinished(f"{name}.json"))
        counts["dropped_duplicate"] += shards[name].pop("dropped_duplicate")
        counts.update({what: count for what, count in shards[name].items() if what != BYTES})
    if not counts["documents"]:
        for name in plan.shard_names:
            tf.io.gfile.remove(plan.shard_path(name))
        tf.io.gfile.rmtree(plan.unfinished())
        raise PreparationFailed(_without_documents(plan, counts))
    stats = {
        "format": plan.format,
        "vocabulary": plan.vocabulary.fingerprint,
        "lowercase": plan.lowercase,
        "strip_accents": plan.strip_accents,
        "counts": dict(sorted(counts.items())),
        "shards": shards,
        "settings": plan.settings(),
    }
    write_json(stats_path(plan.output), stats)
    tf.io.gfile.rmtree(plan.unfinished())
    return stats


def shown(counts: Mapping[str, int]) -> str:
    """Counts as a line for people: what was read, what was split or dropped, what is left."""
    return ", ".join(f"{name} {counts[name]:,}" for name in _IN_ORDER if name in counts)


def _without_documents(plan: Preparation, counts: Counter[str]) -> str:
    """Why there may be no documents, and what to do."""
    files = [file for file, _ in plan.files]
    named = ", ".join(files[:3]) + (f" and {len(files) - 3} more files" if len(files) > 3 else "")
    dropped = [f"{name} {counts[name]:,} ({what})" for name, what in _DROPPED.items() if counts[name]]
    form = f"input_format={plan.input_format}"
    if plan.input_format == "jsonl":
        form += f", text_field={plan.text_field}"
    return (
        f"no documents in {named}, read with {form}: {', '.join(dropped) or 'no text in it'}; "
        "name other files or another format"
    )
