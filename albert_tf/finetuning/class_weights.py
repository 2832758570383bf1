"""The losses that a model is trained by: weights of labels, and of the classifiers after each layer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import check_choice
from albert_tf.finetuning.data import EncodedSplits
from albert_tf.finetuning.finetuning_recipes import FinetuningRecipe
from albert_tf.tasks.losses import exits_loss_sum
from albert_tf.tasks.records import same_label
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import FinetuningTask


def training_kind(data: EncodedSplits, recipe: FinetuningRecipe) -> FinetuningTask:
    """The kind of task with the losses to train by, with the recipe's weights, smoothing and exits.

    InputError if a weight is of a label that is not there.
    """
    kind, options = copy.copy(data.kind), dict[str, Any]()
    if recipe.class_weight is not None:
        # Of each text once, whatever the number of its windows.
        is_tagging, records = isinstance(kind, Tagging), data.sets.train
        targets: Any = data.rows.token_labels if is_tagging else kind.targets(records)  # type: ignore[attr-defined]
        options["class_weights"] = class_weights(recipe.class_weight, kind.labels, targets)
    if recipe.label_smoothing:
        options["smoothing"] = recipe.label_smoothing
    terms = {name: functools.partial(part.term, **options) for name, part in kind.losses.items()}
    if recipe.early_exit:
        terms = {name: functools.partial(exits_loss_sum, term) for name, term in terms.items()}
    kind.losses = {name: part._replace(term=terms[name]) for name, part in kind.losses.items()}
    return kind


def class_weights(
    asked: str | Mapping[str, float], labels: Sequence[str], targets: np.ndarray
) -> list[float]:
    """The weight of each of K labels.

    Args:
      asked: weights by label, 1 of those that are left out; or "balanced": n / (K · n_k) as in scikit-learn,
        and of several labels a text (n - n_k) / n_k, so that texts with a label count as much as those
        without. It is 1 where that is not defined or 0.
      labels: by their numbers.
      targets: numbers of labels, integer [N], of which those below 0 are none; or 1 for each label of a text,
        [N, K].
    """
    if not isinstance(asked, str):
        weights = {same_label(label): weight for label, weight in asked.items()}
        names = [same_label(label) for label in labels]
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
