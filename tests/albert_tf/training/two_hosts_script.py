"""One of several hosts: trains on its rows of given batches; run by test_several_hosts.py.

    python two_hosts_script.py OUTPUT.npz UPDATES

TF_CONFIG says which host this is. The first one writes the variables.
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf.training.distribution import distribute_batches, get_hosts, make_all_gather, make_strategy
from tests.albert_tf.training.steps import BATCH, batches, trained


def main(output: str, updates: int) -> None:
    """Trains and writes."""
    strategy = make_strategy("multi_worker")
    hosts = get_hosts(strategy)

    def rows_of_this_host(rows: int, part: tf.distribute.InputContext) -> tf.data.Dataset:
        begin = rows * part.input_pipeline_id
        return batches().map(lambda batch: {name: x[begin : begin + rows] for name, x in batch.items()})

    with strategy.scope():
        everywhere = make_all_gather(strategy)(float(hosts.host_index))
    variables, totals = trained(
        strategy, updates, feed=distribute_batches(strategy, rows_of_this_host, BATCH)
    )
    if hosts.is_chief:
        np.savez(output, *variables, loss=totals.terms["mlm"].loss.numpy(), hosts=everywhere)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
