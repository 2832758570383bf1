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

import grpc
import numpy as np
from grpc_client import connect, predict

PERCENTILES = (50, 95, 99)


def waited(address: str, texts: Sequence[str], clients: int, seconds: float, **asked: str) -> list[float]:
    """Sends texts for some time.

    Args:
      address: of the server, `host:port`.
      texts: sent in turns, each by whichever client is free.
      clients: how many wait for an answer at the same time; each has a connection of its own.
      seconds: how long to send; what is on its way then is waited for.
      **asked: of `grpc_client.predict`: `signature`, `model`.
    Returns:
      How long each answer took in seconds.
    Raises:
      grpc.RpcError: the server refuses a text, or cannot be reached.
    """
    turn, found, errors = itertools.cycle(texts), [], []
    end = time.monotonic() + seconds

    def send() -> None:
        try:
            with connect(address) as channel:
                while time.monotonic() < end and not errors:
                    begin = time.perf_counter()
                    predict(channel, inputs={"text": [next(turn)]}, **asked)
                    found.append(time.perf_counter() - begin)
        except grpc.RpcError as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def row(clients: int, seconds: float, times: Sequence[float]) -> str:
    """A row of the table."""
    waits = (f"{1000 * wait:.1f}" for wait in np.percentile(times, PERCENTILES))
    return f"| {clients} | {len(times) / seconds:.1f} | {' | '.join(waits)} |"


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
    asked = {"model": options.model, "signature": options.signature}
    print(HEAD)
    try:
        waited(options.address, texts, 1, 0.5, **asked)  # what comes first takes longer
        for clients in options.clients:
            times = waited(options.address, texts, clients, options.seconds, **asked)
            print(row(clients, options.seconds, times), flush=True)
    except grpc.RpcError as error:
        sys.exit(f"{options.address}: {error.details()}")


if __name__ == "__main__":
    main()
