"""The two lists of what the library needs agree."""

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def by_name(lines):
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def pins_of(name):
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text("utf-8").splitlines())
    return by_name(filter(None, lines))


def test_pins_are_of_the_ranges_and_of_nothing_else():
    needed = [line for line in metadata.requires("albert-tf") if "extra ==" not in line]
    pins, ranges = pins_of("requirements.txt"), by_name(needed)
    assert pins.keys() == ranges.keys()
    for name, pin in pins.items():
        version = str(pin.specifier).removeprefix("==")
        assert pin.specifier == ranges[name].specifier or version in ranges[name].specifier


def test_what_other_environments_share_with_the_library_is_the_same():
    pins = pins_of("requirements.txt")
    for name in ("requirements-dev.txt", "requirements-docs.txt", "requirements-interop.txt"):
        others = pins_of(name)
        same = {other: others[other].specifier for other in others.keys() & pins.keys()}
        assert same == {other: pins[other].specifier for other in same}
    assert "numpy" in same
