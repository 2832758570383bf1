"""Who may import whom: the layers of the project as a table, checked against the imports in its sources."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BASE = (
    "albert_tf.errors",
    "albert_tf.choices",
    "albert_tf.config",
    "albert_tf.features",
    "albert_tf.lazy",
    "albert_tf.recipes",
    "albert_tf.signals",
    "albert_tf.tokenizer_settings",
)

# Every part of the project and what it may import of it. Siblings (text, model, optimization; data,
# checkpoints; training, analysis; cli, hub_export) do not see each other.
MAY_IMPORT = {
    "albert_tf.errors": (),
    "albert_tf.choices": (),
    "albert_tf.lazy": (),
    "albert_tf.signals": (),
    "albert_tf.exits": ("albert_tf.errors", "albert_tf.signals"),
    "albert_tf.config": ("albert_tf.errors",),
    "albert_tf.features": ("albert_tf.errors",),
    "albert_tf.recipes": ("albert_tf.errors", "albert_tf.config", "albert_tf.features"),
    "albert_tf.log": (),
    "albert_tf.startup": ("albert_tf.exits", "albert_tf.log"),
    "albert_tf.tokenizer_settings": ("albert_tf.errors",),
    "albert_tf.text": BASE,
    "albert_tf.model": BASE,
    "albert_tf.optimization": BASE,
    "albert_tf.data": (*BASE, "albert_tf.text"),
    "albert_tf.checkpoints": (*BASE, "albert_tf.model"),
    "albert_tf.training": (
        *BASE,
        "albert_tf.text",  # the vocabulary of a run, which data sees too
        "albert_tf.data",
        "albert_tf.model",
        "albert_tf.optimization",
        "albert_tf.checkpoints",
    ),
    "albert_tf.analysis": (*BASE, "albert_tf.model", "albert_tf.checkpoints"),
    "albert_tf.cli": ("albert_tf",),
    "albert_tf.__main__": ("albert_tf",),
    "albert_tf": ("albert_tf",),
    "hub_export": (
        "albert_tf.startup",
        "albert_tf.signals",
        "albert_tf.exits",
        "albert_tf.errors",
        "albert_tf.choices",
        "albert_tf.config",
        "albert_tf.features",
        "albert_tf.tokenizer_settings",
        "albert_tf.text",
        "albert_tf.model",
        "albert_tf.checkpoints",
    ),
}

FLAGS = (
    "albert_tf.log",
    "albert_tf.startup",
    "albert_tf.cli",
    "albert_tf.__main__",
    "hub_export.__main__",
    "hub_export.check.__main__",
)

# What only some modules may import; none means that none may.
HOMES = {
    "apache_beam": ("albert_tf.data.corpus", "albert_tf.data.beam_files"),
    "matplotlib": ("albert_tf.analysis",),
    "safetensors": ("albert_tf.checkpoints.huggingface",),
    "tensorflow_text": ("albert_tf.text",),
    "argparse": FLAGS,
    "absl.app": FLAGS,
    "absl.flags": FLAGS,
    "keras": (),
    "tensorflow.keras": (),
}

FORBIDDEN_ATTRIBUTES = ("tf.keras", "tensorflow.keras", "tf.py_function", "tf.numpy_function")


def is_in(module: str, package: str) -> bool:
    """Whether `module` is `package` or somewhere in it."""
    return module == package or module.startswith(package + ".")


def part_of(module: str) -> str | None:
    """The entry of MAY_IMPORT that a module belongs to, the longest that fits."""
    return max((part for part in MAY_IMPORT if is_in(module, part)), key=len, default=None)


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that is imported, wherever it stands; ".name" where it is relative."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def why_not(module: str, imported: str) -> str | None:
    """Why `module` must not import `imported`, or None where it may."""
    if imported.startswith("."):
        return "relative imports hide the layers"
    for package, homes in HOMES.items():
        if is_in(imported, package) and not any(is_in(module, home) for home in homes):
            return f"its home is {' or '.join(homes) or 'nowhere'}"
    part, target = part_of(module), part_of(imported)
    if target is None:
        return None
    if part is None:
        return "the module has no place in the layers"
    allowed = target == part or any(is_in(imported, other) for other in MAY_IMPORT[part])
    return None if allowed else f"{part} may import {', '.join(MAY_IMPORT[part]) or 'nothing of the project'}"


def violations(source: str, module: str) -> list[str]:
    """One line for each import, or use of a forbidden name, in the source text of `module`."""
    tree = ast.parse(source)
    found = []
    for line, imported in imports(tree):
        reason = why_not(module, imported)
        if reason:
            found.append((line, f"{module}:{line}: {imported}: {reason}"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in FORBIDDEN_ATTRIBUTES:
            found.append((node.lineno, f"{module}:{node.lineno}: {ast.unparse(node)}: never"))
    return [text for _, text in sorted(found)]


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for path in sorted([*ROOT.glob("albert_tf/**/*.py"), *ROOT.glob("hub_export/**/*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def test_every_import_points_up_the_layers():
    sources = modules()
    assert {"albert_tf", "albert_tf.config", "albert_tf.model.layer", "hub_export"} <= set(sources)
    found = [line for name, path in sources.items() for line in violations(path.read_text("utf-8"), name)]
    assert not found, "\n" + "\n".join(found)


def test_every_module_has_its_place():
    alone = [name for name in modules() if part_of(name) == "albert_tf" and name != "albert_tf"]
    assert not alone, f"in none of the layers: {alone}"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("albert_tf.model.layer", "from albert_tf.data import masking"),
        ("albert_tf.model.layer", "from albert_tf import data"),
        ("albert_tf.model.layer", "def f():\n    import albert_tf.text.tokenizer"),
        ("albert_tf.model.encoder", "from albert_tf import AlbertConfig"),
        ("albert_tf.model.encoder", "import albert_tf"),
        ("albert_tf.config", "from albert_tf.features import MASK"),
        ("albert_tf.text.packing", "from albert_tf.model.sharing import sharing_plan"),
        ("albert_tf.optimization.lamb", "from albert_tf.model import AlbertEncoder"),
        ("albert_tf.data.masking", "from albert_tf.model.sharing import sharing_plan"),
        ("albert_tf.data.masking", "from albert_tf.checkpoints.run import load"),
        ("albert_tf.checkpoints.run", "import albert_tf.text as text"),
        ("albert_tf.checkpoints.run", "from albert_tf.training import loop"),
        ("albert_tf.analysis.parameters", "from albert_tf.training.loop import train"),
        ("albert_tf.training.loop", "from albert_tf.analysis.curve import plot"),
        ("albert_tf.training.loop", "from albert_tf.cli import run"),
        ("albert_tf.training.loop", "from hub_export.encoder import export"),
        ("albert_tf.cli", "from hub_export.export import export"),
        ("albert_tf", "import hub_export"),
        ("hub_export.encoder", "from albert_tf.training.loop import train"),
        ("hub_export.encoder", "from albert_tf.data.masking import mask"),
        ("hub_export.encoder", "import albert_tf"),
        ("albert_tf.data.masking", "import apache_beam as beam"),
        ("albert_tf.training.loop", "import matplotlib.pyplot as plt"),
        ("hub_export.encoder", "from safetensors.numpy import load_file"),
        ("hub_export.encoder", "import tensorflow_text as tf_text"),
        ("albert_tf.training.loop", "from absl import flags"),
        ("albert_tf.training.loop", "from absl.flags import FLAGS"),
        ("hub_export.encoder", "import argparse"),
        ("albert_tf.model.layer", "from . import sharing"),
        ("albert_tf.model.layer", "from .sharing import sharing_plan"),
        ("albert_tf.model.layer", "import keras"),
        ("albert_tf.model.layer", "from tensorflow import keras"),
        ("albert_tf.model.layer", "from tensorflow.keras import layers"),
        ("albert_tf.model.layer", "tf.keras.layers.Dense(1)"),
        ("albert_tf.data.masking", "x = tf.py_function(len, [], tf.int32)"),
    ],
)
def test_a_wrong_import_is_reported_with_module_and_line(module, source):
    reported = violations(f'"""A module."""\n\nimport tensorflow as tf\n{source}\n', module)
    line = 4 + source.count("\n")
    assert len(reported) == 1
    assert reported[0].startswith(f"{module}:{line}: ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("albert_tf.model.layer", "from albert_tf.config import AlbertConfig"),
        ("albert_tf.model.layer", "from albert_tf.model.sharing import sharing_plan"),
        ("albert_tf.model.layer", "import tf_keras as keras\nkeras.layers.Layer"),
        ("albert_tf.data.corpus", "import apache_beam as beam\nfrom albert_tf.text import Tokenizer"),
        ("albert_tf.analysis.curve", "import matplotlib.pyplot as plt"),
        ("albert_tf.text.normalization", "import tensorflow_text as tf_text"),
        ("albert_tf.cli", "from absl import flags\nfrom albert_tf.training.pretrain import pretrain"),
        ("albert_tf.__main__", "from albert_tf.cli import run"),
        ("albert_tf", "from albert_tf.training import loop"),
        ("hub_export.encoder", "from albert_tf.model import AlbertEncoder\nfrom hub_export import module"),
        ("hub_export.__main__", "import argparse"),
    ],
)
def test_a_right_import_is_not_reported(module, source):
    assert violations(source, module) == []


def test_the_package_and_its_public_names_import_without_heavy_libraries():
    # Blocked rather than looked for: TensorFlow itself imports matplotlib where it is installed.
    heavy = ("apache_beam", "matplotlib", "sklearn", "safetensors")
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
