"""Files of predictions of runs of all kinds, and their figures from what the files say."""

import csv
import json
import zipfile

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

import albert_tf
from albert_tf.data.tasks.columns import Columns
from albert_tf.data.tasks.glue import GLUE
from albert_tf.errors import InputError
from albert_tf.finetuning.entries import task_entries
from albert_tf.finetuning.predict import predict, submit
from albert_tf.finetuning.predictions import submissions
from albert_tf.finetuning.recipes import QuestionSettings
from albert_tf.finetuning.tasks import TASKS
from albert_tf.finetuning.trained import evaluate_trained
from albert_tf.training.metrics import squad_scores
from tests.tiny import DOCUMENTS

SENTENCES = [text.replace('"', "") for document in DOCUMENTS[:2] for text in document]
COLUMNS = Columns("text", None, "kind")


@pytest.fixture
def saved(tiny_model, tiny_vocabulary, tmp_path):
    """A run of a task that has learnt nothing and answers this and that."""

    def make(task, records=(), seq_length=48, columns=None, questions=None):
        entries = task_entries(task, records, seq_length, columns, questions)
        folder = tmp_path / f"run of {task}"
        albert_tf.save(tiny_model(entries), folder, tiny_vocabulary, task=entries)
        return folder

    return make


def write_table(file, rows):
    """In the format of the file's name."""
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    with file.open("w", newline="") as opened:
        delimiter = "\t" if file.suffix == ".tsv" else ","
        writer = csv.DictWriter(opened, rows[0], delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(file):
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text().splitlines()]
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened, delimiter="\t" if file.suffix == ".tsv" else ","))


def test_labels_of_a_table(saved, tmp_path):
    rows = [{"id": f"n{n}", "text": text, "kind": "xyz"[n % 3]} for n, text in enumerate(SENTENCES)]
    table = tmp_path / "own.csv"
    write_table(table, rows)
    run = saved("classification", TASKS["classification"].read(table, True, COLUMNS), columns=COLUMNS)
    found = {}
    for ending in (".csv", ".tsv", ".jsonl"):
        table, output = tmp_path / f"own{ending}", tmp_path / f"predicted{ending}"
        write_table(table, rows)
        assert predict(run, table, output) == [table.name]
        found[ending] = read_rows(output)
        assert [{name: row[name] for name in rows[0]} for row in found[ending]] == rows
    predicted = [row["prediction"] for row in found[".csv"]]
    assert len(set(predicted)) > 1
    for other in (".tsv", ".jsonl"):
        assert [row["prediction"] for row in found[other]] == predicted
        assert [float(row["score"]) for row in found[other]] == [float(row["score"]) for row in found[".csv"]]
    assert all(1 / 3 <= float(row["score"]) <= 1 for row in found[".csv"])
    right = [row["kind"] for row in rows]
    assert evaluate_trained(run, file=table) == {
        "step": 0,
        "examples": len(rows),
        "accuracy": pytest.approx(accuracy_score(right, predicted)),
        "f1": pytest.approx(f1_score(right, predicted, average="macro")),
    }


def test_neither_labels_nor_batches_change_predictions(saved, tmp_path):
    table, output = tmp_path / "own.csv", tmp_path / "predicted"
    rows = [{"text": text, "kind": "xyz"[n % 3]} for n, text in enumerate(SENTENCES)]
    write_table(table, rows)
    run = saved("classification", TASKS["classification"].read(table, True, COLUMNS), columns=COLUMNS)
    predict(run, table, output)
    write_table(table, [{"text": row["text"]} for row in rows])
    predict(run, table, tmp_path / "again", batch_size=1)
    pairs = (read_rows(folder / "own.csv") for folder in (output, tmp_path / "again"))
    for one, other in zip(*pairs, strict=True):
        assert one["prediction"] == other["prediction"]
        assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-5)


def test_other_columns_than_those_of_the_run(saved, tmp_path):
    table = tmp_path / "own.csv"
    rows = [{"text": text, "kind": "xy"[n % 2]} for n, text in enumerate(SENTENCES)]
    write_table(table, rows)
    run = saved("classification", TASKS["classification"].read(table, True, COLUMNS), columns=COLUMNS)
    figures = evaluate_trained(run, file=table)
    write_table(table, [{"body": row["text"], "class": row["kind"]} for row in rows])
    with pytest.raises(InputError, match=r"own\.csv: there is no column 'text'; the columns are body, class"):
        evaluate_trained(run, file=table)
    columns = Columns("body", None, "class")
    assert evaluate_trained(run, file=table, columns=columns) == figures
    predict(run, table, tmp_path / "predicted.csv", columns=columns)
    right, predicted = zip(
        *((row["class"], row["prediction"]) for row in read_rows(tmp_path / "predicted.csv")), strict=True
    )
    assert accuracy_score(right, predicted) == pytest.approx(figures["accuracy"])


