"""Hyper-parameters of fine-tuning by task, of evaluations, and of what a teacher's answers count."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.constants import FIRST, LONG, POOLINGS, WINDOW_POOLINGS
from albert_tf.errors import InputError, check_range, check_type
from albert_tf.recipes import LongTexts, check_fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Softened:
    """Temperature and weights of a teacher's answers; an InputError names a number that is impossible."""

    temperature: float = 2.0
    soft_weight: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            above, at_least = (0, None) if name == "temperature" else (None, 0)
            check_range(name, value, above=above, at_least=at_least, below=math.inf)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTargets(_Softened):
    """Weights of the losses of pre-training with a teacher; a loss whose weight is 0 is not computed.

    Args:
      temperature: what both networks' logits are divided by for the soft targets, T.
      soft_weight: of the divergence from the teacher's soft targets.
      mlm_weight: of the masked tokens' own loss.
      cosine_weight: of the cosine distance of the last hidden states; 0 where their widths differ.

    Source: Sanh et al. 2019, DistilBERT; the values from the code of its authors.
    """

    soft_weight: float = 5.0
    mlm_weight: float = 2.0
    cosine_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.soft_weight or self.cosine_weight):
            raise InputError("soft_weight=0, cosine_weight=0: nothing is learned of the teacher, set one")

    @property
    def needs_masks(self) -> bool:
        """True if a loss is of masked tokens."""
        return bool(self.soft_weight or self.mlm_weight)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftLabels(_Softened):
    """Weights of the losses of fine-tuning with a teacher.

    Args:
      temperature: what both networks' logits are divided by for the soft labels, T.
      soft_weight: of the divergence from the teacher's soft labels.
      label_weight: of the labels' own loss.

    Source: Sanh et al. 2019, DistilBERT, §4; the values from the code of its authors.
    """

    soft_weight: float = 0.5
    label_weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("soft_weight", self.soft_weight, above=0)


BALANCED = "balanced"  # of class_weight


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningRecipe:
    """Everything but the network's shape that decides how a model is fine-tuned, by AdamW.

    Args:
      learning_rate: rate that the warm-up climbs to, and that then falls to 0 along a line.
      batch_size: examples an update, over all devices.
      steps: updates; if not given, the number that the epochs need.
      epochs: times to go over the examples; not needed where steps are given.
      warmup_steps: updates of linear warm-up; if not given, a tenth of the steps.
      seq_length: longest sequence in tokens, S.
      dropout: of hidden states and attention.
      classifier_dropout: before the classifier.
      pooling: what classifiers read, the pooled output (first) or the mean of the tokens' states,
        which no other format has: such a run cannot be converted.
      long: what is read of single texts that are longer: their beginning (truncate), the first quarter of an
        input and their end (head_tail), or all of them in windows, doc_stride tokens from one to the next.
      window_pooling: the logits of a text that is read in windows: the mean of theirs, or the maximum (max).
      early_exit: train a classifier after each layer, so that texts may leave early.
      exit_threshold: of a regression with early_exit: numbers of two layers that differ by less agree; if not
        given, a tenth of the standard deviation of what is to be learnt.
      class_weight: weights of the labels in the loss: balanced (n / (K · n_k) of K labels), or by label, on
        the command line as JSON; of multi_label those of texts with the label (balanced: (n - n_k) / n_k).
      label_smoothing: share of a label that is spread evenly over all, in the loss.
      weight_decay: of all but LayerNorms and biases.
      beta_1: decay rate of the gradient's running mean.
      beta_2: decay rate of the squared gradient's running mean.
      epsilon: the optimizer's.
      bias_correction: the optimizer's, which Google's code leaves out, so that its first hundreds of updates
        are several times as large.
      clip_norm: largest global norm of the gradients; None leaves them as they are.

    Source: of the defaults google-research/albert, optimization.py.
    """

    learning_rate: float
    batch_size: int
    seq_length: int
    steps: int | None = None
    epochs: float | None = None
    warmup_steps: int | None = None
    dropout: float = 0.0
    classifier_dropout: float = 0.1
    pooling: str = dataclasses.field(default=FIRST, metadata={"choices": POOLINGS})
    long: str = dataclasses.field(default=LongTexts.long, metadata={"choices": LONG})
    window_pooling: str = dataclasses.field(
        default=LongTexts.window_pooling, metadata={"choices": WINDOW_POOLINGS}
    )
    early_exit: bool = False
    exit_threshold: float | None = None
    class_weight: str | Mapping[str, float] | None = None
    label_smoothing: float = 0.0
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    bias_correction: bool = False
    clip_norm: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_weight", _label_weights(self.class_weight))
        check_fields(self)
        if (self.steps is None) == (self.epochs is None):
            raise InputError(f"steps={self.steps} and epochs={self.epochs}: give one of them, not both")
        if self.exit_threshold is not None:
            check_range("exit_threshold", self.exit_threshold, at_least=0, below=math.inf)
        if self.warmup_steps is not None:
            remedy = f"it cannot exceed steps={self.steps}; set warmup_steps, too, if you set steps"
            check_range("warmup_steps", self.warmup_steps, at_least=0, at_most=self.steps, remedy=remedy)

    def replace(self, **changes: Any) -> FinetuningRecipe:
        """A new recipe with some fields changed.

        Steps take the place of epochs, and these of steps; the warm-up is then a tenth, unless it is given.
        """
        for name, other in (("steps", "epochs"), ("epochs", "steps")):
            if changes.get(name) is not None:
                changes = {other: None, "warmup_steps": None, **changes}
        return dataclasses.replace(self, **changes)

    def in_steps(self, examples: int) -> FinetuningRecipe:
        """The same for at least one example, with numbers for the steps and those of the warm-up."""
        steps = self.steps or max(1, round((self.epochs or 0) * examples / self.batch_size))
        warmup_steps = round(steps / 10) if self.warmup_steps is None else self.warmup_steps
        return self.replace(steps=steps, warmup_steps=warmup_steps)

    def long_texts(self, doc_stride: int = LongTexts.doc_stride) -> LongTexts:
        """The settings of long texts."""
        return LongTexts(long=self.long, window_pooling=self.window_pooling, doc_stride=doc_stride)

    def network(self, config: AlbertConfig) -> AlbertConfig:
        """The network with the recipe's dropouts."""
        return config.replace(
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            classifier_dropout_prob=self.classifier_dropout,
        )


