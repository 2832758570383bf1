"""What dense layers are given."""

import pytest

from albert_tf.models import blocks


@pytest.fixture
def dense_rows(monkeypatch):
    """The numbers of rows that dense layers are given from now on."""
    rows, dense = [], blocks.dense

    def counted(x, kernel, bias):
        rows.append(x.shape[0])
        return dense(x, kernel, bias)

    monkeypatch.setattr(blocks, "dense", counted)
    return rows
