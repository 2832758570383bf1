"""The experiments of the articles: a whole table, verdicts by the rule, a cut run that goes on."""

import json
import re
from pathlib import Path

import pytest
from scipy import stats

from benchmarks import smoke
from benchmarks.paper import report, training, verdicts
from benchmarks.paper.__main__ import SMOKE, main
from benchmarks.paper.experiments import (
    CHANCE,
    EXPERIMENTS,
    METRICS,
    TIMED,
    VARIANTS,
    Claim,
    Scale,
    list_variants,
)
from benchmarks.paper.verdicts import AGREES, DISAGREES, UNDECIDED

ROOT = Path(__file__).resolve().parents[2]


def test_experiments_name_variants_and_metrics_that_exist():
    used = {name for experiment in EXPERIMENTS.values() for name in experiment.variants}
    assert used == {*VARIANTS, *TIMED}
    for experiment in EXPERIMENTS.values():
        assert len(experiment.published) == 1 + len(experiment.variants), experiment.title
        for claim in experiment.claims:
            assert {claim.better, claim.worse} <= {*experiment.variants, CHANCE}, claim
            assert {*claim.metrics} <= {*METRICS} and {*experiment.metrics} <= {*METRICS}


def test_variants_have_configs_of_what_they_are_called():
    sizes = {name: variant.create_config(Scale()) for name, variant in VARIANTS.items()}
    widths = sizes["base"].embedding_size, sizes["E = H"].embedding_size, sizes["wide"].hidden_size
    depths = [sizes[name].num_hidden_layers for name in ("L / 2", "base", "2 L", "4 L", "student")]
    assert (widths, depths) == ((64, 128, 256), [1, 2, 4, 8, 1])
    assert sizes["bert"].sharing == "none" and sizes["2 L, two groups"].num_hidden_groups == 2
    assert sizes["base"].hidden_dropout_prob == 0 < sizes["dropout"].hidden_dropout_prob


def test_the_page_has_the_tables_of_the_recorded_results():
    _, *lines = training.read_lines(ROOT / "benchmarks/paper/results.jsonl")
    results = {(line.pop("variant"), line.pop("seed")): line for line in lines}
    assert results.keys() == {(name, seed) for name in (*VARIANTS, *TIMED) for seed in range(3)}
    text = (ROOT / "docs/explanation/paper.md").read_text("utf-8")
    for name, experiment in EXPERIMENTS.items():
        for table in (
            report.metrics_table(experiment, results),
            report.claims_table(experiment.claims, results),
        ):
            assert report.to_markdown([table]) in text, name
        (picture,) = re.findall(rf"\.\./(pictures/paper/{name}\.svg)", text)
        assert (ROOT / "docs" / picture).read_bytes().startswith(b"<?xml")
    assert report.to_markdown([report.parameter_table()]) in text


def test_teachers_come_before_their_students():
    names = list_variants(["distillation"])
    assert names.index("bert") < names.index("student") and len(names) == len({*names})
    assert list_variants(["speed"]) == []


def test_the_interval_is_students():
    low, high = verdicts.mean_interval([1.0, 2.0, 3.0])  # mean 2, standard error 1 / √3
    assert (low, high) == pytest.approx((2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), abs=1e-5)
    assert (low, high) == pytest.approx(stats.ttest_1samp([1, 2, 3], 0).confidence_interval(0.95))
    assert verdicts.mean_interval([1.0]) == (float("-inf"), float("inf"))


@pytest.mark.parametrize(
    ("low", "high", "margin", "word"),
    [
        (0.1, 0.3, None, AGREES),
        (-0.3, -0.1, None, DISAGREES),
        (-0.1, 0.3, None, UNDECIDED),
        (0.0, 0.3, None, UNDECIDED),
        (-0.01, 0.02, 0.03, AGREES),
        (0.04, 0.06, 0.03, DISAGREES),
        (-0.06, -0.04, 0.03, DISAGREES),
        (0.02, 0.04, 0.03, UNDECIDED),
        (-float("inf"), float("inf"), 0.03, UNDECIDED),
    ],
)
def test_an_interval_has_its_word(low, high, margin, word):
    assert verdicts.judge_interval(low, high, margin) == word


def results(metric, **values):
    return {
        (name, seed): {metric: value}
        for name, by_seed in values.items()
        for seed, value in enumerate(by_seed)
    }


