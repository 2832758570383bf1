"""Hyper-parameters: fine-tuning by task, evaluations, and the weights of a teacher's answers."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.constants import FIRST, LONG_CHOICES, POOLINGS, WINDOW_POOLINGS
from albert_tf.errors import InputError, check_range, check_type
from albert_tf.recipes import NO_CLIPPING, LongTexts
from albert_tf.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, check_fields, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TeacherWeights:
    """Temperature and weights of a teacher's answers; an impossible number raises an InputError."""

    temperature: float = setting(2.0, **POSITIVE)
    soft_weight: float

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTargets(_TeacherWeights):
    """Weights of the losses of pre-training with a teacher; a loss whose weight is 0 is not computed.

    Args:
      temperature: T; the logits of both networks are divided by it for the soft targets.
      soft_weight: weight of the divergence from the teacher's soft targets.
      mlm_weight: weight of the loss of the masked tokens.
      cosine_weight: weight of the cosine distance of the last hidden states; 0 if their widths differ.

    Source: Sanh et al. 2019, DistilBERT; the values are from the code of its authors.
    """

    soft_weight: float = setting(5.0, **NOT_NEGATIVE)
    mlm_weight: float = setting(2.0, **NOT_NEGATIVE)
    cosine_weight: float = setting(1.0, **NOT_NEGATIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.soft_weight or self.cosine_weight):
            raise InputError("soft_weight=0, cosine_weight=0: nothing is learned of the teacher, set one")

    @property
    def needs_masks(self) -> bool:
        """True if a loss needs masked tokens."""
        return bool(self.soft_weight or self.mlm_weight)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftLabels(_TeacherWeights):
    """Weights of the losses of fine-tuning with a teacher.

    Args:
      temperature: T; the logits of both networks are divided by it for the soft labels.
      soft_weight: weight of the divergence from the teacher's soft labels.
      label_weight: weight of the loss of the labels.

    Source: Sanh et al. 2019, DistilBERT, §4; the values are from the code of its authors.
    """

    soft_weight: float = setting(0.5, **POSITIVE)
    label_weight: float = setting(0.5, **NOT_NEGATIVE)


