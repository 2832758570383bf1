"""What is trained on and what is held out of it."""

import collections

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from albert_tf.conversion.init_from import InitFrom
from albert_tf.errors import InputError
from albert_tf.finetuning.data import (
    class_weights,
    encode_splits,
    read_dev_sets,
    read_splits,
    split_train_dev,
    training_losses,
)
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES
from albert_tf.finetuning.task_table import TASK_SPECS, task_entries
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import ChoiceRecord, QuestionRecord, TextRecord, label_of
from albert_tf.tasks.losses import LABEL
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics
from tests.tiny import TINY, write_jsonl

COLUMNS = Columns("text", None, "kind")


def text_records(count):
    return [TextRecord("own.csv", n + 2, str(n), f"text {n}", None, "ab"[n % 2]) for n in range(count)]


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (14, 1), (16, 2), (1000, 100)])
def test_a_tenth_is_held_out(count, held_out):
    records = text_records(count)
    train, dev = split_train_dev(records, 0.1)
    assert len(dev) == held_out
    assert train == [record for record in records if record not in dev]  # in their order
    assert dev == [record for record in records if record in dev]
    assert split_train_dev(records, 0.1) == (train, dev)
    if count == 1000:  # spread over the file, which may be sorted by label
        assert 40 <= sum(int(record.id) < 500 for record in dev) <= 60


def label_records(counts):
    """So many of each label, in no order."""
    labels = np.repeat(list(counts), list(counts.values()))
    np.random.default_rng(5).shuffle(labels)
    return [TextRecord("own.csv", n + 2, str(n), f"text {n}", None, str(x)) for n, x in enumerate(labels)]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"a": 480, "b": 20}, {"a": 48, "b": 2}),
        ({"a": 47, "b": 26, "c": 27}, {"a": 5, "b": 2, "c": 3}),  # 4.7, 2.6 and 2.7 are ten
        ({"a": 95, "b": 5}, {"a": 9, "b": 1}),  # 9.5 and 0.5: the rare one, which else is missing
        ({"a": 94, **{f"b{n}": 1 for n in range(6)}}, {"a": 10}),  # a label that is there once is learned
    ],
)
def test_each_label_has_its_share_of_what_is_held_out(counts, expected):
    train, dev = split_train_dev(label_records(counts), 0.1, label_of)
    assert collections.Counter(record.label for record in dev) == expected
    assert len(train) + len(dev) == sum(counts.values())


@pytest.mark.parametrize("kind", [ChoiceRecord, QuestionRecord])
def test_questions_on_one_context_stay_together(kind):
    records = []
    for n in range(60):
        context = f"context {n % 20}"  # that of neighbours is another one
        if kind is ChoiceRecord:
            records.append(ChoiceRecord(f"f:{n}", str(n), "", context, "Who?", ("a", "b"), 0))
        else:
            records.append(QuestionRecord(f"f:{n}", str(n), "Who?", context, (), True))
    train, dev = split_train_dev(records, 0.1)
    assert (len(train), len(dev)) == (54, 6)
    assert not {record.context for record in train} & {record.context for record in dev}


def own_file(folder, rows):
    return write_jsonl(folder / "own.jsonl", rows)


def own_sets(file, dev=None, task="classification", columns=COLUMNS):
    return read_splits(TASK_SPECS[task], None, file, dev, columns)


def test_what_is_held_out_is_by_label_and_its_labels_are_known(tmp_path):
    rows = [{"text": f"text {n}", "kind": "1" if n % 10 == 0 else "0"} for n in range(200)]
    file = own_file(tmp_path, rows)
    assert sum(label_of(record) == "1" for record in own_sets(file).dev["dev"]) == 2
    records = TASK_SPECS["regression"].format.read(file, True, COLUMNS)
    assert own_sets(file, task="regression").train == split_train_dev(records, 0.1)[0]
    file = own_file(tmp_path, [{"text": f"text {n}", "kind": f"kind {n}"} for n in range(20)])
    sets = own_sets(file)
    assert (len(sets.train), len(sets.dev["dev"])) == (18, 2)
    assert sets.held_out == f"2 of 20 examples of {file}"
    assert len({record.label for record in sets.labelled_records}) == 20
    sets = own_sets(file, file)  # a set of its own is not learnt from
    assert len(sets.train) == len(sets.dev["dev"]) == 20
    assert sets.labelled_records is sets.train and sets.held_out == ""


