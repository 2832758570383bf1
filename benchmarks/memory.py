"""Resident memory of this process (Linux)."""

from __future__ import annotations

import resource
from pathlib import Path


def max_resident_bytes() -> int:
    """The most memory that this process has had since its start, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_bytes() -> int:
    """The memory that this process has now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
