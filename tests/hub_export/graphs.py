"""What is written in a saved_model.pb."""

from tensorflow.core.protobuf import saved_model_pb2

from hub_export.check import modules


def saved_ops(folder):
    """The names of all ops in a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return modules.saved_ops(saved)
