"""ALBERT (Lan et al. 2020) for TensorFlow 2 and Keras, from raw text to TF Hub modules.

Dimension letters, the same everywhere:
B batch, S sequence, P predictions, V vocabulary, E embedding, H hidden, N heads, D head size, L layers,
G groups. A line that changes a tensor's shape ends with the new shape.
"""

from albert_tf import optimization
from albert_tf.analysis.parameters import parameter_count
from albert_tf.checkpoints import load, save
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.data import pretraining_dataset
from albert_tf.model import AlbertEncoder, AlbertPretrainer
from albert_tf.text import Tokenizer

__all__ = [
    "PRESETS",
    "AlbertConfig",
    "AlbertEncoder",
    "AlbertPretrainer",
    "Tokenizer",
    "load",
    "optimization",
    "parameter_count",
    "pretraining_dataset",
    "save",
]
