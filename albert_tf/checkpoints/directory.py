"""The run directory: what one command writes, any other reads.

run/config.json  task.json  spiece.model  tokenizer.json  recipe.json  metrics.jsonl  checkpoints/

run = RunDirectory(path)        opened once and handed on
run.config, run.task, run.tokenizer, run.vocabulary, run.recipe, run.steps(), run.default_step()
run.create(contents), run.lock(), write_checkpoint(run, step, model=…)
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from albert_tf.checkpoints import storage
from albert_tf.checkpoints.metrics_log import (
    EVALUATION,
    METRICS,
    Line,
    best_by,
    evaluated_steps,
    read_metrics,
)
from albert_tf.checkpoints.models import arguments_of
from albert_tf.checkpoints.schemas import RECIPE_SCHEMA, check_task
from albert_tf.checkpoints.steps import checkpoint_steps
from albert_tf.checkpoints.storage import PathLike
from albert_tf.config import AlbertConfig
from albert_tf.tokenizer_settings import (
    KIND,
    SENTENCEPIECE,
    TOKENIZER,
    VOCABULARY_FILES,
    checked_settings,
    fingerprint_of,
    read_vocabulary,
    remembered_kind,
    resolved_settings,
)
from albert_tf.utils.checks import check_choice, check_entries
from albert_tf.utils.errors import InputError, Missing
from albert_tf.utils.files import json_text, sole_use

CONFIG, TASK, RECIPE = "config.json", "task.json", "recipe.json"

SUMMARY = "summary.json"  # of a folder of several runs
SEED = "seed-"  # how the names of runs in such a folder begin
VOCABULARY_KEY = "vocabulary"  # of the vocabulary's SHA-256 in recipe.json
BEST_KEY = "best_by"  # of the metric in task.json that tells the best step
CHOSEN = "chosen_threshold"  # in recipe.json: of which step, on which records, and the figures at it


class RunContents(NamedTuple):
    """The files of a new run directory but its checkpoints.

    Attributes:
      config: the network's shape.
      task: what `task_of` returned, and further entries such as `labels`.
      vocabulary: its file, which is copied with those that belong to it; None: the run has none.
      tokenizer: `lowercase` and `strip_accents`; what is left out is as the vocabulary remembers it, or True.
      recipe: how the weights came about, to which the vocabulary's SHA-256 is added; None writes no
        recipe.json.
    """

    config: AlbertConfig
    task: Mapping[str, Any]
    vocabulary: PathLike | None = None
    tokenizer: Mapping[str, bool] | None = None
    recipe: Mapping[str, Any] | None = None

    def files(self) -> dict[str, bytes]:
        """The contents of the files by name, recipe.json last; an InputError as of `check_task`."""
        check_task(self.task)
        kind, files, made_with = SENTENCEPIECE, {}, {}
        if self.vocabulary is not None:
            kind = remembered_kind(self.vocabulary, VOCABULARY_FILES)
            files = read_vocabulary(self.vocabulary, kind)
            made_with = {VOCABULARY_KEY: fingerprint_of(files)}
        objects = {
            TASK: self.task,
            TOKENIZER: {KIND: kind, **resolved_settings(self.vocabulary, self.tokenizer)},
            **({} if self.recipe is None else {RECIPE: {**self.recipe, **made_with}}),
        }
        texts = {name: json_text(values).encode() for name, values in objects.items()}
        return {CONFIG: self.config.to_json_string().encode(), **files, **texts}


class RunDirectory:
    """A run directory. A file of it is read when it is first asked for, and then known.

    Reading raises FileNotFoundError or ValueError, with the file's name, where one is missing or damaged.

    Args:
      path: of the directory, on any filesystem of `tf.io.gfile`; it need not exist.
      argument: what errors call the path.
    """

    def __init__(self, path: PathLike, argument: str = "run_dir"):
        self.path = storage.location(path, argument)
        self.check_lock: Callable[[], None] = lambda: None

    def __fspath__(self) -> str:
        return self.path

    __str__ = __fspath__

    def file(self, name: str) -> str:
        """The path of a file, which need not exist."""
        return storage.join(self.path, name)

    @functools.cached_property
    def recipe(self) -> dict[str, Any]:
        """The entries of recipe.json; empty if there is none."""

        def checked(recipe: dict[str, Any]) -> dict[str, Any]:
            check_entries(recipe, RECIPE_SCHEMA)
            return recipe

        return self._read(RECIPE, checked) if self.is_begun else {}

    @property
    def is_begun(self) -> bool:
        """True if training has made the directory."""
        return storage.exists(self.file(RECIPE))

    @property
    def is_hugging_face(self) -> bool:
        """True if the folder is no run but one that transformers has written."""
        config = self.file(CONFIG)
        is_run = storage.exists(self.file(TASK)) or not storage.exists(config)
        return not is_run and "model_type" in storage.read_json(config)

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """The network's shape."""
        return self._read(CONFIG, AlbertConfig.from_dict)

    @functools.cached_property
    def task(self) -> dict[str, Any]:
        """The entries of task.json."""

        def checked(task: dict[str, Any]) -> dict[str, Any]:
            check_task(task)
            arguments_of(task)
            return task

        return self._read(TASK, checked)

    @functools.cached_property
    def tokenizer(self) -> dict[str, bool]:
        """`lowercase` and `strip_accents`."""
        _ = self.task  # says what the folder is instead: other checkpoints have a file of this name, too
        return self._read(TOKENIZER, checked_settings)

    @functools.cached_property
    def vocabulary(self) -> Path | None:
        """The vocabulary's file, of another filesystem a copy on this machine; None if there is none."""
        files = self._vocabulary_files()
        if not files:
            return None
        main = next(iter(files))
        self.check_vocabulary(self.file(main), fingerprint_of(files))
        if storage.is_local(self.path):
            return Path(self.path, main)
        folder = Path(storage.local_folder().name, hashlib.sha256(self.path.encode()).hexdigest())
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder / main

    def _vocabulary_files(self) -> dict[str, bytes]:
        """The contents of the vocabulary's files by name; empty if one is missing."""
        path = self.file(TOKENIZER)
        kind = storage.read_json(path).get(KIND, SENTENCEPIECE) if storage.exists(path) else SENTENCEPIECE
        check_choice(f"{path}: {KIND}", kind, VOCABULARY_FILES)
        names = VOCABULARY_FILES[kind]
        if not all(storage.exists(self.file(name)) for name in names):
            return {}
        return {name: storage.read_bytes(self.file(name)) for name in names}

    def check_vocabulary(self, path: PathLike, fingerprint: str) -> None:
        """InputError for a vocabulary with another fingerprint than that the run was made with."""
        expected = self.recipe.get(VOCABULARY_KEY)
        if expected is None:
            there = self._vocabulary_files()
            expected = fingerprint_of(there) if there else fingerprint
        if fingerprint != expected:
            raise InputError(
                f"{path} is not the vocabulary of {self}: its SHA-256 is {fingerprint[:12]}…, not "
                f"{str(expected)[:12]}…: bring back the file that the run was made with"
            )

    def steps(self) -> list[int]:
        """The steps that there are checkpoints of, ascending."""
        return checkpoint_steps(self)

    def metrics(self) -> list[Line]:
        """The lines of metrics.jsonl; empty if there is none."""
        return read_metrics(self) if storage.exists(self.file(METRICS)) else []

    def evaluation(self, step: int | None) -> dict[str, float | None]:
        """The figures of the evaluation of a step, at the threshold that was chosen for it, if any."""
        found = {
            name.removeprefix(EVALUATION): value
            for line in self.metrics()
            for name, value in line.items()
            if line["step"] == step and name.startswith(EVALUATION)
        }
        chosen = self.recipe.get(CHOSEN, {})
        return {**found, **chosen["figures"]} if chosen.get("step", -1) == step else found

    def default_step(self) -> int | None:
        """The best step of a fine-tuned run by its evaluations, of others the newest, if any.

        A warning says so where that of the best evaluation has no checkpoint, or no evaluation tells one.
        """
        steps, metric = self.steps(), self.task.get(BEST_KEY)
        newest = max(steps, default=None)
        if metric is None or newest is None:
            return newest
        order, lines = best_by(metric), self.metrics()
        best, there = order.step(lines, evaluated_steps(lines)), order.step(lines, steps)
        if there is None:
            _warn(f"{self}: no step with a checkpoint has a {metric}: the newest, {newest}, is used")
            return newest
        if best != there:
            _warn(f"{self}: the best step, {best}, has no checkpoint: the next best, {there}, is used")
        return there

    def create(self, contents: RunContents) -> None:
        """Makes the directory, with everything but checkpoints.

        Raises:
          FileExistsError: there is something else at the path.
          BlockingIOError: another process has just begun this run.
          ValueError: the vocabulary remembers another tokenizer.
        """
        files = contents.files()
        try:
            with storage.new_folder(self.path, files):
                pass
        except FileExistsError as error:
            if not storage.exists(self.file(RECIPE)):
                raise
            remedy = "wait for its end, or name another --output"
            raise BlockingIOError(f"{self} is in use by another process: {remedy}") from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes out while the block runs; BlockingIOError if one is using the run.

        `check_lock` raises WorkFailed once the folder at the path is another one.
        """
        if not storage.is_local(self.path):
            yield
            return
        with sole_use(Path(self.path)) as self.check_lock:
            yield

    def _read(self, name: str, checked: Callable[[dict[str, Any]], Any]) -> Any:
        path = self.file(name)
        if not storage.exists(path):
            raise Missing(_not_a_run(self, path))
        values = storage.read_json(path)
        try:
            return checked(values)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error


def _not_a_run(folder: RunDirectory, missing: str) -> str:
    """The error of a folder in which a run's file is missing: what it is instead, and the remedy."""
    if not storage.exists(folder.path):
        return f"{folder}: no such folder: name a run"
    modules = (folder.path, folder.file("encoder"))  # one of `hub_export`, or all of them
    exported = [module for module in modules if storage.exists(storage.join(module, "saved_model.pb"))]
    kind = ""
    if exported:
        kind = f" but an exported module: a run begins with its weights by --init_from hub:{exported[0]}"
    elif folder.is_hugging_face:
        kind = (
            " but a checkpoint of Hugging Face: `albert-tf convert --from huggingface --to run "
            f"--input {folder} --output RUN` makes a run of it"
        )
    return f"{missing} is missing: {folder} is not a run directory{kind}"


@functools.cache  # a run is asked more than once
def _warn(text: str) -> None:
    logging.warning("%s", text)


def best_run(path: PathLike) -> RunDirectory:
    """The best run in a folder that fine-tuning has made several in; any other folder is itself."""
    folder = RunDirectory(path, "run")
    has_runs = any(name.startswith(SEED) for name in storage.entries(folder.path))
    if storage.exists(folder.file(TASK)) or not has_runs:
        return folder
    if not storage.exists(folder.file(SUMMARY)):
        raise InputError(f"{folder} has no {SUMMARY} yet: let `albert-tf finetune` finish, or name one run")
    name, runs = storage.read_json(folder.file(SUMMARY)).get("best_run"), storage.entries(folder.path)
    if name not in runs or not storage.exists(storage.join(folder, name, TASK)):
        raise InputError(f"{folder.file(SUMMARY)}: best_run={name!r} is no run there: name one of them")
    return RunDirectory(folder.file(name))
