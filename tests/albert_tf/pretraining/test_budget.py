"""A budget of time becomes a network and a number of updates."""

import itertools

import pytest

from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.models.sharing import parameter_count
from albert_tf.pretraining import budget
from albert_tf.pretraining import pretrain as pretraining_run
from albert_tf.pretraining.budget import (
    ONE_MACHINE,
    ModelSize,
    TimeBudget,
    fit_to_budget,
    measure_step_seconds,
    parse_duration,
    size_of_run,
)
from albert_tf.pretraining.pretrain import check_size, pretrain
from albert_tf.pretraining.pretraining_settings import read_recipe
from albert_tf.recipes import Stage
from albert_tf.runs.checkpoints import checkpoint_steps
from albert_tf.runs.run_directory import CONFIG_FILE as CONFIG_FILE
from albert_tf.runs.run_directory import RECIPE_FILE as RECIPE_FILE
from albert_tf.runs.run_directory import TASK_FILE as TASK_FILE
from albert_tf.text.tokenizer_config import TOKENIZER_FILE
from albert_tf.training.compute_settings import ComputeConfig
from tests.albert_tf.commands import mistake
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE

STAGES = (Stage(until=0.25, num_hidden_layers=1, seq_length=16), Stage())
SMALL = ModelSize(config=CONFIG.replace(num_hidden_layers=1), recipe=RECIPE)
LARGE = ModelSize(min_steps=500, config=CONFIG, recipe=RECIPE.replace(stages=STAGES))


def test_a_time_in_words():
    assert [parse_duration(text) for text in ("90s", "60m", "1.5h", "2d")] == [90, 3600, 5400, 172_800]
    for text in ("60", "m", "٣m", "9" * 400 + "d", "", "-5m", "1h30m", "1e3s", "60 m"):
        with pytest.raises(InputError, match="is not a time"):
            parse_duration(text)
    for seconds in (0, float("nan"), 1e12):
        with pytest.raises(InputError, match="budget="):
            TimeBudget(seconds=seconds, sizes=(SMALL,))


def test_updates_fill_the_time_that_training_gets():
    # A quarter of the updates at 1 s and three at 3 s are 2.5 s each: 950 s are time for 380.
    size = fit_to_budget(1000, [LARGE], lambda size: [1.0, 3.0])
    assert size.recipe.steps == 380
    assert size.recipe.stages == STAGES and size.config == CONFIG


@pytest.mark.parametrize(("seconds", "layers"), [(1000, 1), (2000, 2)])
def test_the_largest_network_that_gets_its_updates(seconds, layers):
    paces = {1: [0.1], 2: [1.0, 3.0]}  # 380 updates of the large one in 1000 s, and 760 in 2000 s
    size = fit_to_budget(seconds, [SMALL, LARGE], lambda size: paces[size.config.num_hidden_layers])
    assert size.config.num_hidden_layers == layers


def test_a_larger_network_is_not_timed_where_a_smaller_one_is_too_slow():
    timed = []
    assert fit_to_budget(10, [SMALL, LARGE], lambda size: timed.append(size) or [1.0]).recipe.steps == 9
    assert timed == [SMALL]


def test_a_budget_for_less_than_an_update_a_stage_is_refused():
    with pytest.raises(InputError, match="budget of 3 s"):
        fit_to_budget(3, [LARGE], lambda size: [1.0, 1.0])


def test_a_run_goes_on_with_the_network_that_it_has():
    for size in ONE_MACHINE:
        assert size_of_run(ONE_MACHINE, size.config.replace(vocab_size=77)) == size
    assert size_of_run(ONE_MACHINE, CONFIG) == ONE_MACHINE[-1]


def test_every_network_of_the_recipe_can_be_trained_by_it():
    for size in ONE_MACHINE:
        check_size(size.with_steps(size.min_steps + 10), ComputeConfig())


def test_steps_choose_the_network_and_weights_the_width(asked, tmp_path):
    """A smaller one that is there already goes on as it was begun."""
    write_run(tmp_path / "origin", ONE_MACHINE[1].config)
    origin = ["--init_from", tmp_path / "origin", "--word_embeddings", "random", "--budget", "60m"]
    assert asked(["--budget", "60m"]).budget.sizes == list(ONE_MACHINE)
    assert {size.config.hidden_size for size in asked(origin).budget.sizes} == {128}
    for smaller, larger in itertools.pairwise(ONE_MACHINE):
        assert smaller.min_steps < larger.min_steps
        sizes = [parameter_count(x.config)["total"] * x.config.num_hidden_layers for x in (smaller, larger)]
        assert sizes[0] < sizes[1]
    for steps, width, layers in ((9000, 128, 1), (10_000, 128, 2), (40_000, 256, 2)):
        made = asked(["--steps", steps]).config
        assert (made.hidden_size, made.num_hidden_layers) == (width, layers)
    write_run(tmp_path / "run", ONE_MACHINE[0].config)
    assert asked(["--steps", 16_000]).config == ONE_MACHINE[0].config


