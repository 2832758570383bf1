"""The report of the experiments: a page of HTML, the same as Markdown, and pictures."""

from __future__ import annotations

import base64
import html
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import albert_tf
from benchmarks.paper.experiments import COUNTS, EXPERIMENTS, METRICS, VARIANTS, Claim, Experiment
from benchmarks.paper.verdicts import AGREES, DISAGREES, Results, verdict_of

PICTURES = "pictures"


class Table(NamedTuple):
    """Rows of cells under titles."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A picture in SVG, and what it shows."""

    name: str
    shows: str
    content: bytes


class Heading(NamedTuple):
    """The title of a section."""

    text: str


Block = str | Table | Picture | Heading


def blocks_of(tables: Sequence[str], results: Results, scale: Mapping[str, object]) -> list[Block]:
    """The report, a block after another."""
    seeds = sorted({seed for _, seed in results})
    networks = ", ".join(f"{name} {value}" for name, value in scale.items())
    blocks: list[Block] = [
        Heading("Parameters"),
        "Counted from the configs of the published networks, without heads. A count agrees within 15 %.",
        counts(),
    ]
    for table in tables:
        experiment = EXPERIMENTS[table]
        if any((name, seed) in results for name in experiment.variants for seed in seeds):
            blocks += [Heading(experiment.title), figures(experiment, results)]
            blocks += pictures(table, experiment, results)
            blocks.append(claims(experiment.claims, results))
    return [f"Seeds: {', '.join(map(str, seeds))}. Scale: {networks}.", *blocks]


def counts() -> Table:
    """The exact claims."""
    rows = []
    for claim in COUNTS:
        larger, smaller = (
            albert_tf.parameter_count(albert_tf.PRESETS[name])["total"]
            for name in (claim.larger, claim.smaller)
        )
        found = 1 - smaller / larger if claim.is_share else larger / smaller
        is_near = abs(found / claim.published - 1) < 0.15
        value = f"{found:.1%} less" if claim.is_share else f"{found:.1f}"
        rows.append(
            [
                claim.sentence,
                claim.source,
                f"{larger:,}",
                f"{smaller:,}",
                value,
                AGREES if is_near else DISAGREES,
            ]
        )
    return Table(["claim", "source", "larger", "smaller", "here", "verdict"], rows)


def figures(experiment: Experiment, results: Results) -> Table:
    """Of each variant the mean of the seeds and their range, beside what an article printed."""
    rows = []
    article, *published = experiment.published
    for name, printed in zip(experiment.variants, published, strict=True):
        lines = [line for (variant, _), line in sorted(results.items()) if variant == name]
        cells = [name]
        if name in VARIANTS:
            cells += [f"{lines[0]['parameters']:,}", f"{lines[0]['steps']:,}"] if lines else ["", ""]
        for metric in experiment.metrics:
            values = [line[metric] for line in lines if metric in line]
            cells.append(spread(values, metric) if values else "–")
        rows.append([*cells, printed or "–"])
    sizes = ["parameters", "steps"] if experiment.variants[0] in VARIANTS else []
    return Table(["", *sizes, *(METRICS[metric][0] for metric in experiment.metrics), article], rows)


def spread(values: Sequence[float], metric: str) -> str:
    """The mean and the range."""
    digits = (lambda x: f"{x:.3f}") if METRICS[metric][1] else (lambda x: f"{x:.1%}")
    return f"{digits(statistics.mean(values))} ({digits(min(values))} to {digits(max(values))})"


def claims(stated: Sequence[Claim], results: Results) -> Table:
    """The verdicts, a row for each claim and metric."""
    rows = []
    for claim in stated:
        for metric in claim.metrics:
            verdict = verdict_of(claim, metric, results)
            scale, unit = (1, "") if METRICS[metric][1] else (100, " points")
            by_seed = ", ".join(f"{scale * d:+.3g}" for d in verdict.differences) or "–"
            between = "–"
            if math.isfinite(verdict.low):
                between = f"{scale * verdict.low:+.3g} to {scale * verdict.high:+.3g}{unit}"
            sides = f"{claim.better} against {claim.worse if isinstance(claim.worse, str) else 'chance'}"
            stated_as = f"{claim.sentence} – {claim.source}" if metric == claim.metrics[0] else ""
            rows.append([stated_as, sides, METRICS[metric][0], by_seed, between, verdict.word])
    return Table(["claim", "compared", "by", "better by, each seed", "95 % interval", "verdict"], rows)


