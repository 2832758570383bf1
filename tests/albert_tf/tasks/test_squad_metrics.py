"""SQuAD's figures against those of its scripts on a slice of the dev sets, and by hand."""

import json

import numpy as np
import pytest

from albert_tf.tasks.squad_metrics import normalized_answer, squad_scores


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "golden" / "squad_metrics"


def parsed(path):
    return json.loads(path.read_text("utf-8"))


def test_recorded_metrics_of_the_first(folder):
    metrics = squad_scores(folder / "dev-v1.1.json", str(folder / "predictions-v1.1.json"))
    expected = parsed(folder / "expected-v1.1.json")
    scores = {"exact_match": 100 * expected["exact_match"], "f1": 100 * expected["final_f1"]}
    assert metrics == pytest.approx(scores, rel=0, abs=1e-9)


@pytest.fixture(scope="module")
def second(folder):
    """Data set, predictions and probabilities of 2.0."""
    names = ("dev-v2.0", "predictions-v2.0", "no_answer_probability-v2.0")
    return tuple(parsed(folder / f"{name}.json") for name in names)


def test_recorded_metrics_of_the_second(folder, second):
    expected = parsed(folder / "expected-v2.0.json")
    assert squad_scores(*second[:2]) == pytest.approx(expected, rel=0, abs=1e-9)


def test_best_thresholds(second):
    """By trying some, and the one that was found."""
    dataset, predictions, odds = second
    # The scripts' search takes "The ." for an answer, their metrics do not.
    predictions = {key: text if normalized_answer(text) else "" for key, text in predictions.items()}
    metrics = squad_scores(dataset, predictions, odds)
    for name in ("exact", "f1"):
        thresholds = [*np.quantile(list(odds.values()), np.linspace(0, 1, 6)), metrics[f"best_{name}_thresh"]]
        cuts = [{key: "" if odds[key] > t else text for key, text in predictions.items()} for t in thresholds]
        found = [squad_scores(dataset, cut)[name] for cut in cuts]
        assert max(found) == found[-1] == pytest.approx(metrics[f"best_{name}"])


def squad(*questions):
    """A data set of (answers, is_impossible or None)."""
    entries = [
        {"id": str(index), "answers": [{"text": text} for text in answers]}
        | ({} if impossible is None else {"is_impossible": impossible})
        for index, (answers, impossible) in enumerate(questions)
    ]
    return {"data": [{"paragraphs": [{"qas": entries}]}]}


def test_first_by_hand():
    dataset = squad((["a red house", "house"], None), (["The"], None), (["two words"], None))
    metrics = squad_scores(dataset, {"0": "Red house!", "1": "an", "7": "of no question"})
    # Nothing of "The" and "an" is left: the same, but without a word in common. The third has no prediction.
    assert metrics == pytest.approx({"exact_match": 100 * 2 / 3, "f1": 100 / 3})
    metrics = squad_scores(squad((["one two"], None)), {"0": "two three four"})
    assert metrics == {"exact_match": 0, "f1": 40}  # precision 1/3, recall 1/2


def test_second_by_hand():
    dataset = squad((["red", "red house"], False), ([], True), ([], True), (["the"], False))
    metrics = squad_scores(dataset, {"0": "a house", "1": "", "2": "something", "3": "the"})
    assert metrics == {
        "exact": 50,
        "f1": pytest.approx(100 * (2 / 3 + 1 + 0 + 1) / 4),
        "total": 4,
        "HasAns_exact": 50,
        "HasAns_f1": pytest.approx(100 * (2 / 3 + 1) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 50,
        "NoAns_f1": 50,
        "NoAns_total": 2,
    }
    only = squad_scores(squad(([], True)), {"0": ""})
    assert only.keys() == {"exact", "f1", "total", "NoAns_exact", "NoAns_f1", "NoAns_total"}


def test_odds_above_one_are_no_answer():
    dataset = squad((["red"], False), ([], True), (["blue"], False))
    metrics = squad_scores(dataset, {"0": "red", "1": "green", "2": "blue"}, {"0": -3, "1": 1.5, "2": 2.5})
    found = [metrics[name] for name in ("exact", "NoAns_exact", "HasAns_exact")]
    assert found == pytest.approx([200 / 3, 100, 50])
    # One has no answer; the first adds one, the second takes one away, the third adds one again.
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (pytest.approx(200 / 3), -3)


def test_normalisation():
    assert normalized_answer(" The  Café -\tA theatre's (An)") == "café theatres"
    # Punctuation goes before the articles, whose neighbours it may join.
    assert normalized_answer("the-end, a.b; an\u00a0ox") == "theend ab ox"


FIRST, SECOND = squad((["red"], None)), squad((["red"], False), ([], True))
BOTH = {"0": "red", "1": ""}


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((FIRST, {"0": "red"}, {"0": 0.5}), "dataset"),
        ((squad(([], None)), {"0": ""}), "dataset"),
        ((SECOND, {"0": "red"}), "predictions.*question 1"),
        ((SECOND, BOTH, {"0": 0.1}), "no_answer_probability.*question 1"),
        ((SECOND, BOTH, {"0": 0.1, "1": float("nan")}), "no_answer_probability.*nan"),
        ((SECOND, BOTH, {"0": "0.1", "1": 0}), "no_answer_probability.*'0.1'"),
        ((FIRST, {"0": None}), "predictions.*None"),
        ((FIRST, ["red"]), "predictions.*list"),
        (({"data": []}, {}), "dataset"),
        (({"version": "1.1"}, {}), "dataset.*data"),
        ((squad(([5], None)), {"0": ""}), "dataset: question '0': 5"),
        (({"data": [{"paragraphs": [{"qas": [{"id": ["0"], "answers": []}]}]}]}, {}), r"dataset: .*\['0'\]"),
    ],
)
def test_bad_input(arguments, value):
    with pytest.raises(ValueError, match=value):
        squad_scores(*arguments)


def test_bad_files(tmp_path):
    (tmp_path / "dev.json").write_text("{")
    with pytest.raises(ValueError, match=r"dev\.json"):
        squad_scores(tmp_path / "dev.json", {})
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        squad_scores(FIRST, tmp_path / "absent.json")
