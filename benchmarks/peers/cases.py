"""The cases, the programs that run them, and the settings and inputs of the programs."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

FORWARD, UPDATE, TEXT = "forward", "update", "text"
FLOAT32, BFLOAT16 = "float32", "bfloat16"

MASKED_SHARE = 0.15  # 20 predictions for 128 tokens, 77 for 512
TEXT_BATCH = 32  # sentences
TEXT_LENGTH = 128  # tokens, for programs that pad all sentences to one length or cut them


class Case(NamedTuple):
    """A computation that the programs are timed at.

    Attributes:
      kind: FORWARD: token ids to pooled output. UPDATE: forward, backward and optimizer of pre-training.
        TEXT: all sentences to their pooled outputs, in batches of `batch` in their order.
      batch: rows, B.
      length: tokens of each row, S, without padding; for TEXT the largest number of tokens.
      precision: FLOAT32 or BFLOAT16.
    """

    kind: str
    batch: int
    length: int
    precision: str

    @property
    def name(self) -> str:
        """The name on the command line, such as forward-8x128-float32."""
        return f"{self.kind}-{self.batch}x{self.length}-{self.precision}"

    @property
    def predictions(self) -> int:
        """Masked tokens of each row that an update predicts, P."""
        return math.ceil(MASKED_SHARE * self.length)


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
# The cases of a run of about twenty minutes.
QUICK = ["forward-1x16-*", "forward-1x128-*", "forward-8x128-*", "update-8x128-*", "text-*"]


class Peer(NamedTuple):
    """A program that runs cases in a process of its own.

    Attributes:
      title: title of its column.
      module: its file in programs/.
      environment: folder in .venv-peers, of requirements-<environment>.txt; None: this project's own.
      kinds: kinds of the cases that it runs.
      precisions: precisions of the cases that it runs.
      options: options of its module.
      variables: environment variables of its process.
    """

    title: str
    module: str
    environment: str | None
    kinds: Sequence[str] = (FORWARD, UPDATE, TEXT)
    precisions: Sequence[str] = (FLOAT32, BFLOAT16)
    options: Mapping[str, Any] = {}
    variables: Mapping[str, str] = {}

    def supports(self, case: Case) -> bool:
        """Whether the program can run a case."""
        return case.kind in self.kinds and case.precision in self.precisions


OURS = "ours"
MATMUL = "matmul"
PEERS = {
    OURS: Peer("ours", "ours", None),
    "ours_frozen": Peer(  # examples/serving/README.md, "On a CPU"
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
    "onnx_runtime": Peer(  # no bfloat16 in its CPU kernels
        "ONNX Runtime", "onnx_runtime", "onnx-runtime", (FORWARD, TEXT), (FLOAT32,)
    ),
    "openvino": Peer("OpenVINO", "open_vino", "openvino", (FORWARD, TEXT)),
}


class Setting(NamedTuple):
    """The settings of a program's process.

    Attributes:
      folder: folder that network_files.py wrote.
      precision: FLOAT32 or BFLOAT16.
      threads: number of threads to compute with.
      options: of the peer.
    """

    folder: str
    precision: str
    threads: int
    options: Mapping[str, Any] = {}

    @property
    def path(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)


def match_patterns(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that match any of the patterns, such as forward-*-float32, in their order.

    Raises:
      ValueError: a pattern matches no name.
    """
    names = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{pattern} is none of {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def read_config(folder: Path) -> dict[str, Any]:
    """The network's config, with the keys of albert_config.json."""
    return json.loads((folder / "config.json").read_text("utf-8"))


def read_sentences(file: Path, limit: int) -> list[str]:
    """The first sentences of a file: lines, or the column `sentence` of a .tsv such as SST-2's dev.tsv."""
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix == ".tsv":
            sentences = [
                row["sentence"] for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            ]
        else:
            sentences = [line.strip() for line in lines if line.strip()]
    return sentences[:limit]