def pictures(table: str, experiment: Experiment, results: Results) -> list[Picture]:
    """Points of the seeds and their means, a panel for each metric."""
    import matplotlib
    from matplotlib.figure import Figure

    metrics = [
        metric for metric in experiment.metrics
        if any(metric in results.get((name, seed), {}) for name in experiment.variants for _, seed in results)
    ]  # fmt: skip
    figure = Figure(
        figsize=(2.6 + 2.2 * len(metrics), 1.2 + 0.3 * len(experiment.variants)), layout="constrained"
    )
    axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for panel, metric in zip(axes, metrics, strict=True):
        for row, name in enumerate(experiment.variants):
            values = [
                line[metric] for (variant, _), line in results.items() if variant == name and metric in line
            ]
            panel.plot(values, [row] * len(values), "o", color="tab:blue", alpha=0.5, markersize=4)
            if values:
                panel.plot(statistics.mean(values), row, "|", color="black", markersize=14)
        title, is_lower = METRICS[metric]
        panel.set_title(f"{title}\n({'lower' if is_lower else 'higher'} is better)", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(experiment.variants)), experiment.variants)
    axes[0].invert_yaxis()
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": table}):  # text remains text
        figure.savefig(content, format="svg", metadata={"Date": None})
    shows = f"{experiment.title}: a point for each seed, and a line at their mean"
    return [Picture(f"{table}.svg", shows, content.getvalue())]


def write_report(output: Path, title: str, blocks: Sequence[Block]) -> None:
    """Writes report.md, with its pictures beside it, and report.html, a single file."""
    (output / PICTURES).mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, Picture):
            (output / PICTURES / block.name).write_bytes(block.content)
    (output / "report.md").write_text(f"# {title}\n\n{markdown(blocks)}", encoding="utf-8")
    (output / "report.html").write_text(page(title, blocks), encoding="utf-8")


def markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    texts = []
    for block in blocks:
        match block:
            case Table():
                lines = [block.titles, ["---"] * len(block.titles), *block.rows]
                texts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
            case Picture():
                texts.append(f"![{block.shows}]({PICTURES}/{block.name})")
            case Heading():
                texts.append(f"## {block.text}")
            case str():
                texts.append(block)
    return "\n\n".join(texts) + "\n"


_STYLE = """body { font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left }
.agrees { background: #d9f2d9 } .disagrees { background: #f7d9d9 } img { max-width: 100% }"""


def page(title: str, blocks: Sequence[Block]) -> str:
    """The blocks as a page of HTML that needs no other file."""
    texts = [f"<h1>{html.escape(title)}</h1>"]
    for block in blocks:
        match block:
            case Table():
                rows = [_row("th", block.titles), *(_row("td", cells) for cells in block.rows)]
                texts.append(f"<table>{''.join(rows)}</table>")
            case Picture():
                content = base64.b64encode(block.content).decode()
                alternative = html.escape(block.shows)
                texts.append(f'<img alt="{alternative}" src="data:image/svg+xml;base64,{content}">')
            case Heading():
                texts.append(f"<h2>{html.escape(block.text)}</h2>")
            case str():
                texts.append(f"<p>{html.escape(block)}</p>")
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(texts)}</body></html>\n"


def _row(kind: str, cells: Sequence[str]) -> str:
    marks = [f' class="{cell}"' if cell in (AGREES, DISAGREES) else "" for cell in cells]
    inner = "".join(
        f"<{kind}{mark}>{html.escape(cell)}</{kind}>" for cell, mark in zip(cells, marks, strict=True)
    )
    return f"<tr>{inner}</tr>"
