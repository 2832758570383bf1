"""The smallest network, corpus and vocabulary that still exercise everything."""

from pathlib import Path

from albert_tf import AlbertConfig

TINY = AlbertConfig(
    vocab_size=200,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)

# Eight documents, a sentence a line.
CORPUS = Path(__file__).with_name("corpus.txt").read_text("utf-8")
DOCUMENTS = [document.splitlines() for document in CORPUS.split("\n\n")]


def write_corpus(folder: Path) -> Path:
    """A text file with CORPUS in it."""
    path = folder / "corpus.txt"
    path.write_text(CORPUS, encoding="utf-8")
    return path
