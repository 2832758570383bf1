"""Labelled data of a run: read, divided, encoded, compared with those it began with; weights of classes."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import FIRST, SOFT_WEIGHTS, WEIGHTS
from albert_tf.conversion.init_from import InitFrom
from albert_tf.data.dataset import from_data_service
from albert_tf.data.documents import text_documents
from albert_tf.errors import InputError, check_choice
from albert_tf.finetuning.finetuned_model import lengths_to_compile
from albert_tf.finetuning.finetuning_recipes import EvaluationSettings, FinetuningRecipe
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import TaskSpec
from albert_tf.io import PathLike
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.runs.run_directory import CHOSEN, VOCABULARY_KEY, RunContents, RunDirectory
from albert_tf.settings import flatten_record
from albert_tf.tasks.batches import batches_per_epoch, task_batches
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import ChoiceRecord, QuestionRecord, TextRecord, TokenizedExamples, same_label
from albert_tf.tasks.formats import DEV, TRAIN, Records
from albert_tf.tasks.losses import exits_loss_sum
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Examples, FinetuningTask, TaskConfig
from albert_tf.text.files import (
    GZIP_SUFFIX,
    Paths,
    check_text_files,
    input_files,
    path_list,
)
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import DistributedBatches, distribute_batches


class Splits(NamedTuple):
    """Records of a task's data."""

    train: Records
    dev: dict[str, Records]  # to evaluate on, by the name of their set
    held_out: str = ""  # what was held out, in words; empty where a set of its own is there

    @property
    def labelled(self) -> Records:
        """All whose labels a model is to know: what is held out has no others than the rest of its file."""
        return [*self.train, *self.dev[DEV]] if self.held_out else self.train


def read_splits(
    task: TaskSpec,
    folder: PathLike | None,
    train: Paths | None,
    dev: Paths | None,
    columns: Columns | None,
    share: float = EvaluationSettings.eval_share,
) -> Splits:
    """The records to train and to evaluate on, of a folder or of files as `Finetuning` names them.

    Without a file to evaluate on a share of the others is held out.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: a line is not of the task, or there are too few records to hold some out.
    """
    if task.format.is_folder:
        assert folder is not None
        return Splits(task.format.read_sets(folder, [TRAIN])[TRAIN], read_dev_sets(task, folder))
    assert train is not None
    records = task.format.read(train, True, columns)
    if dev is not None:
        return Splits(records, read_dev_sets(task, file=dev, columns=columns))
    rest, held_out = split_off(records, share, task.kind.labels_of)
    names = ", ".join(path_list(train))
    if not rest or not held_out:
        raise InputError(f"{names}: too little to hold any of it out: add examples, or name others by --eval")
    return Splits(rest, {DEV: held_out}, f"{len(held_out)} of {len(records)} examples of {names}")


def read_dev_sets(
    task: TaskSpec, folder: PathLike | None = None, file: Paths | None = None, columns: Columns | None = None
) -> dict[str, Records]:
    """Labelled records to evaluate on, by the name of their set.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: neither folder nor file is named, or both, or a line is not of the task.
    """
    is_folder = task.format.is_folder
    if (folder is None) == (file is None) or (folder is not None and not is_folder):
        wanted = "--data with its folder, or --eval, one of them" if is_folder else "--eval"
        raise InputError(f"what is to be evaluated on is missing: name it by {wanted}")
    if file is not None:
        return {DEV: task.format.read(file, True, columns)}
    return task.format.read_sets(folder or "", task.format.dev)


def split_off(
    records: Records, share: float, label: Callable[[Any], Hashable] | None = None
) -> tuple[list[Any], list[Any]]:
    """All but about a share of the records, and these, at least one: the same each time, whatever the seed.

    Questions on one context stay together: who has seen some of them knows something of the others. Of each
    label the share is taken, as nearly as possible.
    """
    units = [
        record.context if isinstance(record, ChoiceRecord | QuestionRecord) else number
        for number, record in enumerate(records)
    ]
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
    rest, held_out = list[Any](), list[Any]()
    for unit, record in zip(units, records, strict=True):
        (held_out if unit in chosen else rest).append(record)
    return rest, held_out


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


def read_unlabelled(task: TaskSpec, files: Paths, columns: Columns | None) -> list[Any]:
    """Records without labels: of a .txt file its documents, of others what `predict` reads.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: a line is not of the task, or there is no text.
    """
    records = list[Any]()
    for file in input_files(files):
        is_text = file.removesuffix(GZIP_SUFFIX).endswith(".txt")
        records += _documents_of(file) if is_text else task.format.read(file, False, columns)
    if not records:
        raise InputError(f"unlabelled={', '.join(path_list(files))} holds no text: name other files")
    return records


