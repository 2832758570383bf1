"""The plan of a run: counts by hand, published figures, and peaks that were measured."""

import dataclasses
import json
import re

import pytest
import tensorflow as tf

from albert_tf import PRESETS, AlbertConfig, AlbertPretrainer, cli
from albert_tf.analysis.run_plan import (
    StepSettings,
    bytes_reduced,
    bytes_sent,
    estimate_memory,
    layer_activations,
    smallest_accumulate,
)
from albert_tf.pretraining import budget
from albert_tf.training.compute_settings import ComputeConfig
from tests.albert_tf.commands import ROOT, mistake
from tests.tiny import TINY

# Bytes, by `python -m benchmarks.plan`.
MEASURED = [
    ("albert_base_v2", 8, 128, {}, 1.34e9),
    ("albert_base_v2", 8, 128, {"remat": True}, 0.70e9),
    ("albert_base_v2", 8, 128, {"accumulate": 4}, 1.02e9),
    ("albert_base_v2", 8, 128, {"precision": "bfloat16"}, 0.93e9),
    ("albert_base_v2", 4, 512, {}, 2.82e9),
    ("albert_large_v2", 8, 128, {}, 2.75e9),
    ("albert_xlarge_v2", 4, 128, {}, 6.92e9),
    ("albert_xlarge_v2", 4, 128, {"remat": True}, 2.21e9),
    ("bert_base", 8, 128, {}, 3.22e9),
    ("albert_base_v1", 8, 128, {}, 1.54e9),
    ("albert_base_v2", 16, 128, {}, 2.44e9),
    ("albert_large_v2", 2, 512, {}, 3.62e9),
]


def update(preset="albert_base_v2", rows=8, length=128, predictions=20, devices=1, **compute):
    return StepSettings(
        config=PRESETS[preset] if isinstance(preset, str) else preset,
        batch_size=rows,
        seq_length=length,
        predictions=predictions,
        devices=devices,
        compute=ComputeConfig(**compute),
    )


def changed(settings, **compute):
    return dataclasses.replace(settings, compute=dataclasses.replace(settings.compute, **compute))


@pytest.mark.parametrize(("preset", "rows", "length", "settings", "measured"), MEASURED)
def test_peaks_are_those_measured(preset, rows, length, settings, measured):
    assert estimate_memory(update(preset, rows, length, **settings)).peak == pytest.approx(measured, rel=0.15)


def test_what_a_layer_keeps_by_hand():
    small = AlbertConfig(hidden_size=4, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1)
    # Of 3 tokens: nine [3, 4], one [2, 3, 3] and two [3, 8], of four bytes a number.
    assert layer_activations(small, rows=1, seq_length=3, size=4) == (9 * 48 + 72 + 2 * 96, 48)
    assert layer_activations(small, rows=2, seq_length=3, size=2) == (9 * 48 + 72 + 2 * 96, 48)
    # With dropout the probabilities again, and a byte for each number that may be dropped.
    dropped = small.replace(attention_probs_dropout_prob=0.1, hidden_dropout_prob=0.1)
    assert layer_activations(dropped, rows=1, seq_length=3, size=4)[0] == 696 + 72 + 18 + 2 * 12


@pytest.mark.parametrize("preset", ["albert_base_v2", "bert_large", "distilbert_base_cased"])
def test_parameters_are_those_of_the_pretrainer(preset):
    config = PRESETS[preset].replace(num_hidden_layers=1)
    with tf.Graph().as_default():  # where variables are declared and hold no memory
        model = AlbertPretrainer(config, "none" if config.pooler == "none" else "sop")
        number = sum(variable.shape.num_elements() for variable in model.trainable_variables)
    assert update(config).parameters == number
    memory = estimate_memory(update(config))
    assert (memory.parameters, memory.slots) == (4 * number, 8 * number)


def test_gradients_of_shared_parameters_are_many_until_they_are_summed():
    block = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768  # 7,087,872
    own, shared = 4 * update("bert_base").parameters, 4 * update().parameters
    assert estimate_memory(update("bert_base")).gradients == own
    assert estimate_memory(update()).gradients == shared + 11 * 4 * block
    assert estimate_memory(update(remat=True)).gradients == shared + 2 * 4 * block
    assert estimate_memory(update(accumulate=2)).gradients == 3 * shared + 11 * 4 * block


def test_the_smallest_accumulate_that_fits():
    paper, memory = update("albert_xlarge_v1", 4096, 512, 77, devices=64, precision="bfloat16"), 16e9
    for remat in (False, True):
        count = smallest_accumulate(paper, memory, remat=remat)
        fits = {
            other: estimate_memory(changed(paper, accumulate=other, remat=remat)).peak <= memory
            for other in (1, 2, 4, 8, 16, 32, 64)
        }
        assert count == min(other for other, does in fits.items() if does)
    assert smallest_accumulate(paper, 0.5e9, remat=True) is None


