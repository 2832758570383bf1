"""Identities of files, wherever they lie: names, sizes and digests of samples."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from albert_tf.raw_text.paths import CONCURRENT_REQUESTS
from albert_tf.utils.checks import check_count, make_check, make_list_check, make_object_check

_BLOCK, _NUM_BLOCKS = 1 << 16, 16

# Of what `file_identities` has written; older versions knew no digests.
check_identities = make_list_check(
    make_object_check({"name": make_check("str"), "bytes": check_count}, {"sha256": make_check("str")})
)


def file_identities(files: Iterable[str]) -> list[dict[str, Any]]:
    """`name`, `bytes` and `sha256` of each file, for recipe.json.

    The SHA-256 is that of 16 blocks of 64 KiB, evenly spaced from the first to the last: of a file of up to
    1 MiB it covers all; of a larger one a change that keeps its size, and lies between the blocks, goes
    unnoticed.
    """
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        return list(pool.map(_identity, files))


def _identity(file: str) -> dict[str, Any]:
    size = tf.io.gfile.stat(file).length
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(file, "rb") as opened:
        if size <= _BLOCK * _NUM_BLOCKS:
            digest.update(opened.read())
        else:
            for number in range(_NUM_BLOCKS):
                opened.seek((size - _BLOCK) * number // (_NUM_BLOCKS - 1))
                digest.update(opened.read(_BLOCK))
    return {"name": os.path.basename(file), "bytes": size, "sha256": digest.hexdigest()}  # noqa: PTH119


def difference(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str | None:
    """The first file that differs between two lists of identities; None if none does."""
    for old, new in itertools.zip_longest(before, now):
        if old is None or new is None:
            return f"{(old or new)['name']} is {'missing' if new is None else 'new'}"
        if any(new[key] != old[key] for key in old):  # older versions knew no digests
            return f"{new['name']} has changed: it was {old['name']} of {old['bytes']:,} bytes"
    return None
