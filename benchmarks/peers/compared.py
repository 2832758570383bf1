"""What is compared: the cases, the programs that do them, and what both are given."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORWARD, UPDATE, TEXT = "forward", "update", "text"
FLOAT32, BFLOAT16 = "float32", "bfloat16"

MASKED = 0.15  # of the tokens: 20 predictions of 128 tokens, 77 of 512
TEXT_BATCH = 32  # sentences at a time
TEXT_LENGTH = 128  # tokens, where a program pads to one length, or cuts


class Case(NamedTuple):
    """Something to do and to time.

    Attributes:
      kind: FORWARD: token ids to pooled output. UPDATE: forward, backward and optimizer of pre-training.
        TEXT: all sentences to their pooled outputs, in batches of `batch` in their order.
      batch: rows, B.
      length: tokens of each row, S, none of which is padding; of TEXT the most that there may be.
      precision: FLOAT32 or BFLOAT16.
    """

    kind: str
    batch: int
    length: int
    precision: str

    @property
    def name(self) -> str:
        """As it is typed: forward-8x128-float32."""
        return f"{self.kind}-{self.batch}x{self.length}-{self.precision}"

    @property
    def predictions(self) -> int:
        """Masked tokens of each row that an update predicts, P."""
        return math.ceil(MASKED * self.length)


SHAPES = {
    FORWARD: [(1, 16), (1, 128), (8, 128), (32, 128), (8, 512)],
    UPDATE: [(8, 128), (4, 512)],
    TEXT: [(TEXT_BATCH, TEXT_LENGTH)],
}
CASES = {
    case.name: case
    for kind, shapes in SHAPES.items()
    for precision in (FLOAT32, BFLOAT16)
    for case in (Case(kind, *shape, precision) for shape in shapes)
}
# Those that a run of some twenty minutes has room for.
QUICK = ["forward-1x16-*", "forward-1x128-*", "forward-8x128-*", "update-8x128-*", "text-*"]


class Peer(NamedTuple):
    """A program that does cases, in a process of its own.

    Attributes:
      title: of its column.
      module: its file in this folder.
      environment: folder in .venv-peers, of requirements-<environment>.txt; None: this project's own.
      kinds: of the cases that it does.
      precisions: the same.
      options: what else its module is told.
      variables: of its process's environment.
    """

    title: str
    module: str
    environment: str | None
    kinds: Sequence[str] = (FORWARD, UPDATE, TEXT)
    precisions: Sequence[str] = (FLOAT32, BFLOAT16)
    options: Mapping[str, Any] = {}
    variables: Mapping[str, str] = {}

    def does(self, case: Case) -> bool:
        """Whether it does a case at all."""
        return case.kind in self.kinds and case.precision in self.precisions


OURS = "ours"
MATMUL = "matmul"
PEERS = {
    OURS: Peer("ours", "ours", None),
    "ours_frozen": Peer(  # what examples/serving says of weights that do not change
        "ours, frozen weights",
        "ours",
        None,
        (FORWARD, TEXT),
        variables={"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
    ),
    MATMUL: Peer("MatMul of the same shapes", "matmul", None, (FORWARD, UPDATE)),
    "model_garden": Peer("Model Garden", "model_garden", "model-garden"),
    "model_garden_xla": Peer("Model Garden, XLA", "model_garden", "model-garden", options={"xla": True}),
    "keras_hub": Peer("KerasHub", "keras_hub", "keras-hub", (FORWARD, UPDATE)),
    "keras_hub_xla": Peer(
        "KerasHub, XLA", "keras_hub", "keras-hub", (FORWARD, UPDATE), options={"xla": True}
    ),
    "huggingface": Peer("HF PyTorch", "huggingface", "huggingface"),
    "huggingface_compiled": Peer(
        "HF PyTorch, compiled", "huggingface", "huggingface", (FORWARD, UPDATE), options={"compiled": True}
    ),
    "onnx_runtime": Peer(  # its CPU kernels know no bfloat16
        "ONNX Runtime", "onnx_runtime", "onnx-runtime", (FORWARD, TEXT), (FLOAT32,)
    ),
    "openvino": Peer("OpenVINO", "open_vino", "openvino", (FORWARD, TEXT)),
}


class Setting(NamedTuple):
    """What a program is told when it starts.

    Attributes:
      folder: what `prepared.py` has written.
      precision: to compute in.
      threads: to compute with.
      options: of the peer.
    """

    folder: str
    precision: str
    threads: int
    options: Mapping[str, Any] = {}

    @property
    def place(self) -> Path:
        """The folder."""
        return Path(self.folder)


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that any of the patterns, such as forward-*-float32, describes, in their order.

    Raises:
      ValueError: a pattern describes none of them.
    """
    names = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{pattern} is none of {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def read_config(folder: Path) -> dict[str, Any]:
    """The network's shape, as in albert_config.json."""
    return json.loads((folder / "config.json").read_text("utf-8"))


def encoder_inputs(case: Case, vocab_size: int) -> dict[str, np.ndarray]:
    """Random tokens without padding: the inputs of our encoder by name, int32 [B, S]."""
    ids = np.random.default_rng(0).integers(5, vocab_size, [case.batch, case.length], np.int32)
    return {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}


def pretraining_batch(case: Case, vocab_size: int) -> dict[str, np.ndarray]:
    """A batch of our pre-training, of random tokens without padding, with P predictions in each row."""
    random = np.random.default_rng(1)
    shape = [case.batch, case.predictions]
    places = [random.choice(case.length, case.predictions, replace=False) for _ in range(case.batch)]
    return {
        **encoder_inputs(case, vocab_size),
        "masked_lm_positions": np.sort(places).astype(np.int32),
        "masked_lm_ids": random.integers(5, vocab_size, shape, np.int32),
        "masked_lm_weights": np.ones(shape, np.float32),
        "sentence_order_labels": random.integers(2, size=[case.batch], dtype=np.int32),
    }


def read_sentences(file: Path, limit: int) -> list[str]:
    """The first sentences of a file: lines, or the column `sentence` of a .tsv such as SST-2's dev.tsv."""
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix == ".tsv":
            found = [row["sentence"] for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
        else:
            found = [line.strip() for line in lines if line.strip()]
    return found[:limit]