def test_bytes_between_devices():
    """Of ALBERT-base 47 MB, of BERT-large 1.3 GB; a ring sends nearly all of it twice."""
    assert round(bytes_reduced(update("albert_base_v1")) / 1e6) == 47
    assert round(bytes_reduced(update("bert_large")) / 1e9, 1) == 1.3
    for devices, rounds in ((1, 0), (2, 1), (4, 1.5), (8, 1.75)):
        assert bytes_sent(update(devices=devices)) == rounds * bytes_reduced(update())


def test_the_page_has_these_figures():
    """The table of docs/scale.md."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "docs/scale.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 5
    for preset, cells in rows:
        paper = update(preset, 4096, 512, 77, devices=512, precision="bfloat16")
        memory, with_remat = estimate_memory(paper), estimate_memory(changed(paper, remat=True))
        gigabytes = (f"{part / 1e9:.1f}" for part in (memory.activations, memory.peak, with_remat.peak))
        numbers = f"{paper.parameters / 1e6:.1f}", f"{bytes_reduced(paper) / 1e6:.0f}", *gigabytes
        assert cells.split(" | ") == list(numbers), preset


def test_the_table_and_the_figures(capsys):
    words = ["plan", "--config", "albert_base_v1", "--devices", "512", "--memory", "16", "--rate", "50"]
    words += ["--text", "16", "--precision", "bfloat16"]
    assert cli.run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["albert_base_v1", "bert_large"]
    base = found["albert_base_v1"]
    assert (base["steps"], base["tokens"]) == (125_000, 125_000 * 4096 * 512)
    assert base["days"] == pytest.approx(125_000 * 4096 / (512 * 50) / 86_400)
    assert base["passes"] == pytest.approx(125_000 * 4096 * 512 * 4.5 / 16e9)
    assert (base["accumulate"], found["bert_large"]["days"]) == (1, None)
    assert cli.run([*words, "--against", "none"]) == 0
    lines = {line[:28].strip(): line[28:].strip() for line in capsys.readouterr().out.splitlines()}
    assert lines["parameters, million"] == "11.8"
    assert lines["gradients of a step, MB"] == "47.3"
    assert lines["steps"] == "125,000"


def test_where_nothing_fits_the_table_says_so(capsys):
    words = ["plan", "--config", "albert_base_v2", "--against", "none"]
    for memory, expected in (([], None), (["--memory", "0.01"], "none fits")):
        assert cli.run([*words, *memory]) == 0
        lines = {line[:28].strip(): line[28:].strip() for line in capsys.readouterr().out.splitlines()}
        assert lines.get("smallest --accumulate") == lines.get("the same with --remat") == expected


def test_the_second_network_is_left_out_where_it_has_too_few_positions(tmp_path, capsys):
    (tmp_path / "long.json").write_text(TINY.replace(max_position_embeddings=1024).to_json_string())
    words = ["--config", tmp_path / "long.json", "--batch_size", 8, "--seq_length", 1024]
    assert cli.run([*map(str, ("plan", *words, "--json"))]) == 0
    assert list(json.loads(capsys.readouterr().out)) == [str(tmp_path / "long.json")]


def test_the_rate_of_this_machine(tmp_path, capsys, monkeypatch):
    asked = []

    def seconds(train_step, iterator):
        asked.append(train_step)
        assert next(iterator)["input_word_ids"].shape == (8, 32)
        assert train_step.loss_fn.names == ("mlm", "sop")
        return 0.5

    monkeypatch.setattr(budget, "time_step", seconds)
    assert budget.measure_examples_per_second(TINY, 8, 32, 5, ComputeConfig(remat=True)) == 16
    assert asked[0].model.remat
    (tmp_path / "tiny.json").write_text(TINY.to_json_string())
    words = ["--config", tmp_path / "tiny.json", "--against", "none", "--batch_size", 64, "--seq_length", 32]
    assert cli.run([*map(str, ("plan", *words, "--steps", 27_000, "--time", "--json"))]) == 0
    (found,) = json.loads(capsys.readouterr().out).values()
    assert found["days"] == pytest.approx(64 * 27_000 / 16 / 86_400)


def test_mistakes_are_one_line(capsys):
    cases = {
        ("--config", "albert_huge"): "--config albert_huge",
        ("--against", "nowhere.json"): "--against nowhere.json",
        ("--batch_size", 7, "--devices", 2): "batch_size=7",
        ("--batch_size", 8, "--accumulate", 3): "accumulate=3",
        ("--devices", 0): "devices=0",
        ("--seq_length", 4096): "seq_length=4096",
        ("--max_predictions", 0): "max_predictions=0",
        ("--memory", 0): "--memory=0",
        ("--rate", "nan"): "--rate=nan",
        ("--rate", 3, "--time"): "--rate",
        ("--precision", "int8"): "int8",
    }
    for words, expected in cases.items():
        assert expected in mistake(capsys, "plan", "--config", "albert_base_v2", *words), words
