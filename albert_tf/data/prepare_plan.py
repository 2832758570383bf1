"""The folder that `prepare` writes: what is finished, what is left."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from albert_tf.data.prepared import (
    BYTES_FEATURE,
    EVAL_SHARDS,
    STATS_FILE,
    TRAIN_SHARDS,
    read_stats,
    shard_name,
)
from albert_tf.errors import (
    Check,
    InputError,
    WorkFailed,
    check_count,
    check_counts,
    check_entries,
    make_check,
    make_list_check,
    make_object_check,
)
from albert_tf.io import dump_json, parse_json
from albert_tf.recipes import PreparationSettings
from albert_tf.settings import defaults
from albert_tf.text.files import check_identities, describe_difference
from albert_tf.text.tokenizer import TokenizerConfig
from albert_tf.text.tokenizer_config import KIND_DEFAULTS


@contextmanager
def whole_output_file(path: str, temporary_folder: str) -> Iterator[str]:
    """A name to write under; the file gets its final name when the block ends well."""
    temporary = os.path.join(temporary_folder, f"{uuid.uuid4().hex}.tmp")  # noqa: PTH118
    try:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)


def write_output_json(path: str, value: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    folder = os.path.dirname(path)  # noqa: PTH120
    with whole_output_file(path, folder) as temporary, tf.io.gfile.GFile(temporary, "w") as file:
        file.write(dump_json(value, indent=2) + "\n")


def read_output_json(path: str, check: Check) -> Any:
    """The content of a JSON file; InputError if it is damaged, or fails a check."""
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    try:
        check("content", value := parse_json(content, path))
        return value
    except InputError as error:
        remedy = "delete its folder and type the same command again"
        raise InputError(f"{path} is damaged: {remedy} ({error})") from None


_UNFINISHED = "unfinished"
_SETTINGS = "settings.json"
_OF_EXAMPLES = {"seq_length", "max_predictions", "dupe_factor"}

# What is read of settings, and not only compared with those of a command.
check_settings = make_object_check(
    {"files": make_list_check(make_list_check(make_check("str"), check_count))},
    {"identities": check_identities},
)
_check_shard = make_object_check(
    dict.fromkeys(("documents", "sentences", "tokens", "dropped_duplicate"), check_count),
    dict.fromkeys((BYTES_FEATURE, "examples"), check_count),
)
_check_slices = make_list_check(check_count, check_count)


def check_spill(name: str, value: Any) -> None:
    """InputError unless a value is what `write_spill` has written: counts, and the place of each shard."""
    make_object_check({"counts": check_counts, "slices": make_check("Mapping")})(name, value)
    check_entries(value["slices"], dict.fromkeys(value["slices"], _check_slices), f"{name}.slices.")


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
    """

    files: tuple[tuple[str, int], ...]
    output: str
    tokenizer: TokenizerConfig
    identities: tuple[Mapping[str, Any], ...] = ()

    @property
    def shard_counts(self) -> dict[str, int]:
        """Number of shards of each split."""
        held_out = max(1, round(self.shards * self.eval_share)) if self.eval_share else 0
        return {TRAIN_SHARDS: self.shards, EVAL_SHARDS: held_out}

    @property
    def shard_names(self) -> list[str]:
        """The files to make."""
        return [shard_name(split, i, n) for split, n in self.shard_counts.items() for i in range(n)]

    def settings(self) -> dict[str, Any]:
        """All settings that decide about the content, for stats.json."""
        names = {field.name for field in dataclasses.fields(PreparationSettings)}
        if self.format == "documents":
            names -= _OF_EXAMPLES
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

    def path(self, name: str) -> str:
        """The path of a finished file, a shard or STATS."""
        return os.path.join(self.output, name)  # noqa: PTH118


