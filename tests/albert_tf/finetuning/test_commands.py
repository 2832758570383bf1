"""`finetune`, `evaluate` and `predict` as users type them, and one line for every mistake."""

import csv
import io
import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score

import albert_tf
from albert_tf import cli
from albert_tf.cli.finetune import next_commands
from tests.albert_tf.commands import mistake
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
    (folder / "short.csv").write_text("body,class\nA text.\n")
    (folder / "latin.csv").write_bytes("body,class\nÄ,tale\n".encode("latin-1"))
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("body,class\n")
    (folder / "quotes.csv").write_text('body,class\n"A text,tale\n')
    (folder / "own.txt").write_text("A text.\n")
    (folder / "lines.jsonl").write_text('{"body": "A text.", "class": "tale"}\n{"body": 3\n')
    (folder / "words.conll").write_text("A O\nboat B-X extra\n")
    (folder / "squad.json").write_text('{"data": [{"paragraphs": [{"context": "A", "qas": [{"id": "1"}]}]}]}')
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
        flags = {name: value for name, value in flags.items() if value is not None}
        return ["finetune", *(str(word) for name, value in flags.items() for word in (f"--{name}", value))]

    return make


def test_from_a_table_to_predictions(words, files, tmp_path, capsys):
    run, table = tmp_path / "my run", files / "tabs.tsv"
    assert cli.run(words(train=table, learning_rate=0.01, output=run)) == 0
    told = capsys.readouterr().err.splitlines()
    (best,) = (line for line in told if line.startswith("best: "))
    assert str(run) in best and "accuracy" in best
    assert [line.startswith("next: ") for line in told[-3:]] == [False, True, True]
    predict, export = (shlex.split(line.removeprefix("next: ")) for line in told[-2:])
    flags = cli.command_line_parser().parse_args(predict[1:])
    assert (predict[0], flags.command, flags.run) == ("albert-tf", "predict", [str(run)])
    assert Path(flags.input).suffix == Path(flags.output).suffix == ".tsv"
    assert export[:3] == ["python", "-m", "hub_export"] and str(run) in export
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["command"].startswith("albert-tf finetune --task classification --train ")
    assert (recipe["steps"], recipe["warmup_steps"], recipe["learning_rate"]) == (2, 0, 0.01)
    assert (recipe["examples"], recipe["eval_examples"]) == (34, {"dev": 4})
    capsys.readouterr()
    assert cli.run(["evaluate", "--run", str(run), "--eval", str(table)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == {"step", "examples", "accuracy", "f1"}
    output = tmp_path / "predicted.tsv"
    assert cli.run(["predict", "--run", str(run), "--input", str(table), "--output", str(output)]) == 0
    lines = [line.split("\t") for line in output.read_text().splitlines()]
    assert lines[0] == ["body", "class", "prediction", "score"]
    right, predicted = zip(*((cells[1], cells[2]) for cells in lines[1:]), strict=True)
    assert figures["accuracy"] == pytest.approx(accuracy_score(right, predicted))
    assert figures["examples"] == len(right) == len(ROWS)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == f"wrote {output}"


@pytest.mark.slow
def test_several_seeds(words, files, tmp_path, capsys):
    assert cli.run([*words(steps=1), "--runs", "2", "--freeze", "encoder"]) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert set(summary["runs"]) == {"seed-0", "seed-1"}
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in told].count("next:") == 2
    assert str(tmp_path / "run" / summary["best_run"]) in told[-3]
    assert f"--run {tmp_path / 'run' / summary['best_run']} " in told[-2]
    output = tmp_path / "predicted.csv"
    predict = ["predict", "--run", tmp_path / "run", "--input", files / "own.csv", "--output", output]
    evaluate = ["evaluate", "--run", tmp_path / "run", "--eval", files / "own.csv"]
    for command in (predict, evaluate):
        capsys.readouterr()
        assert cli.run([*map(str, command)]) == 0
        assert summary["best_run"] in capsys.readouterr().err
    assert len(output.read_text().splitlines()) == 1 + len(ROWS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "rte", "data": "GLUE/RTE"}, "--input GLUE/RTE --output predictions"),
        ({"task": "race", "data": "RACE"}, "--input RACE --output predictions"),
        ({"task": "tagging", "train": "a.conll"}, "--input new.conll --output predicted.conll"),
        ({"task": "squad-v1.1", "train": "a.json"}, "--input new.json --output predictions"),
        ({"task": "regression", "train": "a/b.csv"}, "--input new.csv --output predicted.csv"),
    ],
)
def test_the_commands_that_come_next(changes, words):
    changes = {"data": None, "train": None, **changes}
    predict, export = next_commands("runs/a", **changes)
    assert predict == f"albert-tf predict --run runs/a {words}"
    assert export == "python -m hub_export --run runs/a --output runs/a-hub"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "sst2"}, "task='sst2' is none of cola, sst-2"),
        ({"task": "ax"}, "task='ax' has no training data: a run of mnli predicts for it"),
        ({"task": None}, "--task"),
        ({"output": None}, "--output"),
        ({"train": None}, "task='classification' needs the file to train on: name it by --train"),
        ({"text": None}, "--text_pair and --label name further columns: name that of the texts by --text"),
        ({"text": None, "label": None}, "needs the columns of texts and labels: --text and --label"),
        ({"label": None}, "needs the columns of texts and labels: --text and --label"),
        ({"label": "kind"}, "own.csv: there is no column 'kind'; the columns are 'body', 'class'"),
        ({"text": "text"}, "own.csv: there is no column 'text'; the columns are 'body', 'class'"),
        ({"text_pair": "title"}, "own.csv: there is no column 'title'; the columns are 'body', 'class'"),
        ({"config": None}, "give one of --init_from, to start"),
        ({"init_from": "run"}, "give one of --init_from, to start"),
        ({"vocabulary": None}, "needs a vocabulary: name it by --vocabulary"),
        ({"config": "albert_huge"}, "albert_huge is neither a file nor one of albert_base_v1"),
        ({"config": None, "init_from": "nowhere"}, "nowhere is neither a path here nor a published name"),
        ({"config": None, "init_from": "hub:nowhere"}, "nowhere"),
        ({"pooling": "max"}, "invalid choice: 'max'"),
        ({"freeze": "head"}, "invalid choice: 'head'"),
        ({"seq_length": 99}, "seq_length=99 is more than the network's 64 positions"),
        ({"doc_stride": 16}, "doc_stride: task='classification' has no contexts to cut in windows"),
        ({"data": "folder"}, "data: of no use to task='classification', leave it out"),
        ({"epochs": 2}, "steps=2 and epochs=2.0: one of them says when to stop, not both"),
        ({"runs": 0}, "runs=0 must be at least 1"),
        ({"accumulate": 3}, "batch_size=8 cannot be divided among 1 replicas times accumulate=3"),
        ({"train": "missing.csv"}, "missing.csv: no such file: correct the path"),
        ({"task": "rte", "train": None, "text": None, "label": None, "data": "RTE"}, "RTE/train.tsv: no"),
        ({"task": "race", "train": None, "text": None, "label": None, "data": "R"}, "R/train: no .txt files"),
    ],
)  # fmt: skip
def test_mistakes_of_flags_are_one_line(words, capsys, tmp_path, changes, message):
    assert message in mistake(capsys, *words(**changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("empty.csv", "empty.csv is empty"),
        ("header.csv", "header.csv"),
        ("other.csv", "too little to hold any of it out"),
        ("bare.csv", "bare.csv:2: the row has no label"),
        ("short.csv", "short.csv:2: 1 cells where there are 2 columns"),
        ("latin.csv", "latin.csv:2: not UTF-8: convert the file (`iconv -f"),
        ("quotes.csv", "quotes.csv:2: the row is not CSV"),
        ("own.txt", "own.txt ends in none of .csv, .tsv, .jsonl, the formats of tables"),
        ("lines.jsonl", "lines.jsonl:2: not JSON"),
    ],
)
def test_faults_of_a_table_are_one_line(words, files, capsys, tmp_path, file, message):
    assert message in mistake(capsys, *words(train=files / file))
    if file in ("other.csv", "bare.csv"):
        message = {
            "other.csv": "other.csv:2: label 'verse' is none of",
            "bare.csv": "2: the row has no label",
        }
        assert message[file] in mistake(capsys, *words(eval=files / file))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "file", "message"),
    [
        ("tagging", "words.conll", "words.conll:2: 'boat B-X extra' has 3 columns, and the lines before 2"),
        ("tagging", "own.csv", "own.csv:"),
        ("squad-v1.1", "squad.json", "squad.json: question 1 has no answers"),
        ("squad-v2.0", "own.csv", "own.csv: not JSON"),
        ("multiple_choice", "lines.jsonl", "lines.jsonl:1: 'context'"),
        ("regression", "own.csv", "own.csv:2: label 'speech' is not a finite number"),
    ],
)
def test_data_of_another_task_is_one_line(words, files, capsys, tmp_path, task, file, message):
    columns = {} if task == "regression" else {"text": None, "label": None}
    assert message in mistake(capsys, *words(task=task, train=files / file, **columns))
    assert not list(tmp_path.iterdir())


