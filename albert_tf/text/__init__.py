"""Text to token ids, in graph."""

from albert_tf.text.normalization import normalize
from albert_tf.text.packing import pack
from albert_tf.text.tokenizer import PieceTokenizer, Tokenizer
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.text.vocabulary_training import train_vocabulary

__all__ = ["PieceTokenizer", "Tokenizer", "Vocabulary", "normalize", "pack", "train_vocabulary"]
