"""Runs of a tiny network of each kind, and what a server would load of them."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.serving import Served
from hub_export.export import save_serving
from hub_export.serving import serving_signatures
from tests.tiny import DOCUMENTS, TINY

SMALL = TINY.replace(num_hidden_layers=1)
SENTENCES = [sentence for document in DOCUMENTS for sentence in document]

QUESTIONS = {"seq_length": 32, "doc_stride": 8, "max_query_length": 12, "max_answer_length": 8, "n_best": 5}
KINDS = {
    "fill_mask": (lambda: albert_tf.AlbertPretrainer(SMALL), {"seq_length": 32}),
    "classification": (
        lambda: albert_tf.AlbertClassifier(SMALL, 3),
        {"task": "classification", "labels": ["no", "yes", "é"], "seq_length": 32, "columns": {"text": "t"}},
    ),
    "multi_label": (
        lambda: albert_tf.AlbertClassifier(SMALL, 3),
        {
            "task": "multi_label",
            "labels": ["a", "b", "c"],
            "multi_label": True,
            "threshold": 0.4,
            "seq_length": 32,
            "columns": {"text": "t"},
        },
    ),
    "regression": (lambda: albert_tf.AlbertClassifier(SMALL, 1), {"task": "sts-b", "seq_length": 32}),
    "question_answering": (lambda: albert_tf.AlbertSpanLabeler(SMALL), {"task": "squad-v1.1", **QUESTIONS}),
    "answerability": (lambda: albert_tf.AlbertSpanLabeler(SMALL, answerability=True), QUESTIONS),
    "tagging": (
        lambda: albert_tf.AlbertTokenClassifier(SMALL, 3),
        {"task": "tagging", "labels": ["O", "B-X", "I-X"], "seq_length": 16},
    ),
    "multiple_choice": (lambda: albert_tf.AlbertMultipleChoice(SMALL, 3), {"seq_length": 32}),
}


class Made(NamedTuple):
    """A model, its run, and its serving model."""

    model: Any
    run: Path
    served: Path


@pytest.fixture(scope="session")
def made(piece_tokenizer, tiny_vocabulary, tmp_path_factory):
    """What there is of a kind, made when it is first asked for."""
    there = {}

    def make(kind) -> Made:
        if kind not in there:
            build, task = KINDS[kind]
            model, folder = build(), tmp_path_factory.mktemp(kind)
            for number, variable in enumerate(model.variables):
                variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 2], stddev=0.2))
            albert_tf.save(model, folder / "run", vocabulary=tiny_vocabulary, task=task)
            served = Served(model, piece_tokenizer, task["seq_length"], task)
            save_serving(served, serving_signatures(served), folder / "serving/1")
            there[kind] = Made(model, folder / "run", folder / "serving")
        return there[kind]

    return make