def _documents_of(file: str) -> list[TextRecord]:
    """The documents of a text file, each a text; their numbers stand for lines."""
    check_text_files([file])
    texts = (text.numpy().decode().replace("\n", " ") for text, _ in text_documents(file))
    return [TextRecord(file, line, str(line - 1), text, None, None) for line, text in enumerate(texts, 1)]


class EncodedSplits(NamedTuple):
    """The examples of a task as a model reads them."""

    task: TaskSpec
    kind: FinetuningTask
    sets: Splits
    rows: TokenizedExamples  # to train on
    dev: Mapping[str, Examples]  # to evaluate on, by the name of their set
    vocabulary: str  # its SHA-256
    unlabelled: int = 0  # texts that a teacher alone labels

    def record(self) -> dict[str, Any]:
        """The entries of recipe.json, which a resumed run must find again, wherever the data lies."""
        digest, rows = hashlib.sha256(), self.rows
        labels = [] if rows.token_labels is None else [rows.token_labels]
        for array in (rows.tokens, rows.starts, rows.lengths, *rows.features.values(), *labels):
            digest.update(array.tobytes())
        return {
            "examples": len(rows),
            "data_sha256": digest.hexdigest(),
            "eval_examples": {name: len(records) for name, records in self.sets.dev.items()},
            "eval_sha256": digests(self.sets.dev),
            VOCABULARY_KEY: self.vocabulary,
        }

    def note(self) -> str:
        """What a run says of its examples as it begins."""
        examples, held_out = len(self.sets.train), self.sets.held_out
        is_cut = len(self.rows) > examples + self.unlabelled
        windows = f" in {len(self.rows)} windows" if is_cut else ""
        if self.unlabelled:
            windows = f" and {self.unlabelled} without labels{windows}"
        return f"; {examples} examples{windows}" + (f"; held out: {held_out}" if held_out else "")

    def training_batches(
        self, recipe: FinetuningRecipe, execution: ComputeConfig, seed: int
    ) -> DistributedBatches:
        """The batches to train on, without end, for the current strategy."""
        lengths = lengths_to_compile(recipe.seq_length, execution.xla)

        def batches(count: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            dataset = task_batches(self.rows, recipe.seq_length, count, lengths, seed, input_context=part)
            return from_data_service(dataset, execution.data_service)

        return distribute_batches(tf.distribute.get_strategy(), batches, recipe.batch_size)


def encode_splits(
    task: TaskSpec,
    entries: TaskConfig,
    sets: Splits,
    start: InitFrom,
    sample_weight: Sequence[float] | None = None,
    unlabelled: Records = (),
) -> EncodedSplits:
    """The examples of a task, tokenised for a model with these entries of task.json.

    `sample_weight` is that of `Finetuning`. What is unlabelled is read with any label, which weighs nothing.
    """
    kind, tokenizer = task.kind(entries), open_tokenizer(start.vocabulary, **start.tokenizer)
    train = [*sets.train, *(record._replace(label=sets.train[0].label) for record in unlabelled)]
    examples = kind.encode(train, tokenizer, True)
    rows = examples.rows
    if sample_weight is not None or unlabelled:
        weights = (
            [sample_weight[int(x.id)] for x in sets.train]
            if sample_weight is not None
            else [1.0] * len(sets.train)
        )
        rows = _weighted(examples, WEIGHTS, weights + [0.0] * len(unlabelled))
        if unlabelled:
            soft = _weighted(examples, SOFT_WEIGHTS, weights + [1.0] * len(unlabelled))
            rows = dataclasses.replace(rows, features={**soft.features, **rows.features})
    has_loss = kind.has_evaluation_loss
    dev = {name: kind.encode(records, tokenizer, has_loss) for name, records in sets.dev.items()}
    fingerprint = tokenizer.vocabulary.fingerprint
    return EncodedSplits(task, kind, sets, rows, dev, fingerprint, len(unlabelled))


def _weighted(examples: Examples, name: str, of_records: Sequence[float]) -> TokenizedExamples:
    """Rows with weights, by a name, that are those of their records, of a window its share of it."""
    weights, rows = np.array(of_records, np.float32), examples.rows
    if examples.places is not None:
        weights = weights[examples.places] * rows.features[WEIGHTS]
    return dataclasses.replace(rows, features={**rows.features, name: weights})


def digests(sets: Mapping[str, Records]) -> dict[str, str]:
    """The SHA-256 of each set, by its name."""
    return {name: _digest(records) for name, records in sets.items()}


def _digest(records: Records) -> str:
    """The SHA-256 of records without the places that they are from."""
    digest = hashlib.sha256()
    for record in records:
        places = {"file", "line", "where"} & set(record._fields)
        digest.update(repr(record._replace(**dict.fromkeys(places, ""))).encode())
    return digest.hexdigest()


class PreparedRun(NamedTuple):
    """What a run learns, by which hyper-parameters, and its files."""

    recipe: FinetuningRecipe
    data: EncodedSplits
    contents: RunContents

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches that show every example once."""
        return batches_per_epoch(self.data.rows, self.recipe.batch_size)


def prepare_run(run: RunDirectory, settings: Finetuning, start: InitFrom) -> PreparedRun:
    """Reads and tokenises the data of a run, and compares it with the run that is there; nothing is written.

    Raises:
      InputError: a file, a length or a batch is impossible, or the run was begun with other settings or data.
      FileNotFoundError: a file is missing.
    """
    task, recipe = settings.entry, settings.hyper_parameters(start.config)
    config = recipe.network(start.config)
    if task.kind.is_pooled and recipe.pooling == FIRST:  # whose head reads the pooled output
        config = config.with_pooler()
    check_memory(config, TRAINING)
    settings.execution.check_divides(recipe.batch_size, tf.distribute.get_strategy().num_replicas_in_sync)
    sets = read_splits(
        task, settings.data, settings.train, settings.eval, settings.columns, settings.evaluated_by.eval_share
    )
    recipe = settings.complete_recipe(recipe, sets.train)
    entries = settings.task_entries(recipe, sets.labelled, run)
    data = encode_splits(task, entries, sets, start, settings.sample_weight, settings.unlabelled_records())
    recipe = settings.in_steps(recipe, len(data.rows), run)
    record = {**flatten_record(recipe), **settings.record(run), **data.record()}
    if run.is_begun:
        settings.check_begun(run, {**config.to_dict(), **entries, **start.tokenizer, **record})
        for name in ("data_sha256", "eval_examples", "eval_sha256"):
            if run.recipe.get(name) != record[name]:
                given = [record[name] for name in ("data", "train", "eval") if record[name] is not None]
                files = " and ".join(path for paths in given for path in path_list(paths))
                raise InputError(
                    f"{run} began with other examples than {files}: name those, or another --output"
                )
        record |= {name: run.recipe[name] for name in {CHOSEN} & run.recipe.keys()}
    return PreparedRun(recipe, data, RunContents(config, entries, start.vocabulary, start.tokenizer, record))


def training_kind(data: EncodedSplits, recipe: FinetuningRecipe) -> FinetuningTask:
    """The kind of task with the losses to train by, with the recipe's weights, smoothing and exits.

    InputError if a weight is of a label that is not there.
    """
    kind, options = copy.copy(data.kind), dict[str, Any]()
    if recipe.class_weight is not None:
        # Of each text once, whatever the number of its windows.
        is_tagging, records = isinstance(kind, Tagging), data.sets.train
        targets: Any = data.rows.token_labels if is_tagging else kind.targets(records)  # type: ignore[attr-defined]
        options["class_weights"] = class_weights(recipe.class_weight, kind.labels, targets)
    if recipe.label_smoothing:
        options["smoothing"] = recipe.label_smoothing
    terms = {name: functools.partial(part.term, **options) for name, part in kind.losses.items()}
    if recipe.early_exit:
        terms = {name: functools.partial(exits_loss_sum, term) for name, term in terms.items()}
    kind.losses = {name: part._replace(term=terms[name]) for name, part in kind.losses.items()}
    return kind


def class_weights(
    asked: str | Mapping[str, float], labels: Sequence[str], targets: np.ndarray
) -> list[float]:
    """The weight of each of K labels.

    Args:
      asked: weights by label, 1 of those that are left out; or "balanced": n / (K · n_k) as in scikit-learn,
        and of several labels a text (n - n_k) / n_k, so that texts with a label count as much as those
        without. It is 1 where that is not defined or 0.
      labels: by their numbers.
      targets: numbers of labels, integer [N], of which those below 0 are none; or 1 for each label of a text,
        [N, K].
    """
    if not isinstance(asked, str):
        weights = {same_label(label): weight for label, weight in asked.items()}
        names = [same_label(label) for label in labels]
        for label in weights:
            check_choice("class_weight: label", label, names)
        return [weights.get(name, 1.0) for name in names]
    if targets.ndim == 2:
        counts = targets.sum(axis=0)
        shares = len(targets) - counts
    else:
        counts = np.bincount(targets[targets >= 0], minlength=len(labels))
        shares = np.full(len(labels), counts.sum() / np.count_nonzero(counts))
    return np.where((counts > 0) & (shares > 0), shares / np.maximum(counts, 1), 1.0).tolist()
