"""Hugging Face's transformers on PyTorch, with or without torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from transformers import AlbertForPreTraining

from benchmarks.peers.compared import BFLOAT16, Setting
from examples.runtimes.tokens import Tokens

# Our names of the inputs, and its.
NAMES = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}


class Network:
    """AlbertForPreTraining with our weights."""

    def __init__(self, setting: Setting):
        torch.set_num_threads(setting.threads)
        self.folder, self.narrow = setting.place, setting.precision == BFLOAT16
        self.compiled = setting.options.get("compiled", False)
        self.model = AlbertForPreTraining.from_pretrained(self.folder / "huggingface")

    def parameters(self) -> int:
        """Of the encoder."""
        return sum(parameter.numel() for parameter in self.model.albert.parameters())

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """The encoder; its weights are of the precision."""
        compute, tensors = self.encoder(), tensors_of(inputs)
        return lambda: compute(tensors)

    def encoder(self) -> Callable[[Mapping[str, torch.Tensor]], np.ndarray]:
        """From the encoder's inputs to the pooled output."""
        encoder = self.model.albert.eval().to(torch.bfloat16 if self.narrow else torch.float32)
        if self.compiled:
            encoder = torch.compile(encoder, dynamic=False)

        def compute(tensors: Mapping[str, torch.Tensor]) -> np.ndarray:
            with torch.inference_mode():
                return encoder(**tensors).pooler_output.float().numpy()

        return compute

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the encoder."""
        tokens, compute = Tokens(self.folder / "run"), self.encoder()
        return lambda texts: compute(tensors_of(tokens.inputs(texts)))

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """MLM of the predicted positions alone and SOP; clipping, fused AdamW; bfloat16 by autocast."""
        model = self.model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
        tensors = tensors_of(batch)
        positions, masked_ids, order = (
            torch.from_numpy(batch[name]).long()
            for name in ("masked_lm_positions", "masked_lm_ids", "sentence_order_labels")
        )
        rows = torch.arange(len(positions))[:, None]
        cross_entropy = torch.nn.functional.cross_entropy

        def loss_of(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
                outputs = model.albert(**tensors)
                # AlbertForPreTraining itself has logits of every token, which would be slower.
                masked = model.predictions(outputs.last_hidden_state[rows, positions])
                sentence = model.sop_classifier(outputs.pooler_output)
            mlm = cross_entropy(masked.float().flatten(0, 1), masked_ids.flatten())
            return mlm + cross_entropy(sentence.float(), order)

        compute = torch.compile(loss_of, dynamic=False) if self.compiled else loss_of

        def step() -> float:
            optimizer.zero_grad()
            loss = compute(tensors)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return float(loss)

        return step


def tensors_of(inputs: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The encoder's inputs by its names."""
    return {name: torch.from_numpy(inputs[ours]).long() for ours, name in NAMES.items()}
