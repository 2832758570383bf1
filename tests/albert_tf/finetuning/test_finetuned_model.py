"""Outputs of batches against those of each example by itself."""

import json
import shutil

import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.finetuning import finetuned_model
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import (
    create_predict_fn,
    finetuned_entries,
    lengths_to_compile,
    load_finetuned,
)
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.task import Examples
from tests.albert_tf.commands import mistake
from tests.albert_tf.tasks.records import text_records
from tests.tiny import SENTENCES, TINY, write_jsonl


class Collecting:
    """A task whose predictions are what `collect_outputs` collects."""

    seq_length = 48

    def __init__(self, collect_outputs):
        self.collect_outputs = collect_outputs

    def predictions(self, examples, outputs):
        return outputs


def padded(ids, length):
    ids = tf.pad(ids, [[0, 0], [0, length - tf.shape(ids)[1]]], constant_values=7)
    return tf.ensure_shape(ids, [None, length])


def test_every_example_once_and_in_its_place(piece_tokenizer):
    rows = text_rows(text_records(SENTENCES), piece_tokenizer, {}, 128)
    seen, lengths = [], set()

    def model(batch, training):
        assert training is False
        return batch

    def keep(outputs, inputs):
        seen.append(inputs["input_word_ids"].shape)
        return {
            "ids": padded(outputs["input_word_ids"], 48),
            "length": tf.reduce_sum(inputs["input_mask"], axis=1),
        }

    for batch_size in (1, 10, 1000):
        predict = create_predict_fn(Collecting(keep), model, batch_size)
        seen.clear()
        predict(Examples(SENTENCES, rows))
        assert len(seen) == 1  # traced once for all lengths
        found = predict(Examples(SENTENCES, rows)).predictions
        assert len(seen) == 1
        assert found["ids"].shape == (len(SENTENCES), 48)
        for number, sentence in enumerate(SENTENCES):
            tokens = piece_tokenizer(tf.constant([sentence])).to_list()[0][:46]
            length = len(tokens) + 2
            assert found["length"][number] == length
            lengths.add(length > 32)
            assert found["ids"][number, :length].tolist() == [2, *tokens, 3]
            assert set(found["ids"][number, length:]) <= {0, 7}
    assert lengths == {True, False}  # of more than one bucket


def test_few_examples_are_not_filled_up_to_a_batch(piece_tokenizer):
    """Whoever asks about one text does not wait for the answers to thirty-two."""
    rows = []

    def model(batch, training):
        return {"length": tf.reduce_sum(batch["input_mask"], axis=1)}

    def keep(outputs, inputs):
        tf.py_function(lambda mask: rows.append(mask.shape[0]), [inputs["input_mask"]], [])
        return outputs

    predict = create_predict_fn(Collecting(keep), model, 32)
    for count in (1, 3, 32, 40):
        rows.clear()
        examples = Examples(
            SENTENCES[:count], text_rows(text_records(SENTENCES[:count]), piece_tokenizer, {}, 128)
        )
        assert len(predict(examples).predictions["length"]) == count
        assert rows == ([count] if count <= 32 else [32, 32])


def test_on_a_tpu_all_shapes_are_static(piece_tokenizer, monkeypatch):
    """Whatever is said of XLA: a TPU's programs are compiled in any case."""
    monkeypatch.setattr(finetuned_model, "device_kind", lambda strategy: "TPU")
    assert {lengths_to_compile(100, xla) for xla in (None, True, False)} == {(100,)}
    seen = []

    def keep(found, inputs):
        seen.append(inputs["input_mask"].shape.as_list())
        return {"length": tf.reduce_sum(found["input_mask"], axis=1)}

    predict = create_predict_fn(Collecting(keep), lambda batch, training: batch, 10)
    lengths = predict(
        Examples(SENTENCES, text_rows(text_records(SENTENCES), piece_tokenizer, {}, 128))
    ).predictions
    assert seen == [[10, 48]]  # traced once
    assert len({length > 32 for length in lengths["length"]}) == 2


# Fine-tuned runs that are saved and asked, and runs that cannot answer.

COLUMNS = Columns("text", label="kind")


@pytest.fixture
def table(tmp_path):
    rows = [{"text": text, "kind": "ab"[n % 2]} for n, text in enumerate(SENTENCES)]
    return write_jsonl(tmp_path / "own.jsonl", rows)


@pytest.fixture
def run(saved, table):
    records = TASK_SPECS["classification"].format.read(table, True, COLUMNS)
    return saved("classification", records, 32, COLUMNS)


