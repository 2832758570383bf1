"""The output folder of `prepare`: its settings, finished tasks and stats.json."""

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
    EVAL_SHARDS,
    SHARD_BYTES,
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
from albert_tf.filesystem import join, list_entries, read_bytes
from albert_tf.io import json_text, parse_json
from albert_tf.recipes import PreparationSettings
from albert_tf.settings import field_defaults
from albert_tf.text.files import check_identities, describe_difference
from albert_tf.text.tokenizer import TokenizerConfig
from albert_tf.text.tokenizer_config import KIND_DEFAULTS


@contextmanager
def atomic_output_file(path: str, temporary_folder: str) -> Iterator[str]:
    """Yields a temporary path to write to. Renames the file to `path` if the block raises no error."""
    temporary = join(temporary_folder, f"{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)


def write_output_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically."""
    folder = os.path.dirname(path)  # noqa: PTH120
    with atomic_output_file(path, folder) as temporary, tf.io.gfile.GFile(temporary, "w") as file:
        file.write(json_text(values))


def read_output_json(path: str, check: Check) -> Any:
    """Reads a JSON file; InputError if it is damaged or fails the check."""
    content = read_bytes(path)
    try:
        check("content", value := parse_json(content, path))
        return value
    except InputError as error:
        remedy = "delete its folder and type the same command again"
        raise InputError(f"{path} is damaged: {remedy} ({error})") from None


_UNFINISHED = "unfinished"
_SETTINGS = "settings.json"
_EXAMPLE_SETTINGS = {"seq_length", "max_predictions", "dupe_factor"}

# The stored settings that we read. The others are only compared with those of the command.
_check_stored_settings = make_object_check({"identities": check_identities})
_check_shard = make_object_check(
    dict.fromkeys(("documents", "sentences", "tokens", "dropped_duplicate"), check_count),
    dict.fromkeys((SHARD_BYTES, "examples"), check_count),
)
_check_slices = make_list_check(check_count, check_count)


def check_spill(name: str, value: Any) -> None:
    """Raises InputError unless `write_spill` can have written the value: counts, and each shard's slice."""
    make_object_check({"counts": check_counts, "slices": make_check("Mapping")})(name, value)
    check_entries(value["slices"], dict.fromkeys(value["slices"], _check_slices), f"{name}.slices.")


class PreparationFailed(WorkFailed):
    """A task failed, or there is no text. Finished tasks are kept; the same command continues from them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparationPlan(PreparationSettings):
    """A corpus to prepare, in a form that can be sent to other machines.

    Args:
      files: path and size of each input file, in bytes.
      identities: name, size and digest of each input file, from `file_identities`.
      output: the folder to write.
      tokenizer: tokenizer of the text.
    """

    files: tuple[tuple[str, int], ...]
    identities: tuple[Mapping[str, Any], ...]
    output: str
    tokenizer: TokenizerConfig

    @property
    def shard_counts(self) -> dict[str, int]:
        """Number of shards of each split."""
        eval_shards = max(1, round(self.shards * self.eval_share)) if self.eval_share else 0
        return {TRAIN_SHARDS: self.shards, EVAL_SHARDS: eval_shards}

    @property
    def shard_names(self) -> list[str]:
        """Names of the shards to write."""
        return [shard_name(split, i, n) for split, n in self.shard_counts.items() for i in range(n)]

    def settings(self) -> dict[str, Any]:
        """All settings that affect the content, for stats.json."""
        names = {field.name for field in dataclasses.fields(PreparationSettings)}
        if self.format == "documents":
            names -= _EXAMPLE_SETTINGS
        return {
            **{name: getattr(self, name) for name in sorted(names)},
            **dict(self.tokenizer.settings),
            "identities": list(self.identities),
            "vocabulary": self.tokenizer.open().vocabulary.fingerprint,
        }

    def unfinished_path(self, *names: str) -> str:
        """A path in the folder of unfinished work."""
        return join(self.output, _UNFINISHED, *names)

    def path(self, name: str) -> str:
        """The path of a finished file: a shard or stats.json."""
        return join(self.output, name)


def begin_output(plan: PreparationPlan) -> dict[str, Any] | None:
    """Prepares the output folder, and keeps the finished tasks of an earlier run.

    Returns:
      The content of stats.json if the corpus is finished, otherwise None. If a shard of a finished corpus is
      missing, all shards are written again.
    Raises:
      InputError: the folder holds a corpus with other settings, finished or not, or a damaged stats.json.
      FileExistsError: the output is a file, or a folder with other files.
    """
    stats_file, settings_file = plan.path(STATS_FILE), plan.unfinished_path(_SETTINGS)
    existing = list_entries(plan.output)
    if tf.io.gfile.exists(plan.output) and not tf.io.gfile.isdir(plan.output):
        raise FileExistsError(f"{plan.output} is not a folder: name another one")
    if tf.io.gfile.exists(stats_file):
        stats = read_stats(plan.output)
        try:
            _check_stored_settings(stats_file, stats["settings"])
        except InputError as error:
            raise InputError(f"{error}: the file is damaged, delete {plan.output}") from None
        _check_same_settings(plan, stats["settings"])
        if all(tf.io.gfile.exists(plan.path(name)) for name in stats["shards"]):
            clear_unfinished(plan)  # a process can have been killed while it removed its unfinished work
            return stats
    elif tf.io.gfile.exists(settings_file):
        _check_same_settings(plan, read_output_json(settings_file, _check_stored_settings))
        return None
    elif others := [name for name in existing if name != _UNFINISHED]:
        raise FileExistsError(
            f"{plan.output} holds {min(others)}, which is not of a corpus: name a folder of its own"
        )
    clear_unfinished(plan)
    tf.io.gfile.makedirs(plan.unfinished_path())
    write_output_json(settings_file, plan.settings())
    if STATS_FILE in existing:
        tf.io.gfile.remove(stats_file)
    return None


def _check_same_settings(plan: PreparationPlan, stored: Mapping[str, Any]) -> None:
    """Raises InputError if the stored settings differ from the plan's.

    Missing ones count as the defaults: a corpus of documents has no settings of examples. The text may have
    moved: names, sizes and digests of the files are compared, not their folders.
    """
    made_with = {**field_defaults(PreparationSettings), **KIND_DEFAULTS[plan.tokenizer.kind], **stored}
    differing = [
        f"{name} is {made_with.get(name)!r} there and {value!r} here"
        for name, value in plan.settings().items()
        if name != "identities" and made_with.get(name) != value
    ]
    if changed := describe_difference(stored["identities"], plan.identities):
        differing.append(f"of the text, {changed}")
    if differing:
        raise InputError(
            f"{plan.output} holds a corpus prepared with other settings: {'; '.join(differing)}. "
            "Name another `output`, or delete that one"
        )


def clear_unfinished(plan: PreparationPlan) -> None:
    """Removes unfinished work, and the output folder if it is then empty."""
    if tf.io.gfile.exists(plan.unfinished_path()):
        tf.io.gfile.rmtree(plan.unfinished_path())
        if not tf.io.gfile.listdir(plan.output):
            tf.io.gfile.rmtree(plan.output)


def finished_tasks(plan: PreparationPlan) -> set[str]:
    """The names of the finished tasks: `run-<number>` for a slice, otherwise the name of the shard."""
    names = list_entries(plan.unfinished_path())
    return {name.removesuffix(".json") for name in names if name.endswith(".json") and name != _SETTINGS}


def is_finished(plan: PreparationPlan, task: str) -> bool:
    """True if a task is finished. A cluster repeats a finished task if it loses the worker that ran it."""
    return tf.io.gfile.exists(plan.unfinished_path(f"{task}.json"))


def finish_output(plan: PreparationPlan) -> dict[str, Any]:
    """Writes and returns stats.json, with the sums of the tasks' counts, and removes unfinished work.

    Raises:
      PreparationFailed: the files hold no documents. The shards are removed.
    """
    counts: Counter[str] = Counter()
    shards = {
        name: read_output_json(plan.unfinished_path(f"{name}.json"), _check_shard)
        for name in plan.shard_names
    }
    for name in finished_tasks(plan) - shards.keys():
        counts.update(read_output_json(plan.unfinished_path(f"{name}.json"), check_spill)["counts"])
    for shard in shards.values():
        counts["dropped_duplicate"] += shard.pop("dropped_duplicate")
        counts.update({name: count for name, count in shard.items() if name != SHARD_BYTES})
    trained = sum(shard["documents"] for name, shard in shards.items() if not name.startswith(EVAL_SHARDS))
    if not trained:
        for name in plan.shard_names:
            tf.io.gfile.remove(plan.path(name))
        clear_unfinished(plan)
        raise PreparationFailed(
            f"no documents to train on in {', '.join(file for file, _ in plan.files[:3])}, read with "
            f"input_format={plan.input_format}, text_field={plan.text_field} ({format_counts(counts)}): name "
            "other files or another format, or lower eval_share, if it holds out all of them"
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
    clear_unfinished(plan)
    return stats


def format_counts(counts: Mapping[str, int]) -> str:
    """Formats counts as one line."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
