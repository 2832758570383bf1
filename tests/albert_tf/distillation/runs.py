"""The networks of teachers and students, and how these are trained."""

from albert_tf.recipes import PretrainingRecipe
from tests.tiny import TINY

# A small BERT of four layers, and a small DistilBERT of two, with dropout, which must go on where it stopped.
BERT = TINY.replace(embedding_size=32, num_hidden_layers=4, sharing="none")
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
STUDENT = BERT.replace(num_hidden_layers=2, type_vocab_size=0, pooler="none", **DROPOUT)

PRETRAINER = {"model": "pretrainer", "sentence_objective": "sop"}

RECIPE = PretrainingRecipe().replace(
    optimizer="adamw",
    learning_rate=0.01,
    batch_size=4,
    steps=6,
    warmup_steps=2,
    seq_length=32,
    max_predictions=5,
    sentence_objective="none",
)