def test_data_of_another_glue_task(words, shared, capsys, tmp_path):
    """And a folder of GLUE that is not the task's."""
    for folder in ("SST-2", "QNLI"):
        changes = {"task": "rte", "train": None, "text": None, "label": None, "seq_length": 32}
        line = mistake(capsys, *words(**changes, data=shared / "data/glue" / folder))
        assert f"{folder}/train.tsv: there is no column 'sentence1'" in line
    assert not list(tmp_path.iterdir())


def test_mistakes_with_a_run_are_one_line(finetuned, own_table, files, shared, capsys, tmp_path):
    evaluate, out = ["evaluate", "--run", finetuned], tmp_path / "out.jsonl"
    predict = ["predict", "--run", finetuned, "--input", own_table]
    rte = shared / "data/glue/RTE"
    cases = [
        (evaluate, "what is to be evaluated on is missing: name it by --eval"),
        ([*evaluate, "--input", own_table], "--input: of no use to"),
        ([*evaluate, "--data", rte], "what is to be evaluated on is missing: name it by --eval"),
        (
            [*evaluate, "--eval", files / "own.csv"],
            "own.csv: there is no column 'text'; the columns are 'body'",
        ),
        (
            [*evaluate, "--eval", files / "other.csv", "--text", "body", "--label", "class"],
            "ne of 'speech', 't",
        ),
        (
            [*evaluate, "--eval", files / "bare.csv", "--text", "body", "--label", "class"],
            "the row has no la",
        ),
        (
            [*evaluate, "--eval", files / "own.csv", "--text", "body"],
            "--label names the column of the labels",
        ),
        ([*evaluate, "--eval", files / "empty.csv"], "empty.csv is empty"),
        ([*evaluate, "--eval", own_table, "--step", 4], "no such checkpoint, it has those of steps 3, 6"),
        ([*evaluate, "--eval", own_table, "--batch_size", 0], "batch_size=0 must be at least 1"),
        (predict, "name it by --output or --submission, one of them"),
        (
            [*predict, "--output", out, "--submission", out],
            "name it by --output or --submission, one of them",
        ),
        ([*predict, "--output", out, "--run", "other"], "one run predicts; several do for --submission"),
        ([*predict, "--output", own_table / "out.jsonl"], "cannot be written"),
        ([*predict, "--output", out, "--task", "ax"], "fine-tuned for classification and not for ax"),
        ([*predict, "--output", out, "--text", "body"], "there is no column 'body'; the columns are 'text'"),
        ([*predict, "--output", out, "--batch_size", 0], "batch_size=0 must be at least 1"),
        ([*predict, "--output", out, "--input", rte], "RTE ends in none of .csv, .tsv, .jsonl, the formats"),
        ([*predict, "--output", out, "--input", "nowhere.csv"], "nowhere.csv: no such file"),
        (
            [*predict, "--submission", tmp_path / "glue.zip"],
            "is of task='classification': name one run of each",
        ),
        ([*predict, "--output", tmp_path / "out.txt"], "out.txt ends in none of .csv, .tsv, .jsonl"),
        ([*predict, "--output", out, "--score_column", "kind"], "--score_column"),
        (
            [*predict, "--output", out, "--score_column", "x", "--prediction_column", "x"],
            "--prediction_column",
        ),
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
    assert cli.run([*predict, str(own_table), "--output", "/dev/stdout"]) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", Pipe(own_table.read_bytes()))
    assert cli.run([*predict, "-", "--input_format", "jsonl", "--output", "-"]) == 0
    assert capsys.readouterr().out == expected
    written = io.StringIO()
    csv.writer(written).writerows([["text"], *([text] for text in texts)])
    for name in ("-", "/dev/stdin"):
        monkeypatch.setattr(sys, "stdin", Pipe(written.getvalue().encode()))
        assert cli.run([*predict, name, "--output", "-"]) == 0
        found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["text"] for row in found] == texts
        labels = [json.loads(line)["prediction"] for line in expected.splitlines()]
        assert [row["prediction"] for row in found] == labels