def _label_weights(asked: Any) -> str | dict[str, float] | None:
    """Weights by label, of JSON or a mapping; "balanced" and None are as they are."""
    if asked in (None, BALANCED):
        return asked
    try:
        found = dict(json.loads(asked) if isinstance(asked, str) else asked)
    except (TypeError, ValueError):
        raise InputError(f"class_weight={asked!r} is neither {BALANCED} nor weights by label") from None
    for label, weight in found.items():
        check_type(f"class_weight[{label!r}]", "float", weight)
        check_range(f"class_weight[{label!r}]", weight, at_least=0, below=math.inf)
    return {str(label): float(weight) for label, weight in found.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of the evaluations of a run while it trains, and of its best step.

    Args:
      eval_share: share of `train` that is held out where no other data is named.
      best_by: metric (any that is reported) whose highest value tells the best step, also to early_stop; of
        loss, ece, rmse and mae it is the lowest; not given, that of the task.
    """

    eval_share: float = 0.1
    best_by: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_range("eval_share", self.eval_share, above=0, below=1)


_COLUMNS = ("learning_rate", "batch_size", "dropout", "steps", "warmup_steps", "seq_length")

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

# Devlin et al. 2019, A.3, has these rates and batches, with up to four epochs; small sets want more of
# them (Zhang et al. 2021, "Revisiting few-sample BERT fine-tuning").
_OWN = FinetuningRecipe(learning_rate=3e-5, batch_size=16, epochs=5.0, seq_length=256)

# By task.
FINETUNING_RECIPES: dict[str, FinetuningRecipe] = {
    **{
        name: FinetuningRecipe(**dict(zip(_COLUMNS, row, strict=True)))  # type: ignore[arg-type]
        for name, row in _PAPER.items()
    },
    **dict.fromkeys(("classification", "multi_label", "regression", "tagging"), _OWN),
    "multiple_choice": _OWN.replace(seq_length=512),
}
