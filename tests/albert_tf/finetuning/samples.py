"""Sixty-four real examples of a task in its own format, as small as a test can learn by heart."""

import csv
import itertools
import json

from albert_tf.tasks.columns import Columns

COUNT = 64


def sample(task, data, folder):
    """What `Finetuning` is to read: a folder, or files and columns.

    Args:
      task: a name in TASKS that is trained for.
      data: the folder of real data.
      folder: where the sample is written.
    """
    return MAKERS[task](data, folder)


def _squad(data, folder):
    """A question each on sixty-four short paragraphs; half of them have no answer."""
    articles = json.loads((data / "squad/dev-v2.0.rebuilt.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"] if len(p["context"].split()) < 90]
    chosen = []
    for paragraph in paragraphs:
        found = [qa for qa in paragraph["qas"] if qa["is_impossible"] == (len(chosen) % 2 == 1)]
        if found and len(chosen) < COUNT:
            chosen.append({"context": paragraph["context"], "qas": found[:1]})
    content = {"version": "a sample", "data": [{"title": "", "paragraphs": chosen}]}
    return _lines(folder / "squad.json", [json.dumps(content)])


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
            yield {
                "review": file.read_text(encoding="utf-8"),
                "labels": f"{kind}|strong" if is_strong else kind,
            }


def _table(data, folder):
    file = folder / "own.csv"
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, ["labels", "review"])
        writer.writeheader()
        writer.writerows(itertools.islice(_reviews(data), COUNT))
    return {"train": file, "eval": file, "columns": Columns("review", label="labels")}


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


MAKERS = {"squad-v2.0": _squad, "race": _race, "multi_label": _table, "tagging": _tagged}
