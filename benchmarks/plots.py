"""Draws the pictures of benchmarks/README.md. The values below are copied from benchmarks/results/.

    python -m benchmarks.plots

Writes docs/pictures/benchmarks_{speed,size,learning,scale}.png.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"

# speed.md, "Beside other ALBERTs": time as a ratio to ours; the faster one, with compiling or without.
PROGRAMS = ("Model Garden", "KerasHub", "PyTorch", "ONNX Runtime", "OpenVINO")
RATIOS = {
    "forward pass\nfloat32": (1.26, 1.35, 1.03, 1.05, 0.93),
    "forward pass\nbfloat16": (1.45, 1.61, 1.14, None, 0.72),
    "training step\nfloat32": (1.37, 1.94, 1.07, None, None),
    "training step\nbfloat16": (1.59, 2.71, 1.24, None, None),
    "from text\nfloat32": (4.96, None, 2.75, 2.15, 1.85),
    "from text\nbfloat16": (6.64, None, 2.95, None, 1.49),
}

# size.md, "The family's sizes" and "An ALBERT made of a BERT".
PARAMETERS = {
    "BERT-large": 335_141_888,
    "BERT-base": 109_482_240,
    "DistilBERT": 66_362_880,
    "all-MiniLM-L6-v2": 22_713_216,
    "ALBERT-large": 17_683_968,
    "ALBERT of MiniLM": 5_944_704,
}
TEACHER = 0.867
STSB = {  # by the number of updates
    "mean (default)": {0: 0.636, 100: 0.760, 600: 0.800},
    "first": {0: 0.522, 100: 0.714},
    "middle": {0: 0.566, 100: 0.740},
    "last": {0: 0.684, 100: 0.048},
}

# pretraining.md, "At equal time", seed 5: minutes, nats, and the share of sentence orders that are right.
MINUTES = (1.8, 3.4, 5.0, 6.8, 12.6, 19.0, 30.1, 50.3, 68.5)
NATS = (5.93, 5.40, 4.86, 5.11, 4.51, 4.43, 4.25, 4.22, 4.15)
ORDERS = (0.559, 0.627, 0.640, 0.659, 0.710, 0.739, 0.754, 0.766, 0.820)

# scale.md, "Predicted memory", in GB, and "Hosts", in seconds.
MEASURED = (1.34, 0.70, 1.02, 0.93, 2.82, 2.75, 1.02, 2.49, 2.10, 6.92, 2.21, 3.22, 1.54, 2.44, 3.62)
PREDICTED = (1.35, 0.74, 1.00, 0.96, 2.65, 2.81, 1.04, 2.17, 2.08, 6.98, 2.23, 3.23, 1.48, 2.26, 3.44)
HOSTS = {"ALBERT-large": (0.77, 0.92, 1.39), "BERT-large": (1.18, 3.15, 5.39)}


def main() -> None:
    """Writes the four pictures."""
    figure, (axes,) = create_panels(1)
    for number, name in enumerate(PROGRAMS):
        ratios = {group: row[number] for group, row in enumerate(RATIOS.values())}
        heights = {group + 0.15 * (number - 2): x - 1 for group, x in ratios.items() if x is not None}
        axes.bar(list(heights), list(heights.values()), 0.14, bottom=1, label=name)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.set_yticks([0.7, 1, 1.5, 2, 3, 5, 7], ["0.7", "1", "1.5", "2", "3", "5", "7"])
    axes.set_yticks([], minor=True)
    axes.set_xticks(range(len(RATIOS)), list(RATIOS))
    label_axes(axes, "ALBERT-base: time divided by albert_tf's", "", "above 1: slower")
    write_picture(figure, "speed")

    figure, (left, right) = create_panels(2)
    left.barh(list(PARAMETERS)[::-1], [count / 1e6 for count in PARAMETERS.values()][::-1], color="tab:blue")
    label_axes(left, "Parameters", "millions", "", legend=False)
    for name, values in STSB.items():
        right.plot(list(values), list(values.values()), marker="o", label=name)
    right.axhline(TEACHER, color="black", linestyle="--", label="the teacher")
    right.set_ylim(0, 1)
    label_axes(right, "ALBERT of MiniLM: correlation on STS-B", "updates", "Spearman's correlation")
    write_picture(figure, "size")

    figure, (left, right) = create_panels(2)
    left.plot(MINUTES, NATS, marker="o")
    label_axes(left, "Masked tokens: loss in training", "minutes", "nats", legend=False)
    right.plot(MINUTES, ORDERS, marker="o", color="tab:orange")
    label_axes(right, "Sentence order: accuracy in training", "minutes", "accuracy", legend=False)
    write_picture(figure, "learning")

    figure, (left, right) = create_panels(2)
    left.plot([0, 7.2], [0, 7.2], color="black", linewidth=1, label="equal")
    left.fill_between([0, 7.2], [0, 0.85 * 7.2], [0, 1.15 * 7.2], color="0.88", label="within 15 %")
    left.scatter(MEASURED, PREDICTED, zorder=3)
    label_axes(left, "Memory of a training step, GB", "measured", "predicted by albert-tf plan")
    for name, seconds in HOSTS.items():
        right.plot([1, 2, 4], seconds, marker="o", label=name)
    right.set_xticks([1, 2, 4])
    right.set_ylim(0)
    label_axes(right, "Update by 1, 2 and 4 processes", "processes on the same two cores", "seconds")
    write_picture(figure, "scale")


def create_panels(count: int) -> tuple[Figure, list[Axes]]:
    """A white figure with axes side by side."""
    figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="white")
    return figure, [figure.add_subplot(1, count, number + 1) for number in range(count)]


def label_axes(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    """Sets the title, the names and the grid of axes."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(axis="both", color="0.9")
    axes.set_axisbelow(True)
    if legend:
        axes.legend(fontsize="small")


def write_picture(figure: Figure, name: str) -> None:
    """Writes a figure as a PNG file."""
    figure.savefig(FOLDER / f"benchmarks_{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
