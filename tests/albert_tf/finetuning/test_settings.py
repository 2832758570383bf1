"""What is asked of a fine-tuning run: impossible settings in one line each, and what is not said."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from albert_tf import PRESETS
from albert_tf.cli import command_line_parser
from albert_tf.cli.finetune import provided_settings
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, FinetuningRecipe
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.predict import predict
from albert_tf.finetuning.reports import final_lines
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.recipes import QuestionSettings
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.training.compute_settings import LoopSettings
from tests.albert_tf.finetuning.runs import ROWS
from tests.albert_tf.pretraining.runs import metrics
from tests.tiny import TINY, write_jsonl

COLUMNS = Columns("text", None, "kind")
OWN = {"output": "run", "task": "classification", "train": "own.csv", "columns": COLUMNS, "init_from": "r"}
GLUE = {"output": "run", "task": "rte", "data": "RTE", "init_from": "r"}
SQUAD = {"output": "run", "task": "squad-v1.1", "train": "train.json", "eval": "dev.json", "init_from": "r"}
SCRATCH = {**GLUE, "init_from": None, "config": TINY, "vocabulary": "spiece.model"}


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (GLUE, {"task": "ax"}, "task='ax' .* mnli"),
        (GLUE, {"data": None, "train": "x"}, "task='rte' .*`data`"),
        (GLUE, {"train": "x"}, "^train: .*'rte'"),
        (GLUE, {"eval": "x"}, "^eval: .*'rte'"),
        (GLUE, {"columns": COLUMNS}, "^text and label: .*'rte'"),
        (SQUAD, {"columns": Columns("a")}, r"^text and label: .*'squad-v1\.1'"),
        (OWN, {"train": None}, "task='classification' .*`train`"),
        (OWN, {"data": "x"}, "^data: .*'classification'"),
        (OWN, {"columns": Columns("text")}, "`text` and `label`"),
        (GLUE, {"questions": {"n_best": 5}}, "^n_best: .*'rte'"),
        (OWN, {"task": "regression", "threshold": 0.5}, "^threshold: .*'regression'"),
        (OWN, {"threshold": "best"}, "threshold='best'"),
        (OWN, {"task": "multi_label", "threshold": 1.0}, "threshold=1.0"),
        (OWN, {"evaluation": {"eval_share": 1.0}}, "eval_share=1.0"),
        (OWN, {"evaluation": {"eval_share": 0.2}, "eval": "dev.csv"}, "^eval and eval_share: "),
        (GLUE, {"evaluation": {"eval_share": 0.2}}, "^eval_share: .*'rte'"),
        (OWN, {"evaluation": {"best_by": "micro_f1"}}, "best_by='micro_f1' is none of accuracy, f1, loss"),
        (SQUAD, {"task": "squad-v2.0", "evaluation": {"best_by": "loss"}}, "best_by='loss' .* f1, exact"),
        (SQUAD, {"recipe": {"class_weight": "balanced"}}, r"^class_weight: .*'squad-v1\.1'"),
        (OWN, {"task": "multi_label", "recipe": {"label_smoothing": 0.1}}, "^label_smoothing: .*multi_label"),
        (OWN, {"recipe": {"label_smoothing": 1.0}}, "label_smoothing=1.0"),
        (SQUAD, {"recipe": {"pooling": "mean"}}, r"^pooling: .*'squad-v1\.1'"),
        (OWN, {"recipe": {"long": "all"}}, "long='all' is none of truncate, head_tail, windows"),
        (OWN, {"recipe": {"long": "windows", "window_pooling": "min"}}, "window_pooling='min' is none of"),
        (OWN, {"recipe": {"window_pooling": "max"}}, "^window_pooling: .*'truncate'"),
        (OWN, {"questions": {"doc_stride": 5}}, "^doc_stride: .*'classification'"),
        (OWN, {"recipe": {"long": "windows"}, "questions": {"n_best": 5}}, "^n_best: .*'classification'"),
        (OWN, {"recipe": {"long": "windows"}, "columns": Columns("a", "b", "c")}, "long='windows': pairs"),
        (OWN, {"recipe": {"long": "windows", "early_exit": True}}, "early_exit: .*windows"),
        (OWN, {"task": "multi_label", "recipe": {"early_exit": True}}, "^early_exit: .*'multi_label'"),
        (OWN, {"recipe": {"exit_threshold": 0.1}}, "^exit_threshold: .*'classification'"),
        (OWN, {"task": "regression", "recipe": {"exit_threshold": 0.1}}, "^exit_threshold: .*'regression'"),
        (SQUAD, {"recipe": {"long": "head_tail"}}, r"^long: .*'squad-v1\.1'"),
        (GLUE, {"init_from": None}, "one of `init_from`"),
        (SCRATCH, {"vocabulary": None}, "`vocabulary`"),
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


# The paper's hyper-parameters against its table, typed once more; steps of epochs by hand.

# Learning rate / batch / ALBERT dropout / classifier dropout / steps / warm-up / length.
PUBLISHED = """
cola 1e-5/16/0/.1/5336/320/512
sts-b 2e-5/16/0/.1/3598/214/512
sst-2 1e-5/32/0/.1/20935/1256/512
mnli 3e-5/128/0/.1/10000/1000/512
qnli 1e-5/32/0/.1/33112/1986/512
qqp 5e-5/128/.1/.1/14000/1000/512
rte 3e-5/32/.1/.1/800/200/512
mrpc 2e-5/32/0/.1/800/200/512
wnli 2e-5/16/.1/.1/2000/250/512
squad-v1.1 5e-5/48/0/.1/3649/365/384
squad-v2.0 3e-5/48/0/.1/8144/814/512
race 2e-5/32/.1/.1/12000/1000/512
"""
PUBLISHED_COLUMNS = [
    *("learning_rate", "batch_size", "dropout", "classifier_dropout"),
    *("steps", "warmup_steps", "seq_length"),
]


def test_published_values():
    for line in PUBLISHED.split("\n")[1:-1]:
        name, _, values = line.partition(" ")
        recipe = FINETUNING_RECIPES[name]
        assert [getattr(recipe, column) for column in PUBLISHED_COLUMNS] == [
            float(x) for x in values.split("/")
        ], name
        assert (recipe.weight_decay, recipe.epsilon, recipe.clip_norm) == (0.01, 1e-6, 1.0)
        assert recipe.in_steps(100) == recipe
    assert dataclasses.astuple(QuestionSettings()) == (128, 64, 30, 20)


def test_epochs_become_steps():
    recipe = FinetuningRecipe(learning_rate=1e-5, batch_size=16, seq_length=64, epochs=2.5)
    found = recipe.in_steps(1000)
    assert (found.steps, found.epochs, found.warmup_steps) == (156, None, 16)
    assert recipe.replace(warmup_steps=7).in_steps(1000).warmup_steps == 7
    assert recipe.in_steps(3).steps == 1
    assert recipe.replace(steps=9).epochs is None
    short = FINETUNING_RECIPES["rte"].replace(epochs=3.0).in_steps(2490)
    assert (short.steps, short.warmup_steps) == (233, 23)
    assert FINETUNING_RECIPES["rte"].replace(steps=70).in_steps(1).warmup_steps == 7
    assert FINETUNING_RECIPES["rte"].replace(learning_rate=1.0).warmup_steps == 200
    with pytest.raises(InputError, match=r"warmup_steps=200 .*steps=23"):
        FINETUNING_RECIPES["rte"].replace(epochs=3.0, warmup_steps=200).in_steps(249)


def test_the_network_gets_the_dropouts():
    recipe = FINETUNING_RECIPES["rte"].replace(classifier_dropout=0.2)
    config = recipe.apply_dropout(PRESETS["albert_base_v2"])
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert config.classifier_dropout_prob == 0.2


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": float("nan")},
        {"batch_size": 0},
        {"seq_length": 2**31},
        {"epochs": 0.0},
        {"steps": 1, "epochs": 1.0},
        {"steps": None},
        {"warmup_steps": 801},
        {"dropout": 1.0},
        {"pooling": "max"},
    ],
    ids=str,
)
def test_impossible_values_are_named(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(InputError) as caught:
        FINETUNING_RECIPES["rte"].replace(**changes)
    assert str(caught.value).startswith(f"{name}={value!r}")


def test_impossible_question_settings_are_refused():
    for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best"):
        with pytest.raises(InputError, match=f"{name}=0"):
            QuestionSettings(**{name: 0})


# What is held out, and the metric that tells the best step, from the command line to the run.

LOSS = {"eval_share": 0.3, "best_by": "loss"}


@pytest.fixture(scope="module")
def by_loss(asked, made_once):
    """A run of six updates whose best step has the lowest loss."""
    return made_once("by_loss", lambda folder: finetune(asked(folder, eval=None, evaluation=LOSS)))


@pytest.mark.slow
def test_the_lowest_loss_tells_the_best_step(by_loss, own_table):
    run, losses = RunDirectory(by_loss), {}
    for line in metrics(by_loss):
        if "eval_loss" in line:
            losses[line["step"]] = line["eval_loss"]
    assert run.default_step() == min(losses, key=losses.__getitem__)
    assert run.task["best_by"] == "eval_loss"
    (line,) = final_lines(run, TASK_SPECS["tagging"], {})  # of which no baseline is told
    assert line.startswith(f"best: step {run.default_step()} (loss ")
    count = len(own_table.read_text().splitlines())
    assert run.recipe["eval_share"] == 0.3
    assert run.recipe["eval_examples"] == {"dev": round(0.3 * count)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "best_by", "choose"),
    [({}, "auc", max), ({"task": "regression", "columns": Columns("text", None, "length")}, "rmse", min)],
)
def test_a_figure_of_the_report_tells_the_best_step(asked, own_table, tmp_path, changes, best_by, choose):
    loop = {"log_every": 0, "eval_every": 3, "checkpoint_every": 3}
    made = asked(tmp_path / "run", evaluation={"best_by": best_by}, loop=loop, **changes)
    finetune(made)
    values = {}
    for step in RunDirectory(made.output).steps():
        predict(made.output, own_table, tmp_path / "found.jsonl", step=step)
        rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
        if best_by == "auc":
            second = [row["score"] if row["prediction"] == "tale" else 1 - row["score"] for row in rows]
            values[step] = roc_auc_score([row["kind"] == "tale" for row in rows], second)
        else:
            errors = np.array([row["prediction"] - row["length"] for row in rows])
            values[step] = np.sqrt((errors**2).mean())
    found = {line["step"]: line[f"eval_{best_by}"] for line in metrics(made.output) if "eval_loss" in line}
    pair = 1 / (26 * 12) if best_by == "auc" else 0  # whose scores may tie only as they are written
    assert {step: found[step] for step in values} == pytest.approx(values, rel=1e-4, abs=pair)
    assert found[RunDirectory(made.output).default_step()] == choose(found.values())


def test_there_is_no_auc_of_three_labels(asked, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("text,kind\na boat,a\na bee,b\nbees,c\n")
    with pytest.raises(InputError, match="best_by='auc' is of two labels, and there are 3"):
        finetune(asked(tmp_path / "run", train=file, eval=file, evaluation={"best_by": "auc"}))


@pytest.mark.parametrize(("best_by", "count"), [("accuracy", 0), ("auc", 1)])
def test_a_metric_that_an_evaluation_lacks_is_told_once(asked, begun, tmp_path, caplog, best_by, count):
    tales = write_jsonl(tmp_path / "tales.jsonl", [row for row in ROWS if row["kind"] == "tale"])
    training, _ = begun(finetune, asked(eval=tales, evaluation={"best_by": best_by}))
    for _ in range(2):
        found = training.stages[0].evaluate().get(best_by, np.nan)
        assert np.isnan(found) == bool(count)
    assert len([line for line in caplog.messages if best_by in line]) == count


def test_the_flags():
    words = "finetune --task classification --train own.csv --text a --label b --config bert_base"
    words += " --vocabulary spiece.model --output run --best_by f1 --eval_share 0.2"
    flags = command_line_parser().parse_args(words.split())
    flags.command_line = words
    evaluation = {"best_by": "f1", "eval_share": 0.2}
    assert provided_settings(flags)["evaluation"] == evaluation