def test_too_little_to_hold_any_out(tmp_path):
    file = own_file(tmp_path, [{"text": "text", "kind": "a"}])
    with pytest.raises(InputError, match=r"own\.jsonl: too little .* `eval`"):
        own_sets(file)
    rows = [{"context": "c", "question": f"{n}?", "options": ["a", "b"], "label": 0} for n in range(5)]
    with pytest.raises(InputError, match=r"own\.jsonl: too little"):  # one context
        own_sets(own_file(tmp_path, rows), task="multiple_choice", columns=None)


def test_what_is_to_be_evaluated_on(tmp_path, shared):
    file = shared / "data/glue/RTE/dev.tsv"
    assert read_dev_sets(TASK_SPECS["rte"], folder=file.parent) == read_dev_sets(TASK_SPECS["rte"], file=file)
    cases = [("rte", {}), ("tagging", {}), ("tagging", {"folder": tmp_path})]
    for task, changes in [*cases, ("rte", {"folder": tmp_path, "file": file})]:
        with pytest.raises(InputError, match="`eval`"):
            read_dev_sets(TASK_SPECS[task], **changes)


def test_other_data_has_another_record(tmp_path, tiny_vocabulary):
    start = InitFrom(TINY, tiny_vocabulary, {"lowercase": True, "strip_accents": True}, None)
    rows = [{"text": f"a boat {n % 7}", "kind": "ab"[n % 2]} for n in range(20)]
    entries = task_entries("classification", text_records(2), 32, COLUMNS)

    def record(rows, folder=tmp_path):
        file = own_file(folder, rows)
        data = encode_splits(TASK_SPECS["classification"], entries, own_sets(file, file), start)
        return data.recipe_entries()

    there = record(rows)
    assert (there["examples"], there["eval_examples"]) == (20, {"dev": 20})
    (tmp_path / "moved").mkdir()
    assert record(rows, tmp_path / "moved") == there
    for change in ({"text": "a boat"}, {"kind": "b"}):
        other = record([{**rows[0], **change}, *rows[1:]])
        assert other["data_sha256"] != there["data_sha256"]
        assert other["eval_sha256"] != there["eval_sha256"]


# Weights of labels and smoothed labels: against scikit-learn, and in a run.

NAMES = ["0", "1", "2", "3"]


def test_balanced_is_scikit_learns():
    targets = np.random.default_rng(0).choice(4, 300, p=[0.6, 0.3, 0.07, 0.03])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=targets)
    np.testing.assert_allclose(class_weights("balanced", NAMES, targets), expected)
    # Tokens without a label are none, and a label that training has not seen does not count.
    tokens = np.concatenate([targets, np.full(50, -1)])
    np.testing.assert_allclose(class_weights("balanced", [*NAMES, "4"], tokens), [*expected, 1])


def test_balanced_of_several_labels_weighs_those_with_and_without_alike():
    targets = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]])
    assert class_weights("balanced", NAMES, targets) == [3, 1, 1, 1 / 3]


def test_weights_by_label():
    targets = np.arange(4)
    assert class_weights({"3": 2.5, "1.0": 0}, NAMES, targets) == [1, 0, 1, 2.5]  # 1.0 is 1
    with pytest.raises(InputError, match="class_weight: label='4' is none of 0, 1, 2, 3"):
        class_weights({"4": 1.0}, NAMES, targets)


