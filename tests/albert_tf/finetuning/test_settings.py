"""What is asked of a fine-tuning run: impossible settings in one line each, and what is not said."""

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.tasks.columns import Columns
from albert_tf.training.compute_settings import LoopSettings
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
        (GLUE, {"task": "ax"}, "task='ax' .* mnli"),
        (GLUE, {"data": None, "train": "x"}, "task='rte' .*--data"),
        (GLUE, {"train": "x"}, "^train: .*'rte'"),
        (GLUE, {"eval": "x"}, "^eval: .*'rte'"),
        (GLUE, {"columns": COLUMNS}, "^text and label: .*'rte'"),
        (OWN, {"train": None}, "task='classification' .*--train"),
        (OWN, {"data": "x"}, "^data: .*'classification'"),
        (OWN, {"columns": Columns("text")}, "--text and --label"),
        (GLUE, {"questions": {"n_best": 5}}, "^n_best: .*'rte'"),
        (OWN, {"task": "regression", "threshold": 0.5}, "^threshold: .*'regression'"),
        (OWN, {"threshold": "best"}, "threshold='best'"),
        (OWN, {"task": "multi_label", "threshold": 1.0}, "threshold=1.0"),
        (OWN, {"evaluation": {"eval_share": 1.0}}, "eval_share=1.0"),
        (OWN, {"evaluation": {"eval_share": 0.2}, "eval": "dev.csv"}, "^eval and eval_share: "),
        (GLUE, {"evaluation": {"eval_share": 0.2}}, "^eval_share: .*'rte'"),
        (OWN, {"evaluation": {"best_by": "micro_f1"}}, "best_by='micro_f1' is none of accuracy, f1, loss"),
        (
            SQUAD,
            {"task": "squad-v2.0", "evaluation": {"best_by": "loss"}},
            "best_by='loss' .* f1, exact, Has",
        ),
        (SQUAD, {"recipe": {"class_weight": "balanced"}}, r"^class_weight: .*'squad-v1\.1'"),
        (
            OWN,
            {"task": "multi_label", "recipe": {"label_smoothing": 0.1}},
            "^label_smoothing: .*'multi_label'",
        ),
        (OWN, {"recipe": {"label_smoothing": 1.0}}, "label_smoothing=1.0"),
        (SQUAD, {"recipe": {"pooling": "mean"}}, r"^pooling: .*'squad-v1\.1'"),
        (OWN, {"recipe": {"long": "all"}}, "long='all' is none of truncate, head_tail, windows"),
        (OWN, {"recipe": {"long": "windows", "window_pooling": "min"}}, "window_pooling='min' is none of"),
        (OWN, {"recipe": {"window_pooling": "max"}}, "^window_pooling: .*'truncate'"),
        (OWN, {"questions": {"doc_stride": 5}}, "^doc_stride: .*'classification'"),
        (OWN, {"recipe": {"long": "windows"}, "questions": {"n_best": 5}}, "^n_best: .*'classification'"),
        (OWN, {"recipe": {"long": "windows"}, "columns": Columns("a", "b", "c")}, "long='windows': pairs"),
        (OWN, {"recipe": {"long": "windows", "early_exit": True}}, "early_exit: .*windows"),
        (SQUAD, {"recipe": {"long": "head_tail"}}, r"^long: .*'squad-v1\.1'"),
        (GLUE, {"init_from": None}, "one of `init_from`"),
        (SCRATCH, {"vocabulary": None}, "--vocabulary"),
        (SCRATCH, {"recipe": {"seq_length": 65}}, "seq_length=65 .*64"),
        (GLUE, {"freeze": "decoder"}, "freeze='decoder'"),
        (GLUE, {"seed": 2**31}, "seed=2147483648"),
    ],
)
def test_impossible_settings(settings, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        Finetuning(**{**settings, **changes})
    assert "\n" not in str(caught.value)


def test_a_text_is_as_long_as_the_task_says_and_the_network_can():
    recipe = Finetuning(**{**GLUE, "recipe": {"epochs": 3.0}}).hyper_parameters()
    assert (recipe.learning_rate, recipe.batch_size, recipe.steps) == (3e-5, 32, None)
    settings = Finetuning(**SCRATCH)
    assert settings.hyper_parameters(TINY).seq_length == 64
    assert settings.hyper_parameters(TINY.replace(max_position_embeddings=1024)).seq_length == 512
    asked = Finetuning(**{**SCRATCH, "recipe": {"seq_length": 48}})
    assert asked.hyper_parameters(TINY).seq_length == 48
    with pytest.raises(InputError, match=r"seq_length=48 .*32"):
        asked.hyper_parameters(TINY.replace(max_position_embeddings=32))


def test_an_epoch_is_between_two_evaluations():
    settings = Finetuning(**GLUE)
    assert settings.loop_settings(78) == LoopSettings(log_every=78, eval_every=78, checkpoint_every=78)
    assert settings.loop_settings(2105) == LoopSettings(log_every=100, eval_every=1000, checkpoint_every=1000)
    asked = Finetuning(**{**GLUE, "loop": {"eval_every": 7, "early_stop": 3}})
    found = asked.loop_settings(50)
    assert found == LoopSettings(log_every=50, eval_every=7, checkpoint_every=50, early_stop=3)
