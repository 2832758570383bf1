"""An update by several hosts: the bytes that each host sends, and the time by processes on one machine.

    python -m benchmarks.hosts

Times an update of four rows of 128 tokens, LAMB, by 1, 2 and 4 processes that train together over loopback,
with so few layers that four processes fit into memory. They share the processors, so the work stays the same,
and the added time is the cost of training together. `albert-tf plan` computes the bytes that each host sends.
Prints Markdown: the medians of the updates of two rounds, in which the rows take turns.
"""

from __future__ import annotations

import statistics

import albert_tf
from albert_tf.analysis.run_plan import StepSettings, estimate_run
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.paper.timing import time_updates_by_processes

HOSTS, LAYERS, ROUNDS = (1, 2, 4), 2, 2


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--presets", nargs="+", default=["albert_large_v2", "bert_large"])
    options = smoke.read_flags(parser, presets=["albert_base_v2"])
    hosts = HOSTS[:2] if options.smoke else HOSTS
    rows = [(preset, number) for preset in options.presets for number in hosts]
    times: dict[tuple[str, int], list[float]] = {row: [] for row in rows}
    for _ in range(1 if options.smoke else ROUNDS):
        for preset, number in rows:
            times[preset, number] += time_updates_by_processes(preset, number, LAYERS)
    print_header("network", "hosts", "sent by each, MB an update", "seconds an update")
    for preset, number in rows:
        config = albert_tf.PRESETS[preset].replace(num_hidden_layers=LAYERS)
        settings = StepSettings(config=config, batch_size=4, seq_length=128, predictions=20, devices=number)
        sent = estimate_run(settings, steps=1)["bytes_sent"] / 1e6
        print_row(preset, f"{number}", f"{sent:.0f}", f"{statistics.median(times[preset, number]):.2f}")


if __name__ == "__main__":
    main()
