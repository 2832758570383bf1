"""Labelled data of a fine-tuning run: reads, splits and tokenises it; weights of the labels in the loss."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import FIRST, MEAN, SOFT_WEIGHTS, WEIGHTS
from albert_tf.conversion.init_from import InitFrom
from albert_tf.data.dataset import from_data_service
from albert_tf.data.documents import text_documents
from albert_tf.errors import InputError, check_choice
from albert_tf.finetuning.finetuned_model import lengths_to_compile
from albert_tf.finetuning.finetuning_recipes import EvaluationSettings, FinetuningRecipe
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import TaskSpec
from albert_tf.io import PathLike
from albert_tf.models.loss_sums import LossFn
from albert_tf.models.memory import TRAINING_COPIES, check_memory
from albert_tf.runs.run_directory import CHOSEN_THRESHOLD_KEY, VOCABULARY_KEY, RunContents, RunDirectory
from albert_tf.settings import flatten_record
from albert_tf.tasks.batches import batches_per_epoch, task_batches
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import (
    ChoiceRecord,
    QuestionRecord,
    TextRecord,
    TokenizedExamples,
    normalize_label,
)
from albert_tf.tasks.formats import DEV, TRAIN, Records
from albert_tf.tasks.losses import exits_loss_sum
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Examples, FinetuningTask, TaskEntries
from albert_tf.text.files import GZIP_SUFFIX, Paths, check_text_files, input_files, path_list
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import DistributedBatches, distribute_batches


class Splits(NamedTuple):
    """Records of a task's data, to train on and to evaluate on."""

    train: Records
    dev: dict[str, Records]  # to evaluate on, by the name of their set
    held_out: str = ""  # says in words what was held out of `train`; empty if the data has its own dev set

    @property
    def labelled_records(self) -> Records:
        """Records that define the labels of the model: `train`, and `dev` if it was held out of `train`."""
        return [*self.train, *self.dev[DEV]] if self.held_out else self.train


def read_splits(
    spec: TaskSpec,
    folder: PathLike | None,
    train: Paths | None,
    dev: Paths | None,
    columns: Columns | None,
    share: float = EvaluationSettings.eval_share,
) -> Splits:
    """Reads the records to train on and to evaluate on, from a folder or from files.

    See `Finetuning` for the folder (`data`), the files and the columns. If `dev` is None, a share of `train`
    is held out.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: a line does not fit the task, or there are too few records to hold some out.
    """
    if spec.format.is_folder:
        assert folder is not None
        return Splits(spec.format.read_splits(folder, [TRAIN])[TRAIN], read_dev_sets(spec, folder))
    assert train is not None
    records = spec.format.read(train, True, columns)
    if dev is not None:
        return Splits(records, read_dev_sets(spec, file=dev, columns=columns))
    train_records, dev_records = split_train_dev(records, share, spec.task_class.labels_of)
    names = ", ".join(path_list(train))
    if not train_records or not dev_records:
        raise InputError(f"{names}: too little to hold any of it out: add examples, or name others by `eval`")
    held_out = f"{len(dev_records)} of {len(records)} examples of {names}"
    return Splits(train_records, {DEV: dev_records}, held_out)


def read_dev_sets(
    spec: TaskSpec, folder: PathLike | None = None, file: Paths | None = None, columns: Columns | None = None
) -> dict[str, Records]:
    """Reads labelled records to evaluate on; returns them by the name of their set.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: neither folder nor file is named, or both are, or a line does not fit the task.
    """
    is_folder = spec.format.is_folder
    if (folder is None) == (file is None) or (folder is not None and not is_folder):
        names = "`data` with its folder, or `eval`, one of them" if is_folder else "`eval`"
        raise InputError(f"what is to be evaluated on is missing: name it by {names}")
    if file is not None:
        return {DEV: spec.format.read(file, True, columns)}
    return spec.format.read_splits(folder or "", spec.format.dev)


