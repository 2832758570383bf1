"""Hugging Face's transformers on PyTorch, with or without torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from transformers import AlbertForPreTraining

from benchmarks.peers.cases import BFLOAT16, Setting
from examples.runtimes.tokens import ConvertedTokenizer

# Our names of the inputs, and the library's.
NAMES = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}


class Network:
    """AlbertForPreTraining with our weights."""

    def __init__(self, setting: Setting):
        torch.set_num_threads(setting.threads)
        self.folder, self.narrow = setting.path, setting.precision == BFLOAT16
        self.compiled = setting.options.get("compiled", False)
        self.model = AlbertForPreTraining.from_pretrained(self.folder / "huggingface")

    def parameters(self) -> int:
        """The number of parameters of the encoder."""
        return sum(parameter.numel() for parameter in self.model.albert.parameters())

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """The encoder, with weights of the precision."""
        compute, tensors = self.make_encoder_fn(), to_tensors(inputs)
        return lambda: compute(tensors)

    def make_encoder_fn(self) -> Callable[[Mapping[str, torch.Tensor]], np.ndarray]:
        """A function from the encoder's inputs to its pooled output."""
        encoder = self.model.albert.eval().to(torch.bfloat16 if self.narrow else torch.float32)
        if self.compiled:
            encoder = torch.compile(encoder, dynamic=False)

        def compute(tensors: Mapping[str, torch.Tensor]) -> np.ndarray:
            with torch.inference_mode():
                return encoder(**tensors).pooler_output.float().numpy()

        return compute

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the encoder."""
        tokenizer, compute = ConvertedTokenizer(self.folder / "run"), self.make_encoder_fn()
        return lambda texts: compute(to_tensors(tokenizer(texts)))

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """MLM of the predicted positions and SOP; clipping, fused AdamW; bfloat16 by autocast."""
        model = self.model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
        tensors = to_tensors(batch)
        positions, masked_ids, order = (
            torch.from_numpy(batch[name]).long()
            for name in ("masked_lm_positions", "masked_lm_ids", "sentence_order_labels")
        )
        rows = torch.arange(len(positions))[:, None]
        cross_entropy = torch.nn.functional.cross_entropy

        def compute_loss(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
                outputs = model.albert(**tensors)
                # AlbertForPreTraining itself computes logits for every token, which would be slower.
                masked = model.predictions(outputs.last_hidden_state[rows, positions])
                sentence = model.sop_classifier(outputs.pooler_output)
            mlm = cross_entropy(masked.float().flatten(0, 1), masked_ids.flatten())
            return mlm + cross_entropy(sentence.float(), order)

        compute = torch.compile(compute_loss, dynamic=False) if self.compiled else compute_loss

        def step() -> float:
            optimizer.zero_grad()
            loss = compute(tensors)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return float(loss)

        return step


def to_tensors(inputs: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The encoder's inputs by the names of transformers."""
    return {name: torch.from_numpy(inputs[ours]).long() for ours, name in NAMES.items()}