def test_another_vocabulary_than_the_run_s(run, published_vocabulary):
    shutil.copyfile(published_vocabulary, run / "spiece.model")
    with pytest.raises(InputError, match="vocabulary"):
        load_finetuned(run)
    (run / "spiece.model").unlink()
    with pytest.raises(FileNotFoundError, match="vocabulary"):
        load_finetuned(run)


def run_of(task):
    """A run with this content of task.json, which is nowhere."""
    run = RunDirectory("here/run")
    run.task, run.config = task, TINY
    return run


def test_tasks_of_runs(run):
    with pytest.raises(InputError, match="classification and not for ax"):
        load_finetuned(run, requested="ax")
    for model in ({"model": "pretrainer", "sentence_objective": "sop"}, {"model": "encoder"}):
        with pytest.raises(InputError, match=r"^here/run is pre-trained only: .*--init_from here/run "):
            finetuned_entries(run_of(model))
    with pytest.raises(InputError, match=r"^here/run/task\.json: task='mnli' .*model='span_labeler'"):
        finetuned_entries(run_of({"task": "mnli", "model": "span_labeler"}))
    mnli = run_of({"task": "mnli", "model": "classifier", "num_labels": 3})
    assert finetuned_entries(mnli) == finetuned_entries(mnli, "mnli") == mnli.task
    assert finetuned_entries(mnli, "ax") == {**mnli.task, "task": "ax"}


def test_a_classifier_from_elsewhere(tiny_vocabulary, table, tmp_path, capsys):
    """As converted from Hugging Face: task.json has no task. It answers files as `pipeline` does texts."""
    labels, run = ["b", "a"], tmp_path / "run"
    model = albert_tf.AlbertClassifier(TINY, num_labels=2)
    albert_tf.save(model, run, tiny_vocabulary, task={"labels": labels})
    words, columns = ["--run", str(run)], ["--text", "text", "--label", "kind"]
    output = tmp_path / "predicted.jsonl"
    assert cli.run(["predict", *words, *columns, "--input", str(table), "--output", str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    answers = albert_tf.pipeline(run)(SENTENCES)
    assert [row["prediction"] for row in rows] == [answer["label"] for answer in answers]
    assert [row["score"] for row in rows] == pytest.approx([answer["score"] for answer in answers], abs=1e-5)
    capsys.readouterr()
    assert cli.run(["evaluate", *words, *columns, "--eval", str(table)]) == 0
    right = sum(answer["label"] == row["kind"] for answer, row in zip(answers, rows, strict=True))
    assert json.loads(capsys.readouterr().out)["accuracy"] == pytest.approx(right / len(rows), abs=1e-6)
    assert "--text" in mistake(capsys, "evaluate", *words, "--eval", table)
    assert load_finetuned(run).entries["seq_length"] == TINY.max_position_embeddings
    for entries, task in (
        ({"model": "span_labeler", "answerability": True}, "squad-v2.0"),
        ({"model": "span_labeler"}, "squad-v1.1"),
        ({"model": "classifier", "num_labels": 1}, "regression"),
    ):
        assert finetuned_entries(run_of(entries))["task"] == task


# --deterministic, which no process can turn off again: TensorFlow's function is replaced here.


class Called(Exception):
    pass


def called():
    raise Called


def test_every_command_that_computes_has_the_flag(asked, finetuned, own_table, tmp_path, monkeypatch):
    """It is heeded before a run is begun or read."""
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", called)
    with pytest.raises(Called):
        finetune(asked(deterministic=True))
    monkeypatch.setattr(finetuned_model, "load_checked", lambda *arguments: pytest.fail("read before"))
    evaluate = ["evaluate", "--run", finetuned, "--eval", own_table]
    predict = ["predict", "--run", finetuned, "--input", own_table, "--output", tmp_path / "out.csv"]
    for words in (evaluate, predict):
        with pytest.raises(Called):
            cli.run([*map(str, words), "--deterministic"])


@pytest.mark.parametrize(
    ("named", "used"),
    [
        (None, Columns("t", label="l", label_separator=",")),
        (Columns("other"), Columns("other", label_separator=",")),
        (Columns("other", label_separator="/"), Columns("other", label_separator="/")),
    ],
)
def test_the_separator_of_the_training_data_stays(named, used):
    entries = {"columns": {"text": "t", "label": "l", "label_separator": ","}}
    model = finetuned_model.FinetunedModel(TASK_SPECS["multi_label"], None, None, entries, 0)
    assert model.table_columns(named) == used
    assert model._replace(entries={}).table_columns(named) == named
    for name in ("mrpc", "squad-v1.1"):
        with pytest.raises(InputError, match="`text`: of no use to a run of"):
            entries = {"model": "classifier" if name == "mrpc" else "span_labeler", "num_labels": 2}
            model._replace(spec=TASK_SPECS[name], entries=entries).table_columns(Columns("a"))