def test_scores_of_a_table(saved, tmp_path):
    table, columns = tmp_path / "own.csv", Columns("first", "second", "likeness")
    rows = [
        {"first": text, "second": SENTENCES[n - 1], "likeness": n * 0.25} for n, text in enumerate(SENTENCES)
    ]
    write_table(table, rows)
    run = saved("regression", columns=columns)
    predict(run, table, tmp_path / "predicted.csv")
    found = read_rows(tmp_path / "predicted.csv")
    predicted = [float(row["prediction"]) for row in found]
    assert predicted == [float(row["score"]) for row in found]
    right = [row["likeness"] for row in rows]
    figures = evaluate_trained(run, file=table)
    assert figures["pearson"] == pytest.approx(pearsonr(right, predicted)[0])
    assert figures["spearman"] == pytest.approx(spearmanr(right, predicted)[0])


def test_tags(saved, tmp_path):
    file, output = tmp_path / "own.conll", tmp_path / "predicted.conll"
    lines = []
    for text in SENTENCES:
        lines += [f"{word} {'B-X' if len(word) > 4 else 'O'}" for word in text.split()] + [""]
    file.write_text("\n".join(lines))
    run = saved("tagging", TASKS["tagging"].read(file, True, None))
    predict(run, file, output)
    found = [line.split() for line in output.read_text().split("\n")]
    assert [" ".join(cells[:2]) for cells in found][: len(lines)] == lines
    figures = evaluate_trained(run, file=file)
    pairs = [(cells[1], cells[2]) for cells in found if cells]
    assert figures["accuracy"] == pytest.approx(accuracy_score(*zip(*pairs, strict=True)))
    right, predicted = (
        [part.split() for part in " ".join(cells[column] if cells else "|" for cells in found).split("|")]
        for column in (1, 2)
    )
    assert figures["f1"] == pytest.approx(entity_f1(right, predicted))
    assert figures["examples"] == len(SENTENCES)


def test_choices(saved, tmp_path):
    file, output = tmp_path / "own.jsonl", tmp_path / "predicted.jsonl"
    rows = [
        {"context": text, "question": "Who?", "options": ["a boat", "the keeper", "a cow"], "label": n % 3}
        for n, text in enumerate(SENTENCES)
    ]
    write_table(file, rows)
    run = saved("multiple_choice", TASKS["multiple_choice"].read(file, True, None))
    predict(run, file, output)
    found = read_rows(output)
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    accuracy = accuracy_score([row["label"] for row in rows], [row["prediction"] for row in found])
    assert evaluate_trained(run, file=file)["accuracy"] == pytest.approx(accuracy)


def write_passages(folder, count):
    folder.mkdir(parents=True)
    for n in range(count):
        passage = {
            "article": SENTENCES[n],
            "questions": ["Who is it?", "It is _ ."],
            "options": [["a cow", "a boat", "a hat", "nobody"]] * 2,
            "answers": ["ABCD"[n % 4], "B"],
        }
        (folder / f"{n}.txt").write_text(json.dumps(passage))


def test_folders_of_race(saved, tmp_path):
    for name, count in (("dev", 5), ("test", 3)):
        write_passages(tmp_path / "race" / name / "middle", count)
        write_passages(tmp_path / "race" / name / "high", count - 1)
    records = TASKS["race"].read_sets(tmp_path / "race", ("dev",))["dev"]
    run = saved("race", records)
    written = predict(run, tmp_path / "race", tmp_path / "test")
    assert sorted(written) == sorted(
        [f"middle/{n}.txt" for n in range(3)] + [f"high/{n}.txt" for n in range(2)]
    )
    predict(run, tmp_path / "race/dev", tmp_path / "dev")  # a set by its folder
    groups = {}
    for group in ("middle", "high"):
        passages = [json.loads(file.read_text()) for file in (tmp_path / "dev" / group).iterdir()]
        groups[group] = np.array(
            [pair for found in passages for pair in zip(found["answers"], found["prediction"], strict=True)]
        )
    everything = np.concatenate([*groups.values()])
    assert evaluate_trained(run, folder=tmp_path / "race") == {
        "step": 0,
        "examples": 18,
        "accuracy": pytest.approx(accuracy_score(*everything.T)),
        "accuracy_middle": pytest.approx(accuracy_score(*groups["middle"].T)),
        "accuracy_high": pytest.approx(accuracy_score(*groups["high"].T)),
    }


