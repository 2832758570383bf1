"""A model as a function from text to answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.constants import PRECISIONS
from albert_tf.errors import InputError, check_choice, check_names, check_type, check_whole, shorten
from albert_tf.inference.inputs import parse_texts, table_columns
from albert_tf.inference.predictor import Predictor, create_predictor, load_exported_predictor, load_predictor
from albert_tf.inference.text_classifier import TextClassifier
from albert_tf.io import PathLike, check_path
from albert_tf.models.early_exit import check_patience
from albert_tf.tasks import TASK_CLASSES
from albert_tf.tasks.classification import TextTask
from albert_tf.tasks.feature_extraction import FeatureExtraction
from albert_tf.text.text_tokenizer import as_list

# Kinds of tasks by their names here and in Hugging Face.
PIPELINE_TASKS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in TASK_CLASSES},
    "text-classification": ("classification", "multi_label", "regression"),
    "sentiment-analysis": ("classification",),
    "fill-mask": ("fill_mask",),
    "question-answering": ("question_answering",),
    "token-classification": ("tagging",),
    "ner": ("tagging",),
    "multiple-choice": ("multiple_choice",),
    **dict.fromkeys(("feature_extraction", "feature-extraction"), (FeatureExtraction.name,)),
}

# Arguments of Hugging Face's pipelines, and what to use instead.
_CUT = "texts are cut and padded as the model needs it, leave it out"
_LEARNED = "it is as the model was fine-tuned, leave it out"
_ELSEWHERE = {
    **dict.fromkeys(
        ("truncation", "padding", "max_length", "max_seq_len", "stride", "tokenizer_kwargs"), _CUT
    ),
    **dict.fromkeys(("max_answer_len", "max_question_len", "doc_stride"), _LEARNED),
    **dict.fromkeys(("handle_impossible_answer", "function_to_apply"), _LEARNED),
    **dict.fromkeys(
        ("aggregation_strategy", "grouped_entities"), "words are joined to entities, leave it out"
    ),
    "return_all_scores": "give top_k, the number of labels",
    **dict.fromkeys(("batch_size", "pooling", "normalize"), "give it to `pipeline`"),
    **dict.fromkeys(("device", "num_workers", "return_tensors"), "there is no such choice, leave it out"),
}


def pipeline(
    source: PathLike | TextClassifier | None = None,
    task: str | None = None,
    *,
    model: PathLike | TextClassifier | None = None,
    batch_size: int = 32,
    step: int | None = None,
    xla: bool | None = None,
    patience: int | None = None,
    precision: str | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
) -> Pipeline:
    """Creates a function from texts to answers.

    Args:
      source: a run directory; a published name, such as "albert_base_v2" or "albert/albert-base-v2"; the
        folder of an exported serving model, or of several versions of it; a `TextClassifier`, or the path
        where it was saved.
      task: the expected task; another one is an error. "fill_mask" (pre-trained runs), "classification",
        "multi_label", "regression", "question_answering", "tagging", "multiple_choice", or Hugging Face's
        names, such as "text-classification". "feature-extraction" gives embeddings and works with any model.
        The task may also be the first argument, as in transformers. None: the model's task.
      model: the source, by the keyword of transformers. The first argument is then the task.
      batch_size: number of texts that are computed at a time. It changes memory and speed, not the answers.
      step: for a run, training step of the checkpoint. None: as `load` chooses it.
      xla: True to compile the network with XLA, for a few lengths of texts. None: only on GPUs. Not for
        exported models.
      patience: for a model that was fine-tuned with early exits: a text leaves the network when this number
        of layers in a row agree with the layer before. The network is then not compiled. None: all layers are
        computed.
      precision: for a run, type of the computation, "float32" or "bfloat16". None: "float32".
      pooling: for "feature-extraction": "mean" of the last states of all tokens, or the state of the "first"
        token. None: "mean".
      normalize: for "feature-extraction": True for embeddings of length 1. None: False.
    Returns:
      A `Pipeline`.
    Raises:
      InputError: the source is none of these, or its model has another task or no answers.
      FileNotFoundError: a run has no such checkpoint or no vocabulary.

    Example:
      >>> import albert_tf
      >>> fill = albert_tf.pipeline("demo-output/run")
      >>> answers = fill("The value is a [MASK] object.")
      >>> len(answers), sorted(answers[0])
      (5, ['score', 'token'])
      >>> embed = albert_tf.pipeline("feature-extraction", "demo-output/run", normalize=True)
      >>> question, answer = embed(["Is it warm?", "The sea is warm."])
      >>> round(float(question @ question), 3)
      1.0
    """
    source_and_task: tuple[Any, Any] = source, task
    if model is not None:
        if source is not None and task is not None:
            raise InputError(f"{source!r} and task={task!r} are two tasks of one model: name one")
        source_and_task = model, (task if source is None else source)
    elif _is_task(source) and not (task is None or _is_task(task)):
        source_and_task = task, source
    source, task = source_and_task
    if _is_task(source) and task is None and not Path(source).exists():
        raise InputError(f"{source} is a task: name the model, too, pipeline(RUN, task={source!r})")
    if task is not None:
        check_choice("task", task, PIPELINE_TASKS)
    batch_size = check_whole("batch_size", batch_size, at_least=1)
    check_type("xla", "bool | None", xla)
    if precision is not None:
        check_choice("precision", precision, PRECISIONS)
    features = _embedding_settings(task, patience, pooling=pooling, normalize=normalize)
    predictor = _open_predictor(source, step, xla, precision, features)
    if task is not None and predictor.task.name not in PIPELINE_TASKS[task]:
        raise InputError(f"task={task!r}: the model of {source} answers {predictor.task.name}")
    if patience is not None:
        check_patience(patience, predictor.has_exits)
        predictor = predictor._replace(patience=patience)
    return Pipeline(predictor, batch_size)


def _is_task(name: Any) -> bool:
    return isinstance(name, str) and name in PIPELINE_TASKS


def _embedding_settings(task: str | None, patience: int | None, **settings: Any) -> dict[str, Any] | None:
    """Settings of `FeatureExtraction` that are not None; None for other tasks."""
    settings = {name: value for name, value in settings.items() if value is not None}
    if task is None or PIPELINE_TASKS[task] != (FeatureExtraction.name,):
        for name, value in settings.items():
            raise InputError(
                f'{name}={value!r} is of the task "feature-extraction": name it, or leave it out'
            )
        return None
    if patience is not None:
        raise InputError(f"patience={patience}: embeddings are of the last layer, leave it out")
    FeatureExtraction(1, **settings)  # checks them before a model is read
    return settings


def _open_predictor(
    source: Any, step: int | None, xla: bool | None, precision: str | None, features: Mapping[str, Any] | None
) -> Predictor:
    folder = None
    if not isinstance(source, TextClassifier):
        path = check_path(source, "source")
        folder = _serving_folder(path)
        if path.suffix == ".keras" or (path / "keras_metadata.pb").is_file():
            source = TextClassifier.load(source)
        elif folder is None:
            return load_predictor(source, step, xla, precision or "float32", features)
    if step is not None:
        raise InputError(f"step={step} is of a run's checkpoint: {source} has one model")
    if precision is not None:
        raise InputError(f"precision={precision!r} is of a run: {source} was made with one")
    if isinstance(source, TextClassifier):
        return create_predictor(source.classifier, source.tokenizer, source.task_entries(), xla, features)
    assert folder is not None
    if xla is not None:
        raise InputError(f"xla={xla}: {folder} is exported; `python -m hub_export --xla` exports it compiled")
    return load_exported_predictor(folder, features)


def _serving_folder(folder: Path) -> Path | None:
    """The folder of a SavedModel: `folder`, or the newest version in it, or None."""
    if (folder / "saved_model.pb").is_file():
        return folder
    files = [*folder.glob("*/saved_model.pb"), *folder.glob("serving/*/saved_model.pb")]
    versions = [path.parent for path in files if path.parent.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


class Pipeline:
    """A function from texts to answers. `pipeline` creates it.

    Args:
      predictor: the model that answers.
      batch_size: number of texts that are computed at a time.

    Example:
      >>> import albert_tf
      >>> fill = albert_tf.pipeline("demo-output/run")
      >>> fill.task
      'fill_mask'
      >>> [len(answers) for answers in fill(["The sea is [MASK].", "A [MASK] film."], top_k=3)]
      [3, 3]
    """

    def __init__(self, predictor: Predictor, batch_size: int):
        self._predictor = predictor
        self._batch_size = batch_size

    @property
    def task(self) -> str:
        """Name of the task, as `pipeline` takes it."""
        return self._predictor.task.name

    def __call__(self, inputs: Any = None, top_k: int | None = None, **fields: Any) -> Any:
        """Answers texts, in their order. A single text (a str or dict) gets a single answer.

        The task decides what an input is:

        - classification, multi_label, regression: a text, or a pair as a tuple (text, text_pair)
        - fill_mask: a text with `[MASK]` in it
        - tagging: a text, which is split into words as the run's task.json says, or a list of words, which
          stays as it is
        - question_answering: a dict of `question` and `context`
        - multiple_choice: a dict of `context`, `question` and `options`
        - feature_extraction: a text

        and what an answer is, where `score` is a probability:

        - classification: {"label", "score"}; with `top_k` a list of them
        - multi_label: [{"label", "score"}, …] for the labels that reach the model's threshold
        - regression: {"score"}, the number itself
        - fill_mask: [{"token", "score"}, …]; for several masks a list of such lists
        - tagging: [{"label", "score", "start", "end", "text"}, …], one for each entity
        - question_answering: {"answer", "score", "start", "end"}; with `top_k` a list of them. An empty
          answer means that there is probably none; its score is the probability of that
        - multiple_choice: {"label", "score"}; the label is the number of the option, from 0
        - feature_extraction: the embedding, float32 [H]; for a list of texts float32 [n, H]

        `start` and `end` count characters of the text; `end` is behind the last character. For a list of
        words they count in the words joined by single spaces.

        Args:
          inputs: one input, or a list or another iterable of inputs. `[["Anna", "lives", "in", "Oslo"]]` is
            one sentence for tagging.
          top_k: number of answers to each input: labels of classification and multi_label, answers of
            question_answering, tokens of fill_mask (default 5).
          **fields: instead of `inputs`, the fields of one input, such as `question=` and `context=`, or
            `text=` and `text_pair=`.
        Returns:
          The answer to one input, or a list of answers; embeddings of a list are one array.
        Raises:
          InputError: an input is not what the task takes; the message says which.
        """
        task = self._predictor.task
        if fields:
            self._check_fields(fields)
            if inputs is not None:
                raise InputError(
                    f"{', '.join(fields)}: give the inputs by these names or in a list, not both"
                )
            inputs = fields
        is_one = isinstance(inputs, str | Mapping)
        if top_k is not None:
            top_k = self._check_top_k(top_k)
        if is_one:
            records = [self._read(inputs, "inputs")]
        elif isinstance(task, TextTask | FeatureExtraction):
            records = parse_texts(inputs, "inputs")
        else:
            values = as_list(table_columns(inputs, "inputs") if task.inputs == ("text",) else inputs)
            records = [self._read(value, f"inputs[{number}]") for number, value in enumerate(values)]
        answers = self._predictor.answers(records, self._batch_size, top_k)
        return answers[0] if is_one else task.collect(answers)

    def _read(self, value: Any, where: str) -> Any:
        """Makes a record of an input; tasks of single texts also accept a dict of `text`."""
        task = self._predictor.task
        if isinstance(value, Mapping) and task.inputs == ("text",):
            (value,) = task.fields(value, task.inputs, where)
        return task.parse_input(value, where)

    def _check_fields(self, fields: Mapping[str, Any]) -> None:
        """Raises InputError for keywords that the task does not know."""
        inputs = self._predictor.task.inputs
        others = {name: f"{name}={shorten(value)}" for name, value in fields.items() if name not in inputs}
        if lines := [f"{text}: {_ELSEWHERE[name]}" for name, text in others.items() if name in _ELSEWHERE]:
            raise InputError("; ".join([*lines, *(f"unknown {x}" for x in others if x not in _ELSEWHERE)]))
        check_names(others, (*inputs, "top_k"), ", ".join(others.values()))

    def _check_top_k(self, top_k: Any) -> int:
        """The number of answers as an int; InputError if the task does not have as many."""
        if self.task not in ("classification", "multi_label", "fill_mask", "question_answering"):
            raise InputError(f"top_k={top_k}: {self.task} has one answer")
        return check_whole("top_k", top_k, at_least=1, at_most=self._predictor.max_top_k)
