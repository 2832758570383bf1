"""The runs that the tests of training make, and what they look at."""

import json
import shutil

import albert_tf
from albert_tf.pretraining.corpus import Corpus
from albert_tf.recipes import PretrainingRecipe
from albert_tf.runs.checkpoints import checkpoint_steps, delete_checkpoint
from albert_tf.settings import replace_fields
from tests.tiny import TINY, write_jsonl

RECIPE = PretrainingRecipe().replace(
    learning_rate=0.01, batch_size=4, steps=6, warmup_steps=2, seq_length=32, max_predictions=5
)
# Dropout too must go on where it stopped.
CONFIG = TINY.replace(
    vocab_size=1, num_hidden_layers=2, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)
# At the end of a SentencePiece model: with it the file is another one of the same pieces.
EMPTY_FIELD = b"\xfa\x01\x00"


def settings_factory(tmp_path_factory, kind, **usual):
    """Makes settings of a kind, some of them changed, for a folder of their own unless one is named."""

    def make(output=None, **changes):
        output = output or tmp_path_factory.mktemp("run") / "run"
        return replace_fields(kind(output=output, **usual), **changes)

    return make


def weights_of(model):
    return {variable.name: variable.numpy() for variable in model.variables}


def weights(run, step=None):
    return weights_of(albert_tf.load(run, step))


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def stopped_at(run, step, copy):
    """A copy of a run that was killed when the checkpoint of a step was there, and its evaluation not yet."""
    shutil.copytree(run, copy)
    for later in checkpoint_steps(copy):
        if later > step:
            delete_checkpoint(copy, later)
    lines = [line for line in metrics(copy) if line["step"] < step or "loss" in line]
    write_jsonl(copy / "metrics.jsonl", lines)
    return copy


def empty_checkpoints(run, steps):
    """Files of the names that checkpoints of these steps have."""
    (run / "checkpoints").mkdir(parents=True)
    for step in steps:
        for ending in (".index", ".data-00000-of-00001"):
            (run / "checkpoints" / f"ckpt-{step}{ending}").touch()


def corpus_of(settings, recipe=None):
    """The text of a run of these settings, which is new or has this recipe.json."""
    tokenizer = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
    corpus = Corpus(settings.train, settings.eval, {"vocabulary": settings.vocabulary, **tokenizer})
    return corpus.with_held_out_split(settings.recipe.examples, recipe)


def evaluation_batches(settings):
    """The batches that a run of these settings is evaluated on."""
    return corpus_of(settings).evaluation_batches(settings.recipe.examples, settings.recipe.batch_size)
