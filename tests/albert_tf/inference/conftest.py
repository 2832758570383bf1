"""Runs of a tiny network of each kind, and what a server would load of them."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.serving import ServingModel
from hub_export.export import save_serving
from hub_export.serving_signatures import serving_signatures
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)

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
        {"task": "tagging", "labels": ["O", "X", "Y"], "seq_length": 16, "words": "punctuation"},
    ),
    "multiple_choice": (lambda: albert_tf.AlbertMultipleChoice(SMALL, 3), {"seq_length": 32}),
}


class Made(NamedTuple):
    """A model and its run."""

    model: Any
    run: Path


@pytest.fixture(scope="session")
def made(tiny_vocabulary, tmp_path_factory):
    """The model of a kind and its run."""

    @functools.cache
    def make(kind) -> Made:
        build, task = KINDS[kind]
        model, run = build(), tmp_path_factory.mktemp(kind) / "run"
        for number, variable in enumerate(model.variables):
            variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 2], stddev=0.2))
        albert_tf.save(model, run, vocabulary=tiny_vocabulary, task=task)
        return Made(model, run)

    return make


@pytest.fixture(scope="session")
def exported(made, piece_tokenizer, tmp_path_factory):
    """The serving model of a kind."""

    @functools.cache
    def export(kind) -> Path:
        folder, task = tmp_path_factory.mktemp(kind) / "serving", KINDS[kind][1]
        served = ServingModel(made(kind).model, piece_tokenizer, task["seq_length"], task)
        run = RunDirectory(made(kind).run)
        save_serving(run, served, serving_signatures(served), folder / "1")
        return folder

    return export