def test_mistakes_with_a_pipe_are_one_line(finetuned, own_table, monkeypatch, capsys, tmp_path):
    predict = ["predict", "--run", finetuned, "--output", "-", "--input"]
    assert "--input_format" in mistake(capsys, *predict, own_table, "--input_format", "csv")
    monkeypatch.setattr(sys, "stdin", Pipe(b"text,kind\na\n"))
    assert "standard input:2" in mistake(capsys, *predict, "-")
    monkeypatch.setattr(sys, "stdin", Pipe(b""))
    assert "standard input is empty" in mistake(capsys, *predict, "-")


@pytest.mark.parametrize(
    "flags", [["--task", "ax"], ["--step", "3"], ["--text", "body"], ["--score_column", "x"]]
)
def test_flags_that_a_submission_does_not_heed(finetuned, own_table, capsys, tmp_path, flags):
    words = ["predict", "--run", finetuned, "--input", own_table, "--submission", tmp_path / "glue.zip"]
    assert f"{flags[0]}: of no use to --submission, leave it out" in mistake(capsys, *words, *flags)


def test_a_pre_trained_run_is_to_be_fine_tuned_first(own_table, files, capsys, tmp_path):
    albert_tf.save(albert_tf.AlbertPretrainer(TINY), tmp_path / "run", files / "spiece.model")
    line = mistake(capsys, "evaluate", "--run", tmp_path / "run", "--eval", own_table)
    assert line.endswith("which is pre-trained: fine-tune it first, or leave it out\n")
    words = ["predict", "--run", tmp_path / "run", "--input", own_table, "--output", tmp_path / "out.jsonl"]
    assert mistake(capsys, *words).endswith("multiple_choice: `albert-tf finetune` does\n")


def test_a_run_whose_vocabulary_was_exchanged(finetuned, own_table, shared, capsys, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finetuned, run)
    shutil.copyfile(shared / "data/vocabulary/30k-clean.model", run / "spiece.model")
    for words in (
        ["evaluate", "--run", run, "--eval", own_table],
        ["predict", "--run", run, "--input", own_table, "--output", tmp_path / "out.jsonl"],
    ):
        assert "run: its SHA-256 is" in mistake(capsys, *words)
    (run / "spiece.model").unlink()
    assert "has no spiece.model: copy its vocabulary there" in mistake(capsys, *words)
    assert not (tmp_path / "out.jsonl").exists()
