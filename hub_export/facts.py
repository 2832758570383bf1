"""Facts about an exported model, for its card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tf_keras as keras

from albert_tf.checkpoints.directory import RECIPE
from albert_tf.checkpoints.figures import METRICS, read_figures
from albert_tf.model import AlbertEncoder
from albert_tf.utils.files import read_json
from hub_export.serving import Served, Signature

EVALUATION = "eval_"


class Facts(NamedTuple):
    """An export, and the run that it is of.

    Attributes:
      run: the run directory.
      task: what its task.json says.
      step: of the exported checkpoint.
      model: of that step.
      dtype: of the exported variables.
      served: what the serving model is made of; None where the encoder is exported alone.
      signatures: of the serving model.
      version: of the serving model.
      license: of the weights, where somebody has named it.
    """

    run: Path
    task: Mapping[str, Any]
    step: int
    model: keras.Model
    dtype: str
    served: Served | None
    signatures: Mapping[str, Signature]
    version: int
    license: str | None

    def parameters(self) -> dict[str, int]:
        """The number of parameters of the model and of its encoder."""
        encoder = self.model if isinstance(self.model, AlbertEncoder) else self.model.encoder
        return {
            name: sum(math.prod(variable.shape) for variable in part.variables)
            for name, part in (("all", self.model), ("encoder", encoder))
        }

    def recipe(self) -> dict[str, Any]:
        """The content of recipe.json; empty for runs that `albert_tf.save` wrote."""
        path = self.run / RECIPE
        return read_json(path) if path.exists() else {}

    def figures(self) -> dict[str, float]:
        """The metrics of the last evaluation of the step, by their names without `eval_`.

        Raises:
          ValueError: metrics.jsonl is damaged.
        """
        lines = read_figures(self.run) if (self.run / METRICS).is_file() else []
        found: dict[str, float] = {}
        for line in lines:
            if line["step"] == self.step:
                known = {name: value for name, value in line.items() if value is not None}
                found |= {
                    name.removeprefix(EVALUATION): value
                    for name, value in known.items()
                    if name.startswith(EVALUATION)
                }
        return found