def begin(plan: Preparation) -> dict[str, Any] | None:
    """Makes the output folder ready, and keeps what an earlier start has finished there.

    Returns:
      The content of stats.json where nothing is left to do; where a shard has been lost, all are made again.
    Raises:
      InputError: the folder holds a corpus with other settings, finished or not, or a damaged stats.json.
      FileExistsError: it is a file, or holds something else.
    """
    stats_file, begun = plan.path(STATS_FILE), plan.unfinished(_SETTINGS)
    there = tf.io.gfile.listdir(plan.output) if tf.io.gfile.isdir(plan.output) else []
    if tf.io.gfile.exists(plan.output) and not tf.io.gfile.isdir(plan.output):
        raise FileExistsError(f"{plan.output} is not a folder: name another one")
    if tf.io.gfile.exists(stats_file):
        stats = read_stats(plan.output)
        try:
            check_settings(stats_file, stats["settings"])
        except InputError as error:
            raise InputError(f"{error}: the file is damaged, delete {plan.output}") from None
        _check_settings(plan, stats["settings"])
        if all(tf.io.gfile.exists(plan.path(name)) for name in stats["shards"]):
            return stats
    elif tf.io.gfile.exists(begun):
        _check_settings(plan, read_output_json(begun, check_settings))
        return None
    elif others := [name for name in there if name.rstrip("/") != _UNFINISHED]:
        raise FileExistsError(
            f"{plan.output} holds {min(others)}, which is not of a corpus: name a folder of its own"
        )
    clear(plan)  # of a process that was killed as it removed it
    tf.io.gfile.makedirs(plan.unfinished())
    write_output_json(begun, plan.settings())
    if STATS_FILE in there:
        tf.io.gfile.remove(stats_file)
    return None


def _check_settings(plan: Preparation, there: Mapping[str, Any]) -> None:
    """InputError if a corpus has other settings; those that an older version did not know have defaults.

    The text may lie elsewhere: names, sizes and digests are compared, of older versions names and sizes.
    """
    made_with = {**defaults(PreparationSettings), **KIND_DEFAULTS[plan.tokenizer.kind], **there}
    differing = [
        f"{name} is {made_with.get(name)!r} there and {value!r} here"
        for name, value in plan.settings().items()
        if name not in ("files", "identities") and made_with.get(name) != value
    ]
    known = there.get("identities") or [
        {"name": os.path.basename(path), "bytes": size}  # noqa: PTH119, of any filesystem
        for path, size in there["files"]
    ]
    if changed := describe_difference(known, plan.identities):
        differing.append(f"of the text, {changed}")
    if differing:
        raise InputError(
            f"{plan.output} holds a corpus prepared with other settings: {'; '.join(differing)}. "
            "Name another --output, or delete that one"
        )


def clear(plan: Preparation) -> None:
    """Removes unfinished work, and the output folder if nothing else is in it."""
    if tf.io.gfile.exists(plan.unfinished()):
        tf.io.gfile.rmtree(plan.unfinished())
        if not tf.io.gfile.listdir(plan.output):
            tf.io.gfile.rmtree(plan.output)


def finished_tasks(plan: Preparation) -> set[str]:
    """The names of finished tasks, `run-<number>` of a slice and that of a shard."""
    try:
        names = tf.io.gfile.listdir(plan.unfinished())
    except tf.errors.NotFoundError:
        return set()
    return {name.removesuffix(".json") for name in names if name.endswith(".json") and name != _SETTINGS}


def is_finished(plan: Preparation, task: str) -> bool:
    """Whether a task is finished: a cluster gives one out again if it loses the worker that did it."""
    return tf.io.gfile.exists(plan.unfinished(f"{task}.json"))


def finish(plan: Preparation) -> dict[str, Any]:
    """Writes stats.json, which is returned, from what the tasks have counted, and removes unfinished work.

    Raises:
      PreparationFailed: there is not one document; then no shard is left.
    """
    counts: Counter[str] = Counter()
    shards = {
        name: read_output_json(plan.unfinished(f"{name}.json"), _check_shard) for name in plan.shard_names
    }
    for name in finished_tasks(plan) - shards.keys():
        counts.update(read_output_json(plan.unfinished(f"{name}.json"), check_spill)["counts"])
    for shard in shards.values():
        counts["dropped_duplicate"] += shard.pop("dropped_duplicate")
        counts.update({what: count for what, count in shard.items() if what != BYTES_FEATURE})
    if not counts["documents"]:
        for name in plan.shard_names:
            tf.io.gfile.remove(plan.path(name))
        clear(plan)
        raise PreparationFailed(
            f"no documents in {', '.join(file for file, _ in plan.files[:3])}, read with "
            f"input_format={plan.input_format}, text_field={plan.text_field} ({format_count(counts)}): name "
            "other files or another format"
        )
    settings = plan.settings()
    stats = {
        "format": plan.format,
        "vocabulary": settings["vocabulary"],
        **dict(plan.tokenizer.settings),
        "counts": dict(sorted(counts.items())),
        "shards": shards,
        "settings": settings,
    }
    write_output_json(plan.path(STATS_FILE), stats)
    clear(plan)
    return stats


def format_count(counts: Mapping[str, int]) -> str:
    """Counts in one line."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
