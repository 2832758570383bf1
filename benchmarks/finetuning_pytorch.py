"""transformers on PyTorch for finetuning.py: the batches that it has written, as its users would train.

    python benchmarks/finetuning_pytorch.py FOLDER OUTPUT [--compile]

Prints JSON: the loss of the first batch without dropout, seconds, and the most memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch
import transformers

NAMES = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}


def batches(file: Path) -> list[dict[str, torch.Tensor]]:
    """All batches of a file, in their order."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    with np.load(file) as arrays:
        for path in arrays:
            number, _, name = path.partition("/")
            tensor = torch.from_numpy(arrays[path])
            tensor = tensor if tensor.is_floating_point() else tensor.long()
            found.setdefault(int(number), {})[NAMES.get(name, name)] = tensor
    return [found[number] for number in sorted(found)]


def loss_of(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean loss; the windows of one text share its weight."""
    if "weights" not in batch:
        return model(**batch).loss
    inputs = {name: tensor for name, tensor in batch.items() if name not in ("weights", "labels")}
    losses = torch.nn.functional.cross_entropy(model(**inputs).logits, batch["labels"], reduction="none")
    return (losses * batch["weights"]).sum() / batch["weights"].sum()


def optimizer_of(model: torch.nn.Module, begun: dict) -> torch.optim.Optimizer:
    """AdamW, without decay of LayerNorms and biases."""
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        (others if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": begun["weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = begun["beta_1"], begun["beta_2"]
    return torch.optim.AdamW(groups, lr=begun["learning_rate"], betas=betas, eps=begun["epsilon"], fused=True)


def main() -> None:
    """Trains, evaluates twice, saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compile", action="store_true")
    flags = parser.parse_args()
    begun = json.loads((flags.folder / "begun.json").read_text())
    start = flags.folder / "start-huggingface"
    began = time.perf_counter()
    kind = getattr(transformers, json.loads((start / "config.json").read_text())["architectures"][0])
    torch.manual_seed(begun["seed"])
    network = kind.from_pretrained(start)
    model = torch.compile(network) if flags.compile else network
    train, dev = (batches(flags.folder / f"{name}.npz") for name in ("train", "dev"))
    network.eval()
    with torch.no_grad():
        first_loss = float(loss_of(network, train[0]))
    network.train()
    optimizer = optimizer_of(network, begun)
    steps, warmup = begun["steps"], begun["warmup_steps"]
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, steps)
    ends = []
    for number, batch in enumerate(train):
        if number % begun["batches_per_epoch"] == 0:
            ends.append(time.perf_counter())
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), begun["clip_norm"])
        optimizer.step()
        schedule.step()
    ends.append(time.perf_counter())
    network.eval()
    for _ in range(2):
        evaluated = time.perf_counter()
        with torch.inference_mode():
            for batch in dev:
                loss_of(model, batch)
        evaluation = time.perf_counter() - evaluated
    network.save_pretrained(flags.output / "huggingface")
    for file in start.iterdir():
        if not (flags.output / "huggingface" / file.name).exists():
            (flags.output / "huggingface" / file.name).write_bytes(file.read_bytes())
    found = {
        "first_loss": first_loss,
        "epoch": ends[-1] - ends[-2],
        "training": ends[-1] - began,
        "evaluation": evaluation,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
