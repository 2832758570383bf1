"""Makes an ALBERT from a BERT or a RoBERTa: factorised embeddings, and blocks that layers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.filesystem import check_new_folder, gfile_path
from albert_tf.io import PathLike
from albert_tf.runs.build_model import build_model, variable_shapes
from albert_tf.runs.load_save import check_finite, save
from albert_tf.runs.run_directory import BEST_KEY, RunDirectory, open_run
from albert_tf.runs.warm_start import block_origins, block_scope

# Ways to initialise a group's block from the values of its layers, [layers, ...].
BLOCKS: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray]] = {
    "mean": lambda values: np.asarray(np.mean(values, axis=0, dtype=np.float64), np.float32),
    "first": lambda values: values[0],
    "middle": lambda values: values[(len(values) - 1) // 2],
    "last": lambda values: values[-1],
}

_TABLES = tuple(f"embeddings/{x}_embeddings" for x in ("word", "position", "token_type"))
_NORM = "embeddings/LayerNorm"
_PROJECTION = "encoder/embedding_hidden_mapping_in"


class Factors(NamedTuple):
    """Tables of width E and a projection to H. They replace tables of width H and their LayerNorm."""

    tables: dict[str, np.ndarray]  # float32 [rows, E], by name
    kernel: np.ndarray  # float32 [E, H]
    errors: dict[str, float]  # ‖C - C'‖ / ‖C‖ of each table C, its rows centred


class Compression(NamedTuple):
    """The result of a compression."""

    parameters: tuple[int, int]  # number before and after
    errors: dict[str, float]  # relative error of each table, see `Factors`
    newly_initialized: tuple[str, ...]  # names of the variables that are initialised at random


def factorise_embeddings(tables: Mapping[str, np.ndarray], gamma: np.ndarray, embedding_size: int) -> Factors:
    """The best approximation of summed embeddings by tables of width E and a projection.

    LayerNorm subtracts the mean of a row, so that only centred rows C count. The sum of one row of each
    table is projected onto the E - 1 directions V with the largest share of Σ CᵀC / rows over the tables.
    This is a truncated SVD in which all tables have the same weight. (Weighted by rows, the word table would
    decide, and the positions would be lost.) One direction of E is not used: the new rows have a mean of 0,
    too, and therefore their LayerNorm divides by the same norm. The following equation is exact except for
    the rank and the ε of LayerNorm:

      LN_H(Σ C) = √(H/E) · LN_E(Σ C V Qᵀ) Q Vᵀ · γ + β, with Q [E, E-1] orthonormal and orthogonal to 1

    Args:
      tables: float tables [rows, H] by name.
      gamma: scale of the LayerNorm, [H].
      embedding_size: E, at most H.
    Returns:
      The new tables, the projection and the relative error of each table.
    Source: Eckart and Young 1936 for the approximation; Lan et al. 2020, §3.1, for the factorisation.
    """
    tables = {name: np.asarray(table, np.float64) for name, table in tables.items()}
    centred = {name: table - table.mean(axis=1, keepdims=True) for name, table in tables.items()}
    gram = sum(table.T @ table / len(table) for table in centred.values())  # [H, H]
    _, directions = np.linalg.eigh(gram)  # ascending
    basis = directions[:, ::-1][:, : embedding_size - 1]  # V [H, E-1]
    rotation = zero_mean_basis(embedding_size)  # Q [E, E-1]
    scale = np.sqrt(len(gamma) / embedding_size)
    reduced = {name: table @ basis for name, table in centred.items()}  # [rows, E-1]
    return Factors(
        tables={name: (table @ rotation.T).astype(np.float32) for name, table in reduced.items()},
        kernel=(scale * rotation @ basis.T * gamma).astype(np.float32),
        errors={name: _relative_error(table, reduced[name] @ basis.T) for name, table in centred.items()},
    )


def zero_mean_basis(size: int) -> np.ndarray:
    """An orthonormal basis of the vectors with mean 0, float64 [size, size - 1]."""
    ones = np.ones([size, 1])
    return np.linalg.qr(np.hstack([ones, np.eye(size)[:, 1:]]))[0][:, 1:]


def _relative_error(table: np.ndarray, approximation: np.ndarray) -> float:
    norm = np.linalg.norm(table)
    return float(np.linalg.norm(table - approximation) / norm) if norm else 0.0


def compress(
    run: PathLike,
    output: PathLike,
    embedding_size: int = 128,
    num_hidden_groups: int = 1,
    blocks: str = "mean",
    step: int | None = None,
    command: str = "",
) -> Compression:
    """Writes an ALBERT that is initialised from a BERT or a RoBERTa. Nothing is written if it fails.

    `factorise_embeddings` makes its embeddings, and its layers share the blocks of their group. Variables of
    the same shape are copied, such as the pooler and the heads of a task. The result needs training:
    `albert-tf distill` with the run as the teacher.

    Args:
      run: path of the run directory of a network whose embeddings are as wide as its layers.
      output: path of the new run directory.
      embedding_size: E, less than H.
      num_hidden_groups: G, the number of groups of layers that share a block; at most the number of layers.
      blocks: how to initialise a group's block: with the "mean" of its layers' blocks, or with the block of
        its "first", "middle" or "last" layer.
      step: training step of the checkpoint. None: the step that `load` takes.
      command: the command line, for recipe.json.
    Returns:
      A named tuple. `parameters`: their number before and after. `errors`: the relative error of each table.
      `newly_initialized`: names of the variables that are initialised at random.
    Raises:
      OSError: the run is missing, or `output` exists.
      InputError: the network has factorised embeddings or shared layers already, a number is out of range,
        a file is damaged, or weights are non-finite.
    """
    check_new_folder(gfile_path(output, "output"))
    check_choice("blocks", blocks, BLOCKS)
    source = open_run(run)
    config = _compressed_config(source, embedding_size, num_hidden_groups)
    values, errors = _initial_values(source, config, blocks, step)
    model = build_model(config, source.task, values.get)
    check_finite(model, source, step)
    recipe = {"compressed_from": str(run), "blocks": blocks, "command": command, "relative_errors": errors}
    task = {name: value for name, value in source.task.items() if name != BEST_KEY}  # it has no metrics
    save(model, output, source.vocabulary, tokenizer=source.tokenizer, recipe=recipe, task=task)
    return Compression(
        parameters=(sum(map(math.prod, source.shapes.values())), model.count_params()),
        errors=errors,
        newly_initialized=tuple(x for x in variable_shapes(config, source.task) if x not in values),
    )


def _compressed_config(source: RunDirectory, embedding_size: int, num_hidden_groups: int) -> AlbertConfig:
    """The config of the compressed network; InputError if the run's network cannot be compressed."""
    config = source.config
    if config.has_projection or config.embedding_size != config.hidden_size:
        size = f"embedding_size={config.embedding_size}"
        raise InputError(f"{source} has factorised embeddings, {size}: name a BERT or RoBERTa")
    if config.sharing != "none" and config.num_hidden_groups < config.num_hidden_layers:
        raise InputError(f"{source} has layers that share blocks already: name a BERT or RoBERTa")
    check_range("embedding_size", embedding_size, at_least=2, below=config.hidden_size)
    check_range("num_hidden_groups", num_hidden_groups, at_least=1, at_most=config.num_hidden_layers)
    return config.replace(
        embedding_size=embedding_size,
        num_hidden_groups=num_hidden_groups,
        sharing="all",
        project_embeddings=None,
    )


def _initial_values(
    source: RunDirectory, config: AlbertConfig, blocks: str, step: int | None
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The values of the new variables by name, without the random ones, and the errors of the tables."""
    variables, shapes = source.variables(step), source.shapes

    def read(name: str) -> np.ndarray:
        value = variables(name)
        assert value is not None
        return value

    tables = {name: read(name) for name in _TABLES if name in shapes}
    factors = factorise_embeddings(tables, read(f"{_NORM}/gamma"), config.embedding_size)
    values = {
        **factors.tables,
        f"{_NORM}/gamma": np.ones(config.embedding_size, np.float32),
        f"{_NORM}/beta": np.zeros(config.embedding_size, np.float32),
        f"{_PROJECTION}/kernel": factors.kernel,
        f"{_PROJECTION}/bias": read(f"{_NORM}/beta"),
    }
    origins = block_origins(source.config, config)
    for name, shape in variable_shapes(config, source.task).items():
        scope = block_scope(name)
        if scope in origins:
            values[name] = BLOCKS[blocks]([read(x + name.removeprefix(scope)) for x in origins[scope]])
        elif name not in values and shapes.get(name) == shape:
            values[name] = read(name)
    return values, {name.removeprefix("embeddings/"): error for name, error in factors.errors.items()}
