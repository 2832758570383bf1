"""Reports as text, JSON and a folder."""

import base64
import csv
import json
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from albert_tf.report import CALIBRATION, GRID, LINES, POINTS, Report, ReportTable
from albert_tf.report_folder import draw_tables, write_report

NASTY = 'He said "<b>no</b>" & left,\nthen\u00a0came back.'
TABLES = [
    ReportTable(
        "labels",
        "Labels",
        ("label", "f1", "support"),
        [("a", 0.25, 3), ("b" * 50, float("nan"), 12)],
        None,
        True,
    ),
    ReportTable(
        "curve", "Curve", ("name", "x", "y"), [("one", 0, 0.5), ("one", 1, 0.7), ("two", 0, 0.2)], LINES
    ),
    ReportTable("points", "Points", ("", "true", "predicted"), [("", 1.0, 1.5), ("", -3.0, 2.0)], POINTS),
    ReportTable(
        "calibration", "Calibration", ("bin", "p", "share", "examples"), [("0", 0.6, 0.5, 4)], CALIBRATION
    ),
    ReportTable("grid", "Grid", ("label", "a", "b"), [("a", 3, 1), ("b", 0, 0)], GRID),
    ReportTable("large", "Large", ["label", *range(60)], [(f"l{n}", *range(60)) for n in range(60)], GRID),
    ReportTable("errors", "Errors", ("text", "label"), [(NASTY, None)]),
    ReportTable("none", "None", ("text", "label"), [], GRID),
]
REPORT = Report({"accuracy": 0.5, "step": 12}, TABLES)


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.pictures, self.words, self.addresses = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_lines_on_a_terminal():
    assert REPORT.text() == [
        "accuracy 0.500  step 12", "", "Labels:",
        f"{'label':32}     f1  support", f"{'a':32}  0.250        3", f"{'b' * 31}…    nan       12",
    ]  # fmt: skip
    many = ReportTable(
        "labels", "Labels", ("label", "support"), [(str(n), n) for n in range(100)], None, True
    )
    assert len(many.text()) == 42 and many.text()[-1] == "and 60 more"


def test_a_folder_holds_all_of_it(tmp_path):
    file = write_report(tmp_path / "new/report", "A <run>", REPORT)
    assert file == tmp_path / "new/report/report.html"
    content = json.loads((file.parent / "report.json").read_text(encoding="utf-8"))
    assert content["accuracy"] == 0.5 and content["tables"]["errors"] == [{"text": NASTY, "label": None}]
    assert content["tables"]["labels"][1] == {"label": "b" * 50, "f1": None, "support": 12}
    for table in TABLES:
        with (file.parent / f"{table.name}.csv").open(newline="", encoding="utf-8") as handle:
            rows = list(csv.reader(handle))
        assert rows == [["" if x is None else str(x) for x in row] for row in (table.columns, *table.rows)]
    page = Page(file.read_text(encoding="utf-8"))
    assert page.open == [] and "A <run>" in page.words and NASTY in page.words
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    drawn = [table.name for table in TABLES if table.chart and table.rows]
    assert len(page.pictures) == len(drawn)
    assert {path.stem for path in file.parent.glob("*.png")} == set(drawn)
    for name, source in zip(drawn, page.pictures, strict=True):
        content = base64.b64decode(source.partition(",")[2])
        assert content == (file.parent / f"{name}.png").read_bytes()
        pixels = np.asarray(Image.open(BytesIO(content)).convert("RGB"))
        assert min(pixels.shape[:2]) > 250
        inside = pixels[60:-60, 90:-30].reshape(-1, 3)  # of the axes
        assert len(np.unique(inside, axis=0)) > 3, name


def test_labels_are_no_formulas():
    names = ("$", "$$$", "$5_$", r"$\foo$")
    grid = ReportTable("grid", "Grid", ("label", *names), [(name, 1, 2, 3, 4) for name in names], GRID)
    lines = ReportTable("lines", "Lines", ("name", "x", "y"), [(name, 0, 1.0) for name in names], LINES)
    assert Image.open(BytesIO(draw_tables([grid, lines]))).format == "PNG"


def test_whole_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_text("mine")
    with pytest.raises(FileExistsError, match="there"):
        write_report(tmp_path / "there", "A run", REPORT)
    with pytest.raises(ValueError, match="gs://bucket/report"):
        write_report("gs://bucket/report", "A run", REPORT)
    monkeypatch.setattr("albert_tf.report_folder._page_html", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(tmp_path / "new", "A run", REPORT)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