def test_differences_are_paired_by_seed_and_signed_by_what_is_better():
    claim = Claim("", "", "a", "b")
    # The seeds differ by more than the variants, and yet each pair differs alike.
    made_up = results("mlm_loss", a=[3.0, 5.0, 9.0], b=[3.5, 5.6, 9.4])
    verdict = verdicts.judge_claim(claim, "mlm_loss", made_up)
    assert verdict.word == AGREES and verdict.differences == pytest.approx([0.5, 0.6, 0.4])
    assert verdicts.judge_claim(Claim("", "", "b", "a"), "mlm_loss", made_up).word == DISAGREES
    accuracies = results("tasks", a=[0.5, 0.7, 0.6], b=[0.6, 0.6, 0.6])
    assert verdicts.judge_claim(claim, "tasks", accuracies).word == UNDECIDED


def test_seeds_that_lack_a_variant_are_left_out():
    verdict = verdicts.judge_claim(Claim("", "", "a", "b"), "tasks", results("tasks", a=[0.7, 0.7], b=[0.6]))
    assert verdict.differences == pytest.approx([0.1]) and verdict.word == UNDECIDED


def test_a_constant_is_compared_with_every_seed():
    chance = results("sop_accuracy", a=[0.5, 0.51, 0.5])
    assert (
        verdicts.judge_claim(Claim("", "", "a", CHANCE, margin=0.03), "sop_accuracy", chance).word == AGREES
    )
    assert verdicts.judge_claim(Claim("", "", "a", CHANCE), "sop_accuracy", chance).word == UNDECIDED


def test_published_counts_agree():
    assert {row[-1] for row in report.parameter_table().rows} == {AGREES}


def test_the_report_has_tables_pictures_and_verdicts(tmp_path):
    line = {"mlm_loss": 3.0, "mlm_accuracy": 0.25, "tasks": 0.5, "parameters": 1234, "steps": 10}
    made_up = {(name, seed): {**line, "mlm_loss": 3.0 + seed / 7 + number / 2}
               for number, name in enumerate(("base", "dropout")) for seed in range(3)}  # fmt: skip
    blocks = report.create_report(["dropout", "width"], made_up, {"layers": 4})
    report.write_report(tmp_path, "<miniature>", blocks)
    text, html = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert text == f"# <miniature>\n\n{report.to_markdown(blocks)}" and html == report.to_html(
        "<miniature>", blocks
    )
    assert "| base | 1,234 | 10 | 3.143 (3.000 to 3.286) | 25.0% (25.0% to 25.0%) |" in text
    assert re.search(
        r"\| base against dropout \| masked words, nats \| \+0.5, \+0.5, \+0.5 \| .* \| agrees \|", text
    )
    assert re.search(r"\| base against dropout \| mean of the tasks \| .* \| too small to tell \|", text)
    assert (tmp_path / "pictures/dropout.svg").read_bytes().startswith(b"<?xml")
    assert "&lt;miniature&gt;" in html and '<td class="agrees">agrees</td>' in html
    assert "narrow" in text  # a variant without figures has its row


@pytest.mark.slow
def test_a_run_that_was_cut_short_goes_on_with_the_same_results(tmp_path, monkeypatch):
    """Also its last line may be cut. Seeds are trained side by side, so their lines are in any order."""
    options = ([str(smoke.text_file())], smoke.glue(), ["masks"], [0, 1], SMOKE)
    whole = training.ExperimentRunner(tmp_path / "whole", *options)
    whole.train()
    lines = whole.file.read_text("utf-8").splitlines(keepends=True)
    assert len(lines) == 1 + 4 and json.loads(lines[0])["scale"] == {**SMOKE._asdict(), "tasks": ["SST-2"]}

    interrupted = tmp_path / "interrupted"
    interrupted.mkdir()
    (interrupted / "results.jsonl").write_text("".join([*lines[:2], lines[2][:40]]), "utf-8")
    rest = training.ExperimentRunner(interrupted, *options)
    assert [*rest.results] == [("static masks", json.loads(lines[1])["seed"])]
    rest.train()

    def read_rows(file):
        rows = training.read_lines(file)
        rows.sort(key=lambda row: (row.get("variant", ""), row.get("seed")))
        return [{name: value for name, value in row.items() if name != "took"} for row in rows]

    assert read_rows(rest.file) == read_rows(whole.file)

    command = [
        "paper",
        "--text",
        str(smoke.text_file()),
        "--glue",
        str(smoke.glue()),
        "--output",
        str(interrupted),
    ]
    monkeypatch.setattr("sys.argv", [*command, "--tables", "masks", "--seeds", "0", "1"])
    with pytest.raises(SystemExit, match="another --budget"):
        main()
    monkeypatch.setattr("benchmarks.paper.__main__.QUICK", SMOKE)
    main()  # has nothing left to train
    assert "| static masks | " in (interrupted / "report.md").read_text("utf-8")
    with pytest.raises(SystemExit, match=re.escape("other.txt")):
        training.ExperimentRunner(interrupted, ["other.txt"], *options[1:])
