"""Text to token ids, in graph."""

from albert_tf.tokenizers.normalization import normalize
from albert_tf.tokenizers.packing import pack
from albert_tf.tokenizers.sentencepiece import PieceTokenizer, Vocabulary
from albert_tf.tokenizers.tokenizer import Tokenizer
from albert_tf.tokenizers.vocabulary_training import train_vocabulary

__all__ = ["PieceTokenizer", "Tokenizer", "Vocabulary", "normalize", "pack", "train_vocabulary"]
