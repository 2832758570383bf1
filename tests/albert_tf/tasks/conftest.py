import json

import pytest


@pytest.fixture
def file(tmp_path):
    """Writes a file of text, bytes, or JSON."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write
