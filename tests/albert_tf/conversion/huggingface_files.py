"""Files as transformers writes them, and changes of them."""

from safetensors.numpy import load_file, save_file


def change_weights(folder, change):
    """Writes the weights of a folder anew, changed by a function."""
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def fast_bert(pieces, post_processor=None, **normalizer):
    """The tokenizer.json of a BERT."""
    return {
        "added_tokens": [{"id": i, "content": piece, "special": True} for i, piece in enumerate(pieces[:5])],
        "normalizer": {
            **{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True},
            **normalizer,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": post_processor,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: i for i, piece in reversed(list(enumerate(pieces)))},
        },
    }
