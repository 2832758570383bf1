"""What `make dist` builds is complete: it is installed and used where there is nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages import links
from tests.tiny import write_corpus

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("albert_tf", "hub_export")
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "build", "dist", "demo-output")

# All but the one module that needs an extra.
IMPORT_ALL = """
import importlib, pkgutil, sys
import albert_tf, hub_export
for package in (albert_tf, hub_export):
    assert package.__file__.startswith(sys.prefix), package.__file__
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", "dask_runner")):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel and the sdist that it was built from."""
    folder = tmp_path_factory.mktemp("dist")
    source = shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*LEFT_OUT))
    # Without a network: by the setuptools that is here, which `build` compares with pyproject.toml's.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "dist"


@pytest.fixture(scope="module")
def python(dist, tmp_path_factory):
    """The Python of an environment with the wheel and what it says that it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    (wheel,) = dist.glob("*.whl")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (installed,) = metadata.distributions(name="albert-tf", path=[str(site)])
    for distribution in closure(installed):
        link(distribution, site)
    return python


def closure(root):
    """The distributions that one needs, directly or not, as they are installed here."""
    found, waiting = {}, [(root, "")]
    while waiting:
        distribution, extra = waiting.pop()
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                name = canonicalize_name(needed.name)
                for extra_of_it in ("", *needed.extras):
                    if (name, extra_of_it) not in found:
                        found[name, extra_of_it] = metadata.distribution(name)
                        waiting.append((found[name, extra_of_it], extra_of_it))
    return {name: distribution for (name, _), distribution in found.items()}.values()


def link(distribution, site):
    """Puts a distribution into another environment."""
    for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():  # a folder that several share is there
            (site / top).symlink_to(distribution.locate_file(top))


def run(command, folder):
    """Standard output of a command in a folder, of which it knows no path of this process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_nothing_else(dist):
    (wheel,) = dist.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    code = {path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    data = {ROOT / package / "py.typed" for package in PACKAGES} | set((ROOT / "hub_export").glob("*.md"))
    assert names == {path.relative_to(ROOT).as_posix() for path in code | data}
    assert [path.suffix for path in sorted(dist.iterdir())] == [".whl", ".gz"]


@pytest.mark.slow
def test_the_sdist_holds_the_pages_that_the_readme_links_to(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {link.partition("#")[0] for link in links("README.md")} <= names
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]


@pytest.mark.slow
def test_the_wheel_works_where_nothing_else_is(python, tmp_path):
    write_corpus(tmp_path)
    words = ["--input", "corpus.txt", "--vocab_size", "200", "--output", "spiece.model"]
    run([python.with_name("albert-tf"), "vocab", *words], tmp_path)
    assert (tmp_path / "spiece.model").stat().st_size > 1000
    usage = run([python, "-m", "hub_export", "--help"], tmp_path)
    assert usage.startswith("usage: python -m hub_export") and "--seq_length" in usage
    run([python, "-c", IMPORT_ALL], tmp_path)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what the format asks for
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "albert_tf/__init__.py").read_text("utf-8"), re.M)
    assert citation["version"] == version[1]
    assert citation["license"] in (ROOT / "pyproject.toml").read_text("utf-8")


def test_every_command_for_contributors_is_a_target():
    commands = re.findall(
        r"(?:^    |`)make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {"test", "lint", "demo"} <= set(commands) <= set(targets)
