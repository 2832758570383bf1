"""The cases by transformers on PyTorch, with torch.compile and without, on a GPU or the CPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from transformers import AlbertConfig, AlbertForPreTraining, AlbertModel

from benchmarks.gpu.cases import PRODUCT, Case, cases, print_lines
from benchmarks.peers.cases import FORWARD
from benchmarks.random_data import random_batch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def prepare(case: Case) -> Callable[[], Any]:
    """The function of a case, which waits for its result."""
    return {PRODUCT: product, FORWARD: forward}.get(case.kind, update)(case)


def product(case: Case) -> Callable[[], Any]:
    """The product of two bfloat16 matrices."""
    matrix = torch.randn(case.batch, case.batch, device=DEVICE, dtype=torch.bfloat16)
    return lambda: float((matrix @ matrix).max())


def forward(case: Case) -> Callable[[], Any]:
    """A forward pass of the encoder; compiled ones use CUDA graphs, which launch all kernels at once."""
    encoder = AlbertModel(create_config(case)).eval().to(DEVICE, torch.bfloat16)
    if case.compiled:
        encoder = torch.compile(encoder, mode="reduce-overhead", dynamic=False)
    batch = create_batch(case)
    inputs = {name: batch[ours] for name, ours in NAMES.items()}

    def compute() -> Any:
        with torch.inference_mode():
            return encoder(**inputs).pooler_output.float().cpu()

    return compute


def update(case: Case) -> Callable[[], Any]:
    """An update: MLM of the predicted positions and SOP; clipping, fused AdamW; bfloat16 by autocast."""
    model = AlbertForPreTraining(create_config(case)).train().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    batch = create_batch(case)
    inputs = {name: batch[ours] for name, ours in NAMES.items()}
    rows = torch.arange(case.batch, device=DEVICE)[:, None]
    cross_entropy = torch.nn.functional.cross_entropy

    def compute_loss() -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            outputs = model.albert(**inputs)
            masked = model.predictions(outputs.last_hidden_state[rows, batch["masked_lm_positions"]])
            sentence = model.sop_classifier(outputs.pooler_output)
        mlm = cross_entropy(masked.float().flatten(0, 1), batch["masked_lm_ids"].flatten())
        return mlm + cross_entropy(sentence.float(), batch["sentence_order_labels"])

    compute = torch.compile(compute_loss, dynamic=False) if case.compiled else compute_loss

    def step() -> float:
        optimizer.zero_grad()
        loss = compute()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss)

    return step


NAMES = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}


def create_batch(case: Case) -> dict[str, torch.Tensor]:
    """A random batch on the device."""
    batch = random_batch(case.batch, case.length, case.predictions, case.config.vocab_size)
    return {name: torch.from_numpy(array).long().to(DEVICE) for name, array in batch.items()}


def create_config(case: Case) -> AlbertConfig:
    """The case's config for transformers, which has Google's keys and another name of the activation."""
    shared = AlbertConfig().to_dict().keys() & case.config.to_dict().keys()
    values = {name: value for name, value in case.config.to_dict().items() if name in shared}
    return AlbertConfig(**{**values, "hidden_act": "gelu_new"})


def peak_memory() -> int | None:
    """The peak memory of the GPU since the last call, bytes; None on a CPU."""
    if DEVICE == "cpu":
        return None
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--deadline", type=float, required=True, help="seconds since the epoch")
    flags = parser.parse_args()
    print_lines("transformers", cases(flags.small), prepare, peak_memory, flags.deadline)


if __name__ == "__main__":
    main()