def split_train_dev(
    records: Records, share: float, label_of: Callable[[Any], Hashable] | None = None
) -> tuple[list[Any], list[Any]]:
    """Splits records into the ones to train on and about a share, at least one, to evaluate on.

    The split is the same for every seed. Questions on one context stay together, since a model that has seen
    some of them knows something of the others. Each label gives the same share, as nearly as possible.
    """
    groups = [
        (isinstance(record, ChoiceRecord | QuestionRecord) and record.context.strip()) or number
        for number, record in enumerate(records)
    ]
    labels: dict[Hashable, Hashable] = {}  # by group
    for group, record in zip(groups, records, strict=True):
        labels.setdefault(group, label_of and label_of(record))
    distinct_groups = list(labels)
    quotas = _label_quotas(collections.Counter(labels.values()), max(1, round(share * len(labels))))
    dev_groups = set()
    for index in np.random.default_rng(0).permutation(len(labels)):
        group = distinct_groups[index]
        if quotas[labels[group]]:
            quotas[labels[group]] -= 1
            dev_groups.add(group)
    train, dev = list[Any](), list[Any]()
    for group, record in zip(groups, records, strict=True):
        (dev if group in dev_groups else train).append(record)
    return train, dev


def _label_quotas(sizes: collections.Counter[Hashable], count: int) -> dict[Hashable, int]:
    """Divides `count` among the labels in proportion to their sizes, by the largest remainder.

    Among equal remainders the rarest label comes first. Labels with one example come last: better learn them.
    """
    total = sizes.total()
    quotas = {name: count * size // total for name, size in sizes.items()}
    order = sorted(sizes, key=lambda name: (sizes[name] == 1, -(count * sizes[name] % total), sizes[name]))
    for name in order[: count - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def read_unlabelled(spec: TaskSpec, files: Paths, columns: Columns | None) -> list[Any]:
    """Reads records without labels: the documents of .txt files, and the rows of tables as `predict` does.

    Raises:
      FileNotFoundError: a file is missing.
      InputError: a line does not fit the task, or there is no text.
    """
    records = list[Any]()
    for file in input_files(files):
        is_text = file.removesuffix(GZIP_SUFFIX).endswith(".txt")
        records += _read_documents(file) if is_text else spec.format.read(file, False, columns)
    if not records:
        raise InputError(f"unlabelled={', '.join(path_list(files))} holds no text: name other files")
    return records


def _read_documents(file: str) -> list[TextRecord]:
    """Reads each document of a text file as one text; `line` of a record is the document's number."""
    check_text_files([file])
    texts = (text.numpy().decode().replace("\n", " ") for text, _ in text_documents(file))
    return [TextRecord(file, line, str(line - 1), text, None, None) for line, text in enumerate(texts, 1)]


class EncodedSplits(NamedTuple):
    """The tokenised examples of a task, to train on and to evaluate on."""

    spec: TaskSpec
    task: FinetuningTask
    sets: Splits
    rows: TokenizedExamples  # to train on
    dev: Mapping[str, Examples]  # to evaluate on, by the name of their set
    vocabulary: str  # SHA-256 of the vocabulary
    unlabelled: int = 0  # number of texts that only a teacher labels

    def recipe_entries(self) -> dict[str, Any]:
        """Entries of recipe.json; they must be the same when a run resumes, wherever its files are now."""
        digest, rows = hashlib.sha256(), self.rows
        labels = [] if rows.token_labels is None else [rows.token_labels]
        for array in (rows.tokens, rows.starts, rows.lengths, *rows.features.values(), *labels):
            digest.update(array.tobytes())
        return {
            "examples": len(rows),
            "data_sha256": digest.hexdigest(),
            "eval_examples": {name: len(records) for name, records in self.sets.dev.items()},
            "eval_sha256": dataset_digests(self.sets.dev),
            VOCABULARY_KEY: self.vocabulary,
        }

    def note(self) -> str:
        """Describes the examples for the first log line of a run."""
        examples, held_out = len(self.sets.train), self.sets.held_out
        is_cut = len(self.rows) > examples + self.unlabelled
        windows = f" in {len(self.rows)} windows" if is_cut else ""
        if self.unlabelled:
            windows = f" and {self.unlabelled} without labels{windows}"
        return f"; {examples} examples{windows}" + (f"; held out: {held_out}" if held_out else "")

    def training_batches(
        self, recipe: FinetuningRecipe, compute: ComputeConfig, seed: int
    ) -> DistributedBatches:
        """Endless batches to train on, distributed by the current strategy."""
        lengths = lengths_to_compile(recipe.seq_length, compute.xla)

        def create_dataset(batch_size: int, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
            dataset = task_batches(
                self.rows, recipe.seq_length, batch_size, lengths, seed, input_context=context
            )
            return from_data_service(dataset, compute.data_service)

        return distribute_batches(tf.distribute.get_strategy(), create_dataset, recipe.batch_size)


def encode_splits(
    spec: TaskSpec,
    entries: TaskEntries,
    sets: Splits,
    start: InitFrom,
    sample_weight: Sequence[float] | None = None,
    unlabelled: Records = (),
) -> EncodedSplits:
    """Tokenises the records of a task for a model with these entries of task.json.

    See `Finetuning` for `sample_weight`. Unlabelled records get an arbitrary label with weight 0 in the loss.
    """
    task, tokenizer = spec.task_class(entries), open_tokenizer(start.vocabulary, **start.tokenizer)
    train = [*sets.train, *(record._replace(label=sets.train[0].label) for record in unlabelled)]
    examples = task.encode(train, tokenizer, True)
    rows = examples.rows
    if sample_weight is not None or unlabelled:
        weights = [1.0] * len(sets.train) if sample_weight is None else _weigh(sets, sample_weight)
        rows = _add_row_weights(examples, WEIGHTS, weights + [0.0] * len(unlabelled))
        if unlabelled:
            soft = _add_row_weights(examples, SOFT_WEIGHTS, weights + [1.0] * len(unlabelled))
            rows = dataclasses.replace(rows, features={**soft.features, **rows.features})
    has_loss = task.has_evaluation_loss
    dev = {name: task.encode(records, tokenizer, has_loss) for name, records in sets.dev.items()}
    fingerprint = tokenizer.vocabulary.fingerprint
    return EncodedSplits(spec, task, sets, rows, dev, fingerprint, len(unlabelled))


def _weigh(sets: Splits, sample_weight: Sequence[float]) -> list[float]:
    """The weight of each record, by its number in its file; InputError for others than those of one file."""
    file, weights = sets.train[0].file, np.asarray(sample_weight, np.float32)
    if files := {record.file for record in sets.train} - {file}:
        raise InputError(f"sample_weight is of the rows of one training file, and there is {min(files)}, too")
    records = itertools.chain(sets.train, *sets.dev.values())  # held-out rows are of the same file
    count = 1 + max(int(record.id) for record in records if record.file == file)
    if weights.shape != (count,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(f"sample_weight must be a number of at least 0 for each of {count} rows")
    return weights[[int(record.id) for record in sets.train]].tolist()


def _add_row_weights(examples: Examples, name: str, record_weights: Sequence[float]) -> TokenizedExamples:
    """Adds the feature `name`: each row has the weight of its record; windows share it among them."""
    weights, rows = np.array(record_weights, np.float32), examples.rows
    if rows.records is not None:
        weights = weights[rows.records] * rows.features[WEIGHTS]
    return dataclasses.replace(rows, features={**rows.features, name: weights})


def dataset_digests(sets: Mapping[str, Records]) -> dict[str, str]:
    """The SHA-256 of each set, by its name."""
    return {name: _records_digest(records) for name, records in sets.items()}


def _records_digest(records: Records) -> str:
    """The SHA-256 of records without the files and lines that they come from."""
    digest = hashlib.sha256()
    for record in records:
        places = {"file", "line", "where"} & set(record._fields)
        digest.update(repr(record._replace(**dict.fromkeys(places, ""))).encode())
    return digest.hexdigest()


class PreparedRun(NamedTuple):
    """The hyper-parameters, the data and the files of a run."""

    recipe: FinetuningRecipe
    data: EncodedSplits
    contents: RunContents

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return batches_per_epoch(self.data.rows, self.recipe.batch_size)


def _has_trained_pooler(start: InitFrom) -> bool:
    """False if the network has no pooler, or a random one: not converted, or trained without a loss."""
    origin = {} if start.run is None else start.run.recipe
    is_random = any(name.startswith("pooler/") for name in origin.get("fresh", ()))
    has_loss = origin.get("sentence_objective") != "none" or origin.get("init_from") is not None
    return start.config.pooler != "none" and has_loss and not is_random


def prepare_run(run: RunDirectory, settings: Finetuning, start: InitFrom) -> PreparedRun:
    """Reads and tokenises the data of a run, and compares it with an existing run; writes nothing.

    Raises:
      InputError: a file, a length or a batch size is impossible, or the run has other settings or data.
      FileNotFoundError: a file is missing.
    """
    spec, recipe = settings.task_spec, settings.hyper_parameters(start.config)
    config = recipe.apply_dropout(start.config)
    # The head reads the pooled output.
    if "pooling" in spec.task_class.supported_settings and recipe.pooling == FIRST:
        if settings.freeze and not _has_trained_pooler(start):
            problem = f"{settings.init_from} has no trained pooler, and a new one would stay at random"
            raise InputError(f"freeze={settings.freeze!r}: {problem}: set pooling={MEAN!r}")
        config = config.with_pooler()
    check_memory(config, TRAINING_COPIES)
    settings.compute.check_batch_size(recipe.batch_size, tf.distribute.get_strategy().num_replicas_in_sync)
    share = settings.evaluation_settings.eval_share
    sets = read_splits(spec, settings.data, settings.train, settings.eval, settings.columns, share)
    recipe = settings.complete_recipe(recipe, sets.train)
    entries = settings.task_entries(recipe, sets.labelled_records, run)
    data = encode_splits(spec, entries, sets, start, settings.sample_weight, settings.unlabelled_records())
    recipe = settings.in_steps(recipe, len(data.rows), run)
    record = {**flatten_record(recipe), **settings.recipe_entries(run), **data.recipe_entries()}
    if run.has_recipe:
        settings.check_resumable(run, {**config.to_dict(), **entries, **start.tokenizer, **record})
        for name in ("data_sha256", "eval_examples", "eval_sha256"):
            if run.recipe.get(name) != record[name]:
                names = ("data", "train", "eval", "unlabelled")
                sources = [record[name] for name in names if record.get(name) is not None]
                files = " and ".join(path for paths in sources for path in path_list(paths))
                files += "" if settings.sample_weight is None else " with these weights"
                raise InputError(
                    f"{run} began with other examples than {files}: name those, or another `output`"
                )
        record |= {name: run.recipe[name] for name in {CHOSEN_THRESHOLD_KEY} & run.recipe.keys()}
    return PreparedRun(recipe, data, RunContents(config, entries, start.vocabulary, start.tokenizer, record))


def training_losses(data: EncodedSplits, recipe: FinetuningRecipe) -> LossFn:
    """The losses to train with: the task's, with the recipe's class weights, label smoothing and exits.

    Raises:
      InputError: a class weight names an unknown label.
    """
    task, options = data.task, dict[str, Any]()
    if recipe.class_weight is not None:
        # Targets of records and not of rows: a text counts once, whatever the number of its windows.
        is_tagging, records = isinstance(task, Tagging), data.sets.train
        targets: Any = data.rows.token_labels if is_tagging else task.targets(records)  # type: ignore[attr-defined]
        options["class_weights"] = class_weights(recipe.class_weight, task.labels, targets)
    if recipe.label_smoothing:
        options["smoothing"] = recipe.label_smoothing
    losses = {}
    for name, loss in task.losses.items():
        loss_sum = functools.partial(loss.loss_sum, **options)
        if recipe.early_exit:
            loss_sum = functools.partial(exits_loss_sum, loss_sum)
        losses[name] = loss._replace(loss_sum=loss_sum)
    return LossFn(losses)


def class_weights(
    class_weight: str | Mapping[str, float], labels: Sequence[str], targets: np.ndarray
) -> list[float]:
    """The weight in the loss of each of K labels.

    Args:
      class_weight: weights by label, 1 for omitted labels; or "balanced": n / (K · n_k) as in scikit-learn.
        If a text can have several labels, "balanced" is (n - n_k) / n_k: texts with a label count as much
        as texts without it. Where the formula is undefined or 0, the weight is 1.
      labels: the K labels in the order of their numbers.
      targets: the number of each label, integer [N], below 0 for no label; or 1 for each label of a text,
        [N, K].
    Raises:
      InputError: a weight names an unknown label.
    """
    if not isinstance(class_weight, str):
        weights = {normalize_label(label): weight for label, weight in class_weight.items()}
        names = [normalize_label(label) for label in labels]
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
