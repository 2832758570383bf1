"""What is timed, and how: a table of cases, and the seconds of calls."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.config import PRESETS, AlbertConfig
from benchmarks.peers.compared import FORWARD, MASKED, UPDATE
from benchmarks.peers.products import operations

PRODUCT = "product"
SECONDS, MAX_CALLS = 2.0, 50  # of a case, once it is compiled
PRODUCT_SIZE = 8192


class Case(NamedTuple):
    """A computation in bfloat16.

    Attributes:
      kind: UPDATE: forward, backward and AdamW of pre-training. FORWARD: token ids to pooled outputs.
        PRODUCT: of two square matrices, the machine's own limit.
      config: of the network.
      batch: rows, B; of PRODUCT rows and columns.
      length: tokens of a row, S, none of which is padding.
      compiled: by XLA, or by torch.compile.
    """

    kind: str
    config: AlbertConfig
    batch: int
    length: int
    compiled: bool

    @property
    def predictions(self) -> int:
        """Masked tokens of a row that an update predicts, P."""
        return math.ceil(MASKED * self.length)

    @property
    def flops(self) -> float:
        """Floating-point operations of its matrix products."""
        if self.kind == PRODUCT:
            return 2.0 * self.batch**3
        return operations(dataclasses.asdict(self.config), self)

    def describe(self) -> dict[str, Any]:
        """Entries of the case's line."""
        shape = {"hidden_size": self.config.hidden_size, "num_hidden_layers": self.config.num_hidden_layers}
        rows = {"batch": self.batch, "length": self.length, **shape}
        size = {"size": self.batch} if self.kind == PRODUCT else rows
        return {"kind": self.kind, **size, "compiled": self.compiled}


def cases(small: bool) -> list[Case]:
    """All of them, those first that tell most; small ones are for trying the program on a CPU."""
    if small:
        tiny = PRESETS["albert_base_v2"].replace(
            vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256
        )
        shapes = [(PRODUCT, tiny, 256, 0), (UPDATE, tiny, 4, 32), (FORWARD, tiny, 2, 32)]
    else:
        base, xxlarge = PRESETS["albert_base_v2"], PRESETS["albert_xxlarge_v2"]
        shapes = [
            (PRODUCT, base, PRODUCT_SIZE, 0),
            (UPDATE, base, 64, 128),
            (FORWARD, base, 32, 128),
            (FORWARD, base, 1, 128),
            (UPDATE, base, 256, 128),
            (UPDATE, xxlarge, 8, 512),
            (UPDATE, base, 64, 512),
            (FORWARD, base, 64, 512),
        ]
    return [
        Case(*shape, compiled)
        for shape in shapes
        for compiled in (True, False)
        if shape[0] != PRODUCT or compiled
    ]


def print_lines(
    framework: str,
    chosen: Sequence[Case],
    prepare: Callable[[Case], Callable[[], Any]],
    peak_memory: Callable[[], int | None],
    deadline: float,
) -> None:
    """Measures the cases one after the other, and prints a JSON line of each as it is ready.

    Args:
      framework: named in the lines.
      chosen: the cases.
      prepare: makes a case's computation, which waits for its result.
      peak_memory: bytes of the device that were in use at most since it was last called.
      deadline: seconds since the epoch; cases that have not begun by then are left out, and that is said.
    """
    for case in chosen:
        line = {"framework": framework, **case.describe()}
        try:
            if time.time() > deadline:
                line["left_out"] = "no time was left"
            else:
                peak_memory()
                line |= timed(prepare(case), case.flops)
                line["peak_bytes"] = peak_memory()
        except Exception as error:  # one case's failure, such as too little memory, is no other's
            line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        print(json.dumps(line), flush=True)


def timed(compute: Callable[[], Any], flops: float) -> dict[str, float]:
    """Milliseconds of a call, the median, and seconds of the first, which traces and compiles."""
    started = time.perf_counter()
    compute()
    first = time.perf_counter() - started
    compute()  # what else happens once, such as PyTorch's recording of CUDA graphs
    seconds = list(_seconds(compute))
    median = statistics.median(seconds)
    return {
        "milliseconds": round(1000 * median, 3),
        "from": round(1000 * min(seconds), 3),
        "to": round(1000 * max(seconds), 3),
        "tflops": round(flops / median / 1e12, 3),
        "first_seconds": round(first, 2),
    }


def _seconds(compute: Callable[[], Any]) -> Iterator[float]:
    begin = time.perf_counter()
    for _ in range(MAX_CALLS):
        started = time.perf_counter()
        compute()
        yield time.perf_counter() - started
        if time.perf_counter() - begin > SECONDS:
            return
