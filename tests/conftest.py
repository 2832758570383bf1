"""Fixtures of the whole session: TensorFlow is slow to import and vocabularies are slow to train."""

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> Path:
    """The recorded outputs of other implementations that travel with the repository."""
    return GOLDEN


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data and further recorded outputs, beside the repository or under ALBERT_TF_SHARED."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("ALBERT_TF_SHARED", beside))
    if not folder.is_dir():
        reason = f"no recorded outputs and data at {folder} (ALBERT_TF_SHARED names another place)"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
