"""The smallest network and corpus that still exercise everything, and how files of JSON are written."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
SENTENCES = [sentence for document in DOCUMENTS for sentence in document]


def write_corpus(folder: Path) -> Path:
    """A text file with CORPUS in it."""
    path = folder / "corpus.txt"
    path.write_text(CORPUS, encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A file with a row a line, as JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def change_json(path: Path, /, **values: Any) -> None:
    """Writes a file of JSON anew with other values; there need not be one yet."""
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **values}))
