"""How many texts a server answers in a second, and how long a client waits, by the number of clients.

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
_PATIENCE = 60.0  # seconds that a client waits for an answer


class Load(NamedTuple):
    """What clients saw of a server.

    Attributes:
      clients: how many waited for an answer at the same time.
      waits: how long each answer took, in seconds.
      seconds: from the first text to the last answer.
    """

    clients: int
    waits: Sequence[float]
    seconds: float

    def row(self) -> str:
        """A row of the table."""
        waits = (f"{1000 * wait:.0f}" for wait in np.percentile(self.waits, PERCENTILES))
        return f"| {self.clients} | {len(self.waits) / self.seconds:.1f} | {' | '.join(waits)} |"


def load(address: str, texts: Sequence[str], clients: int, seconds: float, **asked: str) -> Load:
    """Sends texts for some time.

    Args:
      address: of the server, `host:port`.
      texts: sent in turns, each by whichever client is free.
      clients: how many wait for an answer at the same time; each has a connection of its own.
      seconds: how long to send; what is on its way then is waited for.
      **asked: of `grpc_client.predict`: `signature`, `model`.
    Raises:
      grpc.RpcError: the server refuses a text, or cannot be reached.
    """
    turn, waits, errors = itertools.cycle(texts), [], []
    start = time.monotonic()

    def send() -> None:
        try:
            with connect(address, is_own=True) as channel:
                while time.monotonic() < start + seconds and not errors:
                    begin = time.perf_counter()
                    predict(channel, inputs={"text": [next(turn)]}, seconds=_PATIENCE, **asked)
                    waits.append(time.perf_counter() - begin)
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
    parser.add_argument("--address", default="localhost:8500", help="of the server's gRPC (localhost:8500)")
    parser.add_argument("--model", default="albert", help="as models.config names it (albert)")
    parser.add_argument("--signature", default="serving_default", help="of one text (serving_default)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16], help="at a time (1 4 16)")
    parser.add_argument("--seconds", type=float, default=10, help="of each row (10)")
    options = parser.parse_args()
    texts = sys.stdin.read().splitlines()
    if not texts:
        parser.error("no texts on the standard input")
    asked = {"model": options.model, "signature": options.signature}
    print(HEAD)
    try:
        load(options.address, texts, 1, 0.5, **asked)  # what comes first takes longer
        for clients in options.clients:
            print(load(options.address, texts, clients, options.seconds, **asked).row(), flush=True)
    except grpc.RpcError as error:
        sys.exit(f"{options.address}: {error.details()}")


if __name__ == "__main__":
    main()
