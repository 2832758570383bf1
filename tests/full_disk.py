"""A disk that is full, without filling one."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """No file grows beyond so many bytes meanwhile: writing fails with EFBIG, 27, instead of ENOSPC."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
