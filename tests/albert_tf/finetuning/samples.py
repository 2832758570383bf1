"""Sixty-four real examples of each task in its own format, as small as a test can learn by heart."""

import csv
import itertools
import json
from collections import defaultdict

from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.glue import GLUE

COUNT = 64


def sample(task, data, folder):
    """What `Finetuning` is to read: a folder, or files and columns.

    Args:
      task: a name in TASKS that is trained for.
      data: the folder of real data.
      folder: where the sample is written.
    """
    return MAKERS[task](data, folder)


def balanced(rows, label_of, count=COUNT):
    """The first rows, as many of each label."""
    shares = defaultdict(list)
    for row in rows:
        shares[label_of(row)].append(row)
    turns = itertools.zip_longest(*(shares[label] for label in sorted(shares)))
    return [row for turn in turns for row in turn if row is not None][:count]


def _glue(task, label, data, folder):
    header, *lines = (
        (data / "glue" / GLUE[task].name / "train.tsv").read_text("utf-8").rstrip("\n").split("\n")
    )
    rows = [line for line in lines[:2000] if header.count("\t") == line.count("\t")]
    chosen = [header, *balanced(rows, lambda row: "" if label is None else row.split("\t")[label])]
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return {"data": folder}


def _squad(name, has_impossible, data, folder):
    """A question each on sixty-four short paragraphs; of 2.0 half of them have no answer."""
    articles = json.loads((data / "squad" / name).read_text(encoding="utf-8"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"] if len(p["context"].split()) < 90]
    chosen = []
    for paragraph in paragraphs:
        wanted = has_impossible and len(chosen) % 2 == 1
        found = [qa for qa in paragraph["qas"] if qa.get("is_impossible", False) == wanted]
        if found and len(chosen) < COUNT:
            chosen.append({"context": paragraph["context"], "qas": found[:1]})
    file = folder / name
    content = {"version": "a sample", "data": [{"title": "", "paragraphs": chosen}]}
    file.write_text(json.dumps(content), encoding="utf-8")
    return {"train": file, "eval": file}


def _passages(folder, count):
    """The first passages of a folder of RACE that have so many questions together, the last one cut."""
    for file in sorted(folder.glob("*.txt"), key=lambda file: int(file.stem)):
        passage = json.loads(file.read_text(encoding="utf-8"))
        kept = {name: passage[name][:count] for name in ("questions", "options", "answers")}
        if count:
            yield file.name, passage | kept
        count -= len(kept["questions"])


def _race(data, folder):
    for group in ("middle", "high"):
        for name, passage in _passages(data / "race/train" / group, COUNT // 2):
            for split in ("train", "dev"):
                place = folder / split / group
                place.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(json.dumps(passage), encoding="utf-8")
    return {"data": folder}


def _reviews(data):
    """Film reviews with their stars and whether these are many."""
    for pair in zip(
        *(sorted((data / "imdb/train" / kind).iterdir()) for kind in ("neg", "pos")), strict=True
    ):
        for file in pair:
            kind, is_strong = file.parent.name, file.stem.endswith(("_1", "_10"))
            labels = f"{kind}|strong" if is_strong else kind
            yield {"review": file.read_text(encoding="utf-8"), "kind": kind, "labels": labels}


def _table(label, data, folder):
    file = folder / "own.csv"
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, ["kind", "labels", "review"])
        writer.writeheader()
        writer.writerows(itertools.islice(_reviews(data), COUNT))
    return {"train": file, "eval": file, "columns": Columns("review", label=label)}


def _tagged(data, folder):
    """Sentences of Wikipedia, tagged by their capitals and digits: no text that people tagged is at hand."""
    text = (data / "corpus/wikitext2_valid.txt").read_text(encoding="utf-8")
    sentences = [words for line in text.split("\n") if 8 <= len(words := line.split()) <= 25]
    return _lines(folder / "own.conll", itertools.chain(*map(_columns, sentences[:COUNT])))


def _columns(words):
    before = "O"
    for number, word in enumerate(words):
        kind = "NUMBER" if word[0].isdigit() else "NAME" if number and word[0].isupper() else ""
        tag = f"{'I' if before.endswith(kind) else 'B'}-{kind}" if kind else "O"
        before = tag
        yield f"{word}\t{tag}"
    yield ""


def _lines(file, lines):
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"train": file, "eval": file}


MAKERS = {
    "mrpc": lambda *places: _glue("mrpc", 0, *places),
    "sts-b": lambda *places: _glue("sts-b", None, *places),
    "squad-v1.1": lambda *places: _squad("dev-v1.1.json", False, *places),
    "squad-v2.0": lambda *places: _squad("dev-v2.0.rebuilt.json", True, *places),
    "race": _race,
    "classification": lambda *places: _table("kind", *places),
    "multi_label": lambda *places: _table("labels", *places),
    "tagging": _tagged,
}
