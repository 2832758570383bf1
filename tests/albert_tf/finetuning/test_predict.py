"""Files of predictions of runs of all kinds, and their figures from what the files say."""

import csv
import gzip
import json
import zipfile

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1
from sklearn.metrics import accuracy_score, f1_score

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.evaluation import evaluate_finetuned
from albert_tf.finetuning.predict import predict, submit
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks import glue as glue_module
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TaggedRecord
from albert_tf.tasks.glue import GLUE
from albert_tf.tasks.squad_metrics import squad_scores
from albert_tf.tasks.tables import read_table
from tests.albert_tf.finetuning.runs import SENTENCES
from tests.tiny import change_json, write_jsonl

COLUMNS = Columns("text", None, "kind")


def write_table(file, rows):
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


ROWS = [{"id": f"n{n}", "text": text, "kind": "xyz"[n % 3]} for n, text in enumerate(SENTENCES)]


@pytest.fixture
def classifier(saved, tmp_path):
    """A table, and a run that predicts its labels."""
    table = tmp_path / "own.csv"
    write_table(table, ROWS)
    return table, saved(
        "classification", TASK_SPECS["classification"].format.read(table, True, COLUMNS), columns=COLUMNS
    )


def test_labels_of_a_table(classifier, tmp_path):
    table, run = classifier
    output = tmp_path / "predicted.csv"
    assert predict(run, table, output) == [output]
    found = read_rows(output)
    assert [{name: row[name] for name in ROWS[0]} for row in found] == ROWS
    predicted = [row["prediction"] for row in found]
    assert len(set(predicted)) > 1
    assert all(1 / 3 <= float(row["score"]) <= 1 for row in found)
    right = [row["kind"] for row in ROWS]
    figures = evaluate_finetuned(run, file=table).metrics
    assert figures == {
        "step": 0,
        "examples": len(ROWS),
        "accuracy": pytest.approx(accuracy_score(right, predicted)),
        "f1": pytest.approx(f1_score(right, predicted, average="macro")),
    }
    # Neither labels nor batches change anything, nor blank lines, nor whether the table is compressed.
    bare = tmp_path / "bare.csv.gz"
    with gzip.open(bare, "wt") as file:
        csv.writer(file).writerows([["text"], *([row["text"]] for row in ROWS), []])
    predict(run, bare, tmp_path / "again.csv", batch_size=1)
    for one, other in zip(found, read_rows(tmp_path / "again.csv"), strict=True):
        assert one["prediction"] == other["prediction"]
        assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-5)
    # Nor other names of the columns.
    write_table(table, [{"body": row["text"], "class": row["kind"]} for row in ROWS])
    with pytest.raises(InputError, match=r"own\.csv: .*'text'.*'body', 'class'"):
        evaluate_finetuned(run, file=table)
    columns = Columns("body", None, "class")
    assert evaluate_finetuned(run, file=table, columns=columns).metrics == figures


def test_a_row_is_answered_without_a_text_and_a_table_without_rows(classifier, tmp_path):
    source, output = tmp_path / "texts.csv", tmp_path / "predicted.csv"
    for content, count in (("id,text\n1,\n2,a\n", 2), ("id,text\n", 0)):
        source.write_text(content)
        predict(classifier[1], source, output)
        assert output.read_text().startswith("id,text,prediction,score\n")
        assert [row["id"] for row in read_rows(output)] == ["1", "2"][:count]


def test_what_is_predicted_for_is_not_replaced(classifier, tmp_path):
    table, run = classifier
    before = table.read_bytes()
    with pytest.raises(InputError, match=r"own\.csv is what is predicted for"):
        predict(run, table, tmp_path / "." / "own.csv")
    assert table.read_bytes() == before


def test_scores_of_a_table(saved, tmp_path):
    """Given ones are not replaced: else `evaluate` on what was predicted compares it with itself."""
    table, output, columns = (
        tmp_path / "own.csv",
        tmp_path / "predicted.csv",
        Columns("first", "second", "score"),
    )
    rows = [
        {"first": text, "second": SENTENCES[n - 1], "score": str(n * 0.25)}
        for n, text in enumerate(SENTENCES)
    ]
    write_table(table, rows)
    run = saved("regression", columns=columns)
    with pytest.raises(InputError, match=r"'score'.*score_column"):
        predict(run, table, output)
    assert not output.exists()
    predict(run, table, output, score_column="found", prediction_column="guess")
    found = read_rows(output)
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    predicted = [float(row["guess"]) for row in found]
    assert predicted == [float(row["found"]) for row in found]
    right = [float(row["score"]) for row in rows]
    figures = evaluate_finetuned(run, file=output).metrics
    assert figures["pearson"] == pytest.approx(pearsonr(right, predicted)[0])
    assert figures["spearman"] == pytest.approx(spearmanr(right, predicted)[0])


