"""The run directory: its files, its metrics, the best step, the provenance of its weights."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from albert_tf import filesystem
from albert_tf.config import AlbertConfig
from albert_tf.constants import EXPORT_RUNTIMES
from albert_tf.errors import (
    InputError,
    MissingFileError,
    add_place,
    check_choice,
    check_entries,
    check_whole,
    make_check,
)
from albert_tf.filesystem import exists, join, list_entries, read_bytes, read_json
from albert_tf.io import PathLike, json_object, json_text, lock_folder
from albert_tf.runs.build_model import arguments_of, check_piece_count, variable_shapes
from albert_tf.runs.checkpoints import (
    DamagedCheckpoint,
    checkpoint_prefix,
    checkpoint_steps,
    model_reader,
)
from albert_tf.runs.schemas import RECIPE_SCHEMA, check_task
from albert_tf.text.text_tokenizer import TextTokenizer
from albert_tf.text.tokenizer import TokenizerConfig
from albert_tf.text.tokenizer_config import (
    FAMILY_KINDS,
    KIND_DEFAULTS,
    SENTENCEPIECE,
    TOKENIZER_DEFAULTS,
    TOKENIZER_FILE,
    TOKENIZER_KIND,
    VOCABULARY_FILES,
    check_tokenizer_settings,
    fingerprint_of,
    read_tokenizer_kind,
    read_vocabulary,
    resolve_settings,
    settings_of_kind,
    stores_settings,
)

METRICS_FILE = "metrics.jsonl"
_STEP, _FIGURE = make_check("int", at_least=0), make_check("float | None")
_LINE_START, _CONTROL = b'{"step": ', re.compile(rb"[\x00-\x1f]")
EVALUATION = "eval_"
MIN_GAIN = 1e-4  # of a metric, or of the loss if metrics are equal; smaller gains are rounding
_LOSS = "eval_loss"
_LOWEST = {f"eval_{name}" for name in ("loss", "ece", "rmse", "mae")}  # metrics that are better if lower

# Numbers by name, including `step`. None stands for non-finite values, such as a float16 gradient.
Line = dict[str, Any]


def read_metrics(run: str | os.PathLike[str]) -> list[Line]:
    """Reads the lines of a run's metrics.jsonl. Raises InputError if a line holds something else.

    A last line that is cut off is ignored: a killed process leaves such a line.
    """
    path = join(run, METRICS_FILE)
    if not exists(path):
        raise FileNotFoundError(f"{path}: no such file; is {os.fspath(run)} the directory of a training run?")
    lines = []
    for number, line in enumerate(read_bytes(path).splitlines(keepends=True), start=1):
        if not line.endswith(b"\n") and _is_cut_off(line):
            break
        where = f"{path}, line {number}"
        values = json_object(line, where)
        try:
            check_entries({"step": None, **values}, {**dict.fromkeys(values, _FIGURE), "step": _STEP})
        except InputError as error:
            raise InputError(f"{where}: {error}: mend or remove the line") from None
        lines.append(values)
    return lines


def _is_cut_off(line: bytes) -> bool:
    """True for the beginning of a line of metrics, without an end and without other content."""
    return line.startswith(_LINE_START[: len(line)]) and not line.endswith(b"}") and not _CONTROL.search(line)


def evaluated_steps(lines: Sequence[Line]) -> set[int]:
    """The steps with an evaluation."""
    return {line["step"] for line in lines if any(name.startswith(EVALUATION) for name in line)}


class StepOrder(NamedTuple):
    """Orders steps by a metric, then by the loss. Of equal steps the earliest is best.

    The highest value is the best; of errors and losses the lowest.
    """

    metric: str  # of an evaluation, by its name in metrics.jsonl
    after: int = -1  # only evaluations after this step are compared

    def rank(self, value: float, loss: float | None) -> tuple[float, float]:
        """A key that orders values of the metric, and losses among equals. The greatest is the best."""
        return (-value if self.metric in _LOWEST else value), (-math.inf if loss is None else -loss)

    def step(self, lines: Sequence[Line], steps: Collection[int]) -> int | None:
        """The best of these steps; None if no step has the metric."""
        known = {step: place for step, place in self._ranks(lines).items() if step in steps}
        return max(known, key=known.__getitem__, default=None)

    def evaluations_without_gain(self, lines: Sequence[Line]) -> int:
        """Number of evaluations since the last one that gained at least MIN_GAIN; 0 without evaluations."""
        best_step, best = None, (-math.inf, -math.inf)
        for step, place in self._ranks(lines).items():
            gain, gain_of_loss = place[0] - best[0], place[1] - best[1]
            if gain >= MIN_GAIN or (abs(gain) < MIN_GAIN and gain_of_loss >= MIN_GAIN):
                best_step, best = step, place
        return sum(step > best_step for step in evaluated_steps(lines)) if best_step is not None else 0

    def _ranks(self, lines: Sequence[Line]) -> dict[int, tuple[float, float]]:
        """The rank of each step with a finite metric, ascending by step."""
        return {
            line["step"]: self.rank(value, line.get(_LOSS))
            for line in lines
            if (value := line.get(self.metric)) is not None and line["step"] > self.after
        }


LOWEST_LOSS = StepOrder(_LOSS)


HUB = "hub:"  # prefix of the folder of an exported or published TF 2 encoder


def provenance_record(recipe: Mapping[str, Any], origin: PathLike | None) -> dict[str, str | None]:
    """The entries `init_from` and `init_from_sha256` of recipe.json.

    The SHA-256 is that of the checkpoint's index, which holds a checksum of each variable. It is None for
    random weights and for published names. A run that began with the same path keeps its entries: the
    checkpoint at that path may have been trained further since, or be deleted.

    Args:
      recipe: recipe.json of the run; empty for a new run.
      origin: a run, a published name, or "hub:" and a folder. None: random weights.
    """
    if origin is None:
        return {"init_from": None, "init_from_sha256": None}
    name = os.fspath(origin)
    if recipe.get("init_from") == name:
        return {"init_from": name, "init_from_sha256": recipe.get("init_from_sha256")}
    if name.startswith(HUB):
        index = join(name.removeprefix(HUB), "variables", "variables.index")
    else:
        step = RunDirectory(name).default_step() if exists(join(name, TASK_FILE)) else None
        index = f"{checkpoint_prefix(name, step)}.index"
    digest = hashlib.sha256(read_bytes(index)).hexdigest() if exists(index) else None
    return {"init_from": name, "init_from_sha256": digest}


CONFIG_FILE, TASK_FILE, RECIPE_FILE = "config.json", "task.json", "recipe.json"

SUMMARY_FILE = "summary.json"  # of a folder of several runs
SEED_PREFIX = "seed-"  # of the names of runs in such a folder
VOCABULARY_KEY = "vocabulary"  # of the vocabulary's SHA-256 in recipe.json
BEST_KEY = "best_by"  # in task.json: the metric that chooses the best step
_SHORTEST = 3  # tokens of an input: one of text, and the special tokens around it
# In recipe.json: the step of the threshold, the records that chose it, and their metrics.
CHOSEN_THRESHOLD_KEY = "chosen_threshold"


class RunContents(NamedTuple):
    """The files of a new run directory except its checkpoints.

    Attributes:
      config: architecture of the network.
      task: entries of task.json: those of `task_of`, and further ones such as `labels`.
      vocabulary: path of the vocabulary, which is copied with its other files. None: the run has none.
      tokenizer: `lowercase` and `strip_accents`. A missing one is that of `resolve_settings`.
      recipe: entries of recipe.json, to which the vocabulary's SHA-256 is added. None: no recipe.json.
    """

    config: AlbertConfig
    task: Mapping[str, Any]
    vocabulary: PathLike | None = None
    tokenizer: Mapping[str, bool] | None = None
    recipe: Mapping[str, Any] | None = None

    def files(self) -> dict[str, bytes]:
        """The contents of the files by name, recipe.json last. Raises InputError for an impossible task."""
        check_task(self.task)
        kind, files, made_with = FAMILY_KINDS[self.config.family], {}, {}
        settings = self.tokenizer or {}
        if self.vocabulary is not None:
            kind = read_tokenizer_kind(self.vocabulary)
            files = read_vocabulary(self.vocabulary, kind)
            made_with = {VOCABULARY_KEY: fingerprint_of(files)}
        else:  # some may be of another kind
            others = {name for names in KIND_DEFAULTS.values() for name in names} - KIND_DEFAULTS[kind].keys()
            settings = {name: value for name, value in settings.items() if name not in others}
        objects = {
            TASK_FILE: self.task,
            TOKENIZER_FILE: {TOKENIZER_KIND: kind, **resolve_settings(self.vocabulary, settings, kind)},
            **({} if self.recipe is None else {RECIPE_FILE: {**self.recipe, **made_with}}),
        }
        texts = {name: json_text(values).encode() for name, values in objects.items()}
        return {CONFIG_FILE: self.config.to_json_string().encode(), **files, **texts}


class RunDirectory:
    """A run directory. Each file is read and checked once, on first use.

    Reading a missing file raises FileNotFoundError, and a damaged one ValueError; both name the file.

    Args:
      path: path of the directory, on any filesystem of `tf.io.gfile`. It need not exist.
      argument: name of the path in errors.
    """

    def __init__(self, path: PathLike, argument: str = "run_dir"):
        self.path = filesystem.gfile_path(path, argument)
        self.check_lock: Callable[[], None] = lambda: None

    def __fspath__(self) -> str:
        return self.path

    __str__ = __fspath__

    def file(self, name: str) -> str:
        """The path of a file, which need not exist."""
        return join(self.path, name)

    def has(self, name: str) -> bool:
        """True if there is a file or a folder of this name."""
        return exists(self.file(name))

    @functools.cached_property
    def recipe(self) -> dict[str, Any]:
        """The entries of recipe.json; empty without the file."""
        return self._read(RECIPE_FILE, _check_recipe) if self.has_recipe else {}

    @property
    def has_recipe(self) -> bool:
        """True if the run has a recipe.json: training, a conversion or a compression made it."""
        return self.has(RECIPE_FILE)

    @property
    def is_hugging_face(self) -> bool:
        """True if the folder is not a run but a model that transformers saved."""
        is_run = self.has(TASK_FILE) or not self.has(CONFIG_FILE)
        return not is_run and "model_type" in read_json(self.file(CONFIG_FILE))

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """The network's architecture."""
        return self._read(CONFIG_FILE, AlbertConfig.from_dict)

    @functools.cached_property
    def task(self) -> dict[str, Any]:
        """The entries of task.json."""
        return self._read(TASK_FILE, _check_task_entries)

    @functools.cached_property
    def tokenizer(self) -> dict[str, bool]:
        """The settings of the tokenizer, such as `lowercase`."""
        _ = self.task  # its error explains a folder that is no run; Hugging Face has a file of this name, too
        return self._tokenizer_settings(self.tokenizer_kind)

    def _tokenizer_settings(self, kind: str) -> dict[str, bool]:
        """The settings in tokenizer.json for a vocabulary of this kind, which may have been added later."""
        return self._read(
            TOKENIZER_FILE, lambda values: check_tokenizer_settings(settings_of_kind(values, kind))
        )

    @functools.cached_property
    def vocabulary(self) -> Path | None:
        """Path of the vocabulary, or of a local copy for remote filesystems; None if the run has none."""
        files = self._vocabulary_files
        if not files:
            return None
        main = next(iter(files))
        self.check_vocabulary(self.file(main), fingerprint_of(files))
        if filesystem.is_local(self.path):
            return Path(self.path, main)
        folder = Path(filesystem.temporary_folder().name, hashlib.sha256(self.path.encode()).hexdigest())
        folder.mkdir(exist_ok=True)
        if self.has(TOKENIZER_FILE):  # whoever opens the copy gets all of its settings
            files = {**files, TOKENIZER_FILE: read_bytes(self.file(TOKENIZER_FILE))}
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder / main

    @functools.cached_property
    def tokenizer_kind(self) -> str:
        """Kind of the tokenizer: "sentencepiece", "wordpiece" or "byte_level_bpe"."""
        path = self.file(TOKENIZER_FILE)
        kind = read_json(path).get(TOKENIZER_KIND, SENTENCEPIECE) if exists(path) else SENTENCEPIECE
        check_choice(f"{path}: {TOKENIZER_KIND}", kind, VOCABULARY_FILES)
        # A run that was saved without a vocabulary has the kind of its family; another may have been added.
        kinds = (kind, *VOCABULARY_FILES)
        return next((name for name in kinds if all(map(self.has, VOCABULARY_FILES[name]))), kind)

    @functools.cached_property
    def _vocabulary_files(self) -> dict[str, bytes]:
        """The contents of the vocabulary's files by name; empty if one is missing."""
        names = VOCABULARY_FILES[self.tokenizer_kind]
        return {name: read_bytes(self.file(name)) for name in names} if all(map(self.has, names)) else {}

    def check_vocabulary(self, path: PathLike, fingerprint: str) -> None:
        """Raises InputError if a vocabulary's fingerprint differs from the one that the run was made with."""
        expected = self.recipe.get(VOCABULARY_KEY)
        if expected is None:
            files = self._vocabulary_files
            expected = fingerprint_of(files) if files else fingerprint
        if fingerprint != expected:
            raise InputError(
                f"{path} is not the vocabulary of {self}: its SHA-256 is {fingerprint[:12]}…, not "
                f"{str(expected)[:12]}…: bring back the file that the run was made with"
            )

    def load_tokenizer(self) -> TextTokenizer:
        """Loads the tokenizer.

        Raises:
          FileNotFoundError: the run has no vocabulary.
          InputError: it has more pieces than the network has embeddings.
        """
        if self.vocabulary is None:
            raise MissingFileError(f"{self} has no vocabulary: copy it there")
        files, settings = tuple(self._vocabulary_files.items()), tuple(self.tokenizer.items())
        tokenizer = TokenizerConfig(self.tokenizer_kind, files, settings, str(self.vocabulary)).open()
        check_piece_count(str(self.vocabulary), len(tokenizer.vocabulary), self.config.vocab_size)
        return tokenizer

    def tokenizer_of(self, vocabulary: PathLike) -> dict[str, bool]:
        """The settings of the tokenizer of this run's network with a vocabulary.

        They are the run's. If it has no vocabulary, its own may be defaults: then settings that are stored
        beside the vocabulary come first.

        Args:
          vocabulary: path of a vocabulary that `resolve_vocabulary` has returned.
        """
        if self.vocabulary is not None:
            return self.tokenizer
        if stores_settings(vocabulary):
            return resolve_settings(vocabulary)
        return self._tokenizer_settings(read_tokenizer_kind(vocabulary))

    def resolve_vocabulary(
        self,
        vocabulary: PathLike | None = None,
        tokenizer: Mapping[str, bool] | None = None,
        name: str | None = None,
    ) -> Path:
        """The path of the vocabulary for another model that starts with the weights of this run.

        Args:
          vocabulary: path of a vocabulary. None: the run's own.
          tokenizer: settings that the run must have been trained with, any of them.
          name: name of the run in errors. None: its path.
        Raises:
          FileNotFoundError: there is no such run.
          InputError: the run has no vocabulary, or was trained with another one or with other settings.
        """
        _ = self.tokenizer  # read first: its error explains a folder that is no run
        path = self.vocabulary if vocabulary is None else Path(vocabulary)
        if vocabulary is not None:
            self.check_vocabulary(vocabulary, fingerprint_of(read_vocabulary(vocabulary)))
        if path is None:
            raise InputError(f"{name or self} has no vocabulary: name it by `vocabulary`")
        settings = self.tokenizer_of(path)
        if differing := {key: value for key, value in (tokenizer or {}).items() if settings[key] != value}:
            are_given = differing.keys() <= TOKENIZER_DEFAULTS.keys()
            remedy = "leave that out" if are_given else "name the vocabulary in the run"
            raise InputError(f"{name or self} was trained with {settings}, not with {differing}: {remedy}")
        return path

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the model's variables by name. Raises InputError for an impossible seq_length."""
        length, most = self.task.get("seq_length", _SHORTEST), self.config.max_position_embeddings
        if length < _SHORTEST:
            raise InputError(f"{self.file(TASK_FILE)}: seq_length={length} has no place for a token of text")
        if length > most:
            raise InputError(
                f"{self.file(TASK_FILE)}: seq_length={length} is more than the network's {most} positions"
            )
        return variable_shapes(self.config, self.task)

    def variables(self, step: int | None = None) -> Callable[[str], np.ndarray | None]:
        """Creates a function from a variable's name to its value, or None for unknown names.

        Args:
          step: training step of the checkpoint. None: `default_step`.
        Raises:
          FileNotFoundError: there is no such run or checkpoint.
          InputError: a file is damaged, or the checkpoint is of another model. The function raises it, too.
        """
        shapes = self.shapes
        step = self.step_or_default(step)
        if step is None:
            for runtime, file in EXPORT_RUNTIMES.items():
                if self.has(file):
                    raise MissingFileError(
                        f"{self} is an export for {runtime}: name its run, or see examples/runtimes"
                    )
            raise MissingFileError(f"{self.file('checkpoints')} holds no checkpoint: nothing to load")

        def read(function: Callable[..., Any], *args: Any) -> Any:
            try:
                return function(*args)
            except DamagedCheckpoint as error:
                raise DamagedCheckpoint(f"{error}: {self.remedy(step)}") from error

        return functools.partial(read, read(model_reader, self, step, shapes))

    def remedy(self, step: int | None) -> str:
        """The end of an error message: what to do if the checkpoint of a step cannot be used."""
        others = [str(other) for other in self.steps() if other != step]
        return (
            f"`step` takes another, of {', '.join(others)}"
            if others
            else "copy the run again, or train again"
        )

    def steps(self) -> list[int]:
        """The steps with a checkpoint, ascending."""
        return checkpoint_steps(self)

    def metrics(self) -> list[Line]:
        """The lines of metrics.jsonl; empty without the file."""
        return read_metrics(self) if self.has(METRICS_FILE) else []

    def evaluation(self, step: int | None) -> dict[str, float | None]:
        """The metrics of the evaluation of a step, at the threshold that was chosen for it, if any."""
        metrics = {
            name.removeprefix(EVALUATION): value
            for line in self.metrics()
            for name, value in line.items()
            if line["step"] == step and name.startswith(EVALUATION)
        }
        chosen = self.recipe.get(CHOSEN_THRESHOLD_KEY, {})
        return {**metrics, **chosen["figures"]} if chosen.get("step", -1) == step else metrics

    def default_step(self) -> int | None:
        """The best step of a fine-tuned run, or the newest step of other runs; None without checkpoints.

        Warns if the best step has no checkpoint, or if no step with a checkpoint was evaluated.
        """
        steps, metric = self.steps(), self.task.get(BEST_KEY)
        newest = max(steps, default=None)
        if metric is None or newest is None:
            return newest
        order, lines = StepOrder(metric), self.metrics()
        best, best_saved = order.step(lines, evaluated_steps(lines)), order.step(lines, steps)
        if best_saved is None:
            _warn_once(
                f"{self}: no step with a checkpoint has the metric {metric}: the newest, {newest}, is used"
            )
            return newest
        if best != best_saved:
            _warn_once(
                f"{self}: the best step, {best}, has no checkpoint: the next best, {best_saved}, is used"
            )
        return best_saved

    def step_or_default(self, step: int | None) -> int | None:
        """A step that was asked for, or else `default_step`. Raises InputError for an impossible number."""
        return self.default_step() if step is None else check_whole("step", step)

    def create(self, contents: RunContents) -> None:
        """Creates the directory, with everything except checkpoints.

        Raises:
          FileExistsError: the path holds something else.
          BlockingIOError: another process has just created this run.
          ValueError: the vocabulary was made with other settings of the tokenizer.
        """
        files = contents.files()
        try:
            with filesystem.new_folder(self.path, files):
                pass
        except FileExistsError as error:
            if not self.has_recipe:
                raise
            remedy = "wait for its end, or name another `output`"
            raise BlockingIOError(f"{self} is in use by another process: {remedy}") from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run while the block runs. Raises BlockingIOError if another process uses it.

        Meanwhile `check_lock` raises WorkFailed if the folder at the path was replaced.
        """
        if not filesystem.is_local(self.path):
            yield
            return
        with lock_folder(Path(self.path)) as self.check_lock:
            yield

    def _read(self, name: str, check: Callable[[dict[str, Any]], Any]) -> Any:
        """Reads a JSON file and returns the result of `check` for its entries; errors name the file."""
        path = self.file(name)
        if not exists(path):
            raise MissingFileError(
                f"{self}: no such folder: name a run" if not exists(self.path) else self._describe_lack(path)
            )
        values = read_json(path)
        with add_place(path, (ValueError,)):
            return check(values)

    def _describe_lack(self, path: str) -> str:
        """The error for a folder without a run's file: what the folder is instead, and the remedy."""
        modules = (self.path, self.file("encoder"))  # a module of `hub_export`, or the folder of all
        exported = [module for module in modules if exists(join(module, "saved_model.pb"))]
        kind = ""
        if exported:
            kind = f" but an exported module: a run begins with its weights by `init_from` hub:{exported[0]}"
        elif self.is_hugging_face:
            kind = (
                " but a checkpoint of Hugging Face: `albert-tf convert --from huggingface --to run "
                f"--input {self} --output RUN` makes a run of it"
            )
        return f"{path} is missing: {self} is not a run directory{kind}"


