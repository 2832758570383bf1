"""`albert-tf distill` as users type it, and what other commands make of its run."""

import pytest

from albert_tf import cli
from albert_tf.pretraining import pretrain as pretraining
from tests.albert_tf.commands import mistake
from tests.albert_tf.distillation.runs import STUDENT


@pytest.fixture
def words(tmp_path, teacher, tiny_corpus):
    """The words of a command that distils a little on text."""
    file = tmp_path / "student.json"
    file.write_text(STUDENT.to_json_string())
    flags = {"teacher": teacher, "config": file, "train": tiny_corpus, "output": tmp_path / "run"}
    flags |= {"eval": tiny_corpus, "steps": 2, "warmup_steps": 1, "batch_size": 2, "seq_length": 32}
    return ["distill", *(str(word) for name, value in flags.items() for word in (f"--{name}", value))]


def test_the_vocabulary_is_the_teachers_and_the_recipe_distilberts(words, monkeypatch):
    found = []
    monkeypatch.setattr(pretraining, "train", lambda run, training, contents, *_: found.append(contents))
    assert cli.run([*words, "--temperature", "3"]) == 0
    recipe = found[0].recipe
    assert (recipe["temperature"], recipe["soft_weight"], recipe["optimizer"]) == (3, 5, "adamw")
    assert (recipe["sentence_objective"], recipe["learning_rate"], recipe["clip_norm"]) == ("none", 5e-4, 5)


def test_mistakes_end_in_one_line(words, teacher, task_teacher, table, tmp_path, capsys):
    of_task = ["distill", "--teacher", task_teacher, "--task", "classification", "--output", tmp_path / "run"]
    data = ["--train", table, "--text", "text", "--label", "kind"]
    for line, named in (
        ([*words, "--epochs", "2"], "--epochs: of no use"),
        ([*words, "--label_weight", "2"], "--label_weight: of no use"),
        ([*words, "--temperature", "0"], "temperature=0"),
        (["distill", "--teacher", teacher, "--output", tmp_path / "run"], "--config"),
        ([*of_task, *data], "--config"),
        ([*of_task, *data, "--mlm_weight", "1"], "--mlm_weight: of no use"),
        ([*of_task, "--train", table, *data, "--config", words[4]], "given twice"),
    ):
        assert named in mistake(capsys, *line)
    assert not (tmp_path / "run").exists()
