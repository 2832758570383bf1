"""A Keras model from texts to logits: tokenizer, encoder and classifier in one."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.models import arguments_of, build_model
from albert_tf.checkpoints.run import check_finite, save, stored_model
from albert_tf.conversion import start as starts
from albert_tf.features import MASK
from albert_tf.finetuning.recipes import RECIPES
from albert_tf.inference.labels import (
    check_metrics,
    checked_labels,
    label_converter,
    label_names,
    takes_one_hot,
    targets,
    told_labels,
)
from albert_tf.inference.sources import PathLike, run_directory
from albert_tf.inference.texts import (
    are_ids,
    are_pairs,
    check_dataset,
    check_form,
    dataset_takes_pairs,
    segments,
    text_columns,
)
from albert_tf.models.padding import skip_padding
from albert_tf.models.task_models import AlbertClassifier
from albert_tf.tasks.examples.coverage import unread_lines
from albert_tf.tasks.examples.rows import check_length, tokenised_blocks
from albert_tf.tasks.examples.texts import PAIRS_KEY, takes_pairs
from albert_tf.tokenizers import PieceTokenizer, Vocabulary, pack
from albert_tf.tokenizers.vocabulary import ALBERT_IDS
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import checked_path

RECIPE = RECIPES["classification"]

# What gives Keras batches that are its own business.
_OF_KERAS = (keras.utils.Sequence, Iterator, tf.distribute.DistributedDataset)

AUTO = "auto"


@keras.saving.register_keras_serializable("albert_tf")
class TextClassifier(keras.Model):
    """Texts, string [B], or pairs of them to logits float32 [B, K]; with one label, K = 1, it is regression.

    Pairs are a tuple of two string [B], or one string [B, 2]. `fit`, `evaluate` and `predict` also take
    lists, arrays and pandas Series of texts, which they tokenise once, before the first epoch; what is too
    much for memory comes in a tf.data.Dataset of batches. Called with token ids, a dict of the encoder's
    inputs, it goes on from them. What it is saved as holds the vocabulary, too.

    Args:
      classifier: the network.
      tokenizer: text to the ids that the network knows.
      labels: names in the order of the logits; None: they have none.
      seq_length: longest input in tokens; of longer texts the beginning is read.
      pad_to_length: whether every batch is as long as that, which TPUs want; else it is as long as its
        longest text.
      takes_pairs: True if it learned pairs of texts, and refuses single ones; False if the other way round;
        None until `fit` says.
      **kwargs: of keras.Model, such as `name`.
    Raises:
      InputError: a setting does not fit the network.
    """

    def __init__(
        self,
        classifier: AlbertClassifier,
        tokenizer: PieceTokenizer,
        labels: Sequence[str] | None = None,
        seq_length: int = RECIPE.seq_length,
        pad_to_length: bool = False,
        takes_pairs: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, dtype=classifier.dtype_policy, **kwargs)
        self.classifier = classifier
        self.tokenizer = tokenizer
        self.labels = None if labels is None else checked_labels(labels, classifier.num_labels)
        self.seq_length = check_length("seq_length", seq_length, 4)
        if seq_length > classifier.config.max_position_embeddings:
            raise InputError(
                f"seq_length={seq_length} is more than "
                f"max_position_embeddings={classifier.config.max_position_embeddings}"
            )
        self.pad_to_length = pad_to_length
        self._begins_at_mean = False
        self.built = True
        self._learns(takes_pairs)

    def _learns(self, pairs: bool | None) -> None:
        self.takes_pairs = pairs
        # Of what a SavedModel takes; Keras would have it from the first call, which may be one of token ids.
        self._saved_model_inputs_spec = None  # else Keras keeps the first
        self._set_save_spec(tf.TensorSpec([None, 2] if pairs else [None], tf.string, "text"))

    @classmethod
    def from_run(
        cls,
        run: PathLike,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        step: int | None = None,
        vocabulary: PathLike | None = None,
        **settings: Any,
    ) -> TextClassifier:
        """The network of a run directory, pre-trained, fine-tuned or converted.

        A run that is fine-tuned for classification or regression has labels, which are taken with its head
        unless others are asked for; all other networks get a fresh head.

        Args:
          run: the directory.
          num_labels: K; None: as many as `labels`, or those of the run.
          labels: their names, in the order of the logits.
          step: of the checkpoint; None: that which `load` takes.
          vocabulary: SentencePiece model of a run that has none.
          **settings: `seq_length`, `pad_to_length` and others of this class; `dropout` of hidden states and
            attention and `classifier_dropout`, both as in fine-tuning on one's own data unless they are
            given; `pooling`, what the head reads, "first" or "mean" (see `AlbertClassifier`), unless it is
            given that of the run's head, or that of fine-tuning; `dtype`, such as "mixed_bfloat16".
        Raises:
          InputError: it is not a run, it does not fit the arguments, or neither of them tells the labels.
          FileNotFoundError: there is no such checkpoint or vocabulary.
        """
        start = starts.start_of_run(run_directory(run, "run"), vocabulary)
        return cls._begun(start, num_labels, labels, step, **settings)

    @classmethod
    def from_pretrained(
        cls, name: PathLike, num_labels: int | None = None, **settings: Any
    ) -> TextClassifier:
        """The network of a published name, such as "albert_base_v2", or of a run directory.

        Arguments and errors are those of `from_run`, and WorkFailed where nothing can be downloaded.
        """
        return cls.from_run(run_directory(name, "name"), num_labels, **settings)

    @classmethod
    def from_hub(
        cls,
        folder: PathLike,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        vocabulary: PathLike | None = None,
        **settings: Any,
    ) -> TextClassifier:
        """An exported or published TF 2 encoder with a fresh head; arguments are those of `from_run`."""
        if not (checked_path(folder, "folder") / "saved_model.pb").is_file():
            raise InputError(
                f"folder={os.fspath(folder)!r} is not an exported encoder: it has no saved_model.pb"
            )
        with starts.opened(f"{starts.HUB}{os.fspath(folder)}", vocabulary) as start:
            return cls._begun(start, num_labels, labels, None, **settings)

    @classmethod
    def _begun(
        cls,
        start: starts.Start,
        num_labels: int | None,
        labels: Sequence[str] | None,
        step: int | None,
        *,
        dropout: float = RECIPE.dropout,
        classifier_dropout: float = RECIPE.classifier_dropout,
        pooling: str | None = None,
        dtype: Any = None,
        **settings: Any,
    ) -> TextClassifier:
        assert start.run is not None
        labels = None if labels is None else label_names(labels)
        stored = stored_model(start.run, step)
        there = stored.task if stored.task["model"] == "classifier" else {}
        if num_labels is None and labels is None and not there:
            raise InputError(
                f"num_labels is missing: {start.run} is not of a classifier: say how many labels there are, "
                "or name them by labels"
            )
        if labels is None and num_labels in (None, there.get("num_labels")):
            labels = there.get("labels")
        if num_labels is None:
            num_labels = there["num_labels"] if labels is None else len(labels)
        pooling_there = arguments_of(there)["pooling"] if there else RECIPE.pooling
        if pooling is None:
            pooling = pooling_there
        has_same = (
            there.get("num_labels") == num_labels
            and there.get("labels", labels) in (labels, None)
            and pooling == pooling_there
        )

        if there and not has_same:
            logging.warning(
                "%s has a head of %s labels, %s, pooling=%s, which is left: that of %s, pooling=%s, begins at"
                " random", start.run, there["num_labels"], there.get("labels"), pooling_there,
                labels or num_labels, pooling,
            )  # fmt: skip
        fresh = () if has_same else ("classifier/output_weights", "classifier/output_bias")

        def read(name: str) -> np.ndarray | None:
            return None if name in fresh else stored.read(name)

        recipe = RECIPE.replace(dropout=dropout, classifier_dropout=classifier_dropout)
        config = recipe.network(stored.config)
        task = {"model": "classifier", "num_labels": num_labels, "pooling": pooling}
        classifier = build_model(config, task, read, dtype=dtype)
        check_finite(classifier, start.run, step)
        tokenizer = PieceTokenizer(Vocabulary.from_file(start.vocabulary), **start.tokenizer)
        length = there.get("seq_length", min(RECIPE.seq_length, config.max_position_embeddings))
        learned = takes_pairs(there) if has_same else None
        settings = {"seq_length": length, "takes_pairs": learned, **settings}
        model = cls(classifier, tokenizer, labels, **settings)
        model._begins_at_mean = num_labels == 1 and bool(fresh)
        return model

    @classmethod
    def load(cls, path: PathLike) -> TextClassifier:
        """The model that `save` has written, as a SavedModel or `.keras`: as `keras.models.load_model`.

        Raises:
          InputError: it is not such a model.
        """
        checked_path(path, "path")
        try:
            model = keras.models.load_model(os.fspath(path))
        except (OSError, ValueError) as error:
            raise InputError(f"path={os.fspath(path)!r} is not a saved model: {error}") from error
        if not isinstance(model, cls):
            raise InputError(f"path={os.fspath(path)!r} holds another model than a {cls.__name__}")
        return model

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        """As `call`; an InputError where something is not a text."""
        # Looked at before Keras converts it, whose errors do not say which text it is.
        if not are_ids(inputs):
            if not tf.is_tensor(inputs):
                columns = segments(inputs)
                inputs = columns[0] if len(columns) == 1 else columns
            check_form(are_pairs(inputs), self.takes_pairs, "inputs")
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        """The logits of texts, of pairs or of token ids; see the class."""
        ids = inputs if are_ids(inputs) else self._token_ids(*segments(inputs))
        if not self.pad_to_length:
            longest = tf.maximum(tf.reduce_max(tf.reduce_sum(ids[MASK], axis=1)), 1)  # of no rows, too
            ids = {name: tensor[:, :longest] for name, tensor in ids.items()}
            if not training:
                ids = skip_padding(ids)
        return self.classifier(ids, training=training)["logits"]

    def _token_ids(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The encoder's inputs int32 [B, S] of one text a row or two of them, string [B] each."""
        return self._counted_ids(*texts)[0]

    def _counted_ids(self, *texts: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        """`_token_ids`, and of each row the number of its tokens and of unknown ones, int [B] each."""
        tokens = [self.tokenizer(text) for text in texts]
        lengths = tf.add_n([ids.row_lengths() for ids in tokens])
        is_unknown = [tf.cast(ids == ALBERT_IDS.unknown, tf.int64) for ids in tokens]
        unknown = tf.add_n([tf.reduce_sum(row, axis=1) for row in is_unknown])
        return pack(tokens, self.seq_length), lengths, unknown

    def compile(self, optimizer: Any = AUTO, loss: Any = AUTO, metrics: Any = AUTO, **kwargs: Any) -> None:
        """Keras' `compile`, whose loss and metrics are those of labels or regression unless they are given.

        Args:
          optimizer: as Keras takes it; "auto" is Adam at the rate of fine-tuning on one's own data.
          loss: as Keras takes it, of logits.
          metrics: as Keras takes them.
          **kwargs: as Keras takes them.
        """
        is_regression = self.classifier.num_labels == 1
        if optimizer == AUTO:
            optimizer = keras.optimizers.Adam(RECIPE.learning_rate)
        if loss == AUTO:
            cross_entropy = keras.losses.SparseCategoricalCrossentropy
            loss = keras.losses.MeanSquaredError() if is_regression else cross_entropy(from_logits=True)
        if metrics == AUTO:
            metrics = [] if is_regression else ["accuracy"]
        check_metrics([metrics, kwargs.get("weighted_metrics")], loss, self.classifier.num_labels)
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as the saved model was; Keras does not call a `compile` that is not its own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any
    ) -> Any:
        """Keras' `fit`; as in `finetune`, a new head of regression begins at the mean of what it is to learn.

        Args:
          x: texts or pairs of them, see the class.
          y: of each text its label, by number or by name, or one-hot where the loss is categorical; of
            regression a number. In a tf.data.Dataset they stand beside the texts.
          *args: as Keras takes them.
          validation_data: texts and labels as in x and y.
          **kwargs: as Keras takes them.
        Returns:
          The history.
        Raises:
          InputError: what should be a text or a label is not.
        """
        x, y = self._prepared(x, y, "x", "y", learns=True)
        if self._begins_at_mean and isinstance(y, np.ndarray):
            self.classifier.classifier.output_bias.assign([y.mean()])
        self._begins_at_mean = False
        if isinstance(validation_data, tuple | list):
            if len(validation_data) not in (2, 3):
                raise InputError(
                    "validation_data must be a tuple (texts, labels), or a tf.data.Dataset of both"
                )
            texts, labels, *weights = validation_data
            first, second = (f"validation_data[{number}]" for number in range(2))
            validation_data = (*self._prepared(texts, labels, first, second), *weights)
        elif validation_data is not None:
            validation_data, _ = self._prepared(validation_data, None, "validation_data", "labels")
        with told_labels("x"), told_labels("validation_data"):
            return super().fit(x, y, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Keras' `evaluate`; texts and labels as in `fit`."""
        with told_labels("x"):
            return super().evaluate(*self._prepared(x, y, "x", "y"), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        """The logits of all texts, float32 [N, K]; texts as in `fit`."""
        with told_labels("x"):
            return super().predict(self._prepared(x, None, "x", "")[0], *args, **kwargs)

    def _prepared(self, x: Any, y: Any, texts: str, labels: str, learns: bool = False) -> tuple[Any, Any]:
        """Token ids for texts, what the loss takes for labels, where the caller calls them something.

        What Keras alone knows, such as a Sequence, is handed on as it is.
        """
        if isinstance(x, tf.data.Dataset):
            if labels:
                check_dataset(x, y, texts)
            is_pair = dataset_takes_pairs(x, texts)
            self._check_or_learn(is_pair, texts, learns)
            return self._prepared_dataset(x, texts), y
        if isinstance(x, _OF_KERAS) or are_ids(x):
            return x, y
        columns = text_columns(x, texts)
        if labels:
            one_hot = self._one_hot()
            y = targets(y, self.labels, self.classifier.num_labels, len(columns[0]), labels, one_hot)
        self._check_or_learn(len(columns) == 2, texts, learns)
        # Each text once, however many epochs there are.
        blocks = tokenised_blocks(self._counted_ids, *columns)
        found = [tf.nest.map_structure(np.asarray, block) for block in blocks]
        ids, lengths, unknown = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *found)
        if learns:
            dropped = np.maximum(lengths + len(columns) + 1 - self.seq_length, 0)
            counts = lengths.sum(), unknown.sum(), lengths.sum()
            for line in unread_lines(dropped, *counts, self.seq_length):
                logging.warning(line)
        return ids, y

    def _check_or_learn(self, is_pair: bool | None, argument: str, learns: bool) -> None:
        if not learns:
            check_form(is_pair, self.takes_pairs, argument)
        elif is_pair is not None:
            self._learns(is_pair)

    def _one_hot(self) -> bool | None:
        return takes_one_hot(getattr(self, "loss", None))  # which Keras sets when it compiles

    def _prepared_dataset(self, dataset: tf.data.Dataset, argument: str) -> tf.data.Dataset:
        convert = label_converter(self.labels, self.classifier.num_labels, self._one_hot(), argument)

        def prepare(x: Any, *rest: Any) -> Any:
            inputs = x if are_ids(x) else self._token_ids(*segments(x))
            return (inputs, convert(rest[0]), *rest[1:]) if rest else inputs

        # Not converted by autograph, which would wrap an InputError in an error of its own.
        return dataset.map(tf.autograph.experimental.do_not_convert(prepare), tf.data.AUTOTUNE)

    def save_run(self, run: PathLike, step: int = 0) -> None:
        """Writes a run directory, which `hub_export`, `predict` and `pipeline` read.

        Args:
          run: the directory; one that exists gets one more step.
          step: that the weights are of.
        Raises:
          FileExistsError, InputError: as `albert_tf.save`.
        """
        task = self.task_entries()
        settings = {"lowercase": self.tokenizer.lowercase, "strip_accents": self.tokenizer.strip_accents}
        checked_path(run, "run")
        with tempfile.NamedTemporaryFile(suffix=".model") as vocabulary:
            Path(vocabulary.name).write_bytes(self.tokenizer.vocabulary.model)
            save(self.classifier, run, vocabulary.name, step, settings, task=task)

    def task_entries(self) -> dict[str, Any]:
        """Entries of task.json beyond the model's class."""
        count = self.classifier.num_labels
        entries: dict[str, Any] = {"task": "regression", "seq_length": self.seq_length}
        if count > 1:
            names = self.labels or [str(number) for number in range(count)]
            entries |= {"task": "classification", "labels": list(names)}
        return entries if self.takes_pairs is None else {**entries, PAIRS_KEY: self.takes_pairs}

    def get_config(self) -> dict[str, Any]:
        """The arguments of `from_config` for the same, untrained model, with its vocabulary."""
        return {
            "name": self.name,
            "classifier": self.classifier.get_config(),
            "vocabulary": base64.b64encode(self.tokenizer.vocabulary.model).decode("ascii"),
            "lowercase": self.tokenizer.lowercase,
            "strip_accents": self.tokenizer.strip_accents,
            "labels": None if self.labels is None else list(self.labels),
            "seq_length": self.seq_length,
            "pad_to_length": self.pad_to_length,
            "takes_pairs": self.takes_pairs,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TextClassifier:
        """An untrained model of the same shape and vocabulary."""
        config = dict(config)
        classifier = AlbertClassifier.from_config(config.pop("classifier"))
        vocabulary = Vocabulary.from_bytes(base64.b64decode(config.pop("vocabulary")))
        tokenizer = PieceTokenizer(vocabulary, config.pop("lowercase"), config.pop("strip_accents"))
        return cls(classifier, tokenizer, **config)