def write_run(run, config):
    """What of a run decides the network."""
    run.mkdir()
    (run / RECIPE_FILE).write_text("{}", encoding="utf-8")
    (run / TASK_FILE).write_text('{"model": "encoder"}', encoding="utf-8")
    (run / TOKENIZER_FILE).write_text("{}", encoding="utf-8")
    (run / CONFIG_FILE).write_text(config.replace(vocab_size=77).to_json_string(), encoding="utf-8")


@pytest.mark.parametrize(("layers", "steps", "expected"), [(1, 9000, 1), (2, 9000, 2), (4, 9000, 2)])
def test_a_run_goes_on_in_no_smaller_network(layers, steps, expected, asked, tmp_path):
    origin = CONFIG.replace(num_hidden_layers=layers, hidden_size=128, num_attention_heads=4)
    write_run(tmp_path / "origin", origin)
    flags = ["--init_from", tmp_path / "origin", "--word_embeddings", "random", "--steps", steps]
    assert asked(flags).config.num_hidden_layers == expected
    with_budget = asked([*flags[:-2], "--budget", "60m"])
    assert with_budget.budget.sizes[0].config.num_hidden_layers == min(layers, 2)


@pytest.fixture
def asked(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    """What `albert-tf pretrain --recipe one_machine` would train."""
    settings = []
    monkeypatch.setattr(pretraining_run, "pretrain", lambda made, **_: settings.append(made))
    places = ["--train", tiny_corpus, "--vocabulary", tiny_vocabulary, "--output", tmp_path / "run"]

    def resolved(flags):
        assert cli.run(["pretrain", "--recipe", "one_machine", *map(str, [*places, *flags])]) == 0
        return settings.pop()

    return resolved


def test_the_recipe_without_a_budget(asked):
    """The network follows from the steps, and a short run warms up for a tenth."""
    for flags, expected in (
        (["--steps", 10_000], (2, 128, 300)),
        ([], (2, 256, 300)),
        (["--steps", 300], (1, 128, 30)),
        (["--steps", 300, "--warmup_steps", 9], (1, 128, 9)),
    ):
        config, recipe = asked(flags).config, asked(flags).recipe
        assert (config.num_hidden_layers, config.hidden_size, recipe.warmup_steps) == expected


def test_a_warm_up_that_is_not_given_is_no_longer_than_the_run(
    asked, tiny_corpus, tiny_vocabulary, capsys, tmp_path
):
    paper = ["--recipe", "albert_base_v2", "--config", "albert_base_v2"]
    for flags, expected in ((["--steps", 20], 2), (["--steps", 4000], 3125), ([], 3125)):
        assert asked([*paper, *flags]).recipe.warmup_steps == expected
    files = ["--train", tiny_corpus, "--vocabulary", tiny_vocabulary, "--output", tmp_path / "other"]
    words = ["pretrain", *paper, *files]
    assert "warmup_steps=30" in mistake(capsys, *words, "--steps", 20, "--warmup_steps", 30)


def never(*arguments):
    raise AssertionError("timed")


@pytest.mark.slow
def test_a_run_with_a_budget_resumes_as_it_was_begun(settings, monkeypatch):
    """Four updates of a second each in five seconds; a run that is resumed is not timed again."""
    monkeypatch.setattr(budget, "measure_step_seconds", lambda training: [1.0])
    lines, made = [], settings(budget=TimeBudget(seconds=5, sizes=(SMALL,)))
    pretrain(made, lines.append)
    assert "time for 4 steps" in lines[1]
    assert (read_recipe(made.output).steps, checkpoint_steps(made.output)[-1]) == (4, 4)
    monkeypatch.setattr(budget, "measure_step_seconds", never)
    lines.clear()
    pretrain(made, lines.append)
    assert "is at its last step, 4" in lines[0]
    with pytest.raises(InputError, match="budget is 5 there"):
        pretrain(settings(made.output, budget=TimeBudget(seconds=9.0, sizes=(SMALL,))))


@pytest.mark.slow
def test_a_start_that_does_not_fit_is_told_before_updates_are_timed(settings, run, monkeypatch):
    monkeypatch.setattr(budget, "measure_step_seconds", never)
    wide = ModelSize(config=CONFIG.replace(hidden_size=64), recipe=RECIPE)
    for origin, named in (("no-such-run", "no-such-run"), (run, "hidden_size")):
        with pytest.raises(InputError, match=named):
            pretrain(settings(budget=TimeBudget(seconds=20, sizes=(wide,)), init_from=origin))


@pytest.mark.slow
def test_updates_are_timed_in_each_stage(settings, monkeypatch):
    class Timed(Exception):
        pass

    def timed(training):
        raise Timed(*measure_step_seconds(training))

    monkeypatch.setattr(budget, "measure_step_seconds", timed)
    made = settings(budget=TimeBudget(seconds=20, sizes=(LARGE,)))
    with pytest.raises(Timed) as figures:
        pretrain(made)
    assert len(figures.value.args) == 2 and min(figures.value.args) > 0
    assert not made.output.exists()  # nothing is written before it is known what
