"""Fine-tunes by transformers on PyTorch, with the weights and batches that finetuning.py wrote.

    python benchmarks/finetuning_pytorch.py FOLDER OUTPUT [--compile]

Prints JSON: the loss of the first batch without dropout, seconds, and the peak of memory.
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


def read_batches(file: Path) -> list[dict[str, torch.Tensor]]:
    """All batches of a file, in their order."""
    batches: dict[int, dict[str, torch.Tensor]] = {}
    with np.load(file) as arrays:
        for path in arrays:
            number, _, name = path.partition("/")
            tensor = torch.from_numpy(arrays[path])
            tensor = tensor if tensor.is_floating_point() else tensor.long()
            batches.setdefault(int(number), {})[NAMES.get(name, name)] = tensor
    return [batches[number] for number in sorted(batches)]


def torch_loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean loss, weighted where the windows of a text share its weight."""
    if "weights" not in batch:
        return model(**batch).loss
    inputs = {name: tensor for name, tensor in batch.items() if name not in ("weights", "labels")}
    losses = torch.nn.functional.cross_entropy(model(**inputs).logits, batch["labels"], reduction="none")
    return (losses * batch["weights"]).sum() / batch["weights"].sum()


def create_adamw(model: torch.nn.Module, setup: dict) -> torch.optim.Optimizer:
    """AdamW, without weight decay of LayerNorms and biases."""
    decayed, not_decayed = [], []
    for name, parameter in model.named_parameters():
        (not_decayed if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": setup["weight_decay"]},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    betas = setup["beta_1"], setup["beta_2"]
    return torch.optim.AdamW(groups, lr=setup["learning_rate"], betas=betas, eps=setup["epsilon"], fused=True)


def main() -> None:
    """Trains, evaluates twice, and saves the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compile", action="store_true")
    flags = parser.parse_args()
    setup = json.loads((flags.folder / "setup.json").read_text())
    start = flags.folder / "start-huggingface"
    start_time = time.perf_counter()
    model_class = getattr(transformers, json.loads((start / "config.json").read_text())["architectures"][0])
    torch.manual_seed(setup["seed"])
    network = model_class.from_pretrained(start)
    model = torch.compile(network) if flags.compile else network
    train, dev = (read_batches(flags.folder / f"{name}.npz") for name in ("train", "dev"))
    network.eval()
    with torch.no_grad():
        first_loss = float(torch_loss(network, train[0]))
    network.train()
    optimizer = create_adamw(network, setup)
    steps, warmup = setup["steps"], setup["warmup_steps"]
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, steps)
    epoch_times = []
    for number, batch in enumerate(train):
        if number % setup["batches_per_epoch"] == 0:
            epoch_times.append(time.perf_counter())
        optimizer.zero_grad()
        torch_loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), setup["clip_norm"])
        optimizer.step()
        schedule.step()
    epoch_times.append(time.perf_counter())
    network.eval()
    for _ in range(2):
        evaluation_start = time.perf_counter()
        with torch.inference_mode():
            for batch in dev:
                torch_loss(model, batch)
        evaluation = time.perf_counter() - evaluation_start
    network.save_pretrained(flags.output / "huggingface")
    for file in start.iterdir():
        if not (flags.output / "huggingface" / file.name).exists():
            (flags.output / "huggingface" / file.name).write_bytes(file.read_bytes())
    results = {
        "first_loss": first_loss,
        "epoch": epoch_times[-1] - epoch_times[-2],
        "training": epoch_times[-1] - start_time,
        "evaluation": evaluation,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
