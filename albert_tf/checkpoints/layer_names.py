"""Names and shapes of the variables of one layer, here and in other implementations.

Shapes are in letters, as `names.variable_names` resolves them: V E S T H I N D, K labels.
"""

from __future__ import annotations

from typing import NamedTuple


class Variable(NamedTuple):
    """A variable of a layer: its names here and in Hugging Face's models, its shapes in letters."""

    ours: str
    hugging_face: str
    shape: str
    hub_shape: str  # the same elements in the same order


class Layer(NamedTuple):
    """A layer: its scope here and in the models of Hugging Face, Model Garden and Google, its variables."""

    ours: str
    hugging_face: str
    hub: str | None
    variables: list[Variable]
    google: str | None = None  # None: as here


def dense(inputs: str, outputs: str, hub_inputs: str = "", hub_outputs: str = "") -> list[Variable]:
    """Kernel and bias."""
    hub_shape = f"{hub_inputs or inputs} {hub_outputs or outputs}"
    kernel = Variable("kernel", "weight", f"{inputs} {outputs}", hub_shape)
    return [kernel, Variable("bias", "bias", outputs, hub_outputs or outputs)]


def norm(width: str) -> list[Variable]:
    """LayerNorm."""
    return [Variable("gamma", "weight", width, width), Variable("beta", "bias", width, width)]


def table(shape: str) -> list[Variable]:
    """Embeddings."""
    return [Variable("", "weight", shape, shape)]


def output(units: str) -> list[Variable]:
    """The last layer of a head, as Google's code has it: the kernel transposed."""
    weights = Variable("output_weights", "weight", f"{units} H", f"{units} H")
    return [weights, Variable("output_bias", "bias", units, units)]
