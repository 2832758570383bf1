"""The fine-tuned runs that tests make: network, hyper-parameters, examples."""

from tests.tiny import DOCUMENTS, TINY

CONFIG = TINY.replace(vocab_size=1, num_hidden_layers=1)
# Dropout too must go on where it stopped.
RECIPE = {
    "learning_rate": 0.01,
    "batch_size": 8,
    "steps": 6,
    "warmup_steps": 2,
    "seq_length": 32,
    "dropout": 0.1,
}
LOOP = {"log_every": 2, "eval_every": 3, "checkpoint_every": 3}

# Whether somebody says something, and how long it is.
ROWS = [
    {"text": text, "kind": "speech" if '"' in text or "," in text else "tale", "length": len(text) / 10}
    for document in DOCUMENTS[:4]
    for text in document
]

# For predictions: without quotes, which tables write in several ways.
SENTENCES = [text.replace('"', "") for document in DOCUMENTS[:2] for text in document]
