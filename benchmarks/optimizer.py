"""Time and memory of an optimizer's step: its maths compiled by XLA, beside plain operations.

    python -m benchmarks.optimizer
    python -m benchmarks.optimizer --preset albert_xlarge_v2 --steps 5

Applies random gradients to the variables of a network, in fresh processes that take turns. Prints a row each
as Markdown: the median milliseconds of a step, the seconds of the first one, which traces and compiles, and
the peak of resident memory during the steps above what is resident before them, as a multiple of the
parameters' bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

from benchmarks import smoke

ONE_MACHINE = "one_machine"  # the largest network of the recipe of this name
WAYS = ("plain", "compiled")


def main() -> None:
    """The command line; --way is for its own processes."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument(
        "--preset", default=ONE_MACHINE, help="or a preset such as albert_xlarge_v2 (one_machine)"
    )
    parser.add_argument("--optimizer", choices=("adamw", "lamb"), default="adamw", help="(adamw)")
    parser.add_argument("--steps", type=int, default=50, help="timed in each process (50)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each way (3)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, preset=smoke.PRESET, steps=1, rounds=1)
    if options.way:
        print(json.dumps(measured(options)))
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.optimizer", *sys.argv[1:], f"--way={way}"]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[way].append(json.loads(output.splitlines()[-1]))
    print(f"| {options.preset}, {options.optimizer} | ms | first, s | peak / parameters |\n|---|---|---|---|")
    for way, results in found.items():
        ms, first, memory = (statistics.median(r[key] for r in results) for key in ("ms", "first", "memory"))
        print(f"| {way} | {ms:.1f} | {first:.2f} | {memory:.1f} × |")


def measured(options: argparse.Namespace) -> dict[str, float]:
    """The figures of one process."""
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

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(1 + options.steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    parameters = 4 * sum(variable.shape.num_elements() for variable in variables)
    return {
        "ms": 1000 * statistics.median(seconds[1:]),
        "first": seconds[0],
        "memory": 1024 * peak / parameters,
    }


if __name__ == "__main__":
    main()
