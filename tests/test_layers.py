"""The house as a whole: the order in which docs/code.md shows it, and what its import brings along."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_goes_through_the_folders_in_the_order_of_their_imports():
    """As import-linter's contract has it, which knows every folder."""
    contract = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    layers = [re.findall(r"\w+", layer) for layer in contract[1].splitlines()]
    lines = (ROOT / "docs/code.md").read_text("utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    order = [name for cell in cells for name in re.findall(r"`albert_tf/(\w+)/`", cell)]
    assert set(order) == {path.parent.name for path in (ROOT / "albert_tf").glob("*/__init__.py")}
    depths = [next(depth for depth, layer in enumerate(layers) if name in layer) for name in order]
    assert depths == sorted(depths, reverse=True)


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
