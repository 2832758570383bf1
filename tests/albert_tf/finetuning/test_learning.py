"""Tasks learn sixty-four real examples by heart, and what is learnt is served as it is predicted."""

import collections

import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.data import read_splits
from albert_tf.finetuning.evaluation import evaluate_finetuned
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import best_metrics
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.runs.run_directory import RunDirectory
from hub_export.export import export
from hub_export.module_comparison import check
from tests.albert_tf.finetuning.samples import COUNT, sample
from tests.albert_tf.tasks.answers import assert_answered

pytestmark = pytest.mark.slow

# Small, and of larger weights than usual: a hundred updates are enough.
SMALL = AlbertConfig(
    embedding_size=32,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=128,
    initializer_range=0.05,
)
RECIPE = {
    "learning_rate": 5e-4,
    "batch_size": 16,
    "seq_length": 64,
    "steps": 150,
    "dropout": 0.0,
    "classifier_dropout": 0.0,
}
WINDOWS = {"doc_stride": 64, "max_query_length": 32}
LONGER = {"seq_length": 128}

# Of the tasks that other tests do not train.
LEARNT = ["squad-v2.0", "race", "multi_label", "tagging"]


@pytest.mark.parametrize("name", LEARNT)
def test_learnt_by_heart_and_served_as_predicted(name, shared, published_vocabulary, tmp_path):
    spec, run = TASK_SPECS[name], tmp_path / "run"
    (tmp_path / "data").mkdir()
    has_windows = spec.task_class.has_windows
    given = sample(name, shared / "data", tmp_path / "data")
    settings = Finetuning(
        output=run,
        task=name,
        config=SMALL,
        vocabulary=published_vocabulary,
        recipe=RECIPE | (LONGER if has_windows else {}),
        questions=WINDOWS if has_windows else {},
        loop={"eval_every": 75, "checkpoint_every": 75},
        **given,
    )
    finetune(settings, report=print)
    sets = read_splits(spec, settings.data, settings.train, settings.eval, settings.columns)
    labels = collections.Counter(getattr(record, "label", None) for record in sets.train)
    assert None in labels or max(labels.values()) <= COUNT // 2  # no single answer is right
    found = evaluate_finetuned(run, given.get("data"), given.get("eval")).metrics
    assert found["examples"] == COUNT
    assert found[spec.best_metric] >= (95 if has_windows else 0.95)
    logged = best_metrics(RunDirectory(run))
    assert logged["step"] == found["step"]
    assert logged[spec.best_metric] == pytest.approx(found[spec.best_metric], abs=1e-5)

    *_, served = export(run, tmp_path / "hub", check=False)
    check(served)
    predictions = load_finetuned(run).predict(sets.train).predictions
    assert_answered(tf.saved_model.load(str(served)).signatures, sets.train, predictions)