def test_how_weights_are_written():
    replace = FINETUNING_RECIPES["classification"].replace
    for asked in ('{"a": 2, "b": 0.5}', {"a": 2, "b": 0.5}):
        assert replace(class_weight=asked).class_weight == {"a": 2.0, "b": 0.5}
    assert replace(class_weight={0: 3}).class_weight == {"0": 3.0}
    assert replace(class_weight="balanced").class_weight == "balanced"
    for asked, message in (
        ("even", "class_weight='even'"),
        ("[1, 2]", "class_weight="),
        ('{"a": -1}', r"class_weight\['a'\]=-1"),
    ):
        with pytest.raises(InputError, match=message):
            replace(class_weight=asked)


FITTED = {**RECIPE, "class_weight": {"speech": 40.0}, "label_smoothing": 0.2}


@pytest.fixture(scope="module")
def weighted(asked, made_once):
    """A run of six updates with weights and smoothing."""
    return made_once("weighted", lambda folder: finetune(asked(folder, recipe=FITTED)))


@pytest.mark.slow
def test_training_is_weighted_and_evaluations_are_not(weighted, finetuned, own_table):
    first = {run: metrics(run)[0] for run in (weighted, finetuned)}
    assert first[weighted]["loss"] > 3 * first[finetuned]["loss"]
    recipe = RunDirectory(weighted).recipe
    assert (recipe["class_weight"], recipe["label_smoothing"]) == ({"speech": 40.0}, 0.2)
    trained, kinds = load_finetuned(weighted, 6), ["speech", "tale"]
    records = trained.spec.format.read(own_table, True, Columns("text", None, "kind"))
    chances = [
        found.scores[kinds.index(record.label)]
        for record, found in zip(records, trained.predict(records).predictions, strict=True)
    ]
    (line,) = (line for line in metrics(weighted) if "eval_loss" in line and line["step"] == 6)
    assert line["eval_loss"] == pytest.approx(-np.log(chances).mean(), rel=1e-4)


def test_weights_of_tags_are_by_words(tiny_vocabulary, tmp_path):
    """Of which each counts once, however many tokens it has."""
    file = tmp_path / "own.conll"
    file.write_text("boats O\nand O\nMrs. B-X\n\nboats O\nKept B-Y\n" * 4)
    spec = TASK_SPECS["tagging"]
    sets = read_splits(spec, None, file, file, None)
    start = InitFrom(TINY, tiny_vocabulary, {"lowercase": True, "strip_accents": True}, None)
    data = encode_splits(spec, task_entries("tagging", sets.train, 32), sets, start)
    loss_fn = training_losses(data, FINETUNING_RECIPES["tagging"].replace(class_weight="balanced"))
    assert list(data.task.labels) == ["O", "B-X", "B-Y"]
    np.testing.assert_allclose(
        loss_fn.losses["label"].loss_sum.keywords["class_weights"], [5 / 9, 5 / 3, 5 / 3]
    )
    assert data.task.losses is LABEL  # of evaluations


def test_weights_are_those_of_the_rows_of_one_file(tiny_vocabulary, tmp_path):
    rows = [{"text": f"text {n}", "kind": str(n % 2)} for n in range(4)]
    files = [write_jsonl(tmp_path / f"{name}.jsonl", rows) for name in "ab"]
    start = InitFrom(TINY, tiny_vocabulary, {"lowercase": True, "strip_accents": True}, None)
    spec = TASK_SPECS["classification"]

    def weights(train, sample_weight):
        sets = own_sets(train, files[0])
        entries = task_entries("classification", sets.train, 16, COLUMNS)
        return encode_splits(spec, entries, sets, start, sample_weight).rows.features["weights"].tolist()

    assert weights(files[0], [1, 2, 3, 4]) == [1, 2, 3, 4]
    for train, values in (
        *((files, [1.0] * 8), (files[0], [1, 2, 3]), (files[0], [1, 2, 3, -1])),
        *((files[0], [1.0] * 5), (files[0], [[1.0]] * 4)),
    ):
        with pytest.raises(InputError, match="sample_weight"):
            weights(train, values)


def test_questions_without_a_context_are_held_out_one_by_one():
    records = [ChoiceRecord("a", str(n), "", " ", f"Which {n}?", ("a", "b"), 0) for n in range(20)]
    assert [len(part) for part in split_train_dev(records, 0.1)] == [18, 2]