def _check_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    check_entries(recipe, RECIPE_SCHEMA)
    return recipe


def _check_task_entries(task: dict[str, Any]) -> dict[str, Any]:
    check_task(task)
    arguments_of(task)
    return task


def open_run(run: PathLike, argument: str = "run_dir") -> RunDirectory:
    """Opens the run directory at a path; an opened one is returned as it is."""
    return run if isinstance(run, RunDirectory) else RunDirectory(run, argument)


@functools.cache  # once for each text
def _warn_once(text: str) -> None:
    logging.warning("%s", text)


def best_run(path: PathLike) -> RunDirectory:
    """Opens the best run in a folder of several fine-tuning runs; other folders are opened as runs."""
    folder = open_run(path, "run")
    if folder.has(TASK_FILE) or not any(name.startswith(SEED_PREFIX) for name in list_entries(folder.path)):
        return folder
    file = folder.file(SUMMARY_FILE)
    if not exists(file):
        raise InputError(
            f"{folder} has no {SUMMARY_FILE} yet: let `albert-tf finetune` finish, or name one run"
        )
    name = read_json(file).get("best_run")
    if name not in list_entries(folder.path) or not exists(join(folder, name, TASK_FILE)):
        raise InputError(f"{file}: best_run={name!r} is no run there: name one of them")
    return RunDirectory(folder.file(name))
