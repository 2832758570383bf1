"""Facts about an exported model, for its card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import tf_keras as keras

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.models.encoder import AlbertEncoder
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

    run: RunDirectory
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

    def figures(self) -> dict[str, float]:
        """The metrics of the last evaluation of the step, by their names without `eval_`.

        Raises:
          ValueError: metrics.jsonl is damaged.
        """
        found: dict[str, float] = {}
        for line in self.run.metrics():
            if line["step"] == self.step:
                known = {name: value for name, value in line.items() if value is not None}
                found |= {
                    name.removeprefix(EVALUATION): value
                    for name, value in known.items()
                    if name.startswith(EVALUATION)
                }
        return found
