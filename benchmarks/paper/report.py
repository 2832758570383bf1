"""The report of the experiments as HTML and as Markdown, with pictures."""

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
from benchmarks.markdown_tables import format_range, format_row
from benchmarks.paper.experiments import EXPERIMENTS, METRICS, PARAMETER_CLAIMS, VARIANTS, Claim, Experiment
from benchmarks.paper.verdicts import AGREES, DISAGREES, Results, judge_claim

PICTURES = "pictures"


class Table(NamedTuple):
    """Rows of cells under titles."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A picture in SVG, with a text for readers who do not see it."""

    name: str
    alt_text: str
    content: bytes


class Heading(NamedTuple):
    """The title of a section."""

    text: str


Block = str | Table | Picture | Heading


def create_report(tables: Sequence[str], results: Results, scale: Mapping[str, object]) -> list[Block]:
    """The blocks of the report."""
    seeds = sorted({seed for _, seed in results})
    settings = ", ".join(f"{name} {value}" for name, value in scale.items())
    blocks: list[Block] = [
        Heading("Parameters"),
        "Counted from the configs of the published networks, without heads. A count agrees within 15 %.",
        parameter_table(),
    ]
    for table in tables:
        experiment = EXPERIMENTS[table]
        if any((name, seed) in results for name in experiment.variants for seed in seeds):
            blocks += [Heading(experiment.title), metrics_table(experiment, results)]
            blocks.append(create_picture(table, experiment, results))
            blocks.append(claims_table(experiment.claims, results))
    return [f"Seeds: {', '.join(map(str, seeds))}. Scale: {settings}.", *blocks]


def parameter_table() -> Table:
    """The claims about numbers of parameters."""
    rows = []
    for claim in PARAMETER_CLAIMS:
        larger, smaller = (
            albert_tf.parameter_count(albert_tf.PRESETS[name])["total"]
            for name in (claim.larger, claim.smaller)
        )
        value = 1 - smaller / larger if claim.is_share else larger / smaller
        verdict = AGREES if abs(value / claim.published - 1) < 0.15 else DISAGREES
        cell = f"{value:.1%} less" if claim.is_share else f"{value:.1f}"
        rows.append([claim.sentence, claim.source, f"{larger:,}", f"{smaller:,}", cell, verdict])
    return Table(["claim", "source", "larger", "smaller", "here", "verdict"], rows)


def metrics_table(experiment: Experiment, results: Results) -> Table:
    """For each variant the mean and range of the seeds, and the article's value."""
    rows = []
    article, *published = experiment.published
    for name, printed in zip(experiment.variants, published, strict=True):
        lines = [line for (variant, _), line in sorted(results.items()) if variant == name]
        cells = [name]
        if name in VARIANTS:
            cells += [f"{lines[0]['parameters']:,}", f"{lines[0]['steps']:,}"] if lines else ["", ""]
        for metric in experiment.metrics:
            values = [line[metric] for line in lines if metric in line]
            cells.append(format_metric(values, metric) if values else "–")
        rows.append([*cells, printed or "–"])
    sizes = ["parameters", "steps"] if experiment.variants[0] in VARIANTS else []
    return Table(["", *sizes, *(METRICS[metric][0] for metric in experiment.metrics), article], rows)


def format_metric(values: Sequence[float], metric: str) -> str:
    """The mean and the range of a metric."""
    return format_range(values, ".3f" if METRICS[metric][1] else ".1%", statistics.mean)


def claims_table(claims: Sequence[Claim], results: Results) -> Table:
    """The verdicts, a row for each claim and metric."""
    rows = []
    for claim in claims:
        for metric in claim.metrics:
            verdict = judge_claim(claim, metric, results)
            scale, unit = (1, "") if METRICS[metric][1] else (100, " points")
            by_seed = ", ".join(f"{scale * d:+.3g}" for d in verdict.differences) or "–"
            interval = "–"
            if math.isfinite(verdict.low):
                interval = f"{scale * verdict.low:+.3g} to {scale * verdict.high:+.3g}{unit}"
            sides = f"{claim.better} against {claim.worse if isinstance(claim.worse, str) else 'chance'}"
            sentence = f"{claim.sentence} – {claim.source}" if metric == claim.metrics[0] else ""
            rows.append([sentence, sides, METRICS[metric][0], by_seed, interval, verdict.word])
    return Table(["claim", "compared", "by", "better by, each seed", "95 % interval", "verdict"], rows)


def create_picture(table: str, experiment: Experiment, results: Results) -> Picture:
    """Draws the seeds as points and their means as lines, in a panel for each metric."""
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
    alt_text = f"{experiment.title}: a point for each seed, and a line at their mean"
    return Picture(f"{table}.svg", alt_text, content.getvalue())


def write_report(output: Path, title: str, blocks: Sequence[Block]) -> None:
    """Writes report.md, with its pictures beside it, and report.html, a single file."""
    (output / PICTURES).mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, Picture):
            (output / PICTURES / block.name).write_bytes(block.content)
    (output / "report.md").write_text(f"# {title}\n\n{to_markdown(blocks)}", encoding="utf-8")
    (output / "report.html").write_text(to_html(title, blocks), encoding="utf-8")


def to_markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    texts = []
    for block in blocks:
        match block:
            case Table():
                lines = [block.titles, ["---"] * len(block.titles), *block.rows]
                texts.append("\n".join(map(format_row, lines)))
            case Picture():
                texts.append(f"![{block.alt_text}]({PICTURES}/{block.name})")
            case Heading():
                texts.append(f"## {block.text}")
            case str():
                texts.append(block)
    return "\n\n".join(texts) + "\n"


_STYLE = """body { font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left }
.agrees { background: #d9f2d9 } .disagrees { background: #f7d9d9 } img { max-width: 100% }"""


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """The blocks as a page of HTML that needs no other files."""
    texts = [f"<h1>{html.escape(title)}</h1>"]
    for block in blocks:
        match block:
            case Table():
                rows = [_html_row("th", block.titles), *(_html_row("td", cells) for cells in block.rows)]
                texts.append(f"<table>{''.join(rows)}</table>")
            case Picture():
                content = base64.b64encode(block.content).decode()
                alt_text = html.escape(block.alt_text)
                texts.append(f'<img alt="{alt_text}" src="data:image/svg+xml;base64,{content}">')
            case Heading():
                texts.append(f"<h2>{html.escape(block.text)}</h2>")
            case str():
                texts.append(f"<p>{html.escape(block)}</p>")
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(texts)}</body></html>\n"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    classes = [f' class="{cell}"' if cell in (AGREES, DISAGREES) else "" for cell in cells]
    inner = "".join(
        f"<{tag}{class_}>{html.escape(cell)}</{tag}>" for cell, class_ in zip(cells, classes, strict=True)
    )
    return f"<tr>{inner}</tr>"
