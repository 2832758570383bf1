"""What transformers makes of folders, run in an environment of its own: `python … FOLDER`.

Opens every `FOLDER/ours/<name>` and writes its outputs to `FOLDER/ours/<name>.npz`, what it makes of texts to
`FOLDER/ours/<name>.json` and its tokenizer to `FOLDER/tokenizers/<name>`; makes models of its own,
saves them as `FOLDER/theirs/<name>` and their outputs as `FOLDER/theirs/<name>.npz`.
"""

import json
import sys
from pathlib import Path

import numpy as np

SENTENCES = (
    "Mrs. Alder kept 12 hives, one day near Édith's house!",
    "He said ( so ) - and left .",
    '"Oh!" - a.b, 3.5 .',
)
PAIRS = [("Who kept it ?", "The keeper - he ."), ("A wall", "Is (it) so")]
MASKED = "The keeper of the [MASK] has it ."

# Models that transformers makes: class, and changes to the config.
THEIRS = {
    "pretraining": ("AlbertForPreTraining", {}),
    "groups": ("AlbertForPreTraining", {"num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu"}),
    "mlm": ("AlbertForMaskedLM", {}),
    "encoder": ("AlbertModel", {"embedding_size": 32, "hidden_act": "relu"}),
    "classification": ("AlbertForSequenceClassification", {"num_labels": 3}),
    "regression": ("AlbertForSequenceClassification", {"num_labels": 1}),
    "token_classification": ("AlbertForTokenClassification", {"num_labels": 3}),
    "question_answering": ("AlbertForQuestionAnswering", {}),
    "multiple_choice": ("AlbertForMultipleChoice", {}),
    "bert pretraining": ("BertForPreTraining", {}),
    "bert token_classification": ("BertForTokenClassification", {"num_labels": 3}),
    "bert multiple_choice": ("BertForMultipleChoice", {"hidden_act": "gelu_new"}),
    "roberta mlm": ("RobertaForMaskedLM", {}),
    "roberta encoder": ("RobertaModel", {}),
    "roberta classification": ("RobertaForSequenceClassification", {"num_labels": 3}),
    "roberta question_answering": ("RobertaForQuestionAnswering", {}),
    "distilbert mlm": ("DistilBertForMaskedLM", {"hidden_dim": 64}),
    "distilbert classification": ("DistilBertForSequenceClassification", {"hidden_dim": 64, "num_labels": 3}),
}
CONFIG = {
    "vocab_size": 200,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def main(folder: Path) -> None:
    """Both directions."""
    # Here, not above: pytest imports this file to look for doctests, in an environment without torch.
    import torch
    import transformers

    torch.manual_seed(0)
    inputs = {name: torch.tensor(value) for name, value in np.load(folder / "inputs.npz").items()}
    for path in sorted(path for path in (folder / "ours").iterdir() if path.is_dir()):
        name = json.loads((path / "config.json").read_text())["architectures"][0]
        model, info = getattr(transformers, name).from_pretrained(path, output_loading_info=True)
        keys = {
            f"{kind}_keys": np.array(sorted(info[f"{kind}_keys"]), str) for kind in ("missing", "unexpected")
        }
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        tokenizer.save_pretrained(folder / "tokenizers" / path.name)
        np.savez(f"{path}.npz", **keys, **outputs(model, inputs))
        Path(f"{path}.json").write_text(json.dumps(of_texts(model, tokenizer)))
    for name, (kind, changes) in THEIRS.items():
        kind = getattr(transformers, kind)
        model = kind(kind.config_class(**{**CONFIG, **changes}))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        # One of them in several files.
        shards = {"max_shard_size": "20KB"} if name == "pretraining" else {}
        model.save_pretrained(folder / "theirs" / name, **shards)
        np.savez(folder / "theirs" / f"{name}.npz", **outputs(model, inputs))


def of_texts(model, tokenizer):
    """The tokens of sentences, and of a classifier or masked language model the answers to texts."""
    import torch
    import transformers

    tokens = tokenizer(list(SENTENCES), add_special_tokens=False)["input_ids"]
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        answer = transformers.TextClassificationPipeline(model=model, tokenizer=tokenizer)
        found = answer([{"text": first, "text_pair": second} for first, second in PAIRS], top_k=None)
        by_label = [sorted(labels, key=lambda x: x["label"]) for labels in found]
        return {"tokens": tokens, "answers": [[x["score"] for x in labels] for labels in by_label]}
    if not name.endswith("ForMaskedLM"):
        return {"tokens": tokens}
    batch = tokenizer([MASKED.replace("[MASK]", tokenizer.mask_token)], return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(**batch)["logits"][batch["input_ids"] == tokenizer.mask_token_id]  # [N, K]
    return {"tokens": tokens, "answers": torch.softmax(logits, dim=-1).tolist()}


def outputs(model, inputs):
    """The logits, or the hidden states of a model without a head, as arrays."""
    import torch

    ids = {"input_ids": inputs["input_word_ids"], "token_type_ids": inputs["input_type_ids"]}
    ids["attention_mask"] = inputs["input_mask"]
    if type(model).__name__.startswith("DistilBert"):
        del ids["token_type_ids"]
    if type(model).__name__.endswith("ForMultipleChoice"):
        ids = {name: value[:, None] for name, value in ids.items()}
    with torch.no_grad():
        result = model.eval()(**ids)
    names = ("prediction_logits", "sop_logits", "seq_relationship_logits", "logits")
    names += ("start_logits", "end_logits", "pooler_output")
    return {name: result[name].numpy() for name in names if name in result and result[name] is not None}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
