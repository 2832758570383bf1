"""The names by which weights are published. TensorFlow is not imported."""

from __future__ import annotations

import re
from pathlib import Path

from albert_tf.config import PRESETS
from albert_tf.errors import InputError

# google-research/albert's archives.
ARCHIVES = tuple(name for name in PRESETS if name.startswith("albert_"))

# The other presets, and Hugging Face's repositories of weights that have their shapes.
REPOSITORIES = {
    **{
        f"bert_{size}_{case}": f"google-bert/bert-{size}-{case}"
        for size in ("base", "large")
        for case in ("uncased", "cased")
    },
    **{f"roberta_{size}": f"FacebookAI/roberta-{size}" for size in ("base", "large")},
    **{f"distilbert_base_{case}": f"distilbert/distilbert-base-{case}" for case in ("uncased", "cased")},
}

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]*\w", re.ASCII)  # OWNER/NAME


def publisher_of(name: str) -> str | None:
    """The format of a published name; None for a path.

    Raises:
      InputError: it is a single word that does not exist here, and not the name of anything published.
    """
    if Path(name).exists():
        return None
    if name in ARCHIVES:
        return "google"
    if name.startswith(("http://", "https://")):
        return "hub"
    if name in REPOSITORIES or _REPOSITORY.fullmatch(name):
        return "huggingface"
    if not {"/", "."} & set(name):
        raise InputError(
            f"{name} is neither a path here nor a published name: {', '.join([*ARCHIVES, *REPOSITORIES])}; "
            "OWNER/NAME of Hugging Face, such as albert/albert-base-v2; an address of TF Hub, https://…"
        )
    return None
