"""The table of tasks: complete, and each entry reads, learns and scores what it should."""

import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.data import Splits
from albert_tf.finetuning.finetuned_model import PredictedSets, Predictions
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES
from albert_tf.finetuning.reports import baseline_warning, describe_data, glued_words
from albert_tf.finetuning.task_table import TASK_SPECS, find_task_spec, task_entries
from albert_tf.runs.build_model import MODELS
from albert_tf.tasks import create_task
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.tasks.glue import GLUE
from albert_tf.tasks.question_answering import AnswerPrediction, FoundAnswer
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Prediction

OWN = {
    "classification": ("own.csv", "a,b,y\none,two,yes\ntwo,one,no\n"),
    "multi_label": ("own.csv", "a,b,y\none,two,p;q\ntwo,one,q\n"),
    "regression": ("own.tsv", "a\tb\ty\none\ttwo\t1.5\ntwo\tone\t-2\n"),
    "tagging": ("own.conll", "one B-X\ntwo O\n\nthree O\n"),
    "multiple_choice": (
        "own.jsonl",
        '{"context": "c", "question": "q", "options": ["a", "b"], "label": 1}\n'
        '{"context": "c", "question": "q", "options": ["a", "b"], "label": "A"}\n',
    ),
}
COLUMNS = Columns("a", "b", "y")


@pytest.fixture
def labelled(shared, tmp_path):
    """Records with labels of any task, by its name."""

    def read(name):
        spec = TASK_SPECS[name]
        if name in OWN:
            file = tmp_path / OWN[name][0]
            file.write_text(OWN[name][1])
            return spec.format.read(file, True, None if name == "tagging" else COLUMNS)
        if name.startswith("squad"):
            file = "dev-v1.1.json" if name.endswith("1.1") else "dev-v2.0.rebuilt.json"
            return spec.format.read(shared / "data/squad" / file, True, None)[:40]
        folder = shared / "data/race" if name == "race" else shared / "data/glue" / GLUE[name].name
        return spec.format.read_splits(folder, spec.format.dev)[spec.format.dev[0]]

    return read


def right(name, records):
    """Predictions that are all right."""
    scores = np.ones(4, np.float32)
    if name == "tagging":
        return [Prediction(record.tags, scores[: len(record.tags)]) for record in records]
    if name in ("race", "multiple_choice"):
        return [Prediction(record.label, scores) for record in records]
    if name.startswith("squad"):
        found = [record.answers[0].text if record.answers else "" for record in records]
        odds = [None if name.endswith("1.1") else 1.0 if not text else -1.0 for text in found]
        return [
            AnswerPrediction((FoundAnswer(text, 0, 0, 0.0, 0.0, 1.0),), odd)
            for text, odd in zip(found, odds, strict=True)
        ]
    if name in ("sts-b", "regression"):
        return [Prediction(np.float32(record.label), scores) for record in records]
    if name == "multi_label":
        return [Prediction(record.label, scores) for record in records]
    return [Prediction(record.label, scores) for record in records]


FIGURES = {
    "cola": {"matthews_correlation", "accuracy"},
    "mrpc": {"accuracy", "f1"},
    "sts-b": {"pearson", "spearman"},
    "mnli": {"accuracy_matched"},
    "race": {"accuracy", "accuracy_middle", "accuracy_high"},
    "squad-v1.1": {"exact_match", "f1"},
    "classification": {"accuracy", "f1"},
    "multi_label": {"accuracy", "micro_f1", "macro_f1"},
    "tagging": {"accuracy", "precision", "recall", "f1"},
}


@pytest.mark.parametrize("name", [name for name in TASK_SPECS if name != "ax"])
def test_every_task_has_what_it_needs(name, labelled):
    spec = TASK_SPECS[name]
    records = labelled(name)
    entries = task_entries(name, records, 128)
    assert json.loads(json.dumps(entries)) == entries
    assert set(MODELS[entries["model"]].arguments) <= set(entries)
    assert type(create_task(entries)) is spec.task_class
    of_set = spec.format.dev[0] if spec.format.is_folder else "eval"
    predictions = {of_set: Predictions(right(name, records), {})}
    metrics = PredictedSets(spec, create_task(entries), {of_set: records}, predictions).metrics()
    assert metrics[spec.best_metric] == pytest.approx(100 if name.startswith("squad") else 1)
    assert set(metrics) == FIGURES.get(name, set(metrics))
    unmeasured = {"loss", "accuracy_mismatched"}  # here
    assert {*spec.evaluation_metric_names} - unmeasured == {
        key for key in metrics if "total" not in key and "thresh" not in key
    }
    assert ("loss" in spec.evaluation_metric_names) == (name != "squad-v2.0")


