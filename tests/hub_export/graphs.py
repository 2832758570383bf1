"""What is written in a saved_model.pb."""

from tensorflow.core.protobuf import saved_model_pb2


def saved_ops(folder):
    """The names of all ops in a SavedModel's graph and its functions."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (graph,) = (meta.graph_def for meta in saved.meta_graphs)
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return {node.op for node in nodes}
