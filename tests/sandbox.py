"""The files that README.md and the pages of the examples name and do not make, as small as they can be."""

import json
import shutil
from pathlib import Path

import albert_tf
from albert_tf.conversion.convert import convert
from hub_export.export import export
from tests.pages import ROOT
from tests.tiny import CORPUS, TINY

RUSSIAN = """\
Ёж жил в лесу под старой елью и каждое утро ходил к ручью за водой.
Йод и ёлка стояли на полке, а рядом лежали книги, карты и белый мел.
Осенью птицы улетели на юг, и в лесу стало тихо, холодно и пусто.
Зимой выпал снег, и дети построили у реки большую белую крепость.
Весной лёд на реке растаял, и по воде поплыли первые лодки.
Летом в саду цвели яблони, и пчёлы собирали с них сладкий мёд.
Старый мельник чинил колесо и пел песню о дальней дороге.
"""

GERMAN = """\
Über den Dächern der Stadt läuten abends die Glocken, und die Bäcker löschen das Licht.
Im Herbst fällt das Laub von den Bäumen, und die Kinder sammeln Äpfel, Nüsse und Eicheln.
Ein Müller fährt mit seinem Wagen durch die schöne, weite, grüne Ebene.
Der Schnee liegt im Winter hoch, und nur die Füchse hören, wie still es ist.
Im Frühling schmilzt das Eis auf dem Fluss, und die ersten Boote fahren wieder.
Im Sommer blühen die Apfelbäume, und die Bienen sammeln süßen Honig.
"""

# Of GLUE's SST-2, under the names of its columns.
SST_2 = {
    "train": "sentence\tlabel\n" + "a fine film\t1\na dull film\t0\n" * 8,
    "dev": "sentence\tlabel\n" + "a warm film\t1\na slow film\t0\n" * 2,
    "test": "index\tsentence\n0\ta fine story\n1\ta dull story\n",
}


def write_sandbox(folder: Path, vocabulary: Path) -> None:
    """Writes the files to a new folder.

    Args:
      folder: which stands for the repository's, too: it has the examples, and what the demo leaves.
      vocabulary: of its runs, with as many pieces as TINY has rows of embeddings.
    """
    examples = shutil.copytree(ROOT / "examples", folder / "examples")
    tables = {"reviews": "reviews", "labelled": "reviews", "new": "new_reviews"}
    for name, example in tables.items():
        shutil.copy(examples / "finetune" / f"{example}.csv", folder / f"{name}.csv")
    shutil.copy(vocabulary, folder / "spiece.model")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in CORPUS.split("\n\n"))
    texts = {
        **{"corpus/text.jsonl": lines, "corpus/text.txt": CORPUS, "held_out.txt": CORPUS},
        **{"ru/text.txt": RUSSIAN, "de/text.txt": GERMAN, "texts.txt": "A fine film.\nA dull film.\n"},
    }
    for name, text in (texts | {f"SST-2/{part}.tsv": rows for part, rows in SST_2.items()}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")

    config = TINY.replace(max_position_embeddings=128)  # as many as the demo's network has
    (folder / "tiny.json").write_text(config.to_json_string(), "utf-8")
    albert_tf.save(albert_tf.AlbertPretrainer(config), folder / "run", vocabulary=vocabulary)
    convert("run", "huggingface", folder / "run", folder / "weights")
    bert = config.replace(embedding_size=config.hidden_size, sharing="none")
    albert_tf.save(albert_tf.AlbertEncoder(bert), folder / "bert", vocabulary=vocabulary)
    classifier = albert_tf.AlbertClassifier(config, num_labels=2)
    columns = {"text": "review", "label": "verdict"}
    task = {"task": "classification", "labels": ["bad", "good"], "seq_length": 32, "columns": columns}
    albert_tf.save(classifier, folder / "sentiment", vocabulary=vocabulary, task=task)
    classifier = albert_tf.AlbertClassifier(bert, num_labels=2)
    albert_tf.save(classifier, folder / "bert-sentiment", vocabulary=vocabulary, task=task)
    export(folder / "run", folder / "demo-output" / "hub", check=False)
    shutil.copytree(folder / "run", folder / "demo-output" / "run")
    shutil.copytree(folder / "demo-output" / "hub" / "encoder", folder / "albert_en_base_3")
