"""The BUILD files say what the code says: each file is in one target, and the deps are the imports."""

import graphlib
from pathlib import Path

import pytest

from tools.bazel.build_files import ROOT, build_files, differences, read_targets

FILES = {
    ".bazelignore": ".venv\nbuild\n",
    "pkg/BUILD": """\
# A comment.

py_library(
    name = "low",
    srcs = ["low.py"],
)

py_library(
    name = "pkg",
    srcs = glob(
        ["*.py"],
        exclude = ["low.py"],
    ),
    visibility = ["//visibility:private"],
    deps = [
        "//pkg/sub",
        ":low",
    ],
)
""",
    "pkg/__init__.py": "from pkg.high import f\n",
    "pkg/high.py": "import os\nfrom pkg import low\n\ndef f():\n    from pkg.sub.leaf import LEAF\n",
    "pkg/low.py": "import numpy as np\n",
    "pkg/sub/BUILD": 'py_library(\n    name = "sub",\n    srcs = glob(["*.py"]),\n)\n',
    "pkg/sub/leaf.py": "LEAF = 1\n",
    "pkg/sub/other.py": "import pkg.sub.leaf\n",
    "tests/BUILD": """\
py_tests(
    name = "all_tests",
    srcs = glob(["**/test_*.py"]),
    small = ["pkg/test_leaf.py"],
    deps = ["//pkg/sub"],
)
""",
    "tests/pkg/test_leaf.py": "import pkg.sub.leaf\n",
    ".venv/pkg/other.py": "import pkg.low\n",
    "build/pkg/other.py": "import pkg.low\n",
}


@pytest.fixture
def repository(tmp_path) -> Path:
    """A repository whose BUILD files are right."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    """Replaces a part of a file that is in it once."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def test_the_build_files_are_what_the_code_imports():
    found = differences()
    assert not found, "\n".join(["python tools/bazel/build_files.py --fix mends:", *found])


def test_no_library_needs_itself():
    graph = {label: target.deps for label, target in read_targets(ROOT).items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_every_file_of_the_product_is_in_a_library_and_the_build_files_are_short():
    owned = {file for target in read_targets(ROOT).values() for file in target.srcs}
    paths = [*ROOT.glob("albert_tf/**/*.py"), *ROOT.glob("hub_export/**/*.py")]
    assert {path.relative_to(ROOT) for path in paths} <= owned
    assert sum(len((ROOT / file).read_text("utf-8").splitlines()) for file in build_files(ROOT)) <= 400


def test_one_line_for_each_difference(repository):
    assert differences(repository) == []
    change(repository / "pkg/BUILD", '        ":low",\n', "")
    change(repository / "pkg/sub/BUILD", 'glob(["*.py"])', '["leaf.py"]')
    change(repository / "tests/pkg/test_leaf.py", "import pkg.sub.leaf\n", "")
    assert {
        "pkg/BUILD: //pkg: //pkg:low is missing in deps: pkg/high.py imports pkg.low (line 2)",
        "pkg/sub/other.py is in 0 targets of its folder's BUILD file, not in one",
        "tests/BUILD: //tests:all_tests: //pkg/sub is superfluous in deps",
    } <= set(differences(repository))
