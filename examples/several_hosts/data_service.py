"""A tf.data service, which makes the batches of a training on other machines.

python data_service.py dispatcher --port 5050
python data_service.py worker --dispatcher host:5050

One dispatcher, and as many workers as are wanted, one on each machine; then `--data_service grpc://host:5050`
of `albert-tf pretrain` or `finetune`. They see the files of --train and --vocabulary by the same paths. A
worker that dies takes what it was reading with it, the others go on, and one may come at any time.
"""

from __future__ import annotations

import argparse
import socket

import tensorflow as tf

import albert_tf.text.tokenizer  # noqa: F401, registers the ops that make tokens


def main() -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=["dispatcher", "worker"])
    parser.add_argument("--port", type=int, default=0, help="to listen at (any that is free)")
    parser.add_argument("--dispatcher", metavar="HOST:PORT", help="of a worker")
    parser.add_argument(
        "--host", default=socket.gethostname(), help="of a worker, as others find it (%(default)s)"
    )
    options = parser.parse_args()
    service = tf.data.experimental.service
    if options.part == "dispatcher":
        server = service.DispatchServer(service.DispatcherConfig(port=options.port))
        print(server.target, flush=True)
    else:
        if options.dispatcher is None:
            parser.error("a worker needs --dispatcher HOST:PORT")
        config = service.WorkerConfig(
            options.dispatcher, worker_address=f"{options.host}:%port%", port=options.port
        )
        server = service.WorkerServer(config)
        print("working", flush=True)
    server.join()


if __name__ == "__main__":
    main()
