"""A corpus to prepare: its settings, and the state of its output folder."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.data.prepared import BYTES, EVAL, TRAIN, read_stats, shard_name, stats_path
from albert_tf.preprocessing.settings import PreparationSettings
from albert_tf.preprocessing.whole_files import read_json, write_json
from albert_tf.raw_text.identity import difference
from albert_tf.tokenizer_settings import TOKENIZER_DEFAULTS
from albert_tf.tokenizers.kinds import SavedTokenizer
from albert_tf.utils.errors import InputError, WorkFailed
from albert_tf.utils.records import defaults

_UNFINISHED = "unfinished"
_SETTINGS = "settings.json"

# Counts in the order in which text becomes documents. A part of a long document is a document of its own.
_IN_ORDER = (
    "documents_read",
    "further_parts_of_long_documents",
    "dropped_invalid_json",
    "dropped_without_text_field",
    "dropped_empty",
    "dropped_duplicate",
    "documents",
    "sentences",
    "tokens",
    "examples",
)


class PreparationFailed(WorkFailed):
    """A task failed, or there is no text; what is finished stays, and the same command goes on from it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation(PreparationSettings):
    """A corpus to prepare, in a form that travels to other machines.

    Args:
      files: path and size of each input file.
      identities: name, size and digest of each, as `file_identities` has them.
      output: the folder to write.
      tokenizer: text to token ids.
    Raises:
      ValueError: a value is impossible.
    """

    files: tuple[tuple[str, int], ...]
    output: str
    tokenizer: SavedTokenizer
    identities: tuple[Mapping[str, Any], ...] = ()

    @property
    def shard_counts(self) -> dict[str, int]:
        """Number of shards of each split."""
        return {
            TRAIN: self.shards,
            EVAL: max(1, round(self.shards * self.eval_share)) if self.eval_share else 0,
        }

    @property
    def shard_names(self) -> list[str]:
        """The files to make."""
        return [shard_name(split, i, n) for split, n in self.shard_counts.items() for i in range(n)]

    def settings(self) -> dict[str, Any]:
        """All settings that decide about the content, for stats.json."""
        left_out = {"output", "tokenizer", "files", "identities"}
        if self.format == "documents":
            left_out |= {"seq_length", "max_predictions", "dupe_factor"}
        names = {field.name for field in dataclasses.fields(self)} - left_out
        return {
            **{name: getattr(self, name) for name in sorted(names)},
            **dict(self.tokenizer.settings),
            "files": [list(file) for file in self.files],
            "identities": list(self.identities),
            "vocabulary": self.tokenizer.open().vocabulary.fingerprint,
        }

    def unfinished(self, *names: str) -> str:
        """A path in the folder of unfinished work."""
        return os.path.join(self.output, _UNFINISHED, *names)  # noqa: PTH118, of any filesystem

    def shard_path(self, name: str) -> str:
        """The path of a finished shard."""
        return os.path.join(self.output, name)  # noqa: PTH118


def state_of(plan: Preparation) -> str:
    """The state of the output folder.

    Returns:
      "new", "goes on", "done" or "has lost shards" (all are made again).
    Raises:
      InputError: the folder holds a corpus with other settings, finished or not, or a damaged stats.json.
      FileExistsError: it is a file, or holds something else.
    """
    if not tf.io.gfile.exists(plan.output):
        return "new"
    if not tf.io.gfile.isdir(plan.output):
        raise FileExistsError(f"{plan.output} is not a folder: name another one")
    if tf.io.gfile.exists(stats_path(plan.output)):
        stats = read_stats(plan.output)
        _check_settings(plan, stats["settings"])
        is_whole = all(tf.io.gfile.exists(plan.shard_path(name)) for name in stats["shards"])
        return "done" if is_whole else "has lost shards"
    if (begun := read_json(plan.unfinished(_SETTINGS))) is not None:
        _check_settings(plan, begun)
        return "goes on"
    others = [name for name in tf.io.gfile.listdir(plan.output) if name.rstrip("/") != _UNFINISHED]
    if others:
        raise FileExistsError(
            f"{plan.output} holds {min(others)}, which is not of a corpus: name a folder of its own"
        )
    return "new"


