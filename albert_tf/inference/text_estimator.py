"""A scikit-learn estimator from texts to labels or numbers, for pipelines, searches and cross-validation."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import finetuned_entries
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.inference.estimator_data import (
    MADE_BY,
    PickledRun,
    check_columns,
    check_one_dimensional,
    check_replaceable,
    class_names,
    classes_and_names,
    column_names,
    write_table,
)
from albert_tf.inference.inputs import LabelEncoder, expand_weight, parse_texts
from albert_tf.io import PathLike
from albert_tf.runs.run_directory import RunDirectory, best_run
from albert_tf.tasks.examples import normalize_label
from albert_tf.text.text_tokenizer import as_list
from albert_tf.training.compute_settings import ComputeConfig

CLASSIFICATION, REGRESSION = "classification", "regression"

# Arguments that are fields of FinetuningRecipe.
_RECIPE = (
    *("epochs", "steps", "learning_rate", "batch_size", "seq_length", "dropout", "classifier_dropout"),
    *("pooling", "long", "window_pooling", "class_weight", "label_smoothing"),
)


class TextEstimator(BaseEstimator):
    """A scikit-learn estimator that fine-tunes a network on texts and labels, as `albert-tf finetune` does.

    Texts are a list, an array or a column of strings. Pairs of texts are a list of tuples or a table of two
    columns. If an argument is None and nothing else is said, the default of `albert-tf finetune --task
    classification` is used.

    Args:
      init_from: where the weights come from: a run directory or a published name, such as "albert_base_v2".
      task: "classification" or "regression".
      output: path of a run directory that each `fit` writes when it ends. It replaces the run of an earlier
        `fit` and nothing else. None: no run is written. Predictions and pickles use the estimator's own copy
        of the weights.
      epochs: number of epochs (5).
      steps: number of training steps, instead of epochs.
      learning_rate: learning rate at the end of the warm-up (3e-5).
      batch_size: texts in a training step (16), and texts at a time in predictions (32).
      seq_length: longest input, in tokens (256, or fewer if the network has fewer positions).
      long: how longer texts are read: "truncate", "head_tail" or "windows".
      doc_stride: tokens from one window to the next (128).
      window_pooling: how the logits of a text's windows are combined: "mean" (the default) or "max".
      dropout: dropout rate of hidden states and attention (0).
      classifier_dropout: dropout rate before the classifier (0.1).
      pooling: what the classifier reads, "first" (the pooled output) or "mean" (the mean of all tokens' last
        states).
      class_weight: weights in the loss, "balanced" or a dict from labels to weights. None: equal weights.
      label_smoothing: share of each label that is spread evenly over all labels in the loss (0).
      threshold: probability from which a text has the second of two labels, of which names that are numbers
        are in the order of their values; "auto": the best one on the held-out texts. None: the likelier
        label.
      eval_share: share of the texts that is held out.
      best_by: metric of the held-out texts that chooses the best epoch: "accuracy", "f1", "auc", "pearson",
        "rmse", "loss" and others. None: "accuracy", or "pearson" for regression.
      early_stop: number of evaluations without improvement after which training ends. 0: never.
      precision: "float32", "bfloat16" or "float16".
      seed: seed of everything random.
      verbose: 0: only warnings. 1: `fit` shows its log, and on a terminal a progress bar.
    Attributes:
      classes_: labels in ascending order, for a classifier.
      feature_names_in_: names of the columns of X, if it was a table.
      threshold_: threshold between two labels. None: the likelier label is chosen.
      run_: path of the fine-tuned run, which commands and `hub_export` read: `output`, or a temporary folder
        that exists as long as the estimator.
    Note: `fit` holds out a part of its texts, chooses the best epoch on them, and keeps the weights of this
      epoch.

    Example:
      >>> from albert_tf.sklearn import TextEstimator
      >>> estimator = TextEstimator(init_from="demo-output/run", steps=1, seq_length=32)
      >>> texts, labels = ["A fine film.", "Dull."] * 8, ["good", "bad"] * 8
      >>> estimator.fit(texts, labels).classes_.tolist()
      ['bad', 'good']
      >>> estimator.predict_proba(["Fine."]).shape
      (1, 2)
    """

    def __init__(
        self,
        init_from: PathLike | None = None,
        *,
        task: str = CLASSIFICATION,
        output: PathLike | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        seq_length: int | None = None,
        long: str | None = None,
        doc_stride: int | None = None,
        window_pooling: str | None = None,
        dropout: float | None = None,
        classifier_dropout: float | None = None,
        pooling: str | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        label_smoothing: float | None = None,
        threshold: float | str | None = None,
        eval_share: float = 0.1,
        best_by: str | None = None,
        early_stop: int = 0,
        precision: str = "float32",
        seed: int = 0,
        verbose: int = 0,
    ):
        arguments = locals()
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        if self.task == CLASSIFICATION:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TextEstimator:
        """Fine-tunes the weights of `init_from`; an earlier `fit` is forgotten.

        Args:
          X: texts or pairs, [n]. A missing text is read as an empty one.
          y: labels of any type; for regression numbers. [n].
          sample_weight: weights of the texts in the loss, [n] or one number, times those of `class_weight`.
            The held-out texts are scored without them. None: equal weights.
        Returns:
          The estimator.
        Raises:
          ValueError: an argument is impossible, a label is missing, a value is not a text or a weight, or
            their numbers differ.
          FileExistsError: `output` holds something else than the run of an earlier `fit`.
        """
        if self.task not in (CLASSIFICATION, REGRESSION):
            others = "`albert-tf finetune` trains for others"
            raise InputError(f"task={self.task!r} is none of {CLASSIFICATION}, {REGRESSION}: {others}")
        if self.init_from is None:
            raise InputError("init_from is missing: name a run directory or a published checkpoint")
        output = None if self.output is None else RunDirectory(self.output, "output")
        if output is not None:
            check_replaceable(output)
        texts, y = parse_texts(X, "X"), check_one_dimensional(y)
        if self.task == CLASSIFICATION:
            classes, labels = classes_and_names(y)
            check_classification_targets(classes)
        else:
            numbers = LabelEncoder(None, 1, None).targets(np.asarray(y), len(texts), "y")
            classes, labels = None, numbers.tolist()
        weights = expand_weight(sample_weight, len(texts))
        if weights is not None and not weights.any():
            raise InputError("sample_weight: all are 0: nothing would be learned")
        params = self.get_params(deep=False)
        # Grids of hyper-parameters contain NumPy scalars.
        params = {name: x.item() if isinstance(x, np.generic) else x for name, x in params.items()}
        recipe = {name: params[name] for name in _RECIPE if params[name] is not None}
        if isinstance(self.class_weight, Mapping):
            recipe["class_weight"] = {str(label): weight for label, weight in self.class_weight.items()}
        with tempfile.TemporaryDirectory() as folder, _log_level(self.verbose):
            train = Path(folder, "train.jsonl")
            settings = Finetuning(
                output=train.with_name("run"),
                init_from=self.init_from,
                task=self.task,
                train=train,
                columns=write_table(train, texts, labels),
                sample_weight=None if weights is None else weights.tolist(),
                recipe=recipe,
                questions={} if self.doc_stride is None else {"doc_stride": params["doc_stride"]},
                evaluation={name: params[name] for name in ("eval_share", "best_by")},
                threshold=params["threshold"],
                loop={"early_stop": params["early_stop"]},
                compute=ComputeConfig(precision=self.precision),
                seed=params["seed"],
                command=MADE_BY,
            )
            try:
                finetune(settings)
            except InputError as error:  # its message names the file, and flags
                message = re.sub(r"(?<!\S)--(?=[a-z])", "", str(error))
                raise InputError(message.replace(str(train), "X and y")) from None
            run = PickledRun.of(RunDirectory(settings.output))
        if output is not None:
            run.copy_to(output)
        return self._set_fitted(run, classes, column_names(X))

    def _set_fitted(self, run: PickledRun, classes: Any, columns: Any) -> TextEstimator:
        self._run, self.threshold_ = run, RunDirectory(run.path).task.get("threshold")
        self.__dict__.pop("feature_names_in_", None)
        if columns is not None:
            self.feature_names_in_ = columns
        if classes is not None:
            self.classes_ = classes
        return self

    @classmethod
    def from_pretrained(cls, run: PathLike, **arguments: Any) -> TextEstimator:
        """Creates a fitted estimator from a run that was fine-tuned for classification or regression.

        Args:
          run: path of the run.
          **arguments: arguments of the class, for a later `fit`.
        Returns:
          The estimator. Its `classes_` are the names of the labels.
        Raises:
          InputError: the run was not fine-tuned for such a task, or its labels have no names.
        """
        stored = best_run(run)
        task = TASK_SPECS[finetuned_entries(stored)["task"]].task_class.name
        estimator = cls(**{"init_from": stored.path, "task": task, **arguments})
        if task != REGRESSION and (task != CLASSIFICATION or "labels" not in stored.task):
            tasks = f"{REGRESSION} or {CLASSIFICATION} with names of labels"
            raise InputError(f"{stored} is not fine-tuned for {tasks}: name such a run")
        classes = np.sort(np.array(stored.task["labels"])) if task == CLASSIFICATION else None
        return estimator._set_fitted(PickledRun.of(stored), classes, None)

    @property
    def run_(self) -> str:
        """Path of the fine-tuned run directory."""
        return self._run.output or self._run.path

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")

    def _answers(self, X: Any, top_k: int | None = None) -> list[Any]:
        check_is_fitted(self)
        check_columns(column_names(X), getattr(self, "feature_names_in_", None))
        return self._run.predictor.answers(parse_texts(X, "X"), self.batch_size or 32, top_k)

    def predict(self, X: Any) -> np.ndarray:
        """Predicts a label for each text, or a number for regression.

        Args:
          X: texts or pairs, [n]. A missing text is read as an empty one.
        Returns:
          Labels as in `classes_`, [n]; for regression float64 [n].
        Raises:
          NotFittedError: `fit` was not called.
          InputError: a value is not a text, or the columns are not those of `fit`.
        """
        answers = self._answers(X)
        if self.task == REGRESSION:
            return np.array([answer["score"] for answer in answers])
        places = self._places
        return self.classes_[np.array([places[normalize_label(answer["label"])] for answer in answers], int)]

    @available_if(is_classifier)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predicts the probabilities of all labels.

        Args:
          X: texts or pairs, [n].
        Returns:
          float64 [n, K], in the order of `classes_`.
        Raises:
          NotFittedError: `fit` was not called.
          InputError: a value is not a text, or the columns are not those of `fit`.
        """
        check_is_fitted(self)
        places = self._places
        answers = self._answers(X, len(places))
        probabilities = np.zeros([len(answers), len(places)])
        for row, answer in zip(probabilities, answers, strict=True):
            for label in answer:
                row[places[normalize_label(label["label"])]] = label["score"]
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # float32's rounding

    @available_if(is_classifier)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Computes the logarithms of `predict_proba`.

        Args:
          X: texts or pairs, [n].
        Returns:
          float64 [n, K], in the order of `classes_`.
        Raises:
          NotFittedError: `fit` was not called.
          InputError: a value is not a text, or the columns are not those of `fit`.
        """
        return np.log(self.predict_proba(X))

    @property
    def _places(self) -> dict[str, int]:
        """Indices in `classes_` by the labels' names in the run."""
        return {name: place for place, name in enumerate(class_names(self.classes_))}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Computes the accuracy of a classifier, or R² of a regression.

        Args:
          X: texts or pairs, [n].
          y: labels or numbers, [n].
          sample_weight: weights of the texts, [n] or one number. None: equal weights.
        Returns:
          The accuracy, or R².
        Raises:
          NotFittedError: `fit` was not called.
          InputError: a value is not a text, or the columns are not those of `fit`.
        """
        predicted, y = self.predict(X), check_one_dimensional(y)
        weight = expand_weight(sample_weight, len(predicted))
        if self.task != CLASSIFICATION:
            return float(r2_score(y, predicted, sample_weight=weight))
        names = (class_names(as_list(labels)) for labels in (y, predicted))  # 1 and 1.0 are the label "1"
        return float(accuracy_score(*names, sample_weight=weight))


@contextlib.contextmanager
def _log_level(verbose: int) -> Iterator[None]:
    """Shows the log, or only warnings, while the block runs."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