BALANCED = "balanced"  # a value of class_weight


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningRecipe:
    """Hyper-parameters of fine-tuning with AdamW: everything but the network's shape.

    Args:
      learning_rate: highest rate: the warm-up climbs to it, then it falls linearly to 0.
      batch_size: examples in a step, over all devices.
      steps: updates; if not given, the number that the epochs need.
      epochs: passes over the examples; not needed if steps are given.
      warmup_steps: steps of linear warm-up; if not given, a tenth of the steps.
      seq_length: longest sequence in tokens, S.
      dropout: dropout rate of hidden states and attention.
      classifier_dropout: dropout rate before the classifier.
      pooling: input of the classifier: the pooled output (first) or the mean of the tokens' states, which no
        other format has: such a run cannot be converted.
      long: how to read single texts that are longer: only their beginning (truncate), the first quarter of an
        input and their end (head_tail), or all of them in windows, doc_stride tokens from one to the next.
      window_pooling: logits of a text in windows: the mean over its windows, or the maximum (max).
      early_exit: train a classifier after each layer, so that easy texts need not pass all layers.
      exit_threshold: for regression with early_exit: two layers agree if their numbers differ by less; if not
        given, a tenth of the standard deviation of the scores to learn.
      class_weight: weights of the labels in the loss: balanced (n / (K · n_k) of K labels), or by label, on
        the command line as JSON; for multi_label the weights of texts with the label (balanced:
        (n - n_k) / n_k).
      label_smoothing: share of each label that the loss spreads evenly over all labels.
      weight_decay: decay of all weights but LayerNorms and biases.
      beta_1: decay rate of the gradient's running mean.
      beta_2: decay rate of the squared gradient's running mean.
      epsilon: epsilon of AdamW.
      bias_correction: correct the bias of AdamW's running means; Google's code does not, so that its first
        hundreds of steps are several times as large.
      clip_norm: largest global norm of the gradients; None: no clipping.

    Source: the defaults are from google-research/albert, optimization.py.
    """

    learning_rate: float = setting(**NOT_NEGATIVE)
    batch_size: int = setting(**COUNT)
    seq_length: int = setting(**COUNT)
    steps: int | None = setting(None, **COUNT)
    epochs: float | None = setting(None, **POSITIVE)
    warmup_steps: int | None = None
    dropout: float = setting(0.0, **SHARE)
    classifier_dropout: float = setting(0.1, **SHARE)
    pooling: str = setting(FIRST, choices=POOLINGS)
    long: str = setting(LongTexts.long, choices=LONG_CHOICES)
    window_pooling: str = setting(LongTexts.window_pooling, choices=WINDOW_POOLINGS)
    early_exit: bool = False
    exit_threshold: float | None = setting(None, **NOT_NEGATIVE)
    class_weight: str | Mapping[str, float] | None = None
    label_smoothing: float = setting(0.0, **SHARE)
    weight_decay: float = setting(0.01, **NOT_NEGATIVE)
    beta_1: float = setting(0.9, **SHARE)
    beta_2: float = setting(0.999, **SHARE)
    epsilon: float = setting(1e-6, **POSITIVE)
    bias_correction: bool = False
    clip_norm: float | None = setting(1.0, **POSITIVE, remedy=NO_CLIPPING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_weight", _parse_class_weight(self.class_weight))
        check_fields(self)
        if (self.steps is None) == (self.epochs is None):
            raise InputError(f"steps={self.steps} and epochs={self.epochs}: give one of them, not both")
        if self.warmup_steps is not None:
            remedy = f"it cannot exceed steps={self.steps}; set warmup_steps, too, if you set steps"
            check_range("warmup_steps", self.warmup_steps, at_least=0, at_most=self.steps, remedy=remedy)

    def replace(self, **changes: Any) -> FinetuningRecipe:
        """A new recipe with some fields changed.

        New steps replace epochs, and new epochs replace steps; the warm-up is then a tenth, unless given.
        """
        for name, other in (("steps", "epochs"), ("epochs", "steps")):
            if changes.get(name) is not None:
                changes = {other: None, "warmup_steps": None, **changes}
        return dataclasses.replace(self, **changes)

    def in_steps(self, examples: int) -> FinetuningRecipe:
        """The same recipe with numbers for `steps` and `warmup_steps`, given the number of examples (≥ 1)."""
        steps = self.steps or max(1, round((self.epochs or 0) * examples / self.batch_size))
        warmup_steps = round(steps / 10) if self.warmup_steps is None else self.warmup_steps
        return self.replace(steps=steps, warmup_steps=warmup_steps)

    def long_texts(self, doc_stride: int = LongTexts.doc_stride) -> LongTexts:
        """The settings that say how to read long texts."""
        return LongTexts(long=self.long, window_pooling=self.window_pooling, doc_stride=doc_stride)

    def apply_dropout(self, config: AlbertConfig) -> AlbertConfig:
        """The config of a network with the recipe's dropout rates."""
        return config.replace(
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            classifier_dropout_prob=self.classifier_dropout,
        )


def _parse_class_weight(class_weight: Any) -> str | dict[str, float] | None:
    """Weights by label from JSON or a mapping; returns "balanced" and None unchanged."""
    if class_weight in (None, BALANCED):
        return class_weight
    try:
        weights = dict(json.loads(class_weight) if isinstance(class_weight, str) else class_weight)
    except (TypeError, ValueError):
        raise InputError(
            f"class_weight={class_weight!r} is neither {BALANCED} nor weights by label"
        ) from None
    weights = {label: x.item() if isinstance(x, np.generic) else x for label, x in weights.items()}
    for label, weight in weights.items():
        check_type(f"class_weight[{label!r}]", "float", weight)
        check_range(f"class_weight[{label!r}]", weight, at_least=0, below=math.inf)
    return {str(label): float(weight) for label, weight in weights.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of the evaluations during training, and of the choice of the best step.

    Args:
      eval_share: share of `train` that is held out if no other data is named.
      best_by: metric that chooses the best step, also for early_stop. Lower is better for loss, ece, rmse
        and mae, higher for all others; if not given, the metric of the task.
    """

    eval_share: float = setting(0.1, above=0, below=1)
    best_by: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


_PAPER_FIELDS = ("learning_rate", "batch_size", "dropout", "steps", "warmup_steps", "seq_length")

# Lan et al. 2020, A.4; the classifier's dropout is 0.1 throughout.
_PAPER = {
    "cola": (1e-5, 16, 0.0, 5336, 320, 512),
    "sts-b": (2e-5, 16, 0.0, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0.0, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 2000, 250, 512),
    "squad-v1.1": (5e-5, 48, 0.0, 3649, 365, 384),
    "squad-v2.0": (3e-5, 48, 0.0, 8144, 814, 512),
    "race": (2e-5, 32, 0.1, 12000, 1000, 512),
}

# Devlin et al. 2019, A.3, has these rates and batches, with up to four epochs; small data sets need more
# epochs (Zhang et al. 2021, "Revisiting few-sample BERT fine-tuning").
_OWN_DATA = FinetuningRecipe(learning_rate=3e-5, batch_size=16, epochs=5.0, seq_length=256)

# By task.
FINETUNING_RECIPES: dict[str, FinetuningRecipe] = {
    **{
        name: FinetuningRecipe(**dict(zip(_PAPER_FIELDS, row, strict=True)))  # type: ignore[arg-type]
        for name, row in _PAPER.items()
    },
    **dict.fromkeys(("classification", "multi_label", "regression", "tagging"), _OWN_DATA),
    "multiple_choice": _OWN_DATA.replace(seq_length=512),
}