def squad(impossible):
    paragraphs = []
    for n, text in enumerate(SENTENCES[:6]):
        context = " ".join([text, *SENTENCES[n + 1 : n + 3]])
        answer = {"text": text.split()[1], "answer_start": len(text.split()[0]) + 1}
        question = {"id": f"q{n}", "question": "Which word?", "answers": [answer]}
        if impossible:
            question["is_impossible"] = n % 2 == 1
            question["answers"] = question["answers"] if n % 2 == 0 else []
        paragraphs.append({"context": context, "qas": [question]})
    return {"version": "v", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.mark.parametrize("name", ["squad-v1.1", "squad-v2.0"])
def test_answers(saved, tmp_path, name):
    file = tmp_path / "dev.json"
    file.write_text(json.dumps(squad(name == "squad-v2.0")))
    questions = QuestionSettings(doc_stride=16, max_query_length=8, n_best=3)
    run = saved(name, seq_length=40, questions=questions)
    written = predict(run, file, tmp_path / "answers")
    odds = ["null_odds.json"] if name == "squad-v2.0" else []
    assert written == ["predictions.json", "nbest.json", *odds]
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == sorted(written)
    values = {name: json.loads((tmp_path / "answers" / name).read_text()) for name in written}
    figures = evaluate_trained(run, file=file)
    expected = squad_scores(file, values["predictions.json"], values.get("null_odds.json"))
    assert figures == {"step": 0, "examples": 6, **expected}
    for found in values["nbest.json"].values():
        assert 1 <= len(found) <= 3
        assert found == sorted(found, key=lambda answer: -answer["probability"])
    predict(run, file, tmp_path / "again", batch_size=1)
    assert json.loads((tmp_path / "again/predictions.json").read_text()) == values["predictions.json"]


def glue_rows(task, count, labelled):
    """The lines of a file of a task, as GLUE has it, and their labels."""
    glue = GLUE[task]
    names = [glue.columns.text, glue.columns.text_pair, glue.columns.label if labelled else None]
    header = ["index", *(name for name in names if name)]
    labels = [glue.labels[n % len(glue.labels)] if glue.labels else f"{n % 6}" for n in range(count)]
    rows = []
    for n in range(count):
        texts = [SENTENCES[n % 20], SENTENCES[(n + 1) % 20]][: 1 if glue.columns.text_pair is None else 2]
        rows.append([str(n), *texts, *([labels[n]] if labelled else [])])
    if glue.headless and labelled:
        return [["x", labels[n], "", row[1]] for n, row in enumerate(rows)], labels
    return [header, *rows], labels


def write_glue(folder, task, rows=4):
    """The folder of a task with development and test sets of so many rows; the labels of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, file in GLUE[task].files.items():
        lines, found[name] = glue_rows(task, rows, labelled=not name.startswith("test"))
        (folder / file).write_text("".join("\t".join(line) + "\n" for line in lines))
    return found


def predicted_labels(file):
    header, *lines = file.read_text().splitlines()
    assert header == "index\tprediction"
    cells = [line.split("\t") for line in lines]
    assert [cell[0] for cell in cells] == [str(n) for n in range(len(cells))]
    return [cell[1] for cell in cells]


def test_both_sets_of_mnli_and_ax(saved, tmp_path):
    labels = write_glue(tmp_path / "MNLI", "mnli", 7)
    write_glue(tmp_path / "AX", "ax", 5)
    run = saved("mnli")
    assert predict(run, tmp_path / "MNLI", tmp_path / "test") == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    assert len(predicted_labels(tmp_path / "test/MNLI-mm.tsv")) == 7
    assert predict(run, tmp_path / "AX", tmp_path / "ax.tsv", task="ax") == ["AX.tsv"]
    assert len(predicted_labels(tmp_path / "ax.tsv")) == 5
    figures = {"step": 0, "examples": 14}
    for part in ("matched", "mismatched"):  # a set by its file, whatever labels it has
        predict(run, tmp_path / f"MNLI/dev_{part}.tsv", tmp_path / f"{part}.tsv")
        predicted = predicted_labels(tmp_path / f"{part}.tsv")
        figures[f"accuracy_{part}"] = pytest.approx(accuracy_score(labels[f"dev_{part}"], predicted))
    assert evaluate_trained(run, folder=tmp_path / "MNLI") == figures
    (tmp_path / "MNLI/dev_mismatched.tsv").unlink()
    (tmp_path / "MNLI/test_mismatched.tsv").unlink()
    assert set(evaluate_trained(run, folder=tmp_path / "MNLI")) == {"step", "examples", "accuracy_matched"}
    assert predict(run, tmp_path / "MNLI", tmp_path / "one.tsv") == ["MNLI-m.tsv"]
    with pytest.raises(InputError, match="fine-tuned for mnli and not for rte"):
        predict(run, tmp_path / "MNLI", tmp_path / "other", task="rte")


def test_figures_of_cola(saved, tmp_path):
    labels = write_glue(tmp_path / "CoLA", "cola", 12)["dev"]
    run = saved("cola")
    predict(run, tmp_path / "CoLA/dev.tsv", tmp_path / "dev.tsv")
    predicted = predicted_labels(tmp_path / "dev.tsv")
    figures = evaluate_trained(run, folder=tmp_path / "CoLA")
    assert figures["matthews_correlation"] == pytest.approx(matthews_corrcoef(labels, predicted))
    assert figures["accuracy"] == pytest.approx(accuracy_score(labels, predicted))


def test_outputs_that_are_there_or_have_no_folder(saved, tmp_path, monkeypatch):
    """Which shows before anything is predicted."""
    write_glue(tmp_path / "RTE", "rte")
    run = saved("rte")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.txt").write_text("The only copy.")
    monkeypatch.setattr("albert_tf.finetuning.predict.read_trained", None)
    with pytest.raises(FileExistsError, match="kept exists already and is not empty: name another place"):
        predict(run, tmp_path / "RTE", kept)
    with pytest.raises(InputError, match=r"there is no folder .*nowhere: make it, or name another"):
        predict(run, tmp_path / "RTE", tmp_path / "nowhere/rte.tsv")
    (tmp_path / "thesis").write_text("Another one.")
    with pytest.raises(FileExistsError, match="thesis exists already"):
        predict(run, tmp_path / "RTE", tmp_path / "thesis")
    assert [path.name for path in kept.iterdir()] == ["thesis.txt"]


@pytest.fixture
def glue(saved, tmp_path, monkeypatch):
    """Runs of all tasks, and their folders with test sets of four rows, or five of AX."""
    rows = {name: 5 if name == "AX.tsv" else 4 for name in submissions.ROWS}
    monkeypatch.setattr(submissions, "ROWS", rows)
    for name, task in GLUE.items():
        write_glue(tmp_path / "glue" / task.name, name, 5 if name == "ax" else 4)
    return {name: saved(name, seq_length=24) for name in GLUE if name != "ax"}


def test_a_submission(glue, tmp_path):
    output = tmp_path / "glue.zip"
    submit(list(glue.values()), tmp_path / "glue", output)
    with zipfile.ZipFile(output) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv",
        "RTE.tsv", "WNLI.tsv", "AX.tsv",
    }  # fmt: skip
    predict(glue["rte"], tmp_path / "glue/RTE", tmp_path / "rte.tsv")
    assert (tmp_path / "rte.tsv").read_text() == files["RTE.tsv"]
    predict(glue["mnli"], tmp_path / "glue/AX", tmp_path / "ax.tsv", task="ax")
    assert (tmp_path / "ax.tsv").read_text() == files["AX.tsv"]


def test_a_submission_that_is_not_of_all_tasks(glue, saved, tmp_path, monkeypatch):
    """Which shows before anything is predicted: QQP alone has 390,965 rows."""
    monkeypatch.setattr("albert_tf.finetuning.predict.predicted_files", None)
    data, output = tmp_path / "glue", tmp_path / "glue.zip"
    some = [run for name, run in glue.items() if name not in ("rte", "mnli")]
    with pytest.raises(InputError, match=r"for all tasks at once: name a run of mnli, rte, too$"):
        submit(some, data, output)
    with pytest.raises(InputError, match=r"run of rte is of task='rte': name one run of each of cola, sst-2"):
        submit([glue["rte"], glue["rte"]], data, output)
    other = saved("squad-v1.1")
    with pytest.raises(InputError, match=r"is of task='squad-v1\.1': name one run of each of cola"):
        submit([*glue.values(), other], data, output)
    with pytest.raises(InputError, match=r"there is no folder .*nowhere: make it, or name another"):
        submit(list(glue.values()), data, tmp_path / "nowhere/glue.zip")
    assert not output.exists()
