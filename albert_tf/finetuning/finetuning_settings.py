"""Settings of fine-tuning; they decide the start, the hyper-parameters and task.json of a run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.constants import FIRST, PUNCTUATION_WORDS, WINDOWS, WORDS_CHOICES
from albert_tf.conversion.init_from import InitFrom, open_init_from
from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, EvaluationSettings, FinetuningRecipe
from albert_tf.finetuning.task_table import TASK_SPECS, TaskSpec, find_task_spec, task_entries
from albert_tf.io import PathLike
from albert_tf.recipes import LongTexts, QuestionSettings
from albert_tf.runs.run_directory import (
    BEST_KEY,
    CHOSEN_THRESHOLD_KEY,
    EVALUATION,
    SEED_PREFIX,
    TASK_FILE,
    RunDirectory,
)
from albert_tf.tasks.classification import TextTask, takes_pairs
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import regression_labels
from albert_tf.tasks.formats import Records
from albert_tf.tasks.multi_label import THRESHOLD
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.text.files import Paths, path_list
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.training.compute_settings import LoopSettings
from albert_tf.training.run_settings import RunSettings, format_run_length

FROZEN_ENCODER = "encoder"  # a value of `freeze`
AUTO_THRESHOLD = "auto"  # a value of `threshold`: the best one on the evaluation data

# Settings that not every task can use.
_TASK_SETTINGS = {"data", "train", "eval", "eval_share", "text and label"}.union(
    *(spec.task_class.supported_settings for spec in TASK_SPECS.values())
)

# Most steps between two evaluations, however long an epoch is.
_MAX_EVAL_INTERVAL = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finetuning(RunSettings):
    """Settings of a fine-tuning run; `RunSettings` has the settings of every run.

    Args:
      task: a name in TASK_SPECS.
      data: folder with the original files of a task that has one (GLUE, RACE).
      train: files or globs to train on, for any other task.
      eval: files or globs to evaluate on; None: a share of `train` is held out.
      columns: names of the columns of your own table.
      sample_weight: weight in the loss of each row of your own table, which must not have a column `id`.
      config: the network, to start from random weights.
      vocabulary: SentencePiece model, if `init_from` has none.
      tokenizer: `lowercase` and `strip_accents`, if neither `init_from` nor the vocabulary defines them.
      recipe: changes of the task's hyper-parameters, by the fields of FinetuningRecipe.
      questions: changes of the default QuestionSettings, for a task with contexts; `doc_stride` also for
        texts in windows.
      evaluation: changes of the default EvaluationSettings, by its fields.
      threshold: for multi_label, probability from which on a text has a label (None: 0.5); for two labels,
        probability from which on a text has the second (None: if it is the likelier). "auto" chooses the
        threshold with the best value of the metric that chooses the best step, also for a finished run.
      words: for plain text to tag: "spaces" separate words, or "punctuation" marks are words, too, as in
        tagged corpora; None: the value of the existing run, else "punctuation".
      freeze: "encoder" trains only the head; None: everything.
      num_hidden_layers: number of layers, fewer than `init_from` has. Shared layers are applied this many
        times. Layers of their own: this many are kept, spread evenly over the depth. None: all.
      loop: changes of the defaults, by the fields of LoopSettings: evaluate and save once an epoch, and at
        least every 1,000 steps.
    Raises:
      InputError: a setting is impossible, missing, or of no use to the task.
    """

    # `prepare_run` compares the content of the data.
    CHANGEABLE: ClassVar[Collection[str]] = (
        *(*RunSettings.CHANGEABLE, "epochs", "data", "train", "eval"),
        *("examples", "data_sha256", "eval_examples", "eval_sha256"),
    )

    learns_exits: ClassVar[bool] = True  # False if early_exit is impossible

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
        self._check_task(self.task_spec)
        if self.freeze not in (None, FROZEN_ENCODER):
            raise InputError(f"freeze={self.freeze!r} must be {FROZEN_ENCODER!r}, or nothing")
        self._check_start()
        if self.num_hidden_layers is not None:
            check_range("num_hidden_layers", self.num_hidden_layers, at_least=1)
            if self.config is not None:
                raise InputError(f"num_hidden_layers={self.num_hidden_layers} of a `config`: set it there")
        if self.words is not None:
            check_choice("words", self.words, WORDS_CHOICES)
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, [AUTO_THRESHOLD])
        elif self.threshold is not None:
            check_range("threshold", self.threshold, above=0, below=1)
        if (best_by := self.evaluation_settings.best_by) is not None:
            check_choice("best_by", best_by, self.task_spec.best_by_choices)
        if self.eval is not None and "eval_share" in self.evaluation:
            raise InputError("eval and eval_share: each says what is evaluated on, name one of them")
        _ = self.hyper_parameters(self.config), self.loop_settings(1), QuestionSettings(**self.questions)

    def _check_start(self) -> None:
        """Raises InputError unless the settings say where the first weights come from."""
        if (self.init_from is None) == (self.config is None):
            raise InputError("give one of `init_from`, to start from weights, and `config`, for random ones")
        if self.config is not None and self.vocabulary is None:
            raise InputError("config: random weights need a vocabulary: name it by `vocabulary`")

    def _check_task(self, spec: TaskSpec) -> None:
        """Raises InputError if the task needs a missing setting, or has no use for a given one."""
        is_text, is_folder = issubclass(spec.task_class, TextTask), spec.format.is_folder
        long, has_exits = self.recipe.get("long", LongTexts.long), self.recipe.get("early_exit", False)
        if has_exits and not self.learns_exits:
            raise InputError("early_exit: a student learns the teacher's last layer alone: leave it out")
        values: dict[str, Any] = {**vars(self), **self.recipe, **self.evaluation}
        if self.columns is not None:
            values["text and label"] = self.columns.label if spec.has_columns else self.columns.text
        values["early_exit"] = has_exits or None
        given = {name for name, value in values.items() if value is not None} | self.questions.keys()
        needed = ["data" if is_folder else "train", *(["text and label"] if spec.has_columns else [])]
        for name in needed:
            if name not in given:
                names = name.replace(" and ", "` and `")
                raise InputError(f"task={self.task!r} needs {name}: give `{names}`")
        usable = {*needed, *spec.task_class.supported_settings}
        if not is_folder:
            usable |= {"eval", "eval_share"}
        # Some settings are of use only with a table, or with another setting.
        if not spec.has_columns:
            usable.discard("sample_weight")
        if not has_exits:
            usable.discard("exit_threshold")
        if is_text and long != WINDOWS:
            usable.discard("doc_stride")
        if useless := sorted((_TASK_SETTINGS | self.questions.keys()) & given - usable):
            raise InputError(f"{', '.join(useless)}: of no use to task={self.task!r}, leave it out")
        if is_text:
            self._check_long(long)

    def _check_long(self, long: str) -> None:
        """Raises InputError if other settings contradict the way to read long texts."""
        columns = self.columns and self.columns._asdict()
        if long != LongTexts.long and takes_pairs({"task": self.task, "columns": columns}):
            raise InputError(f"long={long!r}: pairs of texts are truncated, leave it out")
        if long == WINDOWS and self.recipe.get("early_exit"):
            raise InputError(f"early_exit: of no use to long={long!r}, leave one of them out")
        if long != WINDOWS and "window_pooling" in self.recipe:
            raise InputError(f"window_pooling: of no use to long={long!r}, leave it out or name {WINDOWS}")

    @property
    def task_spec(self) -> TaskSpec:
        """The entry of the task in TASK_SPECS; raises InputError if the task has no training data."""
        spec = find_task_spec(self.task)
        if spec.trained_as:
            raise InputError(f"task={self.task!r} has no training data: use a run of {spec.trained_as}")
        return spec

    @property
    def evaluation_settings(self) -> EvaluationSettings:
        """The share to hold out, and the metric that chooses the best step."""
        return EvaluationSettings(**self.evaluation)

    def hyper_parameters(self, network: AlbertConfig | None = None) -> FinetuningRecipe:
        """The task's hyper-parameters with the changes in `recipe`, at the lengths that the network can read.

        Raises:
          InputError: `recipe` has a longer seq_length than the network has positions.
        """
        recipe = FINETUNING_RECIPES[self.task].replace(**self.recipe)
        longest = recipe.seq_length if network is None else network.max_position_embeddings
        if recipe.seq_length > longest and "seq_length" in self.recipe:
            raise InputError(f"seq_length={recipe.seq_length} is more than the network's {longest} positions")
        return recipe.replace(seq_length=min(recipe.seq_length, longest))

    def loop_settings(self, epoch_steps: int) -> LoopSettings:
        """Settings of the training loop, given the number of steps in an epoch."""
        every = min(epoch_steps, _MAX_EVAL_INTERVAL)
        defaults = {"log_every": min(every, 100), "eval_every": every, "checkpoint_every": every}
        return LoopSettings(**{**defaults, **self.loop})

    def unlabelled_records(self) -> Records:
        """Records that only a teacher labels."""
        return ()

    def output_run(self) -> RunDirectory:
        """The run directory `output`, whether or not it exists.

        Raises:
          InputError: `output` is a run that was not fine-tuned, so that fine-tuning cannot resume it.
        """
        run = RunDirectory(self.output, "output")
        if run.has(TASK_FILE) and not (run.has_recipe and BEST_KEY in run.task):
            raise InputError(f"{run} was not fine-tuned: name another `output`, and this one as `init_from`")
        return run

    def with_seeds(self, runs: int) -> dict[str, Finetuning]:
        """The settings of several runs with consecutive seeds, by the names of their folders, `seed-<n>`.

        Raises:
          InputError: a seed is too large, `output` is itself a run, or a folder has a run that was not
            fine-tuned.
        """
        check_range("runs", runs, at_least=1)
        folder = RunDirectory(self.output, "output")
        if folder.has(TASK_FILE):
            raise InputError(f"{folder} is a single run: name another `output` for several")
        settings = {}
        for seed in range(self.seed, self.seed + runs):
            name = f"{SEED_PREFIX}{seed}"
            settings[name] = dataclasses.replace(self, seed=seed, output=folder.file(name))
            settings[name].output_run()
        return settings

    @contextlib.contextmanager
    def open_start(self, run: RunDirectory) -> Iterator[InitFrom]:
        """The network, the vocabulary and the first weights, which exist as long as the block runs."""
        # A resumed run does not need `init_from`, which may no longer exist.
        origin = run.path if run.has_recipe and run.steps() else self.init_from
        if origin is None:
            assert self.config is not None
            assert self.vocabulary is not None
            config = self.config.replace(vocab_size=len(open_tokenizer(self.vocabulary).vocabulary))
            tokenizer = resolve_settings(self.vocabulary, self.tokenizer)
            yield InitFrom(config, Path(self.vocabulary), tokenizer, run=None)
            return
        with open_init_from(origin, self.vocabulary, self.tokenizer) as start:
            config, layers = start.config, self.num_hidden_layers
            if self.config is not None:  # to compare it with the config of the run
                config = self.config.replace(vocab_size=config.vocab_size)
            if layers is not None:
                if origin is self.init_from:  # a resumed run has this depth already; its config is compared
                    most, remedy = config.num_hidden_layers, f"{origin} has no more layers"
                    check_range("num_hidden_layers", layers, at_most=most, remedy=remedy)
                config = config.replace(num_hidden_layers=layers)
            yield start._replace(config=config)

    def chooses_threshold(self, run: RunDirectory) -> bool:
        """True if the run chooses a threshold at its end: `threshold` is "auto", or an earlier call chose."""
        return self.threshold == AUTO_THRESHOLD or (
            self.threshold is None and CHOSEN_THRESHOLD_KEY in run.recipe
        )

    def complete_recipe(self, recipe: FinetuningRecipe, train: Records) -> FinetuningRecipe:
        """The recipe with an exit_threshold from the records to train on, if it needs one and has none."""
        if recipe.early_exit and self.task_spec.task_class is Regression and recipe.exit_threshold is None:
            return recipe.replace(exit_threshold=float(np.std(regression_labels(train)) / 10))
        return recipe

    def task_entries(self, recipe: FinetuningRecipe, records: Records, run: RunDirectory) -> dict[str, Any]:
        """The entries of task.json of a model that learns these labelled records.

        Raises:
          InputError: a record has no label, or `best_by` is only for two labels and there are more.
        """
        task_class, questions = self.task_spec.task_class, QuestionSettings(**self.questions)
        others = recipe.long_texts(questions.doc_stride).entries()
        if (best_by := self.evaluation_settings.best_by) is not None:
            others[BEST_KEY] = f"{EVALUATION}{best_by}"
        if recipe.pooling != FIRST:  # the default of the models, which task.json leaves out
            others["pooling"] = recipe.pooling
        if recipe.early_exit:
            others["early_exit"] = True
            if task_class is Regression:
                others["exit_threshold"] = recipe.exit_threshold
        if task_class is Tagging:
            stored = run.task if run.has_recipe else {}
            others["words"] = self.words or stored.get("words", PUNCTUATION_WORDS)
        # Evaluations during training do not use the threshold that is chosen at the end.
        threshold = THRESHOLD if self.chooses_threshold(run) else self.threshold
        assert not isinstance(threshold, str)
        settings = recipe.seq_length, self.columns, questions, threshold
        entries = task_entries(self.task, records, *settings, **others)
        if best_by == "auc" and len(entries.get("labels", "01")) != 2:
            raise InputError(f"best_by='auc' is of two labels, and there are {len(entries['labels'])}")
        return entries

    def in_steps(self, recipe: FinetuningRecipe, examples: int, run: RunDirectory) -> FinetuningRecipe:
        """The recipe with numbers of steps; an existing run keeps its warm-up.

        Raises:
          InputError: the warm-up is longer than the run.
        """
        recipe = recipe.in_steps(examples)
        warmup_steps = run.recipe.get("warmup_steps")
        if warmup_steps is None or "warmup_steps" in self.recipe:
            return recipe
        assert recipe.steps is not None
        if recipe.steps < warmup_steps:
            length = format_run_length(recipe.steps, self.epochs)
            problem = f"{run} has warmup_steps={warmup_steps}, more than {length}"
            raise InputError(f"{problem}: give more, or another `output`")
        return recipe.replace(warmup_steps=warmup_steps)

    @property
    def epochs(self) -> float | None:
        """The number of epochs. None: the recipe has a number of steps instead."""
        return self.hyper_parameters(self.config).epochs

    def check_resumable(self, run: RunDirectory, entries: Mapping[str, Any]) -> None:
        """Raises InputError, with the differences, unless the run has these entries in its JSON files."""
        but = list[str]()
        if self.chooses_threshold(run):  # a run with the default threshold may choose one later
            entries = {**entries, "threshold": AUTO_THRESHOLD}
            is_free = CHOSEN_THRESHOLD_KEY in run.recipe or run.task.get("threshold", THRESHOLD) == THRESHOLD
            but = ["threshold"] if is_free else []
        self.check_same(run, entries, but)

    def recipe_entries(self, run: RunDirectory) -> dict[str, Any]:
        """The entries of recipe.json, without hyper-parameters and the digests of the data."""
        sources = {"data": self.data, "train": self.train, "eval": self.eval}
        paths = {name: None if value is None else path_list(value) for name, value in sources.items()}
        return {
            **{name: value[0] if value and len(value) == 1 else value for name, value in paths.items()},
            **self.run_record(run),
            "freeze": self.freeze,
            "eval_share": self.evaluation_settings.eval_share,
        }
