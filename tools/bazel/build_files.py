"""Compares the BUILD files with the code: each Python file is in one target, whose deps are its imports.

python tools/bazel/build_files.py          prints the differences, one a line
python tools/bazel/build_files.py --fix    writes the right deps, and a BUILD file for each folder without one

--fix changes nothing but the deps; the rest is written by hand.
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
MAX_LINE_LENGTH = 110
_INDENT = {"initial_indent": " " * 8, "subsequent_indent": " " * 8}
RULES = ("py_binary", "py_library", "py_tests")


class Target(NamedTuple):
    """A call of one of RULES in a BUILD file."""

    build: Path  # all paths are relative to the repository
    call: ast.Call
    srcs: list[Path]
    deps: list[str]


def find_differences(root: Path = ROOT) -> list[str]:
    """One line for each file without a target, and for each missing or superfluous dep of a target.

    Args:
      root: folder of the repository.
    """
    targets = read_targets(root)
    lines = []
    for file in python_files(root):
        labels = [label for label, target in targets.items() if file in target.srcs]
        if len(labels) != 1:
            lines.append(f"{file} is in {len(labels)} targets of its folder's BUILD file, not in one")
    for label, needed in find_needed_deps(root, targets).items():
        target, deps = f"{targets[label].build}: {label}:", targets[label].deps
        lines += [f"{target} {x} is missing in deps: {why}" for x, why in needed.items() if x not in deps]
        lines += [f"{target} {x} is superfluous in deps" for x in deps if x not in needed]
        lines += [f"{target} {x} is twice in deps" for x in needed if deps.count(x) > 1]
    return lines


def write_build_files(root: Path = ROOT) -> None:
    """Writes the deps that the code needs, and a BUILD file for each folder whose code has no target."""
    owned = {file for target in read_targets(root).values() for file in target.srcs}
    for folder in sorted({file.parent for file in python_files(root) if file not in owned}):
        if folder not in {build.parent for build in build_files(root)}:
            (root / folder / "BUILD").write_text(format_build_file(folder), "utf-8")
    for label, needed in find_needed_deps(root, read_targets(root)).items():
        target = read_targets(root)[label]  # read again, because write_deps moves lines
        if sorted(target.deps) != sorted(needed):
            write_deps(root / target.build, target.call, sorted(needed))
            print(f"wrote {target.build}")


def find_needed_deps(root: Path, targets: dict[str, Target]) -> dict[str, dict[str, str]]:
    """For the label of each target, the labels that it needs, with the reason."""
    owners = {file: label for label, target in targets.items() for file in target.srcs}
    modules = {module_name(file): file for file in owners}
    needed: dict[str, dict[str, str]] = {label: {} for label in targets}
    for file, label in owners.items():
        for imported, why in find_imported_files(root, file, modules):
            if owners[imported] != label:
                needed[label].setdefault(owners[imported], f"{file} {why}")
    return needed


def find_imported_files(root: Path, file: Path, modules: dict[str, Path]) -> Iterator[tuple[Path, str]]:
    """The files that a file imports, each with the reason."""
    for line, name in list_imports(ast.parse((root / file).read_text("utf-8"))):
        if name.startswith("."):
            raise SystemExit(f"{file}:{line}: a relative import: write the full name")
        while name and name not in modules:  # a function, a class, or another library
            name = name.rpartition(".")[0]
        if name:
            yield modules[name], f"imports {name} (line {line})"


def list_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def read_targets(root: Path) -> dict[str, Target]:
    """The targets of all BUILD files by label; the syntax of the files is Python's, too."""
    targets = {}
    for build in build_files(root):
        folder = build.parent
        package = "//" if folder == Path() else f"//{folder.as_posix()}"
        for statement in ast.parse((root / build).read_text("utf-8"), str(build)).body:
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and ast.unparse(call.func) in RULES:
                arguments = {keyword.arg: keyword.value for keyword in call.keywords}
                name, patterns = ast.literal_eval(arguments["name"]), arguments["srcs"]
                srcs = [file for file in python_files(root, folder) if is_source(file, folder, patterns)]
                deps = [package + dep if dep[0] == ":" else dep for dep in list_argument(call, "deps")]
                label = package if name == folder.name else f"{package}:{name}"
                targets[label] = Target(build, call, srcs, deps)
    return targets


