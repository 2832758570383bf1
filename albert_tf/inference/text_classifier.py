"""A Keras model from texts to logits: tokenizer, encoder and classifier in one."""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.config import published_format
from albert_tf.constants import ENCODER_INPUTS, FIRST, INPUT_MASK, TRUNCATE, WINDOWS
from albert_tf.conversion.init_from import open_init_from
from albert_tf.errors import InputError, MissingFileError, check_whole, make_check, shorten
from albert_tf.filesystem import literal_path
from albert_tf.finetuning.finetuning_recipes import BALANCED, FINETUNING_RECIPES
from albert_tf.inference.classifier_metrics import probability_metric
from albert_tf.inference.inputs import (
    HEAD_VARIABLES,
    LabelEncoder,
    are_pairs,
    check_label_names,
    choose_head,
    expand_weight,
    pack_texts,
    parse_texts,
    segments,
    tokenize_dataset,
    tokenize_inputs,
    translate_label_errors,
)
from albert_tf.io import PathLike, address_of, check_path
from albert_tf.models.compiled_encoder import CompiledEncoder
from albert_tf.models.early_exit import call_with_early_exit, check_patience
from albert_tf.models.encoder import encoder_inputs
from albert_tf.models.padding import skip_padding
from albert_tf.models.task_models import AlbertClassifier
from albert_tf.recipes import LongTexts
from albert_tf.runs.build_model import build_model, task_of
from albert_tf.runs.load_save import check_finite, save
from albert_tf.runs.run_directory import HUB, TASK_FILE, RunDirectory, best_run
from albert_tf.tasks import create_task
from albert_tf.tasks.batches import compiled_lengths
from albert_tf.tasks.classification import PAIRS_KEY, takes_pairs
from albert_tf.tasks.examples import TokenizedExamples, check_forms, truncation_report
from albert_tf.tasks.long_texts import pool_windows, text_inputs, window_inputs
from albert_tf.tasks.metrics import accuracy
from albert_tf.tasks.serving import without_padding
from albert_tf.tasks.task_reports import regression_metrics
from albert_tf.text.text_tokenizer import InputFormat
from albert_tf.text.tokenizer import TextTokenizer, TokenizerConfig, open_tokenizer
from albert_tf.text.tokenizer_config import KIND_DEFAULTS
from albert_tf.training.distribution import uses_xla

CLASSIFIER_RECIPE = FINETUNING_RECIPES["classification"]
DEFAULT_FOR_TASK = "auto"

