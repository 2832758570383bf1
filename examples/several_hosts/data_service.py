"""A tf.data service, which makes the batches of a training run on other machines.

python data_service.py dispatcher --port 5050
python data_service.py worker --dispatcher host:5050

Start one dispatcher, and a worker on each further machine. Then call `albert-tf pretrain` or `finetune` with
`--data_service grpc://host:5050`. All machines see the files of --train and --vocabulary by the same paths.
If a worker dies, the files that it was reading are lost, and the other workers continue. Workers may join at
any time.
"""

from __future__ import annotations

import argparse
import socket

import tensorflow as tf

import albert_tf.text.tokenizer  # noqa: F401, registers the tokenizers' ops


def main() -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=["dispatcher", "worker"])
    parser.add_argument("--port", type=int, default=0, help="port to listen at (any free one)")
    parser.add_argument("--dispatcher", metavar="HOST:PORT", help="address of the dispatcher, for a worker")
    parser.add_argument(
        "--host", default=socket.gethostname(), help="name of a worker's machine for the others (%(default)s)"
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
