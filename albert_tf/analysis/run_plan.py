"""The plan of a pre-training run, by arithmetic: memory of a device, traffic, time and data."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.constants import POLICIES
from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.models.sharing import block_parameters, head_parameters, parameter_count, sharing_plan

FLOAT32 = 4  # bytes
SLOTS = 2  # of LAMB and of AdamW: the running means of the gradient and of its square

# Two figures are fitted to the peaks in benchmarks/results/scale.md, the same for all networks. What a
# process has besides, for graphs, XLA's programs and threads, in bytes:
RUNTIME = 0.27e9
# And how many times what lives TensorFlow's allocator takes from the system: it keeps freed blocks, and what
# comes next does not always fit into them.
ALLOCATED = 1.15

# Of the published English vocabulary, measured on Wikipedia, books and film reviews.
BYTES_OF_TOKEN = 4.5  # as text
PREPARED_BYTES = 0.36  # of a byte of text, in documents of `prepare`


@dataclasses.dataclass(frozen=True, kw_only=True)
class Update:
    """An update of pre-training.

    Args:
      config: the network's shape.
      batch_size: examples of the update, over all devices.
      seq_length: tokens an example, S.
      predictions: masked tokens an example, P.
      devices: that divide the batch.
      precision: of the computation; variables, slots and gradients are float32.
      remat: gradient checkpointing.
      accumulate: microbatches.
    Raises:
      InputError: a value is impossible.
    """

    config: AlbertConfig
    batch_size: int
    seq_length: int
    predictions: int
    devices: int = 1
    precision: str = "float32"
    remat: bool = False
    accumulate: int = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "seq_length", "predictions", "devices", "accumulate"):
            check_range(name, getattr(self, name), at_least=1)
        check_choice("precision", self.precision, POLICIES)
        self.config.check_length(self.seq_length)
        if self.batch_size % (parts := self.devices * self.accumulate):
            raise InputError(
                f"batch_size={self.batch_size} cannot be divided among {self.devices} devices times "
                f"accumulate={self.accumulate}: make it a multiple of {parts}"
            )

    @property
    def rows(self) -> int:
        """Examples of a microbatch of a device."""
        return self.batch_size // (self.devices * self.accumulate)

    @property
    def parameters(self) -> int:
        """Parameters of the network and of the heads of pre-training."""
        return parameter_count(self.config)["total"] + head_parameters(self.config)


class Memory(NamedTuple):
    """Bytes of a device; gradients and activations at the moment when there are most of each."""

    parameters: float
    slots: float  # the optimizer's
    gradients: float
    activations: float
    peak: float  # of all, and of what is held for a moment


def memory_of(update: Update) -> Memory:
    """Memory of each device while it makes an update, with LAMB or AdamW.

    The forward pass keeps what the backward pass needs. On the way back activations give way to gradients: of
    parameters that L layers share there are L until they are added up, with `remat` one sum.
    """
    config, plan = update.config, sharing_plan(update.config)
    variables = FLOAT32 * update.parameters
    size = FLOAT32 if update.precision == "float32" else FLOAT32 // 2
    casts = 0 if size == FLOAT32 else size * update.parameters
    of_layer, states = layer_activations(config, update.rows, update.seq_length, size)
    blocks = block_parameters(config)
    repeated = [len(plan) - len(set(paths)) for paths in zip(*plan, strict=True)]  # uses besides the first
    shared = FLOAT32 * sum(count * block for count, block in zip(repeated, blocks, strict=True))
    if update.remat:  # a sum, what is added to it, and the next sum
        shared = min(shared, 2 * FLOAT32 * sum(blocks))
    activations = len(plan) * (states if update.remat else of_layer)
    # With microbatches, the sum before one of them and that after it.
    sums = 2 * variables if update.accumulate > 1 else 0
    gradients = sums + variables + shared

    logits = FLOAT32 * update.rows * update.predictions * config.vocab_size
    kernel = FLOAT32 * config.hidden_size * config.intermediate_size
    table = FLOAT32 * config.vocab_size * config.embedding_size
    moments = {
        "forward pass, logits": sums + activations + 4 * logits + 2 * kernel,
        "backward pass": gradients + 2 * of_layer + 3 * kernel + (activations if update.remat else 0),
        "optimizer: gradients, clipped ones, new values of two variables": 2 * variables
        + 2 * (1 + SLOTS) * max(table, kernel),
    }
    held = (1 + SLOTS) * variables + casts
    peak = RUNTIME + held + ALLOCATED * max(moments.values())
    return Memory(variables + casts, SLOTS * variables, gradients, activations, peak)


def layer_activations(config: AlbertConfig, rows: int, seq_length: int, size: int) -> tuple[int, int]:
    """Bytes that the backward pass needs of a layer, and of these its hidden states [B·S, H].

    Args:
      config: the network's shape.
      rows: examples, B.
      seq_length: S.
      size: bytes of a number.
    """
    tokens, width = rows * seq_length, config.hidden_size
    states, inner = size * tokens * width, size * tokens * config.intermediate_size
    maps = tokens * config.num_attention_heads * seq_length  # numbers of [B, N, S, S]
    kept = {
        "query, key and value by head, the query scaled, too": 4 * states,
        "probabilities": size * maps,
        "what they weigh, by token": states,
        "the sums that both LayerNorms read": 2 * states,
        "their outputs": 2 * states,
        "before the activation and after": 2 * inner,
    }
    if config.attention_probs_dropout_prob:
        kept["probabilities after dropout, and what stays"] = (size + 1) * maps
    if config.hidden_dropout_prob:
        kept["what stays after dropout"] = 2 * tokens * width
    return sum(kept.values()), states


def smallest_accumulate(update: Update, memory: float, *, remat: bool) -> int | None:
    """The fewest microbatches that fit into so many bytes, with or without `remat`; None: there are none."""
    rows = update.batch_size // update.devices
    for count in range(1, rows + 1):
        if rows % count == 0:
            changed = dataclasses.replace(update, accumulate=count, remat=remat)
            if memory_of(changed).peak <= memory:
                return count
    return None


def bytes_reduced(update: Update) -> int:
    """Bytes of the gradients that devices sum up in an update: float32, once for all microbatches.

    >>> bytes_reduced(Update(config=AlbertConfig(), batch_size=4096, seq_length=512, predictions=77))
    47255240
    """
    return FLOAT32 * update.parameters


def bytes_sent(update: Update) -> float:
    """Bytes that each device sends in an update, and receives, by a ring all-reduce.

    Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
    """
    return 2 * (update.devices - 1) / update.devices * bytes_reduced(update)


def plan_figures(
    update: Update,
    steps: int,
    memory: float | None = None,
    rate: float | None = None,
    text: float | None = None,
) -> dict[str, float | None]:
    """The figures of a run of such updates by name; None: not asked for, or it does not fit.

    Args:
      update: all updates are alike.
      steps: updates.
      memory: bytes of a device, for the smallest `accumulate`.
      rate: examples a second that a device trains on, for the days; communication is left out.
      text: bytes of the corpus as plain text.
    """
    tokens = steps * update.batch_size * update.seq_length
    fits = [memory and smallest_accumulate(update, memory, remat=remat) for remat in (False, True)]
    return {
        "parameters": update.parameters,
        **{f"memory_{part}": size for part, size in memory_of(update)._asdict().items()},
        "accumulate": fits[0],
        "accumulate_with_remat": fits[1],
        "bytes_reduced": bytes_reduced(update),
        "bytes_sent": bytes_sent(update),
        "steps": steps,
        "tokens": tokens,
        "days": rate and steps * update.batch_size / (rate * update.devices) / 86_400,
        "prepared_bytes": text and text * PREPARED_BYTES,
        "passes": text and tokens * BYTES_OF_TOKEN / text,
    }