# Default loss and metrics of `compile`, by task.
_DEFAULTS: dict[str, Callable[[], tuple[Any, list[Any]]]] = {
    "regression": lambda: (keras.losses.MeanSquaredError(), []),
    "classification": lambda: (keras.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"]),
    "multi_label": lambda: (
        keras.losses.BinaryCrossentropy(from_logits=True),
        [keras.metrics.BinaryAccuracy(threshold=0.0)],
    ),
}

# Entries of task.json about the meaning of logits, and about long texts.
_OPTIONAL_ENTRIES = ("multi_label", "threshold", "long")  # of task.json
_DECISIONS = ("multi_label", "threshold")
_LONG = tuple(field.name for field in dataclasses.fields(LongTexts))

_MAX_TOKENS = 2**28  # of all texts with padding, if these are read whole; each takes 12 bytes

# Inputs that Keras takes as they are: batches, and token ids.
_BATCHES = (keras.utils.Sequence, Iterator, tf.distribute.DistributedDataset)
_NOT_TEXTS = (Mapping, *_BATCHES)


@keras.saving.register_keras_serializable("albert_tf")
class TextClassifier(keras.Model):
    """A Keras 2 model from texts to logits: tokenizer, encoder and classifier in one.

    `from_pretrained` makes one of a run or a published checkpoint. Call it with texts, string [B], and it
    returns logits, float32 [B, K]; K = 1 without `multi_label` is a regression. It can also be called with a
    dict of the encoder's inputs (token ids).

    `fit`, `evaluate` and `predict` take texts as lists, arrays, and columns of pandas or of Hugging Face's
    datasets. They tokenise them once, before the first epoch. Data that does not fit into memory comes as a
    `tf.data.Dataset` of batches. Pairs of texts are a list of tuples, a tuple of two lists, an array [N, 2],
    or a table of two columns.

    A saved model contains the vocabulary.

    Args:
      classifier: an `AlbertClassifier`.
      tokenizer: the tokenizer of the network's vocabulary.
      labels: names of the labels, in the order of the logits. None: the labels have no names.
      seq_length: longest input, in tokens (256). `from_pretrained` takes that of the run, or 256, or the
        network's number of positions if it is smaller.
      long: how longer texts are read. "truncate": their beginning. "head_tail": beginning and end. "windows":
        all, in windows whose logits are pooled. Pairs are always truncated.
      doc_stride: tokens from one window to the next (128).
      window_pooling: how the logits of a text's windows are combined: "mean" or "max".
      pad_to_length: True to pad every batch to `seq_length`, as TPUs need it. False: to its longest text.
      takes_pairs: True if the model learned pairs of texts, False if it learned single texts; it refuses the
        other kind. None: not known before `fit`.
      multi_label: True if a text can have any number of labels.
      threshold: probability from which a text has a label (`multi_label`), or the second of two labels. None:
        0.5, or the likelier of two labels.
      xla: True to compile the network in `predict` with XLA, for a few lengths of texts. None: only on GPUs.
        It is not saved. For training use `compile(jit_compile=True)`.
      **kwargs: arguments of `keras.Model`, such as `name`.
    Raises:
      InputError: an argument does not fit the network.

    Example:
      >>> import albert_tf
      >>> model = albert_tf.TextClassifier.from_pretrained("demo-output/run", labels=["bad", "good"])
      >>> model.compile()
      >>> _ = model.fit(["A fine film.", "Dull."], ["good", "bad"], epochs=1, verbose=0)
      >>> model(["Fine.", "Slow.", "Warm."]).shape
      TensorShape([3, 2])
      >>> model.predict_labels(["Fine."], verbose=0)[0] in ("bad", "good")
      True
    """

    def __init__(
        self,
        classifier: AlbertClassifier,
        tokenizer: TextTokenizer,
        labels: Sequence[str] | None = None,
        seq_length: int = CLASSIFIER_RECIPE.seq_length,
        long: str = TRUNCATE,
        doc_stride: int = LongTexts.doc_stride,
        window_pooling: str = LongTexts.window_pooling,
        pad_to_length: bool = False,
        takes_pairs: bool | None = None,
        multi_label: bool = False,
        threshold: float | None = None,
        xla: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, dtype=classifier.dtype_policy, **kwargs)
        self.classifier = classifier
        self.tokenizer = tokenizer
        self.labels = None if labels is None else tuple(check_label_names(labels, multi_label))
        count = classifier.num_labels
        if self.labels is not None and len(self.labels) != count:
            raise InputError(f"labels={list(self.labels)}: {len(self.labels)} names for num_labels={count}")
        least = 1 + tokenizer.vocabulary.input_format.num_special_tokens(2)
        self.seq_length = check_whole("seq_length", seq_length, least)
        classifier.config.check_length(seq_length)
        self.long_texts = LongTexts(long=long, doc_stride=doc_stride, window_pooling=window_pooling)
        if long != TRUNCATE and takes_pairs:
            raise InputError(f"long={long!r}: pairs of texts are truncated, leave it out")
        if long == WINDOWS and pad_to_length:
            raise InputError(f"pad_to_length={pad_to_length}: the number of windows varies, leave it out")
        self.pad_to_length = pad_to_length
        threshold = threshold.item() if isinstance(threshold, np.generic) else threshold
        make_check("float | None", at_least=0, at_most=1)("threshold", threshold)
        if threshold is not None and count != 2 and not multi_label:
            raise InputError(f"threshold={threshold}: it is between two labels, and there are {count}")
        self.multi_label, self.threshold = multi_label, threshold
        self.xla = xla
        self._begins_at_mean = False
        self._patience: int | None = None  # of the running `predict`
        self.built = True
        self._set_takes_pairs(takes_pairs if long == TRUNCATE else False)

    @classmethod
    def from_pretrained(
        cls,
        run: PathLike,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        step: int | None = None,
        vocabulary: PathLike | None = None,
        dropout: float = CLASSIFIER_RECIPE.dropout,
        classifier_dropout: float = CLASSIFIER_RECIPE.classifier_dropout,
        pooling: str | None = None,
        dtype: Any = None,
        **settings: Any,
    ) -> TextClassifier:
        """Creates the model with the weights of a run or a published checkpoint.

        A run that was fine-tuned for classification or regression keeps its head and labels, unless you give
        others. All other networks get a new head. They also get a new pooler, if they have none and the head
        reads it.

        Args:
          run: path of the run; a published name, such as "albert_base_v2" or "albert/albert-base-v2"; or
            "hub:" and the folder of a TF 2 encoder.
          num_labels: number of labels, K. None: as many as `labels`, or those of the run. 1 is
            regression, unless `multi_label` is set.
          labels: names of the labels, in the order of the logits.
          step: training step of the checkpoint. None: as `albert_tf.load` chooses it.
          vocabulary: path of the SentencePiece model, for a run that has none.
          dropout: dropout rate of hidden states and attention (0).
          classifier_dropout: dropout rate before the classifier (0.1).
          pooling: what the classifier reads, "first" (the pooled output) or "mean" (the mean of all tokens'
            last states). None: as the run's head, or "first".
          dtype: dtype policy of Keras, such as "mixed_bfloat16".
          **settings: further arguments of the class, such as `seq_length`.
        Returns:
          The model. It is not compiled.
        Raises:
          InputError: `run` is not a run, it does not fit the arguments, or the labels are not known.
          FileNotFoundError: the checkpoint or the vocabulary does not exist.
          WorkFailed: a published checkpoint cannot be downloaded.
        """
        is_folder, origin = check_path(run, "run").is_dir(), os.fspath(run)
        if address_of(run) is not None and not origin.startswith(HUB):
            is_folder = published_format(origin) is None
        origin = best_run(run).path if is_folder else origin
        with open_init_from(origin, vocabulary) as start:
            assert start.run is not None
            stored = start.run
            variables = stored.variables(step)
            multi_label = settings.get("multi_label", stored.task.get("multi_label", False))
            head, is_kept = choose_head(stored.task, origin, num_labels, labels, pooling, multi_label)

            def read(name: str) -> np.ndarray | None:
                return variables(name) if is_kept or name not in HEAD_VARIABLES else None

            recipe = CLASSIFIER_RECIPE.replace(dropout=dropout, classifier_dropout=classifier_dropout)
            config = recipe.apply_dropout(stored.config)
            if head["pooling"] == FIRST and config.pooler == "none":
                config = config.with_pooler()
                logging.info("%s has no pooler: a new one begins at random", origin)
            classifier = build_model(config, head, read, dtype=dtype)
            check_finite(classifier, stored, step)
            tokenizer = open_tokenizer(start.vocabulary, **start.tokenizer)
        entries = stored.task if stored.task["model"] == head["model"] else {}
        length = entries.get("seq_length", min(CLASSIFIER_RECIPE.seq_length, config.max_position_embeddings))
        defaults = {"seq_length": length}
        if is_kept:
            defaults |= {name: stored.task[name] for name in (*_DECISIONS, *_LONG) if name in stored.task}
            defaults["takes_pairs"] = takes_pairs(stored.task)
        unused = [name for name in _LONG[1:] if name in settings]
        if unused and {**defaults, **settings}.get("long") != WINDOWS:
            raise InputError(f"{', '.join(unused)}: of no use without long={WINDOWS!r}, leave it out")
        model = cls(classifier, tokenizer, head["labels"], **{**defaults, **settings})
        model._begins_at_mean = model._is_regression and not is_kept
        return model

    @classmethod
    def load(cls, path: PathLike) -> TextClassifier:
        """Loads a model that `save` has written, as `keras.models.load_model` does.

        Args:
          path: path of the SavedModel or `.keras` file.
        Returns:
          The model.
        Raises:
          InputError: it is another model, or damaged.
          OSError: it does not exist or cannot be read.
        """
        if not check_path(path, "path").exists():
            raise MissingFileError(f"path={os.fspath(path)!r} does not exist: correct the path")
        if Path(path, TASK_FILE).is_file():
            raise InputError(f"path={os.fspath(path)!r} is a run: use {cls.__name__}.from_pretrained")
        try:
            name = literal_path(str(path)) if Path(path).is_dir() else os.fspath(path)
            model = keras.models.load_model(name)
        except (TypeError, ValueError, OSError) as error:  # unknown layers; not a ZIP file
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise InputError(f"path={os.fspath(path)!r} holds no {cls.__name__}: {error}") from error
        if not isinstance(model, cls):
            raise InputError(f"path={os.fspath(path)!r} holds another model than a {cls.__name__}")
        return model

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Like `call`; also accepts lists and arrays of texts, which Keras does not convert."""
        if not isinstance(inputs, Mapping):
            parts = tf.nest.flatten(inputs)
            if not parts or not all(map(tf.is_tensor, parts)):
                records = parse_texts(inputs, "inputs")
                if not records:
                    raise InputError("inputs holds no texts")
                pairs = check_forms(records)
                inputs = tf.constant([[x.text, x.text_pair] if pairs else x.text for x in records])
            self._check_takes_pairs(are_pairs(inputs), "inputs")
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        """Computes logits. Call the model itself: `model(texts)`.

        Args:
          inputs: texts, string [B]; pairs, a tuple of two string [B] or one string [B, 2]; or a dict of the
            encoder's inputs, integer [B, S] each.
          training: True to apply dropout.
        Returns:
          float32 [B, K].
        """
        ids, pool = self._windows(self._encoder_inputs(inputs))
        if not self.pad_to_length and not self.jit_compile:  # XLA needs static shapes
            ids = without_padding(ids)
            if not training:
                ids = skip_padding(ids)
        return pool(self.classifier(ids, training=training)["logits"])

    def predict_step(self, data: Any) -> tf.Tensor:
        """Computes the logits of a batch of `predict`."""
        if self._patience is not None:
            ids = without_padding(self._encoder_inputs(keras.utils.unpack_x_y_sample_weight(data)[0]))
            return call_with_early_exit(self.classifier, ids, self._patience)["logits"]
        if self.jit_compile or not uses_xla(self.xla):
            return super().predict_step(data)
        ids, pool = self._windows(self._encoder_inputs(keras.utils.unpack_x_y_sample_weight(data)[0]))
        ids = without_padding(ids)
        return pool(self.classifier.head(ids, self._compiled_encoder(ids), None)["logits"])

    @functools.cached_property
    def _compiled_encoder(self) -> CompiledEncoder:
        longest = self.classifier.config.max_position_embeddings  # of token ids
        lengths = sorted({*compiled_lengths(self.seq_length), longest})
        return CompiledEncoder(self.classifier.encoder, lengths)

    def compile(
        self,
        optimizer: Any = DEFAULT_FOR_TASK,
        loss: Any = DEFAULT_FOR_TASK,
        metrics: Any = DEFAULT_FOR_TASK,
        **kwargs: Any,
    ) -> None:
        """Keras' `compile`, with defaults for the task.

        Args:
          optimizer: as Keras takes it. Default: Adam with the learning rate 3e-5.
          loss: as Keras takes it; the model's outputs are logits. Default: sparse categorical cross-entropy;
            for `multi_label` binary cross-entropy; for regression the mean squared error.
          metrics: as Keras takes them. Default: accuracy; for `multi_label` binary accuracy; for regression
            none. For two labels, metrics such as AUC, Precision and Recall are those of the second label.
          **kwargs: further arguments of Keras' `compile`.
        Raises:
          InputError: a metric does not fit the model.
        """
        if kwargs.get("jit_compile") and self.long_texts.long == WINDOWS:
            raise InputError("jit_compile=True: the number of windows varies, leave it out")
        default_loss, default_metrics = _DEFAULTS[self.task_entries()["task"]]()
        loss = default_loss if loss == DEFAULT_FOR_TASK else loss
        metrics = default_metrics if metrics == DEFAULT_FOR_TASK else metrics
        if optimizer == DEFAULT_FOR_TASK:
            optimizer = keras.optimizers.Adam(CLASSIFIER_RECIPE.learning_rate)
        weighted = kwargs.pop("weighted_metrics", None)
        if not self._is_regression:
            wrap = functools.partial(probability_metric, multi_label=self.multi_label)
            metrics, weighted = tf.nest.map_structure(wrap, (metrics, weighted))
        self._label_encoder(loss).check_metrics([metrics, weighted])
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, weighted_metrics=weighted, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles like the saved model; Keras does not call an overridden `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *args: Any,
        validation_data: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Keras' `fit`.

        A new head of regression begins at the mean of the numbers in `y`, as in `albert-tf finetune`.

        Args:
          x: texts or pairs (see the class), or a `tf.data.Dataset` of batches (texts, labels).
          y: the label of each text, as a number from 0, as a name, or one-hot if the loss is categorical; for
            regression a number. [N]. None for a `tf.data.Dataset`.
          *args: further arguments of Keras' `fit`.
          validation_data: a tuple of texts and labels (and weights), like `x` and `y`.
          class_weight: weights of the labels in the loss, by name or number (1 for those that are missing);
            or "balanced": n / (K · n_k) for label k of K, as in scikit-learn.
          sample_weight: weights of the texts in the loss, [N], or one number for all.
          **kwargs: further arguments of Keras' `fit`, such as `epochs` and `callbacks`.
        Returns:
          Keras' `History`.
        Raises:
          InputError: a value is not a text or a label, or the model was fine-tuned with early exits.
        """
        if self.classifier.early_exit:
            raise InputError(
                "early_exit: `albert-tf finetune` trains the exits, and Keras would leave them as they are"
            )
        if class_weight is not None:
            if self.multi_label:
                raise InputError(
                    "class_weight: of no use where a text has any number of labels, leave it out"
                )
            if class_weight != BALANCED:
                class_weight = self._label_encoder(None).weights(class_weight)
        check_has_labels(x, y)
        x, y = self._data(x, y, "x", learns=True)
        if class_weight == BALANCED:
            class_weight = self._label_encoder(None).balanced_weights(y)
        if self._begins_at_mean and isinstance(y, np.ndarray):
            self.classifier.classifier.output_bias.assign([y.mean()])
        self._begins_at_mean = False
        if isinstance(validation_data, tuple | list):
            texts, labels, *weights = validation_data
            texts, labels = self._data(texts, labels, "validation_data")
            validation_data = (texts, labels, *(_weight_of_each(weight, labels) for weight in weights))
        elif validation_data is not None:
            validation_data, _ = self._data(validation_data, None, "validation_data")
        kwargs |= {"validation_data": validation_data, "class_weight": class_weight}
        kwargs["sample_weight"] = _weight_of_each(sample_weight, y)
        with translate_label_errors():
            return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Keras' `evaluate`.

        Args:
          x: texts or pairs, as `fit` takes them.
          y: labels, as `fit` takes them.
          *args: further arguments of Keras' `evaluate`.
          **kwargs: further arguments of Keras' `evaluate`, such as `sample_weight` and `return_dict`.
        Returns:
          The loss, or a list of the loss and the metrics.
        Raises:
          InputError: a value is not a text or a label.
        """
        check_has_labels(x, y)
        x, y = self._data(x, y, "x")
        if "sample_weight" in kwargs:
            kwargs["sample_weight"] = _weight_of_each(kwargs["sample_weight"], y)
        with translate_label_errors():
            return super().evaluate(x, y, *args, **kwargs)

    def predict(self, x: Any, *args: Any, patience: int | None = None, **kwargs: Any) -> np.ndarray:
        """Keras' `predict`: the logits of all texts.

        Args:
          x: texts or pairs, as `fit` takes them.
          *args: further arguments of Keras' `predict`.
          patience: for a model that was fine-tuned with early exits: a text leaves the network when this
            number of layers in a row agree with the layer before. None: all layers are computed.
          **kwargs: further arguments of Keras' `predict`, such as `batch_size`.
        Returns:
          float32 [N, K].
        Raises:
          InputError: a value is not a text, or the model has no early exits.
        """
        if patience is not None:
            if self.long_texts.long == WINDOWS:
                raise InputError(f"patience={patience}: of no use to long={WINDOWS!r}, leave one of them out")
            check_patience(patience, self.classifier.early_exit, self.jit_compile or self.xla)
        if patience != self._patience:
            self._patience, self.predict_function = patience, None  # traced again by Keras
        with translate_label_errors():
            return super().predict(self._data(x, None, "x")[0], *args, **kwargs)

    def predict_proba(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Computes the probabilities of all labels.

        Args:
          x: texts or pairs, as `fit` takes them.
          **kwargs: arguments of `predict`.
        Returns:
          float32 [N, K].
        Raises:
          InputError: the model is a regression.
        """
        if self._is_regression:
            raise InputError("predict_proba: a regression has no labels: `predict` gives its numbers")
        return self._task.scores(tf.constant(self.predict(x, **kwargs), tf.float32)).numpy()

    def predict_labels(self, x: Any, **kwargs: Any) -> list[Any]:
        """Chooses the label of each text.

        Args:
          x: texts or pairs, as `fit` takes them.
          **kwargs: arguments of `predict`.
        Returns:
          A list: the name of each text's label; for `multi_label` a tuple of names; for regression the
          number.
        """
        if self._is_regression:
            return self.predict(x, **kwargs)[:, 0].tolist()
        return [guess.value for guess in self._task.predictions_from_scores(self.predict_proba(x, **kwargs))]

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """Computes the accuracy, or R² for regression.

        Args:
          x: texts or pairs, as `fit` takes them.
          y: labels, by number, by name, or one-hot; for regression numbers.
          **kwargs: arguments of `predict`.
        Returns:
          The share of texts whose label is right (`multi_label`: all labels); for regression R², which is NaN
          for one text.
        Raises:
          InputError: a label does not fit the model.
        """
        label_encoder, numbers = self._label_encoder(None), np.arange(self.classifier.num_labels)
        if self._is_regression:
            predicted = self.predict_labels(x, **kwargs)
            targets = label_encoder.targets(y, len(predicted), "y")
            return regression_metrics(targets.tolist(), predicted).get("r2", math.nan)  # of one text none
        predictions = self._task.predictions_from_scores(self.predict_proba(x, **kwargs))
        targets = label_encoder.targets(y, len(predictions), "y")
        is_label = targets > 0 if targets.ndim == 2 else targets[:, np.newaxis] == numbers  # [N, K]
        is_predicted = [np.isin(numbers, guess.label_indices) for guess in predictions]  # bool [K] each
        return accuracy(is_label, np.array(is_predicted))

    @property
    def _is_regression(self) -> bool:
        return self._label_encoder(None).is_regression

    @property
    def _task(self) -> Any:
        return create_task({**self.task_entries(), **task_of(self.classifier)})

    def _label_encoder(self, loss: Any) -> LabelEncoder:
        return LabelEncoder(self.labels, self.classifier.num_labels, loss, self.multi_label)

    def _set_takes_pairs(self, pairs: bool | None) -> None:
        self.takes_pairs = pairs
        # A SavedModel takes texts. Keras would take the inputs of the first call, perhaps token ids.
        self._saved_model_inputs_spec = None  # otherwise Keras keeps the first spec
        self._set_save_spec(tf.TensorSpec([None, 2] if pairs else [None], tf.string, "text"))

    def _check_takes_pairs(self, pairs: bool | None, argument: str) -> None:
        if None not in (pairs, self.takes_pairs) and pairs != self.takes_pairs:
            form, learned = ("pairs of texts", "single texts")[:: 1 if pairs else -1]
            raise InputError(f"{argument} holds {form}: the model learned {learned}")

    def _encoder_inputs(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Tokenises texts, or checks and completes the encoder's inputs."""
        if not isinstance(inputs, Mapping):
            return self._token_ids(inputs)
        is_cut = self.long_texts.long == WINDOWS  # then the network never sees the whole length
        longest = sys.maxsize if is_cut else self.classifier.config.max_position_embeddings
        ids = [tf.cast(x, tf.int32) for x in encoder_inputs(inputs, longest)]
        if is_cut:  # windows are of consecutive tokens
            order = tf.argsort(ids[1], axis=1, direction="DESCENDING", stable=True)
            ids = [tf.gather(x, order, batch_dims=1) for x in ids]
        return dict(zip(ENCODER_INPUTS, ids, strict=True))

    def _token_ids(self, texts: Any) -> dict[str, tf.Tensor]:
        """Tokenises tensors of texts to the encoder's inputs, int32 [B, S] each."""
        columns, reading = segments(texts), (self.seq_length, self.long_texts.long)
        tokens = [self.tokenizer.tokenize_shortened(text, *reading) for text in columns]
        return text_inputs(tokens, *self._input_settings)

    @property
    def _input_settings(self) -> tuple[int, InputFormat, LongTexts]:
        return self.seq_length, self.tokenizer.vocabulary.input_format, self.long_texts

    def _windows(self, ids: Mapping[str, tf.Tensor]) -> tuple[Any, Callable[[tf.Tensor], tf.Tensor]]:
        """Cuts inputs into windows; returns these, and a function that pools their logits by text."""
        if self.long_texts.long != WINDOWS:
            return ids, lambda logits: logits
        windows, rows = window_inputs(ids, *self._input_settings)
        return windows, lambda logits: pool_windows(
            logits, rows, tf.shape(ids[INPUT_MASK])[0], self.long_texts
        )

    def _padded_length(self, rows: TokenizedExamples) -> int:
        """Number of columns of an array of texts; one of a few for XLA, which compiles for each length."""
        if self.long_texts.long == WINDOWS:
            return int(rows.sequence_lengths.max())
        if self.pad_to_length or not self.jit_compile:
            return self.seq_length  # `call` drops the padding of each batch
        longest = min(rows.sequence_lengths.max(), self.seq_length)
        return next(length for length in compiled_lengths(self.seq_length) if length >= longest)

    def _data(self, x: Any, y: Any, argument: str, learns: bool = False) -> tuple[Any, Any]:
        """Converts texts to token ids, and labels, if any, to targets."""
        labels, lines = self._label_encoder(getattr(self, "loss", None)), []  # set by `compile`
        if isinstance(x, tf.data.Dataset):
            x, pairs = tokenize_dataset(x, self._token_ids, labels, argument)
        elif isinstance(x, _NOT_TEXTS) and not hasattr(x, "column_names"):
            return x, y
        else:
            reading = self.seq_length, self.long_texts.long
            rows, pairs = tokenize_inputs(x, self.tokenizer, argument, *reading, y)
            if y is not None:
                y = labels.targets(y, len(rows), "y" if argument == "x" else f"{argument}[1]")
            columns = self._padded_length(rows)
            if self.long_texts.long == WINDOWS and len(rows) * columns > _MAX_TOKENS:
                raise InputError(
                    f"{argument} holds {len(rows)} texts, the longest of {columns} tokens, too much for one "
                    "array: shorten that text, or give a tf.data.Dataset of batches"
                )
            x = pack_texts(rows, columns)
            lines = truncation_report(rows, max(columns, self.seq_length), self.long_texts.long)
        if learns and pairs is not None:
            if pairs and self.long_texts.long != TRUNCATE:
                raise InputError(f"long={self.long_texts.long!r}: pairs of texts are truncated, leave it out")
            self._set_takes_pairs(pairs)
        self._check_takes_pairs(pairs, argument)
        for line in lines if learns else ():
            logging.warning(line)
        return x, y

    def save(self, filepath: PathLike, *args: Any, **kwargs: Any) -> None:
        """Keras' `save`, as a SavedModel or a `.keras` file.

        Args:
          filepath: path of the folder or file.
          *args: further arguments of Keras' `save`.
          **kwargs: further arguments of Keras' `save`.
        Raises:
          InputError: `filepath` is not a path.
        """
        check_path(filepath, "filepath")
        super().save(filepath, *args, **kwargs)

    def save_run(self, run: PathLike, step: int = 0) -> None:
        """Writes a run directory, which `hub_export`, `albert-tf predict` and `pipeline` read.

        Args:
          run: path of the run. An existing run of the same model gets one more checkpoint.
          step: training step of the weights.
        Raises:
          FileExistsError: the run has a checkpoint of this step, or the directory holds something else.
          InputError: the run is of another model, or chooses its step by metrics, which this one would lack.
        """
        self._check_is_of(RunDirectory(run))
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.tokenizer.vocabulary.files.items():
                vocabulary = Path(folder, name)
                vocabulary.write_bytes(content)
            save(self.classifier, run, vocabulary, step, self.tokenizer.settings, task=self.task_entries())

    def _check_is_of(self, run: RunDirectory) -> None:
        """Raises InputError if a run exists whose task.json does not fit this model."""
        if not run.has(TASK_FILE):
            return
        existing, entries = run.task, self.task_entries()
        for name in sorted({*entries, *_OPTIONAL_ENTRIES} - {"task", PAIRS_KEY}):
            if existing.get(name) != entries.get(name):
                found = f"{name}={shorten(existing.get(name))}, the model {shorten(entries.get(name))}"
                raise InputError(f"{run} is the run of another model: it has {found}")

    def task_entries(self) -> dict[str, Any]:
        """Entries of task.json beyond the model's class."""
        count = self.classifier.num_labels
        entries: dict[str, Any] = {"task": "regression", "seq_length": self.seq_length}
        entries |= self.long_texts.entries()
        if not self._is_regression:
            entries |= {"task": "classification", "labels": list(self.labels or map(str, range(count)))}
        if self.multi_label:
            entries |= {"task": "multi_label", "multi_label": True}
        if self.threshold is not None:
            entries["threshold"] = self.threshold
        return entries if self.takes_pairs is None else {**entries, PAIRS_KEY: self.takes_pairs}

    def get_config(self) -> dict[str, Any]:
        """The arguments of `from_config`, including the vocabulary, for an untrained model."""
        files = self.tokenizer.vocabulary.files
        return {
            "name": self.name,
            "classifier": self.classifier.get_config(),
            "kind": self.tokenizer.kind,
            "vocabulary": {name: base64.b64encode(content).decode() for name, content in files.items()},
            **self.tokenizer.settings,
            "labels": None if self.labels is None else list(self.labels),
            "seq_length": self.seq_length,
            "pad_to_length": self.pad_to_length,
            "takes_pairs": self.takes_pairs,
            **{name: getattr(self, name) for name in _DECISIONS},
            **dataclasses.asdict(self.long_texts),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TextClassifier:
        """An untrained model of the same shape and vocabulary."""
        config = dict(config)
        classifier = AlbertClassifier.from_config(config.pop("classifier"))
        kind, vocabulary = config.pop("kind"), config.pop("vocabulary")
        files = tuple((name, base64.b64decode(content)) for name, content in vocabulary.items())
        settings = tuple((name, config.pop(name)) for name in KIND_DEFAULTS[kind] if name in config)
        return cls(classifier, TokenizerConfig(kind, files, settings).open(), **config)


def check_has_labels(x: Any, y: Any) -> None:
    """Raises InputError for texts without labels; a dataset contains its labels."""
    if y is None and not isinstance(x, (tf.data.Dataset, *_BATCHES)):
        raise InputError("y is missing: give the label of each text")


def _weight_of_each(sample_weight: Any, targets: Any) -> Any:
    """Weights in Keras' form, one per text; a dataset contains its weights."""
    return expand_weight(sample_weight, len(targets)) if isinstance(targets, np.ndarray) else sample_weight