def test_tags(saved, tmp_path):
    file, output = tmp_path / "own.conll", tmp_path / "predicted.conll"
    lines = []
    for text in SENTENCES:
        lines += [f"{word} {'B-X' if len(word) > 4 else 'O'}" for word in text.split()] + [""]
    file.write_text("\n".join(lines))
    run = saved("tagging", TASK_SPECS["tagging"].format.read(file, True, None))
    predict(run, file, output)
    found = [line.split() for line in output.read_text().split("\n")]
    assert [" ".join(cells[:2]) for cells in found][: len(lines)] == lines
    figures = evaluate_finetuned(run, file=file).metrics
    pairs = [(cells[1], cells[2]) for cells in found if cells]
    assert figures["accuracy"] == pytest.approx(accuracy_score(*zip(*pairs, strict=True)))
    right, predicted = (
        [part.split() for part in " ".join(cells[column] if cells else "|" for cells in found).split("|")]
        for column in (1, 2)
    )
    assert figures["f1"] == pytest.approx(entity_f1(right, predicted))
    assert figures["examples"] == len(SENTENCES)


@pytest.mark.slow
def test_tags_of_plain_texts(saved, tmp_path):
    """Those of a pipeline, of texts in a column of a table."""
    run = saved("tagging", [TaggedRecord("f", 1, ("a", "b", "c"), ("O", "X", "Y"))])
    change_json(run / "task.json", words="punctuation")
    texts = ["(Paris) “schön”, sagt 🐝.", "", *SENTENCES[:3]]
    table = write_jsonl(tmp_path / "texts.jsonl", [{"t": text, "n": n} for n, text in enumerate(texts)])
    expected = albert_tf.pipeline(run)(texts)
    assert expected[0] and expected[1] == []
    predict(run, table, tmp_path / "found.jsonl", columns=Columns("t"))
    found = read_table(tmp_path / "found.jsonl")
    assert found.columns == ("t", "n", "prediction", "score")
    assert [row.cells[0] for row in found.rows] == texts
    cells = [row.cells[2] for row in found.rows]
    for value, text, entities in zip(cells, texts, expected, strict=True):
        for one, other in zip(value, entities, strict=True):
            assert one == {**other, "score": pytest.approx(other["score"], abs=1e-4)}
            assert text[one["start"] : one["end"]] == one["text"]
    for ending, value_of in ((".csv", json.loads), (".parquet", list)):
        predict(run, table, tmp_path / f"found{ending}", columns=Columns("t"))
        rows = read_table(tmp_path / f"found{ending}").rows
        assert [value_of(row.cells[2]) for row in rows] == cells
    with pytest.raises(InputError, match="text_pair='u'"):
        predict(run, table, tmp_path / "other.jsonl", columns=Columns("t", "u"))


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
    records = TASK_SPECS["race"].format.read_splits(tmp_path / "race", ("dev",))["dev"]
    run = saved("race", records)
    written = predict(run, tmp_path / "race", tmp_path / "test")
    names = [f"middle/{n}.txt" for n in range(3)] + [f"high/{n}.txt" for n in range(2)]
    assert sorted(written) == sorted(tmp_path / "test" / name for name in names)
    predict(run, tmp_path / "race/dev", tmp_path / "dev")  # a set by its folder
    groups = {}
    for group in ("middle", "high"):
        passages = [json.loads(file.read_text()) for file in (tmp_path / "dev" / group).iterdir()]
        groups[group] = np.array(
            [pair for found in passages for pair in zip(found["answers"], found["prediction"], strict=True)]
        )
    everything = np.concatenate([*groups.values()])
    assert evaluate_finetuned(run, folder=tmp_path / "race").metrics == {
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
    assert [path.name for path in written] == ["predictions.json", "nbest.json", *odds]
    assert sorted((tmp_path / "answers").iterdir()) == sorted(written)
    values = {path.name: json.loads(path.read_text()) for path in written}
    figures = evaluate_finetuned(run, file=file).metrics
    expected = squad_scores(file, values["predictions.json"], values.get("null_odds.json"))
    best = {key for key in figures if key.startswith("best_")}  # of all answers: the files have fewer
    assert {**figures, **{key: expected[key] for key in best}} == {"step": 0, "examples": 6, **expected}
    assert all(figures[key] >= expected[key] for key in best if not key.endswith("_thresh"))
    for found in values["nbest.json"].values():
        assert 1 <= len(found) <= 3
        assert found == sorted(found, key=lambda answer: -answer["probability"])


# Predictions for the tasks of GLUE, one by one and all in a submission.


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
    if glue.column_names and labelled:
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


def test_folders_are_predicted_for_one_by_one(saved, tmp_path):
    for name in "ab":
        write_glue(tmp_path / name, "sst-2")
    with pytest.raises(InputError, match="a folder is predicted for by itself"):
        predict(saved("sst-2"), [tmp_path / "a", tmp_path / "b"], tmp_path / "out.tsv")


@pytest.mark.slow
def test_both_sets_of_mnli_and_ax(saved, tmp_path):
    labels = write_glue(tmp_path / "MNLI", "mnli", 7)
    write_glue(tmp_path / "AX", "ax", 5)
    run = saved("mnli")
    for output in ("both.tsv", "both.tsv.gz"):  # which are two
        with pytest.raises(InputError, match="`output`"):
            predict(run, tmp_path / "MNLI", tmp_path / output)
        assert not (tmp_path / output).exists()
    written = predict(run, tmp_path / "MNLI", tmp_path / "test")
    assert [path.name for path in written] == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    with pytest.raises(InputError, match=r"one\.csv"):
        predict(run, tmp_path / "MNLI/test_matched.tsv", tmp_path / "one.csv")
    assert len(predicted_labels(tmp_path / "test/MNLI-mm.tsv")) == 7
    assert predict(run, tmp_path / "AX", tmp_path / "ax.tsv", task="ax") == [tmp_path / "ax.tsv"]
    assert len(predicted_labels(tmp_path / "ax.tsv")) == 5
    figures = {"step": 0, "examples": 14}
    for part in ("matched", "mismatched"):  # a set by its file, whatever labels it has
        predict(run, tmp_path / f"MNLI/dev_{part}.tsv", tmp_path / f"{part}.tsv")
        predicted = predicted_labels(tmp_path / f"{part}.tsv")
        figures[f"accuracy_{part}"] = pytest.approx(accuracy_score(labels[f"dev_{part}"], predicted))
    assert evaluate_finetuned(run, folder=tmp_path / "MNLI").metrics == figures
    (tmp_path / "MNLI/dev_mismatched.tsv").unlink()
    (tmp_path / "MNLI/test_mismatched.tsv").unlink()
    assert set(evaluate_finetuned(run, folder=tmp_path / "MNLI").metrics) == {
        "step",
        "examples",
        "accuracy_matched",
    }
    assert predict(run, tmp_path / "MNLI", tmp_path / "one.tsv") == [tmp_path / "one.tsv"]
    with pytest.raises(InputError, match="fine-tuned for mnli and not for rte"):
        predict(run, tmp_path / "MNLI", tmp_path / "other", task="rte")


def test_outputs_that_are_there_or_have_no_folder(saved, tmp_path, monkeypatch):
    """Which shows before anything is predicted."""
    run = saved("rte")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.txt").write_text("The only copy.")
    monkeypatch.setattr("albert_tf.finetuning.predict.load_finetuned", None)
    for output, error in ((kept, FileExistsError), (kept / "thesis.txt/rte.tsv", NotADirectoryError)):
        with pytest.raises(error, match=str(output)):
            predict(run, tmp_path / "RTE", output)
    assert [path.name for path in kept.iterdir()] == ["thesis.txt"]


@pytest.fixture
def glue(saved, tmp_path, monkeypatch):
    """Runs of all tasks, and their folders with test sets of four rows, or five of AX."""
    rows = {name: 5 if name == "AX.tsv" else 4 for name in glue_module.GLUE_ROWS}
    monkeypatch.setattr(glue_module, "GLUE_ROWS", rows)
    for name, task in GLUE.items():
        write_glue(tmp_path / "glue" / task.name, name, 5 if name == "ax" else 4)
    return {name: saved(name, seq_length=24) for name in GLUE if name != "ax"}


@pytest.mark.slow
def test_a_submission(glue, saved, tmp_path, monkeypatch):
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

    # What is missing shows before anything is predicted: QQP alone has 390,965 rows.
    monkeypatch.setattr("albert_tf.finetuning.predict.predict_files", None)
    data, output = tmp_path / "glue", tmp_path / "other.zip"
    some = [run for name, run in glue.items() if name not in ("rte", "mnli")]
    with pytest.raises(InputError, match=r"mnli, rte, too$"):
        submit(some, data, output)
    for runs, name in (([glue["rte"]] * 2, "rte"), ([*glue.values(), saved("squad-v1.1")], r"squad-v1\.1")):
        with pytest.raises(InputError, match=f"is of task='{name}'"):
            submit(runs, data, output)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        submit(list(glue.values()), data, tmp_path / "file/glue.zip")
    assert not output.exists()


def test_answers_for_several_files_are_one_folder(saved, tmp_path):
    first, second = squad(False), squad(False)
    for question in second["data"][0]["paragraphs"]:
        question["qas"][0]["id"] += " of the second"
    for name, content in (("a", first), ("b", second), ("c", first)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    run = saved("squad-v1.1", seq_length=40, questions=QuestionSettings(doc_stride=16, max_query_length=8))
    predict(run, [tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "answers")
    assert len(json.loads((tmp_path / "answers/predictions.json").read_text())) == 12
    with pytest.raises(InputError, match="two files have a question 'q0'"):
        predict(run, [tmp_path / "a.json", tmp_path / "c.json"], tmp_path / "twice")
