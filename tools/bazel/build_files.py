"""Compares the BUILD files with the code: every Python file in one target, and as deps what its files import.

python tools/bazel/build_files.py          prints the differences, one a line
python tools/bazel/build_files.py --fix    writes the right deps, and a BUILD file for each folder without one

All but the deps is written by hand, and --fix keeps it.
"""

import argparse
import ast
import fnmatch
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 110
_INDENT = {"initial_indent": " " * 8, "subsequent_indent": " " * 8}
RULES = ("py_binary", "py_library", "py_tests")


class Target(NamedTuple):
    """A call of one of RULES in a BUILD file."""

    build: Path  # relative to the repository, as all paths here
    call: ast.Call
    srcs: list[Path]
    deps: list[str]


def differences(root: Path = ROOT) -> list[str]:
    """One line for each file without a target, and for each dep that a target lacks or has in excess.

    Args:
      root: the repository.
    """
    targets = read_targets(root)
    found = []
    for file in python_files(root):
        labels = [label for label, target in targets.items() if file in target.srcs]
        if len(labels) != 1:
            found.append(f"{file} is in {len(labels)} targets of its folder's BUILD file, not in one")
    for label, needed in wanted_deps(root, targets).items():
        where, written = f"{targets[label].build}: {label}:", targets[label].deps
        found += [f"{where} {x} is missing in deps: {why}" for x, why in needed.items() if x not in written]
        found += [f"{where} {x} is superfluous in deps" for x in written if x not in needed]
        found += [f"{where} {x} is twice in deps" for x in needed if written.count(x) > 1]
    return found


def fix(root: Path = ROOT) -> None:
    """Writes the deps that the code asks for, and a BUILD file for each folder whose code is in none."""
    owned = {file for target in read_targets(root).values() for file in target.srcs}
    for folder in sorted({file.parent for file in python_files(root) if file not in owned}):
        if folder not in {build.parent for build in build_files(root)}:
            (root / folder / "BUILD").write_text(new_build_file(folder), "utf-8")
    for label, needed in wanted_deps(root, read_targets(root)).items():
        target = read_targets(root)[label]  # anew, since what is written moves the lines below it
        if sorted(target.deps) != sorted(needed):
            write_deps(root / target.build, target.call, sorted(needed))
            print(f"wrote {target.build}")


def wanted_deps(root: Path, targets: dict[str, Target]) -> dict[str, dict[str, str]]:
    """The labels that each target needs, by its own label, each with the reason."""
    owners = {file: label for label, target in targets.items() for file in target.srcs}
    modules = {dotted(file): file for file in owners}
    wanted: dict[str, dict[str, str]] = {label: {} for label in targets}
    for file, label in owners.items():
        for other, why in needed_files(root, file, modules):
            if owners[other] != label:
                wanted[label].setdefault(owners[other], f"{file} {why}")
    return wanted


def needed_files(root: Path, file: Path, modules: dict[str, Path]) -> Iterator[tuple[Path, str]]:
    """The files that a file imports, each with the reason."""
    for line, name in imports(ast.parse((root / file).read_text("utf-8"))):
        if name.startswith("."):
            raise SystemExit(f"{file}:{line}: a relative import: write the full name")
        while name and name not in modules:  # the name of a function or class, or of another library
            name = name.rpartition(".")[0]
        if name:
            yield modules[name], f"imports {name} (line {line})"


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def read_targets(root: Path) -> dict[str, Target]:
    """The calls of RULES in all BUILD files, whose syntax is also Python's, by label."""
    found = {}
    for build in build_files(root):
        folder = build.parent
        package = "//" if folder == Path() else f"//{folder.as_posix()}"
        for statement in ast.parse((root / build).read_text("utf-8"), str(build)).body:
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and ast.unparse(call.func) in RULES:
                words = {word.arg: word.value for word in call.keywords}
                name = ast.literal_eval(words["name"])
                srcs = [file for file in python_files(root, folder) if is_source(file, folder, words["srcs"])]
                deps = [package + dep if dep[0] == ":" else dep for dep in target_deps(call)]
                label = package if name == folder.name else f"{package}:{name}"
                found[label] = Target(build, call, srcs, deps)
    return found


def is_source(file: Path, folder: Path, srcs: ast.expr) -> bool:
    """Whether the `srcs` of a target in a folder, a list or a glob, name a file."""
    if not isinstance(srcs, ast.Call):
        return any(file == folder / name for name in ast.literal_eval(srcs))
    excluded = [x for word in srcs.keywords if word.arg == "exclude" for x in ast.literal_eval(word.value)]
    return matches(file, folder, ast.literal_eval(srcs.args[0])) and not matches(file, folder, excluded)


def matches(file: Path, folder: Path, patterns: list[str]) -> bool:
    """Whether a glob of a BUILD file in a folder finds a file: *.py in the folder, **/*.py also below it."""
    return any(
        fnmatch.fnmatchcase(file.name, pattern.removeprefix("**/"))
        and (file.parent == folder or pattern.startswith("**/"))
        for pattern in patterns
    )


def target_deps(call: ast.Call) -> list[str]:
    """The deps of a target as they are written."""
    return [x for word in call.keywords if word.arg == "deps" for x in ast.literal_eval(word.value)]


def write_deps(build: Path, call: ast.Call, deps: list[str]) -> None:
    """Replaces the deps of one target in a BUILD file; the labels fill its lines."""
    lines = build.read_text("utf-8").splitlines()
    quoted = ", ".join(f'"{label}"' for label in deps)
    text = ["    deps = [", *textwrap.wrap(f"{quoted},", LONGEST_LINE, **_INDENT), "    ],"]
    line = f"    deps = [{quoted}],"
    if len(line) <= LONGEST_LINE:
        text = [line] if deps else []
    old = next((word.value for word in call.keywords if word.arg == "deps"), None)
    begin, end = (old.lineno - 1, old.end_lineno) if old else (call.end_lineno - 1, call.end_lineno - 1)
    build.write_text("\n".join([*lines[:begin], *text, *lines[end:]]) + "\n", "utf-8")


def new_build_file(folder: Path) -> str:
    """A BUILD file for a folder of code."""
    return f"""\
py_library(
    name = "{folder.name}",
    srcs = glob(["*.py"]),
    visibility = ["//visibility:public"],
)
"""


def build_files(root: Path) -> list[Path]:
    """The BUILD files of the repository."""
    return [file for file in files(root) if file.name in ("BUILD", "BUILD.bazel")]


def python_files(root: Path, package: Path | None = None) -> list[Path]:
    """The Python files of the repository, or those that belong to the BUILD file of one folder."""
    packages = {build.parent for build in build_files(root)}
    found = [file for file in files(root) if file.suffix == ".py"]
    if package is None:
        return found
    return [file for file in found if next((x for x in file.parents if x in packages), None) == package]


def files(root: Path) -> Iterator[Path]:
    """All files of the repository but what is hidden or in .bazelignore."""
    ignored = (root / ".bazelignore").read_text("utf-8").split()
    for path, folders, names in os.walk(root):
        here = Path(path).relative_to(root)
        folders[:] = sorted(n for n in folders if n[0] != "." and (here / n).as_posix() not in ignored)
        yield from (here / name for name in sorted(names))


def dotted(path: Path) -> str:
    """The name under which a file is imported: albert_tf/models/__init__.py → albert_tf.models."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="write the right deps and missing BUILD files")
    if parser.parse_args().fix:
        fix()
    found = differences()
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
