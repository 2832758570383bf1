"""Settings of fine-tuning, and the start, hyper-parameters and task.json of a run that follow from them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.constants import FIRST, PUNCTUATION_WORDS, WINDOWS, WORDS
from albert_tf.conversion.init_from import InitFrom, open_init_from
from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.filesystem import exists
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, EvaluationSettings, FinetuningRecipe
from albert_tf.finetuning.task_table import TaskSpec, find_task_spec, task_entries
from albert_tf.io import PathLike
from albert_tf.recipes import LongTexts, QuestionSettings
from albert_tf.runs.run_directory import BEST_KEY, CHOSEN, SEED_PREFIX, TASK_FILE, RunDirectory
from albert_tf.tasks.classification import Classification, TextTask, takes_pairs
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import scores
from albert_tf.tasks.formats import Records
from albert_tf.tasks.multi_label import THRESHOLD, MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.text.files import Paths, path_list
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.training.compute_settings import LoopSettings
from albert_tf.training.run_settings import RunSettings

FROZEN_ENCODER = "encoder"  # what can be frozen
AUTO_THRESHOLD = "auto"  # the threshold that is best on what is held out

# Kinds of tasks whose losses have weights of labels, and labels that can be smoothed.
_WEIGHTED, _SMOOTHED = (Classification, Tagging, MultiLabel), (Classification, Tagging)

# Updates between two evaluations at most, where an epoch has more.
_LONGEST = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finetuning(RunSettings):
    """Settings of a fine-tuning run, besides those of every run.

    Args:
      task: a name in TASK_SPECS.
      data: folder of a task whose original files are in one.
      train: files of any other task, or globs.
      eval: files or globs to evaluate on; None holds a share of `train` out.
      columns: of one's own table.
      sample_weight: weights in the loss of the rows of such a table, which has no column `id`.
      config: the network, where its weights are random.
      vocabulary: SentencePiece model, where what the weights are from has none.
      tokenizer: `lowercase` and `strip_accents`, where neither what the weights are from nor the vocabulary
        says.
      recipe: what differs from the task's hyper-parameters, by the fields of FinetuningRecipe.
      questions: what differs from QuestionSettings, of a task with contexts; `doc_stride` also of
        texts in windows.
      evaluation: what differs from EvaluationSettings, by its fields.
      threshold: probability from which on a text has a label of the task multi_label (None: 0.5), or the
        second of two labels (None: where it is the likelier); "auto" takes that by which the best step has
        the best metric on what it is evaluated on, also of a run that is done.
      words: of plain text that the run will tag: "spaces" stand between its words, or "punctuation" marks are
        words by themselves, too, as in tagged corpora; None: punctuation, or what a run that is there has.
      freeze: "encoder" trains the head alone; None: everything.
      num_hidden_layers: of the network, fewer than `init_from` has: those that are shared are applied so many
        times, of others as many are taken, spread evenly over its depth; None: all.
      loop: what differs from evaluating and saving once an epoch, or every 1,000 updates where it is longer;
        by the fields of LoopSettings.
    Raises:
      InputError: a setting is impossible, or one too many or missing.
    """

    # The content of the data is compared by itself.
    CHANGEABLE: ClassVar[Collection[str]] = (
        *(*RunSettings.CHANGEABLE, "epochs", "data", "train", "eval"),
        *("examples", "data_sha256", "eval_examples", "eval_sha256"),
    )

    learns_exits: ClassVar[bool] = True  # False if the last layer alone can be trained

    task: str
    data: PathLike | None = None
    train: Paths | None = None
    eval: Paths | None = None
    columns: Columns | None = None
    sample_weight: Sequence[float] | None = None
    config: AlbertConfig | None = None
    vocabulary: PathLike | None = None
    tokenizer: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    recipe: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    questions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    evaluation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    threshold: float | str | None = None
    words: str | None = None
    freeze: str | None = None
    num_hidden_layers: int | None = None
    loop: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_task(self.entry)
        if self.freeze not in (None, FROZEN_ENCODER):
            raise InputError(f"freeze={self.freeze!r} must be {FROZEN_ENCODER!r}, or nothing")
        self._check_start()
        if self.num_hidden_layers is not None:
            check_range("num_hidden_layers", self.num_hidden_layers, at_least=1)
            if self.config is not None:
                raise InputError(f"num_hidden_layers={self.num_hidden_layers} of a `config`: set it there")
        if self.words is not None:
            check_choice("words", self.words, WORDS)
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, [AUTO_THRESHOLD])
        elif self.threshold is not None:
            check_range("threshold", self.threshold, above=0, below=1)
        if (best_by := self.evaluated_by.best_by) is not None:
            check_choice("best_by", best_by, self.entry.reported)
        if self.eval is not None and "eval_share" in self.evaluation:
            raise InputError("eval and eval_share: each says what is evaluated on, name one of them")
        _ = self.hyper_parameters(self.config), self.loop_settings(1), QuestionSettings(**self.questions)

    def _check_start(self) -> None:
        """InputError unless it is clear where the weights begin."""
        if (self.init_from is None) == (self.config is None):
            raise InputError("give one of `init_from`, to start from weights, and `config`, for random ones")
        if self.config is not None and self.vocabulary is None:
            raise InputError("config: random weights need a vocabulary: name it by --vocabulary")

    def _check_task(self, task: TaskSpec) -> None:
        """InputError if a setting is missing for the task, or of no use to it."""
        kind, is_folder = task.kind, task.format.is_folder
        is_text = issubclass(kind, TextTask)
        has_columns, long = is_text and not is_folder, self.recipe.get("long", LongTexts.long)
        has_windows, has_exits = is_text and long == WINDOWS, self.recipe.get("early_exit", False)
        if has_exits and not self.learns_exits:
            raise InputError("early_exit: a student learns the teacher's last layer alone: leave it out")
        questions = {name for name in self.questions if not has_windows or name != "doc_stride"}
        names_of_questions = ", ".join(sorted(questions))
        values: dict[str, Any] = {**vars(self), **self.recipe, **self.evaluation}
        values["text and label"] = self.columns and self.columns.label
        values["early_exit"], values[names_of_questions] = has_exits or None, questions or None
        # True if the task needs a value, else it has no use for one.
        needed = {"data": is_folder, "train": not is_folder, "text and label": has_columns}
        # True if the task has a use for a value.
        optional = {
            **dict.fromkeys(("eval", "eval_share"), not is_folder),
            "class_weight": issubclass(kind, _WEIGHTED),
            "label_smoothing": issubclass(kind, _SMOOTHED),
            "sample_weight": has_columns,
            "threshold": kind in (MultiLabel, Classification),
            "words": kind is Tagging,
            "pooling": kind.is_pooled,
            "early_exit": kind.has_exits,
            "exit_threshold": kind is Regression and has_exits,
            **dict.fromkeys(("long", "window_pooling"), is_text),
            names_of_questions: kind.has_windows,
        }
        for name, is_needed in needed.items():
            if is_needed and values[name] is None:
                flags = name.replace(" and ", " and --")
                raise InputError(f"task={self.task!r} needs {name}: give --{flags}")
        for name, is_of_use in {**needed, **optional}.items():
            if values.get(name) is not None and not is_of_use:
                raise InputError(f"{name}: of no use to task={self.task!r}, leave it out")
        if is_text:
            self._check_long(long)

    def _check_long(self, long: str) -> None:
        """InputError if settings of texts contradict what is read of long ones."""
        columns = self.columns and self.columns._asdict()
        if long != LongTexts.long and takes_pairs({"task": self.task, "columns": columns}):
            raise InputError(f"long={long!r}: pairs of texts are truncated, leave it out")
        if long == WINDOWS and self.recipe.get("early_exit"):
            raise InputError(f"early_exit: of no use to long={long!r}, leave one of them out")
        if long != WINDOWS and "window_pooling" in self.recipe:
            raise InputError(f"window_pooling: of no use to long={long!r}, leave it out or name {WINDOWS}")

    @property
    def entry(self) -> TaskSpec:
        """The entry of the task in the table of all; an InputError where it is not one to train for."""
        task = find_task_spec(self.task)
        if task.trained_as:
            raise InputError(f"task={self.task!r} has no training data: use a run of {task.trained_as}")
        return task

    @property
    def evaluated_by(self) -> EvaluationSettings:
        """The share that is held out, and the metric of the best step."""
        return EvaluationSettings(**self.evaluation)

    def hyper_parameters(self, network: AlbertConfig | None = None) -> FinetuningRecipe:
        """The task's, with what is asked for; sequences are at most as long as a network has positions.

        Raises:
          InputError: a length is asked for that the network has not.
        """
        recipe = FINETUNING_RECIPES[self.task].replace(**self.recipe)
        longest = recipe.seq_length if network is None else network.max_position_embeddings
        if recipe.seq_length > longest and "seq_length" in self.recipe:
            raise InputError(f"seq_length={recipe.seq_length} is more than the network's {longest} positions")
        return recipe.replace(seq_length=min(recipe.seq_length, longest))

    def loop_settings(self, epoch: int) -> LoopSettings:
        """Settings of the loop, given the updates of an epoch."""
        every = min(epoch, _LONGEST)
        defaults = {"log_every": min(every, 100), "eval_every": every, "checkpoint_every": every}
        return LoopSettings(**{**defaults, **self.loop})

    def unlabelled_records(self) -> Records:
        """Records that a teacher alone labels."""
        return ()

    def output_run(self) -> RunDirectory:
        """The run directory `output`, whether or not it is there.

        Raises:
          InputError: there is a run that fine-tuning has not made: it cannot go on there.
        """
        run = RunDirectory(self.output, "output")
        if exists(run.file(TASK_FILE)) and not (run.is_begun and BEST_KEY in run.task):
            raise InputError(f"{run} was not fine-tuned: name another `output`, and this one as `init_from`")
        return run

    def with_seeds(self, runs: int) -> dict[str, Finetuning]:
        """The settings of several runs, from this seed on, by their folders in `output`, `seed-<n>`.

        Raises:
          InputError: a seed is too large, `output` is a run itself, or a folder is not of fine-tuning.
        """
        check_range("runs", runs, at_least=1)
        folder = RunDirectory(self.output, "output")
        if exists(folder.file(TASK_FILE)):
            raise InputError(f"{folder} is a single run: name another --output for several")
        each = {}
        for seed in range(self.seed, self.seed + runs):
            name = f"{SEED_PREFIX}{seed}"
            each[name] = dataclasses.replace(self, seed=seed, output=folder.file(name))
            each[name].output_run()
        return each

    @contextlib.contextmanager
    def open_start(self, run: RunDirectory) -> Iterator[InitFrom]:
        """The network, the vocabulary and the first weights, which are there as long as the block runs."""
        # What a run has begun with may be gone by then.
        origin = run.path if run.is_begun and run.steps() else self.init_from
        if origin is None:
            assert self.config is not None
            assert self.vocabulary is not None
            config = self.config.replace(vocab_size=len(open_tokenizer(self.vocabulary).vocabulary))
            tokenizer = resolve_settings(self.vocabulary, self.tokenizer)
            yield InitFrom(config, Path(self.vocabulary), tokenizer, run=None)
            return
        with open_init_from(origin, self.vocabulary, self.tokenizer) as start:
            config, layers = start.config, self.num_hidden_layers
            if self.config is not None:  # which is compared with that of the run
                config = self.config.replace(vocab_size=config.vocab_size)
            if layers is not None:
                if origin is self.init_from:  # else compared with that of the run, too
                    most, remedy = config.num_hidden_layers, f"{origin} has no more layers"
                    check_range("num_hidden_layers", layers, at_most=most, remedy=remedy)
                config = config.replace(num_hidden_layers=layers)
            yield start._replace(config=config)

    def chooses_threshold(self, run: RunDirectory) -> bool:
        """True if a threshold is chosen at the end: it is asked for, or a former call has chosen one."""
        return self.threshold == AUTO_THRESHOLD or (self.threshold is None and CHOSEN in run.recipe)

    def complete_recipe(self, recipe: FinetuningRecipe, train: Records) -> FinetuningRecipe:
        """Hyper-parameters with the ones that the records to train on decide, unless they are set."""
        if recipe.early_exit and self.entry.kind is Regression and recipe.exit_threshold is None:
            return recipe.replace(exit_threshold=float(np.std(scores(train)) / 10))
        return recipe

    def task_entries(self, recipe: FinetuningRecipe, labelled: Records, run: RunDirectory) -> dict[str, Any]:
        """The entries of task.json of a model that learns these records.

        Raises:
          InputError: a record lacks its label, or `best_by` is of two labels and there are others.
        """
        kind, questions = self.entry.kind, QuestionSettings(**self.questions)
        others = recipe.long_texts(questions.doc_stride).entries()
        if (best_by := self.evaluated_by.best_by) is not None:
            others[BEST_KEY] = f"eval_{best_by}"
        if recipe.pooling != FIRST:  # the default of the models, which task.json leaves out
            others["pooling"] = recipe.pooling
        if recipe.early_exit:
            others["early_exit"] = True
            if kind is Regression:
                others["exit_threshold"] = recipe.exit_threshold
        if kind is Tagging:
            there = run.task if run.is_begun else {}
            others["words"] = self.words or there.get("words", PUNCTUATION_WORDS)
        # One that is chosen at the end is not that of the evaluations before.
        threshold = THRESHOLD if self.chooses_threshold(run) else self.threshold
        assert not isinstance(threshold, str)
        settings = recipe.seq_length, self.columns, questions, threshold
        entries = task_entries(self.task, labelled, *settings, **others)
        if best_by == "auc" and len(entries.get("labels", "01")) != 2:
            raise InputError(f"best_by='auc' is of two labels, and there are {len(entries['labels'])}")
        return entries

    def in_steps(self, recipe: FinetuningRecipe, examples: int, run: RunDirectory) -> FinetuningRecipe:
        """Hyper-parameters with numbers of updates; a run that is begun keeps its warm-up.

        Raises:
          InputError: that is longer than the steps.
        """
        recipe = recipe.in_steps(examples)
        there = run.recipe.get("warmup_steps")
        if there is None or "warmup_steps" in self.recipe:
            return recipe
        assert recipe.steps is not None
        if recipe.steps < there:
            asked = self.run_length(recipe.steps)
            raise InputError(
                f"{run} has warmup_steps={there}, more than {asked}: give more, or another --output"
            )
        return recipe.replace(warmup_steps=there)

    def run_length(self, steps: int | None) -> str:
        """The length of a run as it is asked for."""
        epochs = self.hyper_parameters(self.config).epochs
        return f"--steps {steps}" if epochs is None else f"--epochs {epochs:g} ({steps} updates)"

    def check_begun(self, run: RunDirectory, asked: Mapping[str, Any]) -> None:
        """InputError, with what differs, unless a run was begun with these entries of its JSON files."""
        but = list[str]()
        if self.chooses_threshold(run):  # which also a run can that had the default until now
            asked = {**asked, "threshold": AUTO_THRESHOLD}
            is_free = CHOSEN in run.recipe or run.task.get("threshold", THRESHOLD) == THRESHOLD
            but = ["threshold"] if is_free else []
        self.check_same(run, asked, {}, but)

    def record(self, run: RunDirectory) -> dict[str, Any]:
        """The entries of recipe.json besides hyper-parameters and data."""
        given = {"data": self.data, "train": self.train, "eval": self.eval}
        paths = {name: None if value is None else path_list(value) for name, value in given.items()}
        return {
            **{name: value[0] if value and len(value) == 1 else value for name, value in paths.items()},
            **self.run_record(run),
            "freeze": self.freeze,
            "eval_share": self.evaluated_by.eval_share,
        }
