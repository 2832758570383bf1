"""Modules of random weights by Model Garden's exporter: `garden_exporter.py VOCABULARY VOCAB_SIZE OUTPUT`.

It runs in the environment of benchmarks/peers/requirements-model-garden.txt, without this repository.
"""

import sys
from pathlib import Path

import contract
import tensorflow as tf
from official.nlp.configs import encoders
from official.nlp.tools import export_tfhub_lib


def main(vocabulary, vocab_size, output):
    """Writes `encoder` and `preprocessor`, with offsets where Model Garden can."""
    is_wordpiece = vocabulary.endswith(".txt")
    files = {"vocab_file" if is_wordpiece else "sp_model_file": vocabulary}
    sizes = {**contract.SIZES, "vocab_size": int(vocab_size), "num_layers": contract.LAYERS}
    if is_wordpiece:
        config = encoders.EncoderConfig(type="bert", bert=encoders.BertEncoderConfig(**sizes))
    else:
        sizes["embedding_width"] = contract.EMBEDDING_SIZE
        config = encoders.EncoderConfig(type="albert", albert=encoders.AlbertEncoderConfig(**sizes))
    _, pretrainer = export_tfhub_lib._create_model(encoder_config=config, with_mlm=True)
    checkpoint = tf.train.Checkpoint(**pretrainer.checkpoint_items).save(
        str(Path(output, "checkpoint/model"))
    )
    export_tfhub_lib.export_model(
        str(Path(output, "encoder")),
        encoder_config=config,
        model_checkpoint_path=checkpoint,
        with_mlm=True,
        do_lower_case=True,
        **files,
    )
    export_tfhub_lib.export_preprocessing(
        str(Path(output, "preprocessor")),
        do_lower_case=True,
        tokenize_with_offsets=is_wordpiece,
        default_seq_length=contract.LENGTH,
        **files,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
