"""What is asked of a fine-tuning run: impossible settings in one line each, and what is not said."""

import re

import pytest

from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.task_table import TASKS
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.training.settings import LoopSettings
from albert_tf.utils.errors import InputError
from tests.tiny import TINY

COLUMNS = Columns("text", None, "kind")
OWN = {"output": "run", "task": "classification", "train": "own.csv", "columns": COLUMNS, "init_from": "r"}
GLUE = {"output": "run", "task": "rte", "data": "RTE", "init_from": "r"}
SQUAD = {"output": "run", "task": "squad-v1.1", "train": "train.json", "eval": "dev.json", "init_from": "r"}
SCRATCH = {**GLUE, "init_from": None, "config": TINY, "vocabulary": "spiece.model"}


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (GLUE, {"task": "sst2"}, "task='sst2' is none of cola, sst-2, "),
        (GLUE, {"task": "ax"}, "task='ax' has no training data: a run of mnli predicts for it"),
        (GLUE, {"data": None}, "task='rte' needs the folder of its files: name it by --data"),
        (GLUE, {"data": None, "train": "x"}, "task='rte' needs the folder of its files: name it by --data"),
        (GLUE, {"train": "x"}, "train: of no use to task='rte', leave it out"),
        (GLUE, {"eval": "x", "columns": COLUMNS}, "eval and text and label: of no use to task='rte'"),
        (OWN, {"train": None}, "task='classification' needs the file to train on: name it by --train"),
        (OWN, {"data": "x"}, "data: of no use to task='classification', leave it out"),
        (OWN, {"columns": None}, "needs the columns of texts and labels: --text and --label"),
        (OWN, {"columns": Columns("text")}, "needs the columns of texts and labels: --text and --label"),
        (OWN, {"task": "tagging"}, "text and label: of no use to task='tagging', leave it out"),
        (SQUAD, {"columns": COLUMNS}, "text and label: of no use to task='squad-v1.1', leave it out"),
        (SQUAD, {"train": None}, "task='squad-v1.1' needs the file to train on: name it by --train"),
        (SQUAD, {"questions": {"n_best": 0}}, "n_best=0 must be at least 1"),
        (GLUE, {"questions": {"n_best": 5}}, "n_best: task='rte' has no contexts to cut in windows"),
        (OWN, {"task": "multiple_choice", "columns": None, "questions": {"doc_stride": 5}}, "no contexts to"),
        (OWN, {"threshold": 0.5}, "threshold: task='classification'"),
        (OWN, {"task": "multi_label", "threshold": 1.0}, "threshold=1.0"),
        (SQUAD, {"recipe": {"pooling": "mean"}}, "pooling: task='squad-v1.1' reads the state of every token"),
        (
            OWN,
            {"task": "tagging", "columns": None, "recipe": {"pooling": "first"}},
            "pooling: task='tagging' reads the state of every token, leave it out",
        ),
        (GLUE, {"init_from": None}, "give one of `init_from`, "),
        (GLUE, {"config": TINY}, "give one of `init_from`, "),
        (SCRATCH, {"vocabulary": None}, "needs a vocabulary: name it by --vocabulary"),
        (SCRATCH, {"recipe": {"seq_length": 65}}, "seq_length=65 is more than the network's 64 positions"),
        (GLUE, {"freeze": "decoder"}, "freeze='decoder' must be 'encoder', or nothing"),
        (GLUE, {"seed": -1}, "seed=-1 must be at least 0 and below 2^31"),
        (GLUE, {"seed": 2**31}, "seed=2147483648 must be at least 0 and below 2^31"),
        (GLUE, {"recipe": {"learning_rate": -1.0}}, "learning_rate=-1.0 must be a number"),
        (GLUE, {"recipe": {"steps": 100, "warmup_steps": 200}}, "warmup_steps=200 must lie between 0 and"),
        (GLUE, {"recipe": {"steps": 100, "epochs": 2.0}}, "steps=100 and epochs=2.0: one of them"),
        (GLUE, {"loop": {"early_stop": -1}}, "early_stop=-1 must be at least 0"),
        (GLUE, {"loop": {"keep": 0}}, "keep=0 must be at least 1"),
    ],
)
def test_impossible_settings(settings, changes, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        Finetuning(**{**settings, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [OWN, GLUE, SQUAD, SCRATCH])
def test_possible_settings(settings):
    made = Finetuning(**settings)
    assert made.entry is TASKS[settings["task"]]
    assert made.loop_settings(10).eval_every == 10


def test_a_text_is_as_long_as_the_task_says_and_the_network_can():
    settings = Finetuning(**SCRATCH)
    assert settings.hyper_parameters(TINY).seq_length == 64
    assert settings.hyper_parameters(TINY.replace(max_position_embeddings=1024)).seq_length == 512
    asked = Finetuning(**{**SCRATCH, "recipe": {"seq_length": 48}})
    assert asked.hyper_parameters(TINY).seq_length == 48
    with pytest.raises(InputError, match="seq_length=48 is more than the network's 32 positions"):
        asked.hyper_parameters(TINY.replace(max_position_embeddings=32))


def test_an_epoch_is_between_two_evaluations():
    settings = Finetuning(**GLUE)
    assert settings.loop_settings(78) == LoopSettings(log_every=78, eval_every=78, checkpoint_every=78)
    assert settings.loop_settings(2105) == LoopSettings(log_every=100, eval_every=1000, checkpoint_every=1000)
    asked = Finetuning(**{**GLUE, "loop": {"eval_every": 7, "early_stop": 3}})
    found = asked.loop_settings(50)
    assert found == LoopSettings(log_every=50, eval_every=7, checkpoint_every=50, early_stop=3)


def test_the_paper_s_hyper_parameters_are_the_task_s():
    recipe = Finetuning(**{**GLUE, "recipe": {"learning_rate": 1e-4}}).hyper_parameters()
    assert (recipe.learning_rate, recipe.batch_size, recipe.steps, recipe.warmup_steps) == (
        1e-4,
        32,
        800,
        200,
    )
    assert Finetuning(**{**GLUE, "recipe": {"epochs": 3.0}}).hyper_parameters().steps is None
