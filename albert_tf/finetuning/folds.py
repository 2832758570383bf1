"""Cross-validation: a run for each part of the data, trained on the others and evaluated on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import PurePath

from absl import logging

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.storage import write_bytes
from albert_tf.finetuning.data import Fold, fold_numbers
from albert_tf.finetuning.evaluation import Evaluation
from albert_tf.finetuning.outputs import Predicted, summed_terms
from albert_tf.finetuning.runs import finetune_each
from albert_tf.finetuning.settings import AUTO, Finetuning
from albert_tf.finetuning.trained import read_trained
from albert_tf.raw_text.paths import distinct_paths, path_list
from albert_tf.tasks.classification import TextKind
from albert_tf.tasks.datasets.columns import extended_table
from albert_tf.tasks.datasets.formats import AS_READ, Content, Files, Records, encoded
from albert_tf.tasks.datasets.tables import read_table, table_ending
from albert_tf.training.trainer import Report
from albert_tf.utils.checks import check_range
from albert_tf.utils.errors import InputError

_OPTIMISTIC = "chosen on the fold that a run is judged by, so that the figures are optimistic: its step"

OUT_OF_FOLD = "out_of_fold"  # name of the file of predictions, but for its ending


def finetune_folds(
    settings: Finetuning, folds: int, report: Report = logging.info
) -> tuple[RunDirectory, Evaluation]:
    """Trains once for each of several folds, or goes on where a former call stopped.

    Of each fold `output` gets a run directory `fold-<n>`, and after the last one summary.json and the
    predictions of each run for its fold, as `predict` writes them; those of tables have a column `fold`, too.

    Returns:
      The best run, and the evaluation of all records, each by the run that was not trained on it.
    """
    check_range("folds", folds, at_least=2)
    each = {f"fold-{number}": {"fold": Fold(number, folds)} for number in range(1, folds + 1)}
    dataclasses.replace(settings, fold=Fold(1, folds))  # or an error now
    assert settings.train is not None
    records = settings.entry.format.read(settings.train, True, settings.columns)
    numbers = fold_numbers(records, folds, settings.entry.kind.labels_of)
    if max(numbers) < folds:
        files = ", ".join(path_list(settings.train))
        raise InputError(f"{files}: too little for folds={folds}: at most {max(numbers)} are possible")
    contents = _files(settings, records, numbers)
    notes = [_OPTIMISTIC + (", its threshold" if settings.threshold == AUTO else "")]
    summary, (best, _) = finetune_each(settings, each, report, {"notes": notes})
    folder = RunDirectory(settings.output)
    means = ", ".join(f"{name} {value:.4g}" for name, value in summary["mean"].items())
    for line in (f"mean of {folds} folds: {means}", *notes):
        report(line)
    predictions, parts = dict[int, object](), []
    for number in range(1, folds + 1):
        trained = read_trained(folder.file(f"fold-{number}"), xla=settings.execution.xla)
        places = [place for place, of in enumerate(numbers) if of == number]
        held_out = [records[place] for place in places]
        parts.append(trained.predicted(held_out, is_labelled=True))
        predictions |= zip(places, parts[-1].predictions, strict=True)
    in_order = [predictions[place] for place in range(len(records))]
    for name, content in contents(in_order).items():
        write_bytes(folder.file(name), encoded(content))
    # Each run has decided by its own threshold.
    entries = {name: value for name, value in trained.entries.items() if name != "threshold"}
    said = Predicted(in_order, summed_terms(parts))
    of_all = trained._replace(entries=entries, step=None)
    return best, Evaluation(of_all, {"dev": records}, {"dev": said}, notes)


def _files(settings: Finetuning, records: Records, numbers: Sequence[int]) -> Files:
    """From predictions to the texts of files; an InputError where they could not be written."""
    source = distinct_paths(settings.train or ())
    if not issubclass(settings.entry.kind, TextKind):
        files, ending = settings.entry.format.files(source, records, AS_READ), PurePath(source[0]).suffix
    else:
        table, ending = read_table(source), table_ending(source[0])
        for name in ("prediction", "score", "fold"):
            if name in table.columns:
                raise InputError(f"{table.file} has a column {name!r}: rename it for folds={max(numbers)}")
        files = extended_table(table.extended({"fold": numbers}), ending, AS_READ)

    def renamed(predictions: Sequence[object]) -> dict[str, Content]:
        texts = files(predictions)
        is_one = len(texts) == 1
        return {OUT_OF_FOLD + (ending if is_one else f"_{name}"): text for name, text in texts.items()}

    return renamed