def is_source(file: Path, folder: Path, srcs: ast.expr) -> bool:
    """Whether a file is in the `srcs` of a target in a folder, a list or a glob."""
    if not isinstance(srcs, ast.Call):
        return any(file == folder / name for name in ast.literal_eval(srcs))
    patterns, excluded = ast.literal_eval(srcs.args[0]), list_argument(srcs, "exclude")
    return matches_glob(file, folder, patterns) and not matches_glob(file, folder, excluded)


def matches_glob(file: Path, folder: Path, patterns: list[str]) -> bool:
    """Whether a file matches a glob of a BUILD file: *.py in the folder, **/*.py also below the folder."""
    return any(
        fnmatch.fnmatchcase(file.name, pattern.removeprefix("**/"))
        and (file.parent == folder or pattern.startswith("**/"))
        for pattern in patterns
    )


def list_argument(call: ast.Call, name: str) -> list[str]:
    """The list that a call has for an argument; empty: none."""
    return [x for keyword in call.keywords if keyword.arg == name for x in ast.literal_eval(keyword.value)]


def write_deps(build: Path, call: ast.Call, deps: list[str]) -> None:
    """Replaces the deps of a target in a BUILD file, wrapped like text."""
    lines = build.read_text("utf-8").splitlines()
    quoted = ", ".join(f'"{label}"' for label in deps)
    text = ["    deps = [", *textwrap.wrap(f"{quoted},", MAX_LINE_LENGTH, **_INDENT), "    ],"]
    line = f"    deps = [{quoted}],"
    if len(line) <= MAX_LINE_LENGTH:
        text = [line] if deps else []
    old = next((keyword.value for keyword in call.keywords if keyword.arg == "deps"), None)
    start, end = (old.lineno - 1, old.end_lineno) if old else (call.end_lineno - 1, call.end_lineno - 1)
    build.write_text("\n".join([*lines[:start], *text, *lines[end:]]) + "\n", "utf-8")


def format_build_file(folder: Path) -> str:
    """The text of a BUILD file for a folder of code."""
    return f"""\
py_library(
    name = "{folder.name}",
    srcs = glob(["*.py"]),
    visibility = ["//visibility:public"],
)
"""


def build_files(root: Path) -> list[Path]:
    """The BUILD files of the repository."""
    return [file for file in repository_files(root) if file.name in ("BUILD", "BUILD.bazel")]


def python_files(root: Path, package: Path | None = None) -> list[Path]:
    """The Python files of the repository, or of the package (the folder of a BUILD file)."""
    packages = {build.parent for build in build_files(root)}
    files = [file for file in repository_files(root) if file.suffix == ".py"]
    if package is None:
        return files
    return [file for file in files if next((x for x in file.parents if x in packages), None) == package]


def repository_files(root: Path) -> Iterator[Path]:
    """All files of the repository, except hidden folders and those of .bazelignore."""
    ignored = (root / ".bazelignore").read_text("utf-8").split()
    for path, folders, names in os.walk(root):
        folder = Path(path).relative_to(root)
        folders[:] = sorted(n for n in folders if n[0] != "." and (folder / n).as_posix() not in ignored)
        yield from (folder / name for name in sorted(names))


def module_name(path: Path) -> str:
    """The module of a file: albert_tf/models/__init__.py → albert_tf.models."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> None:
    """Prints the differences, or writes the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="write the right deps and missing BUILD files")
    if parser.parse_args().fix:
        write_build_files()
    lines = find_differences()
    print("\n".join(lines))
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
