"""Measures the texts per second of a server, and the waiting times of its clients.

python examples/serving/load_test.py --address localhost:8500 --clients 1 4 16 --seconds 10 < texts.txt

Each client sends a text, waits for the answer, and sends the next. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import grpc
import numpy as np
from grpc_client import connect, predict

PERCENTILES = (50, 95, 99)
_TIMEOUT = 60.0  # seconds that a client waits for an answer


class Load(NamedTuple):
    """The measurements of a load test.

    Attributes:
      clients: number of clients, which wait for answers at the same time.
      waits: seconds that each answer took.
      seconds: time from the first text to the last answer.
    """

    clients: int
    waits: Sequence[float]
    seconds: float

    def row(self) -> str:
        """The row of the table."""
        waits = (f"{1000 * wait:.0f}" for wait in np.percentile(self.waits, PERCENTILES))
        return f"| {self.clients} | {len(self.waits) / self.seconds:.1f} | {' | '.join(waits)} |"


def measure_load(address: str, texts: Sequence[str], clients: int, seconds: float, **target: str) -> Load:
    """Sends texts to a server for some time.

    Args:
      address: address of the server, `host:port`.
      texts: texts to send; the next free client takes the next text.
      clients: number of clients, each with a connection of its own.
      seconds: time to send texts; then the clients wait for the last answers.
      **target: `signature` and `model` of `grpc_client.predict`.
    Raises:
      grpc.RpcError: the server refuses a text, or cannot be reached.
    """
    next_texts, waits, errors = itertools.cycle(texts), [], []
    start = time.monotonic()

    def send() -> None:
        try:
            with connect(address, is_own=True) as channel:
                while time.monotonic() < start + seconds and not errors:
                    sent = time.perf_counter()
                    predict(channel, inputs={"text": [next(next_texts)]}, seconds=_TIMEOUT, **target)
                    waits.append(time.perf_counter() - sent)
        except grpc.RpcError as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return Load(clients, waits, time.monotonic() - start)


HEAD = "| clients | texts a second | median, ms | 95 % within, ms | 99 % within, ms |\n|---|---|---|---|---|"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--address", default="localhost:8500", help="of the server's gRPC port (localhost:8500)"
    )
    parser.add_argument("--model", default="albert", help="its name in models.config (albert)")
    parser.add_argument(
        "--signature", default="serving_default", help="a signature of one text (%(default)s)"
    )
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[1, 4, 16], help="numbers of clients (1 4 16)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="seconds for each row (10)")
    options = parser.parse_args()
    texts = sys.stdin.read().splitlines()
    if not texts:
        parser.error("no texts on the standard input")
    target = {"model": options.model, "signature": options.signature}
    print(HEAD)
    try:
        measure_load(options.address, texts, 1, 0.5, **target)  # the first answers take longer
        for clients in options.clients:
            load = measure_load(options.address, texts, clients, options.seconds, **target)
            print(load.row(), flush=True)
    except grpc.RpcError as error:
        sys.exit(f"{options.address}: {error.details()}")


if __name__ == "__main__":
    main()
