"""Time and memory of an optimizer's step, compiled by XLA or as plain operations.

    python -m benchmarks.optimizer
    python -m benchmarks.optimizer --preset albert_xlarge_v2 --steps 5

Applies random gradients to the variables of a network, in fresh processes that take turns. Prints two rows as
Markdown: the median milliseconds of a step; the seconds of the first step, which traces and compiles; and
the growth of the peak of resident memory during the steps, as a multiple of the parameters' bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.memory import max_resident_bytes
from benchmarks.timers import run_module, time_calls

ONE_MACHINE = "one_machine"  # the largest network of the recipe of this name
IMPLEMENTATIONS = ("plain", "compiled")


def main() -> None:
    """Prints the table; with --way, measures one implementation in this process."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument(
        "--preset", default=ONE_MACHINE, help="or a preset such as albert_xlarge_v2 (one_machine)"
    )
    parser.add_argument("--optimizer", choices=("adamw", "lamb"), default="adamw", help="(adamw)")
    parser.add_argument("--steps", type=int, default=50, help="timed steps of each process (50)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each implementation (3)")
    parser.add_argument("--way", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, preset=smoke.PRESET, steps=1, rounds=1)
    if options.way:
        print(json.dumps(measure_steps(options)))
        return
    results: dict[str, list[dict[str, float]]] = {name: [] for name in IMPLEMENTATIONS}
    for _ in range(options.rounds):
        for name in IMPLEMENTATIONS:
            results[name].append(run_module("benchmarks.optimizer", *sys.argv[1:], f"--way={name}"))
    print_header(f"{options.preset}, {options.optimizer}", "ms", "first, s", "peak / parameters")
    for name, runs in results.items():
        ms, first, memory = (statistics.median(run[key] for run in runs) for key in ("ms", "first", "memory"))
        print_row(name, f"{ms:.1f}", f"{first:.2f}", f"{memory:.1f} ×")


def measure_steps(options: argparse.Namespace) -> dict[str, float]:
    """The times and the memory of steps in this process."""
    import tensorflow as tf

    from albert_tf import PRESETS, AlbertPretrainer
    from albert_tf.optimization import create_optimizer
    from albert_tf.optimization.adamw import adamw, compiled_adamw
    from albert_tf.optimization.lamb import compiled_lamb, lamb
    from albert_tf.pretraining.budget import ONE_MACHINE as SIZES

    config = SIZES[-1].config if options.preset == ONE_MACHINE else PRESETS[options.preset]
    variables = AlbertPretrainer(config).trainable_variables
    optimizer = create_optimizer(options.optimizer, init_lr=1e-3, num_train_steps=10_000)
    optimizer.build(variables)
    if options.way == "plain":
        plain = {compiled_adamw: adamw, compiled_lamb: lamb}
        optimizer._update_rules = tuple(plain[rule] for rule in optimizer._update_rules)
    gradients = [tf.Variable(tf.random.normal(variable.shape, stddev=0.01)) for variable in variables]

    @tf.function
    def step() -> None:
        # New tensors, as a backward pass makes them.
        optimizer.apply_gradients(
            [(gradient + 0.0, variable) for gradient, variable in zip(gradients, variables, strict=True)],
            skip_gradients_aggregation=True,
        )

    before = max_resident_bytes()
    first, *later = time_calls(step, 1 + options.steps)
    growth = max_resident_bytes() - before
    parameter_bytes = 4 * sum(variable.shape.num_elements() for variable in variables)
    return {"ms": 1000 * statistics.median(later), "first": first, "memory": growth / parameter_bytes}


if __name__ == "__main__":
    main()
