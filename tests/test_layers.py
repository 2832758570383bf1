"""The house as a whole: who imports whom, how full a folder is, the order in which docs/code.md shows it."""

import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("albert_tf", "hub_export")


@pytest.fixture(scope="module")
def graph():
    """What every module imports, but for public names that are imported at their first use."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)


def test_the_page_goes_through_the_folders_in_the_order_of_their_imports(graph):
    lines = (ROOT / "docs/code.md").read_text("utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    order = [name.replace("/", ".") for cell in cells for name in re.findall(r"`([\w/]+)/`", cell)]
    folders = {
        f"albert_tf.{folder.name}"
        for folder in (ROOT / "albert_tf").iterdir()
        if (folder / "__init__.py").exists()
    }
    assert folders | {"hub_export"} <= set(order)
    for number, importer in enumerate(order):
        for imported in order[number + 1 :]:
            if {importer, imported} <= set(graph.modules):
                assert not graph.direct_import_exists(
                    importer=importer, imported=imported, as_packages=True
                ), f"docs/code.md has {importer} before {imported}, which it imports"


def test_the_package_and_its_public_names_import_without_heavy_libraries():
    # Blocked rather than looked for: TensorFlow itself imports matplotlib where it is installed.
    heavy = ("apache_beam", "matplotlib", "sklearn")
    code = f"""
import sys
sys.modules.update(dict.fromkeys({heavy}))
import albert_tf
albert_tf.PRESETS
assert "tensorflow" not in sys.modules, "a config waits for TensorFlow"
from albert_tf import *
assert "tensorflow" in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
