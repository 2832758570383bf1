"""The lines that a fine-tuned run begins and ends with."""

from albert_tf.finetuning.data import Splits
from albert_tf.finetuning.reports import baseline_warning, describe_data, glued_words
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.tasks.tagging import Tagging


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
