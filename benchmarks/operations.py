"""Counts the operations of a forward pass, which a GPU without XLA launches one by one.

    python -m benchmarks.operations [--config albert_base_v2] [--precision bfloat16]

Prints a line for each graph: the number of operations as traced and as optimized by TensorFlow, and the most
frequent kinds of the latter. A chain that XLA compiles (`fused`, in training) is one operation.
"""

from __future__ import annotations

import collections

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training.saver import export_meta_graph

from albert_tf import PRESETS, AlbertEncoder
from albert_tf.constants import ENCODER_INPUTS, POLICIES
from benchmarks import smoke

ROWS, LENGTH = 32, 128
NO_WORK = ("Const", "Placeholder", "NoOp", "Identity")  # they launch no kernel

Counts = collections.Counter[str]


def count_operations(config: str, policy: str, *, training: bool, fused: bool) -> tuple[Counts, Counts]:
    """Counts operations by kind, as traced and as optimized."""
    encoder = AlbertEncoder(PRESETS[config].replace(vocab_size=100), dtype=policy, fused=fused)
    spec = {name: tf.TensorSpec([ROWS, LENGTH], tf.int32, name) for name in ENCODER_INPUTS}

    @tf.function(autograph=False)
    def forward(inputs: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        outputs = encoder(inputs, training=training, seed=tf.constant([1, 2]))
        return outputs["sequence_output"], outputs["pooled_output"]

    traced = forward.get_concrete_function(spec)
    frozen = convert_variables_to_constants_v2(traced)
    graph = export_meta_graph(graph_def=frozen.graph.as_graph_def(), graph=frozen.graph)
    outputs_to_keep = meta_graph_pb2.CollectionDef()
    outputs_to_keep.node_list.value.extend(output.name for output in frozen.outputs)
    graph.collection_def["train_op"].CopyFrom(outputs_to_keep)
    settings = config_pb2.ConfigProto()
    settings.graph_options.rewrite_options.min_graph_nodes = -1  # graphs of any size
    optimized = tf_optimizer.OptimizeGraph(settings, graph)
    return (
        collections.Counter(operation.type for operation in traced.graph.get_operations()),
        collections.Counter(node.op for node in optimized.node),
    )


def main() -> None:
    """Prints the lines."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--config", default="albert_base_v2", choices=PRESETS)
    parser.add_argument("--precision", default="float32", choices=POLICIES)
    flags = smoke.read_flags(parser, config=smoke.PRESET)
    for training, fused in ((False, False), (True, False), (True, True)):
        policy = POLICIES[flags.precision]
        traced, optimized = count_operations(flags.config, policy, training=training, fused=fused)
        launched = optimized.total() - sum(optimized[kind] for kind in NO_WORK)
        kinds = ", ".join(f"{kind} {count}" for kind, count in optimized.most_common(12))
        print(
            f"{flags.config} {flags.precision} {ROWS} × {LENGTH} training={training} fused={fused}: "
            f"{traced.total()} traced, {optimized.total()} optimized, {launched} of them work: {kinds}"
        )


if __name__ == "__main__":
    main()
