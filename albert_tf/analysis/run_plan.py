"""Estimates of a pre-training run by arithmetic: memory of a device, traffic, time and data."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import block_parameters, head_parameters, parameter_count, sharing_plan
from albert_tf.settings import check_fields, setting
from albert_tf.training.compute_settings import ComputeConfig

FLOAT32 = 4  # bytes
SLOTS = 2  # per parameter in LAMB and AdamW: the running means of the gradient and of its square

# Both numbers are fitted to the peaks in benchmarks/results/scale.md, and are the same for all networks.
RUNTIME_BYTES = 0.27e9  # other memory of a process: graphs, XLA's programs, threads
# Memory that TensorFlow's allocator takes, relative to the memory in use. It keeps freed blocks, and later
# tensors do not always fit into them.
ALLOCATOR_OVERHEAD = 1.15

# For the published English vocabulary, measured on Wikipedia, books and film reviews.
BYTES_PER_TOKEN = 4.5  # as text
PREPARED_BYTES_PER_BYTE = 0.36  # bytes that `prepare` writes for a byte of text


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepSettings:
    """The settings of a pre-training step that decide its memory and traffic.

    Args:
      config: shape of the network.
      batch_size: number of examples in a step, over all devices.
      seq_length: number of tokens in an example, S.
      predictions: number of masked tokens in an example, P.
      devices: number of devices that divide the batch.
      compute: how a step is computed. Variables, slots and gradients are float32 in every precision.
    Raises:
      InputError: a value is impossible.
    """

    config: AlbertConfig
    batch_size: int = setting(at_least=1)
    seq_length: int = setting(at_least=1)
    predictions: int = setting(at_least=1)
    devices: int = setting(1, at_least=1)
    compute: ComputeConfig = dataclasses.field(default_factory=ComputeConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        self.config.check_length(self.seq_length)
        self.compute.check_batch_size(self.batch_size, self.devices)

    @property
    def rows(self) -> int:
        """Number of examples in a microbatch on one device."""
        return self.compute.microbatch_rows(self.batch_size) // self.devices

    @property
    def parameters(self) -> int:
        """Number of parameters of the network and its pre-training heads."""
        return parameter_count(self.config)["total"] + head_parameters(self.config)


class MemoryEstimate(NamedTuple):
    """Memory of a device, in bytes. `gradients` and `activations` are their largest totals within a step."""

    parameters: float
    slots: float  # the optimizer's
    gradients: float
    activations: float
    peak: float  # the largest total, temporary tensors included


def estimate_memory(settings: StepSettings) -> MemoryEstimate:
    """Estimates the memory of each device in a step with LAMB or AdamW.

    The forward pass stores activations for the backward pass, in which gradients replace them. Parameters
    that L layers share have L gradients until these are added up, or one running sum with `remat`.
    """
    config, compute, plan = settings.config, settings.compute, sharing_plan(settings.config)
    variables = FLOAT32 * settings.parameters
    size = FLOAT32 if compute.precision == "float32" else FLOAT32 // 2
    casts = 0 if size == FLOAT32 else size * settings.parameters
    layer_bytes, state_bytes = layer_activations(config, settings.rows, settings.seq_length, size)
    blocks = block_parameters(config)
    repeated = [len(plan) - len(set(paths)) for paths in zip(*plan, strict=True)]  # uses after the first
    shared = FLOAT32 * sum(count * block for count, block in zip(repeated, blocks, strict=True))
    if compute.remat:  # besides the running sum: the next gradient, and the next sum
        shared = min(shared, 2 * FLOAT32 * sum(blocks))
    activations = len(plan) * (state_bytes if compute.remat else layer_bytes)
    # The sums before and after a microbatch.
    sums = 2 * variables if compute.accumulate > 1 else 0
    gradients = sums + variables + shared

    logits = FLOAT32 * settings.rows * settings.predictions * config.vocab_size
    kernel = FLOAT32 * config.hidden_size * config.intermediate_size
    table = FLOAT32 * config.vocab_size * config.embedding_size
    moments = {
        "forward pass, logits": sums + activations + 4 * logits + 2 * kernel,
        "backward pass": gradients + 2 * layer_bytes + 3 * kernel + (activations if compute.remat else 0),
        "optimizer: gradients, clipped ones, new values of two variables": 2 * variables
        + 2 * (1 + SLOTS) * max(table, kernel),
    }
    permanent = (1 + SLOTS) * variables + casts
    peak = RUNTIME_BYTES + permanent + ALLOCATOR_OVERHEAD * max(moments.values())
    return MemoryEstimate(variables + casts, SLOTS * variables, gradients, activations, peak)


def layer_activations(config: AlbertConfig, rows: int, seq_length: int, size: int) -> tuple[int, int]:
    """Bytes of a layer's tensors that the backward pass needs.

    Args:
      config: shape of the network.
      rows: number of examples, B.
      seq_length: number of tokens in an example, S.
      size: bytes of a number.
    Returns:
      Bytes of all these tensors, and of the hidden states [B·S, H] alone.
    """
    tokens, width = rows * seq_length, config.hidden_size
    states, inner = size * tokens * width, size * tokens * config.intermediate_size
    maps = tokens * config.num_attention_heads * seq_length  # numbers in [B, N, S, S]
    stored = {
        "query, scaled query, key and value by head": 4 * states,
        "probabilities": size * maps,
        "context, the sum of values weighted by the probabilities": states,
        "inputs of both LayerNorms": 2 * states,
        "outputs of both LayerNorms": 2 * states,
        "input and output of the activation": 2 * inner,
    }
    if config.attention_probs_dropout_prob:
        stored["probabilities after dropout, and its mask"] = (size + 1) * maps
    if config.hidden_dropout_prob:
        stored["masks of dropout"] = 2 * tokens * width
    return sum(stored.values()), states


def smallest_accumulate(settings: StepSettings, memory: float, *, remat: bool) -> int | None:
    """The smallest number of microbatches that fits into `memory` bytes. None: no number does."""
    rows = settings.batch_size // settings.devices
    for count in range(1, rows + 1):
        if rows % count == 0:
            compute = dataclasses.replace(settings.compute, accumulate=count, remat=remat)
            if estimate_memory(dataclasses.replace(settings, compute=compute)).peak <= memory:
                return count
    return None


def bytes_reduced(settings: StepSettings) -> int:
    """Bytes of the gradients that devices sum up in a step: float32, once for all microbatches.

    >>> bytes_reduced(StepSettings(config=AlbertConfig(), batch_size=4096, seq_length=512, predictions=77))
    47255240
    """
    return FLOAT32 * settings.parameters


def bytes_sent(settings: StepSettings) -> float:
    """Bytes that each device sends, and receives, in a step with a ring all-reduce.

    Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
    """
    return 2 * (settings.devices - 1) / settings.devices * bytes_reduced(settings)


def estimate_run(
    settings: StepSettings,
    steps: int,
    memory: float | None = None,
    rate: float | None = None,
    text: float | None = None,
) -> dict[str, float | None]:
    """Computes the figures of a plan.

    Args:
      settings: settings of each step.
      steps: number of steps.
      memory: bytes of a device, for the smallest `accumulate`.
      rate: examples per second of one device, for the days. Communication is left out.
      text: bytes of the corpus as plain text.
    Returns:
      Figures by name. None: the argument that it needs is missing, or no `accumulate` fits.
    """
    tokens = steps * settings.batch_size * settings.seq_length
    fits = [memory and smallest_accumulate(settings, memory, remat=remat) for remat in (False, True)]
    return {
        "parameters": settings.parameters,
        **{f"memory_{part}": size for part, size in estimate_memory(settings)._asdict().items()},
        "accumulate": fits[0],
        "accumulate_with_remat": fits[1],
        "bytes_reduced": bytes_reduced(settings),
        "bytes_sent": bytes_sent(settings),
        "steps": steps,
        "tokens": tokens,
        "days": rate and steps * settings.batch_size / (rate * settings.devices) / 86_400,
        "prepared_bytes": text and text * PREPARED_BYTES_PER_BYTE,
        "passes": text and tokens * BYTES_PER_TOKEN / text,
    }
