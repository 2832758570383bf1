"""Early exit of a fine-tuned run by patience: metrics, layers and time."""

from __future__ import annotations

import time
from collections.abc import Mapping

from albert_tf.finetuning.data import dev_sets
from albert_tf.finetuning.outputs import Predicted, predictor
from albert_tf.finetuning.task_table import set_metrics
from albert_tf.finetuning.trained import Trained, columns_of, read_trained
from albert_tf.models.exits import check_patience
from albert_tf.reports.content import LINES, Report, Table
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.formats import PathLike, Records

MILLISECONDS = "ms_per_example"


def exit_report(
    run: PathLike,
    folder: PathLike | None = None,
    file: PathLike | None = None,
    *,
    columns: Columns | None = None,
    step: int | None = None,
    batch_size: int = 32,
) -> Report:
    """The table of each patience that a run's exits can have, and plots; arguments as of `evaluate_trained`.

    A patience of L - 1 and more is that of all layers, to which the speed-ups are, computed as runs without
    exits are.

    Raises: as `evaluate_trained`; InputError if the run has no exits.
    """
    trained = read_trained(run, step, xla=False)
    check_patience(1, trained.entries.get("early_exit", False))
    depth = trained.model.config.num_hidden_layers
    sets = dev_sets(trained.task, folder, file, columns or columns_of(trained.entries))
    figures = {n: _figures(trained._replace(patience=n), sets, batch_size) for n in range(1, depth - 1)}
    figures[depth] = _figures(trained, sets, batch_size)
    for found in figures.values():
        found["speed_up"] = figures[depth][MILLISECONDS] / found[MILLISECONDS]
    names = trained.task.evaluated
    by_speed = [
        (name, found["speed_up"], value)
        for found in figures.values()
        for name, value in found.items()
        if name in names
    ]
    rows = [(n, *found.values()) for n, found in figures.items()]
    by_patience = [("layers", n, found["layers"]) for n, found in figures.items()]
    tables = [
        Table("exits", "Early exit", ("patience", *figures[depth]), rows, is_brief=True),
        Table("exit_metrics", "Metrics by speed", ("name", "speed-up", "metric"), by_speed, LINES),
        Table("exit_layers", "Layers by patience", ("name", "patience", "layers"), by_patience, LINES),
    ]
    return Report({"step": trained.step or 0, "examples": sum(map(len, sets.values()))}, tables)


def _figures(trained: Trained, sets: Mapping[str, Records], batch_size: int) -> dict[str, float]:
    """Metrics of labelled records, layers and time an example, from text, once all is traced."""
    kind = trained.task.kind(trained.entries)
    predict = predictor(kind, trained.model, batch_size, xla=False, patience=trained.patience)

    def predicted(records: Records) -> Predicted:
        return predict(kind.encode(records, trained.tokenizer, False))

    for records in sets.values():  # two batches, since the second may be traced for any length
        predicted(records[: 2 * batch_size])
    started = time.perf_counter()
    found = {name: predicted(records) for name, records in sets.items()}
    seconds = time.perf_counter() - started
    metrics = set_metrics(trained.task, {name: (sets[name], x.predictions) for name, x in found.items()})
    examples, depth = sum(map(len, sets.values())), trained.model.config.num_hidden_layers
    layers = sum(len(sets[name]) * depth if x.layers is None else x.layers.sum() for name, x in found.items())
    return {**metrics, "layers": layers / examples, MILLISECONDS: 1000 * seconds / examples}
