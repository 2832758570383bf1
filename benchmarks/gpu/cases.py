"""The cases of the GPU benchmark, and the timing of their calls."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.config import PRESETS, AlbertConfig
from benchmarks.peers.cases import FORWARD, MASKED_SHARE, UPDATE
from benchmarks.peers.matmul_shapes import case_flops
from benchmarks.timers import time_call

PRODUCT = "product"
MAX_SECONDS, MAX_CALLS = 2.0, 50  # of a compiled case
PRODUCT_SIZE = 8192


class Case(NamedTuple):
    """A computation in bfloat16.

    Attributes:
      kind: UPDATE: forward, backward and AdamW of pre-training. FORWARD: token ids to pooled outputs.
        PRODUCT: the product of two square matrices, which shows the limit of the device.
      config: config of the network.
      batch: rows, B; for PRODUCT the number of rows and of columns.
      length: tokens of a row, S, without padding.
      compiled: True: compiled by XLA or torch.compile.
    """

    kind: str
    config: AlbertConfig
    batch: int
    length: int
    compiled: bool

    @property
    def predictions(self) -> int:
        """Masked tokens of a row that an update predicts, P."""
        return math.ceil(MASKED_SHARE * self.length)

    @property
    def flops(self) -> float:
        """Floating-point operations of the case's matrix products."""
        if self.kind == PRODUCT:
            return 2.0 * self.batch**3
        return case_flops(dataclasses.asdict(self.config), self)

    def describe(self) -> dict[str, Any]:
        """The entries of the case in its line of JSON."""
        shape = {"hidden_size": self.config.hidden_size, "num_hidden_layers": self.config.num_hidden_layers}
        rows = {"batch": self.batch, "length": self.length, **shape}
        size = {"size": self.batch} if self.kind == PRODUCT else rows
        return {"kind": self.kind, **size, "compiled": self.compiled}


def cases(small: bool) -> list[Case]:
    """All cases, the most informative first; small ones are for trying the program on a CPU."""
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
    measured_cases: Sequence[Case],
    prepare: Callable[[Case], Callable[[], Any]],
    peak_memory: Callable[[], int | None],
    deadline: float,
) -> None:
    """Measures cases one after the other, and prints a JSON line for each.

    Args:
      framework: name of the framework in the lines.
      measured_cases: the cases.
      prepare: makes the function of a case, which waits for its result.
      peak_memory: returns the peak of the device's memory since its last call, in bytes.
      deadline: seconds since the epoch, after which the lines of further cases say that no time was left.
    """
    for case in measured_cases:
        line = {"framework": framework, **case.describe()}
        try:
            if time.time() > deadline:
                line["left_out"] = "no time was left"
            else:
                peak_memory()
                line |= time_case(prepare(case), case.flops)
                line["peak_bytes"] = peak_memory()
        except Exception as error:  # such as too little memory: the next case may succeed
            line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        print(json.dumps(line), flush=True)


def time_case(compute: Callable[[], Any], flops: float) -> dict[str, float]:
    """Median milliseconds of a call, and seconds of the first call, which traces and compiles."""
    first = time_call(compute)
    compute()  # other work that happens once, such as PyTorch's recording of CUDA graphs
    seconds = list(_time_repeatedly(compute))
    median = statistics.median(seconds)
    return {
        "milliseconds": round(1000 * median, 3),
        "from": round(1000 * min(seconds), 3),
        "to": round(1000 * max(seconds), 3),
        "tflops": round(flops / median / 1e12, 3),
        "first_seconds": round(first, 2),
    }


def _time_repeatedly(compute: Callable[[], Any]) -> Iterator[float]:
    start = time.perf_counter()
    for _ in range(MAX_CALLS):
        yield time_call(compute)
        if time.perf_counter() - start > MAX_SECONDS:
            return
