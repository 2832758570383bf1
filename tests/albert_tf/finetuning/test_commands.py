"""`finetune`, `evaluate` and `predict` as users type them, and one line for every mistake."""

import argparse
import csv
import io
import json
import shutil
import sys

import pytest
from pyarrow import parquet
from sklearn.metrics import accuracy_score

import albert_tf
from albert_tf import cli
from albert_tf.cli.flags import check_inputs
from tests.albert_tf.commands import mistake, words_of
from tests.albert_tf.finetuning.runs import CONFIG, ROWS
from tests.tiny import TINY


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_vocabulary):
    """What flags name: data of all kinds, and a network."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tiny.json").write_text(CONFIG.to_json_string())
    shutil.copyfile(tiny_vocabulary, folder / "spiece.model")
    rows = [row["text"].replace('"', "'") for row in ROWS]
    for name, ending, header in (("own", "csv", "body,class"), ("tabs", "tsv", "body\tclass")):
        with (folder / f"{name}.{ending}").open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if ending == "csv" else "\t", lineterminator="\n")
            writer.writerow(header.replace(",", "\t").split("\t"))
            writer.writerows([text, ROWS[n]["kind"]] for n, text in enumerate(rows))
    (folder / "other.csv").write_text("body,class\nA text.,verse\n")
    (folder / "bare.csv").write_text("body,class\nA text.,\n")
    return folder


@pytest.fixture
def words(files, tmp_path):
    """The words of a command that fine-tunes, some of its flags changed or, with None, left out."""

    def make(**changes):
        flags = {
            "task": "classification", "train": files / "own.csv", "text": "body", "label": "class",
            "config": files / "tiny.json", "vocabulary": files / "spiece.model", "output": tmp_path / "run",
            "batch_size": 8, "steps": 2, "seq_length": 32, **changes,
        }  # fmt: skip
        return words_of("finetune", **flags)

    return make


def test_from_a_table_to_predictions(words, files, tmp_path, capsys):
    """The table is read whole, or in parts as CSV and Parquet."""
    run, table = tmp_path / "my run", files / "tabs.tsv"
    lines = table.read_text().splitlines(keepends=True)
    for name, part in (("part-2", lines[20:]), ("part-1", lines[1:20])):
        (tmp_path / f"{name}.tsv").write_text("".join([lines[0], *part]))
    parts, own = f"{tmp_path}/part-*.tsv", words(train=table, learning_rate=0.01, output=run)
    assert cli.run([parts if word == str(table) else word for word in own]) == 0
    assert json.loads((run / "recipe.json").read_text())["train"] == parts
    told = capsys.readouterr().err.splitlines()
    (best,) = (line for line in told if line.startswith("best: "))
    assert str(run) in best and "accuracy" in best
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["command"].startswith("albert-tf finetune --task classification --train ")
    assert (recipe["steps"], recipe["warmup_steps"], recipe["learning_rate"]) == (2, 0, 0.01)
    assert (recipe["examples"], recipe["eval_examples"]) == (34, {"dev": 4})
    capsys.readouterr()
    assert cli.run(["evaluate", "--run", str(run), "--eval", str(table)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == {"step", "examples", "accuracy", "f1"}
    both = [str(tmp_path / f"part-{number}.tsv") for number in (1, 2)]
    assert cli.run(["evaluate", "--run", str(run), "--eval", *both]) == 0
    assert json.loads(capsys.readouterr().out) == figures
    output = tmp_path / "predicted.parquet"
    assert cli.run(["predict", "--run", str(run), "--input", *both, "--output", str(output)]) == 0
    columnar = parquet.read_table(output).to_pydict()
    assert capsys.readouterr().err.splitlines()[-1] == f"wrote {output}"
    output = tmp_path / "predicted.tsv"
    output.write_text("of another run")
    assert cli.run(["predict", "--run", str(run), "--input", str(table), "--output", str(output)]) == 0
    lines = [line.split("\t") for line in output.read_text().splitlines()]
    assert lines[0] == ["body", "class", "prediction", "score"]
    assert list(columnar) == lines[0]
    assert [list(cells) for cells in zip(*list(columnar.values())[:3], strict=True)] == [
        cells[:3] for cells in lines[1:]
    ]
    right, predicted = zip(*((cells[1], cells[2]) for cells in lines[1:]), strict=True)
    assert figures["accuracy"] == pytest.approx(accuracy_score(right, predicted))
    assert figures["examples"] == len(right) == len(ROWS)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == f"replaced {output}"


def test_mistakes_of_flags_are_one_line(words, files, capsys, tmp_path):
    folder = {"train": None, "text": None, "label": None}
    for changes, message in (
        ({"label": "kind"}, "own.csv: there is no column label='kind'"),
        ({"config": None}, "--init_from"),
        ({"config": None, "init_from": "nowhere"}, "nowhere"),
        ({"train": "missing.csv"}, "missing.csv"),
        ({"eval": files / "bare.csv", "train": files / "*.csv"}, "bare.csv:2: the row has no label"),
        ({"task": "rte", **folder, "data": "RTE"}, "RTE: no such folder"),
        ({"train": files / "other.csv"}, "other.csv"),  # which is too small to hold any of it out
        ({"eval": files / "other.csv"}, "other.csv:2: label 'verse'"),
        ({"train": files / "bare.csv"}, "bare.csv:2"),
        ({"task": "regression"}, "own.csv:2: label 'speech'"),
        ({"report": files}, f"{files} exists already"),
        ({"report": tmp_path / "run", "output": tmp_path / "run"}, "the run will be there"),
        ({"report": tmp_path / "all", "output": tmp_path / "all/run"}, f"--report {tmp_path}/all: the run"),
    ):
        assert message in mistake(capsys, *words(**changes)), changes
    assert not list(tmp_path.iterdir())


def test_mistakes_with_a_run_are_one_line(finetuned, own_table, files, capsys, tmp_path):
    evaluate, out = ["evaluate", "--run", finetuned], tmp_path / "out.jsonl"
    predict = ["predict", "--run", finetuned, "--input", own_table]
    submit = [*predict, "--submission", tmp_path / "glue.zip"]
    cases = [
        (evaluate, "--eval"),
        ([*evaluate, "--input", own_table], "--input: of no use to"),
        ([*evaluate, "--eval", files / "other.csv", "--text", "body", "--label", "class"], "'speech', 't"),
        ([*evaluate, "--eval", files / "own.csv", "--text", "body"], "--label"),
        ([*evaluate, "--eval", own_table, "--step", 4], "steps 3, 6"),
        (predict, "--submission"),
        ([*submit, "--output", out], "--submission"),
        ([*predict, "--output", out, "--run", files], "--submission"),
        ([*predict, "--output", own_table / "out.jsonl"], "own.jsonl"),
        ([*predict, "--output", out, "--input", own_table], "own.jsonl is given twice"),
        ([*predict, "--output", tmp_path / "folder", "--input", files / "own.csv"], "one file"),
        ([*predict, "--output", out, "--input", "-"], "standard input is one input alone"),
        ([*predict, "--output", out, "--score_column", "kind"], "--score_column"),
        (submit, "task='classification'"),
        ([*submit, "--step", "3", "--text", "body"], "--step, --text: of no use to --submission"),
        ([*predict, "--output", "-", "--input_format", "csv"], "--input_format"),
        (["predict", "--run", tmp_path, "--input", own_table, "--output", out], "task.json is missing"),
    ]
    for words, message in cases:
        assert message in mistake(capsys, *words), words
    assert not list(tmp_path.iterdir())


class Pipe(io.TextIOWrapper):
    """Standard input of these bytes."""

    def __init__(self, content):
        super().__init__(io.BytesIO(content))


def test_a_pipe(finetuned, own_table, monkeypatch, capsys, tmp_path):
    """What comes out is what a file gets, with nothing else in it; what goes in is CSV by default."""
    texts = [row["text"] for row in ROWS]
    predict = ["predict", "--run", str(finetuned), "--input"]
    assert cli.run([*predict, str(own_table), "--output", str(tmp_path / "out.jsonl")]) == 0
    capsys.readouterr()
    expected = (tmp_path / "out.jsonl").read_text()
    assert cli.run([*predict, str(own_table), "--output", "-"]) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", Pipe(own_table.read_bytes()))
    assert cli.run([*predict, "-", "--input_format", "jsonl", "--output", "-"]) == 0
    assert capsys.readouterr().out == expected
    written = io.StringIO()
    csv.writer(written).writerows([["text"], *([text] for text in texts)])
    monkeypatch.setattr(sys, "stdin", Pipe(written.getvalue().encode()))
    assert cli.run([*predict, "/dev/stdin", "--output", "/dev/stdout"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["text"] for row in found] == texts
    labels = [json.loads(line)["prediction"] for line in expected.splitlines()]
    assert [row["prediction"] for row in found] == labels
    monkeypatch.setattr(sys, "stdin", Pipe(b"text,kind\na\n"))
    assert "standard input:2" in mistake(capsys, *predict, "-", "--output", "-")
    monkeypatch.setattr(sys, "stdin", Pipe(own_table.read_bytes()))
    assert "add --input_format jsonl" in mistake(capsys, *predict, "-", "--output", "-")


def test_a_pre_trained_run_is_to_be_fine_tuned_first(own_table, files, capsys, tmp_path):
    albert_tf.save(albert_tf.AlbertPretrainer(TINY), tmp_path / "run", files / "spiece.model")
    line = mistake(capsys, "evaluate", "--run", tmp_path / "run", "--eval", own_table)
    assert "--eval: of no use to" in line and "fine-tune it first" in line
    line = mistake(capsys, "evaluate", "--run", tmp_path / "run", "--json", "--report", tmp_path / "report")
    assert "--json, --report: of no use to" in line
    words = ["predict", "--run", tmp_path / "run", "--input", own_table, "--output", tmp_path / "out.jsonl"]
    assert f"{tmp_path}/run is pre-trained only" in mistake(capsys, *words)


def test_seeds_that_have_begun_need_their_beginning_no_more(tmp_path):
    flags = argparse.Namespace(output=str(tmp_path), init_from=str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="gone: no such folder"):
        check_inputs(flags)
    (tmp_path / "seed-0/checkpoints").mkdir(parents=True)
    check_inputs(flags)
