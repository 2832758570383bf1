"""Records to train and to evaluate on, and those that are held out where no evaluation set is given."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.tasks import Task
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.examples.records import ChoiceRecord, QuestionRecord, TextRecord, scores
from albert_tf.tasks.examples.rows import TokenRows
from albert_tf.training.run_settings import PathLike
from albert_tf.utils.errors import InputError

Records = Sequence[Any]
HELD_OUT = 0.1
MOST_LABELS = 10  # that are told, of many


class Sets(NamedTuple):
    """Records of a task's data.

    Attributes:
      train: records to train on.
      dev: those to evaluate on, by the name of their set.
      note: what was held out, in words; empty where a set of its own is there.
    """

    train: Records
    dev: dict[str, Records]
    note: str = ""

    @property
    def labelled(self) -> Records:
        """All whose labels a model is to know: what is held out has no others than the rest of its file."""
        return [*self.train, *self.dev["dev"]] if self.note else self.train


def read_sets(settings: Finetuning) -> Sets:
    """The records to train and to evaluate on.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: a file is not of the task; the message names file and line.
    """
    task = settings.entry
    if task.sets is not None:
        assert settings.data is not None
        train = task.read_sets(settings.data, [task.sets.train])[task.sets.train]
        return Sets(train, dev_sets(task, settings.data))
    assert settings.train is not None
    train = task.read(settings.train, True, settings.columns)
    if settings.eval is not None:
        return Sets(train, dev_sets(task, file=settings.eval, columns=settings.columns))
    rest, held_out = split_off(train, HELD_OUT, task.kind.labels_of)
    if not rest or not held_out:
        raise InputError(f"{settings.train}: too little to hold any of it out: name other data by --eval")
    return Sets(rest, {"dev": held_out}, f"{len(held_out)} of {len(train)} examples of {settings.train}")


def dev_sets(
    task: Task, folder: PathLike | None = None, file: PathLike | None = None, columns: Columns | None = None
) -> dict[str, Records]:
    """Labelled records to evaluate on, by the name of their set.

    Args:
      task: its entry.
      folder: that of a task whose original files are in one.
      file: any other; one of the two is given.
      columns: of one's own table.
    Raises:
      FileNotFoundError: a file is missing.
      InputError: none of them is given, or not that of such a task.
    """
    if (folder is None) == (file is None) or (folder is not None and task.sets is None):
        wanted = "--data with its folder, or --eval, one of them" if task.sets else "--eval"
        raise InputError(f"what is to be evaluated on is missing: name it by {wanted}")
    if folder is not None:
        assert task.sets is not None
        return task.read_sets(folder, task.sets.dev)
    assert file is not None
    return {"dev": task.read(file, True, columns)}


def described(task: Task, sets: Sets, labels: Sequence[str] | None) -> list[str]:
    """Lines that show a wrong column or missing texts at a glance; none for tasks without texts.

    Args:
      task: its entry.
      sets: to train and to evaluate on.
      labels: in the order of the logits; None of regression.
    """
    rows, labels_of = [record for record in sets.train if isinstance(record, TextRecord)], task.kind.labels_of
    lines = []
    if rows and labels is not None:
        counts = collections.Counter(label for record in rows for label in labels_of(record))
        commonest = [label for label, _ in counts.most_common(MOST_LABELS)]
        chosen = labels if len(labels) <= MOST_LABELS else commonest
        told = [f"{_short(label)} ({counts[label]})" for label in chosen]
        lines.append(f"labels: {_listed(told, len(labels))}")
        there = {label for records in sets.dev.values() for record in records for label in labels_of(record)}
        if missing := [_short(label) for label in labels if label not in there]:
            noun = "label" if len(missing) == 1 else "labels"
            lines.append(f"evaluated on no example of the {noun} {_listed(missing, len(missing))}")
    elif rows:
        wanted = scores(rows)
        mean = sum(wanted) / len(wanted)
        lines.append(f"scores: {min(wanted):g} to {max(wanted):g}, {mean:g} on average")
    texts = [(row.text,) if row.text_pair is None else (row.text, row.text_pair) for row in rows]
    if empty := sum(not all(text.strip() for text in row) for row in texts):
        lines.append(f"{empty} of {len(rows)} rows have an empty text")
    return lines


def _listed(words: Sequence[str], count: int) -> str:
    """The first of so many words, and how many more there are."""
    shown = words[:MOST_LABELS]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def _short(label: str) -> str:
    return label if len(label) <= 30 else f"{label[:29]}…"


def split_off(
    records: Records, share: float, label: Callable[[Any], Hashable] | None = None
) -> tuple[list[Any], list[Any]]:
    """All but about a share of the records, and these: the same ones each time, whatever a run's seed.

    Questions on one context stay together: who has seen some of them knows something of the others.

    Args:
      records: to choose from.
      share: of them, of which at least one is taken.
      label: of a record; the share of each label is taken, as nearly as possible. None: all are alike.
    """
    units = [_unit(record, number) for number, record in enumerate(records)]
    labels: dict[Hashable, Hashable] = {}
    for unit, record in zip(units, records, strict=True):
        labels.setdefault(unit, label and label(record))
    names = list(labels)
    left = _quotas(collections.Counter(labels.values()), max(1, round(share * len(names))))
    chosen = set()
    for place in np.random.default_rng(0).permutation(len(names)):
        name = names[place]
        if left[labels[name]]:
            left[labels[name]] -= 1
            chosen.add(name)
    parts: tuple[list[Any], list[Any]] = ([], [])
    for unit, record in zip(units, records, strict=True):
        parts[unit in chosen].append(record)
    return parts


def _quotas(sizes: collections.Counter[Hashable], count: int) -> dict[Hashable, int]:
    """Numbers of each label that make up a count, by the largest remainder.

    Of equal remainders that of the rarest label counts most; a label that is there once is better learned.
    """
    total = sizes.total()
    quotas = {name: count * size // total for name, size in sizes.items()}
    order = sorted(sizes, key=lambda name: (sizes[name] == 1, -(count * sizes[name] % total), sizes[name]))
    for name in order[: count - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def _unit(record: Any, number: int) -> Hashable:
    return record.context if isinstance(record, ChoiceRecord | QuestionRecord) else number


def data_record(train: TokenRows, dev: Mapping[str, Records]) -> dict[str, Any]:
    """The entries of recipe.json about the data, which a resumed run must find again, wherever it lies."""
    digest = hashlib.sha256()
    labels = [] if train.token_labels is None else [train.token_labels]
    for array in (train.tokens, train.starts, train.lengths, *train.features.values(), *labels):
        digest.update(array.tobytes())
    return {
        "examples": len(train),
        "data_sha256": digest.hexdigest(),
        "eval_examples": {name: len(records) for name, records in dev.items()},
        "eval_sha256": {name: _digest(records) for name, records in dev.items()},
    }


def _digest(records: Records) -> str:
    """The SHA-256 of records without the places that they are from."""
    digest = hashlib.sha256()
    for record in records:
        places = {"file", "line", "where"} & set(record._fields)
        digest.update(repr(record._replace(**dict.fromkeys(places, ""))).encode())
    return digest.hexdigest()


def check_same_data(run: RunDirectory, record: Mapping[str, Any], settings: Finetuning) -> None:
    """InputError if a run was begun with other examples; the message says which file has changed.

    Args:
      run: the run directory; runs of older versions say nothing of the examples to evaluate on.
      record: of the data that there is now, as `data_record` has it.
      settings: with the files that it was read of.
    """
    train = settings.train or settings.data
    dev = settings.eval or train
    for name, file in {"data_sha256": train, "eval_examples": dev, "eval_sha256": dev}.items():
        if run.recipe.get(name, record[name]) != record[name]:
            raise InputError(
                f"{run} was begun with other examples than {file} has: bring back those, or name another "
                "--output"
            )
