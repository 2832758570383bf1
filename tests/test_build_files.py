"""The BUILD files say what the code says: each file is in one target, and the deps are the imports."""

import graphlib

import pytest

from tools.bazel.build_files import ROOT, build_files, find_differences, read_targets


def test_the_build_files_are_what_the_code_imports():
    lines = find_differences()
    assert not lines, "\n".join(["python tools/bazel/build_files.py --fix mends:", *lines])


@pytest.fixture(scope="module")
def targets():
    return read_targets(ROOT)


def test_no_library_needs_itself(targets):
    graph = {label: target.deps for label, target in targets.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_every_file_of_the_product_is_in_a_library_and_the_build_files_are_short(targets):
    owned = {file for target in targets.values() for file in target.srcs}
    paths = [*ROOT.glob("albert_tf/**/*.py"), *ROOT.glob("hub_export/**/*.py")]
    assert {path.relative_to(ROOT) for path in paths} <= owned
    assert sum(len((ROOT / file).read_text("utf-8").splitlines()) for file in build_files(ROOT)) <= 400


def test_one_line_for_each_difference(tmp_path):
    """The deps are what its files import, also inside functions; each file is in one target."""
    for name, text in {
        ".bazelignore": "build\n",
        "build/other.py": "import low.leaf\n",
        "pkg/BUILD": 'py_library(\n    name = "pkg",\n    srcs = ["a.py"],\n    deps = ["//pkg/sub"],\n)\n',
        "pkg/a.py": "import os\n\ndef f():\n    from low.leaf import LEAF\n",
        "pkg/b.py": "import os\n",
        "pkg/sub/BUILD": 'py_library(\n    name = "sub",\n    srcs = glob(["*.py"]),\n)\n',
        "pkg/sub/c.py": "import os\n",
        "low/BUILD": 'py_library(\n    name = "low",\n    srcs = glob(["*.py"]),\n)\n',
        "low/leaf.py": "LEAF = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert set(find_differences(tmp_path)) == {
        "pkg/BUILD: //pkg: //low is missing in deps: pkg/a.py imports low.leaf (line 4)",
        "pkg/BUILD: //pkg: //pkg/sub is superfluous in deps",
        "pkg/b.py is in 0 targets of its folder's BUILD file, not in one",
    }