def test_the_table_is_complete():
    fixed = "cola sst-2 mrpc sts-b qqp mnli qnli rte wnli ax squad-v1.1 squad-v2.0 race"
    assert set(TASK_SPECS) == {*fixed.split(), *OWN}
    assert set(TASK_SPECS) - set(FINETUNING_RECIPES) == {"ax"}
    with pytest.raises(InputError, match=r"task='sst2' is none of cola, sst-2, .* did you mean sst-2"):
        find_task_spec("sst2")


def test_a_threshold_of_several_labels_is_the_models(labelled):
    records = labelled("multi_label")
    assert task_entries("multi_label", records, 32, threshold=0.3)["threshold"] == 0.3


def test_a_task_without_labels(shared):
    ax = TASK_SPECS["ax"].format
    with pytest.raises(InputError, match="no set with labels"):
        ax.read_splits(shared / "data/glue/AX", ax.dev)


# The lines that a fine-tuned run begins and ends with.


def records(labels):
    return [TextRecord("own.csv", n + 2, str(n), "text", None, label) for n, label in enumerate(labels)]


def test_labels_and_scores_show_a_wrong_column():
    def lines(task, train, dev=()):
        return describe_data(TASK_SPECS[task], Splits(train, {"dev": [*train, *dev] if dev == () else dev}))

    adverts = records(["advert"] * 12 + ["article"] * 3)
    assert lines("classification", adverts) == ["labels: 'advert' (12), 'article' (3)"]
    assert lines("classification", adverts, adverts[:3])[1:] == ["evaluated on no example of 'article'"]
    (line,) = lines("classification", records(f"{n % 40:02} {'x' * 80}" for n in range(80)))
    assert line.endswith(" and 30 more") and len(line) < 800
    *_, hint = lines("classification", records(["Good", "good", "bad", "very  bad", "very bad"]))
    assert hint.endswith("are different: 'Good' and 'good', 'very  bad' and 'very bad'")
    each = records(f"{'x' * 80}{n % 60}" for n in range(100))
    line, warning, *_ = lines("classification", each)
    assert line.startswith(f"labels: '{'x' * 56}…' (2)")
    assert warning == "warning: 60 different labels in 100 examples: is that the column of the labels?"
    assert lines("regression", records(["1", "4.5"])) == ["scores: 1 to 4.5, 2.75 on average"]
    assert lines("regression", records(["3", "3.0"]), records(["1", "2"]))[1:] == [
        "warning: all scores to learn are 3: there is nothing to learn"
    ]
    (line,) = lines("regression", records(["1", "2"]), records(["2", "2"]))[1:]
    assert "2: correlations are undefined" in line
    assert lines("race", [ChoiceRecord("a:1", "1", "", "c", "q", ("a", "b"), 0)]) == []


def test_words_with_marks_are_told():
    split = [TaggedRecord("a", 1, ("Mr.", "Ford", ",", "of", "Oslo", "?", ")"), ("O",) * 7)] * 20
    glued = [TaggedRecord("a", 1, ("Mr.", "Ford,", "of", "Oslo?)"), ("O",) * 4)]
    marks, spaces = (Tagging({"words": words}) for words in ("punctuation", "spaces"))
    (line,) = glued_words(marks, split + glued)
    assert "2 of 144" in line and "'Ford,'" in line
    assert glued_words(spaces, glued) == glued_words(marks, split) == []
    assert glued_words(Classification({}), records("ab")) == []


def test_a_baseline_is_named_where_figures_are_no_better():
    """Three of four texts have the most frequent label."""
    dev = {"dev": records(["b", "a", "b", "b"])}

    def warning(accuracy, best_by="accuracy"):
        figures = {"accuracy": accuracy, "loss": 0.1}
        return "".join(baseline_warning(TASK_SPECS["classification"], figures, best_by, dev))

    assert warning(0.8) == ""
    assert warning(0.75).startswith("that is no better than 'b', ") and "accuracy 0.750" in warning(0.75)
    assert warning(0.2).startswith("that is worse than 'b', ")
    assert warning(0.2, "loss") == warning(0.2)
