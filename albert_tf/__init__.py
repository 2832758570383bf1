"""ALBERT (Lan et al. 2020) for TensorFlow 2 and Keras, from raw text to TF Hub modules.

Dimension letters, the same everywhere:
B batch, S sequence, P predictions, V vocabulary, E embedding, H hidden, N heads, D head size, L layers,
G groups. A line that changes a tensor's shape ends with the new shape.

Words, the same everywhere:
block         the attention or feed-forward half of a layer; layers share blocks
widths        the sizes that weights are made for: V, E, H, N and the inner width of a feed-forward block. A
              run has the widths of the run that its weights come from (`--init_from`); its depth may differ
run           a training and its run directory: config, vocabulary, checkpoints, logged metrics
step          one update of the weights, by one global batch; also the number of updates done so far
row           one example in a tensor of several; the rows that fill up a batch have mask and weights of 0
loss sum      one loss over a batch: the sum of the losses, and the sum of the weights to divide it by
token         an entry of the vocabulary ("piece" in SentencePiece); an ordinary one is not a control token,
              `<unk>` or unused
part          a slice of a document or a line that is too long to be read at once
chunk         consecutive sentences of a document that make one example, as one segment or a pair
span          1 to max_ngram whole words, which are masked together or not at all
split         a part of a corpus: the text that a run trains on, or the text that it holds out
shard         one of the TFRecord files of a prepared corpus
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf import optimization
    from albert_tf.config import PRESETS, AlbertConfig
    from albert_tf.data.dataset import pretraining_dataset
    from albert_tf.inference.pipeline import pipeline
    from albert_tf.inference.text_classifier import TextClassifier
    from albert_tf.models.encoder import AlbertEncoder
    from albert_tf.models.sharing import parameter_count
    from albert_tf.models.span_labeler import AlbertSpanLabeler
    from albert_tf.models.task_models import (
        AlbertClassifier,
        AlbertMultipleChoice,
        AlbertPretrainer,
        AlbertTokenClassifier,
    )
    from albert_tf.runs.load_save import load, save
    from albert_tf.tasks.squad_metrics import squad_scores
    from albert_tf.text.packing import pack
    from albert_tf.text.tokenizer import Tokenizer

__version__ = "1.0.0"

# The models use Keras 2. With this variable tf.keras is Keras 2, too, unless TensorFlow is imported already.
# Otherwise TensorFlow would also import Keras 3, which takes a second.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

# In reading order. Modules are imported at their first use: reading a config does not wait for TensorFlow,
# and a command can hold back TensorFlow's messages while it is imported.
_NAMES_IN = {
    "config": "PRESETS AlbertConfig",
    "text.tokenizer": "Tokenizer",
    "text.packing": "pack",
    "data.dataset": "pretraining_dataset",
    "models.encoder": "AlbertEncoder",
    "models.task_models": "AlbertPretrainer AlbertTokenClassifier AlbertClassifier AlbertMultipleChoice",
    "models.span_labeler": "AlbertSpanLabeler",
    "inference.text_classifier": "TextClassifier",
    "inference.pipeline": "pipeline",
    "runs.load_save": "load save",
    "models.sharing": "parameter_count",
    "optimization": "optimization",
    "tasks.squad_metrics": "squad_scores",
}
_MODULE_OF = {name: f"albert_tf.{module}" for module, names in _NAMES_IN.items() for name in names.split()}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in ("optimization", "sklearn"):  # modules; `import *` must not put ours in scikit-learn's place
        return importlib.import_module(f"albert_tf.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULE_OF[name].startswith("albert_tf.models."):  # `load_model` then also knows the optimizers
        importlib.import_module("albert_tf.optimization")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