def _check_settings(plan: Preparation, there: Mapping[str, Any]) -> None:
    """InputError if a corpus has other settings; those that an older version did not know have defaults.

    The text may lie elsewhere: names, sizes and digests are compared, of older versions names and sizes.
    """
    made_with = {**defaults(PreparationSettings), **TOKENIZER_DEFAULTS, **there}
    differing = [
        f"{name} is {made_with.get(name)!r} there and {value!r} here"
        for name, value in plan.settings().items()
        if name not in ("files", "identities") and made_with.get(name) != value
    ]
    known = there.get("identities") or [_named(*file) for file in there["files"]]
    here = plan.identities if there.get("identities") else [_named(*file) for file in plan.files]
    if changed := difference(known, here):
        differing.append(f"of the text, {changed}")
    if differing:
        raise InputError(
            f"{plan.output} holds a corpus prepared with other settings: {'; '.join(differing)}. "
            "Name another --output, or delete that one"
        )


def _named(path: str, size: int) -> dict[str, Any]:
    return {"name": os.path.basename(path), "bytes": size}  # noqa: PTH119, of any filesystem


def begin(plan: Preparation, state: str) -> None:
    """Makes the output folder ready for a plan that is not done."""
    if state == "goes on":
        return
    if state == "has lost shards":
        tf.io.gfile.remove(stats_path(plan.output))
    clear(plan)  # of a process that was killed as it removed it
    tf.io.gfile.makedirs(plan.unfinished())
    write_json(plan.unfinished(_SETTINGS), plan.settings())


def clear(plan: Preparation) -> None:
    """Removes unfinished work, and the output folder if nothing else is in it."""
    if tf.io.gfile.exists(plan.unfinished()):
        tf.io.gfile.rmtree(plan.unfinished())
        if not tf.io.gfile.listdir(plan.output):
            tf.io.gfile.rmtree(plan.output)


def finished_tasks(plan: Preparation) -> set[str]:
    """Names of the files of finished tasks, `run-<number>.json` of a slice and `<shard>.json` of a shard."""
    try:
        names = tf.io.gfile.listdir(plan.unfinished())
    except tf.errors.NotFoundError:
        return set()
    return {name for name in names if name.endswith(".json")} - {_SETTINGS}


def finish(plan: Preparation) -> dict[str, Any]:
    """Writes stats.json from what the tasks have counted, and removes what is no longer needed.

    Returns:
      The content of stats.json.
    Raises:
      PreparationFailed: there is not one document; then no shard is left.
    """
    counts: Counter[str] = Counter()
    shards: dict[str, Any] = {}
    for name in finished_tasks(plan):
        if name.startswith("run-"):
            counts.update((read_json(plan.unfinished(name)) or {})["counts"])
    for name in plan.shard_names:
        shards[name] = read_json(plan.unfinished(f"{name}.json"))
        counts["dropped_duplicate"] += shards[name].pop("dropped_duplicate")
        counts.update({what: count for what, count in shards[name].items() if what != BYTES})
    if not counts["documents"]:
        for name in plan.shard_names:
            tf.io.gfile.remove(plan.shard_path(name))
        clear(plan)
        files = [file for file, _ in plan.files]
        raise PreparationFailed(
            f"no documents in {', '.join(files[:3])}{', …' if len(files) > 3 else ''}, read with "
            f"input_format={plan.input_format}, text_field={plan.text_field} ({shown(counts)}): name other "
            "files or another format"
        )
    stats = {
        "format": plan.format,
        "vocabulary": plan.tokenizer.open().vocabulary.fingerprint,
        **dict(plan.tokenizer.settings),
        "counts": dict(sorted(counts.items())),
        "shards": shards,
        "settings": plan.settings(),
    }
    write_json(stats_path(plan.output), stats)
    clear(plan)
    return stats


def shown(counts: Mapping[str, int]) -> str:
    """Counts in one line: what was read, what was split or dropped, what is left."""
    return ", ".join(f"{name} {counts[name]:,}" for name in _IN_ORDER if name in counts)
