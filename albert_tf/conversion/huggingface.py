"""Reads and writes folders of Hugging Face's transformers: config.json, safetensors, vocabulary."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from safetensors import SafetensorError, safe_open

from albert_tf.config import AlbertConfig
from albert_tf.config_formats import READING_KEYS
from albert_tf.constants import PUNCTUATION_WORDS, SPACE_WORDS
from albert_tf.conversion.huggingface_config import (
    MULTI_LABEL_PROBLEM,
    PROBLEM_TYPES,
    REGRESSION_PROBLEM,
    class_suffix,
    hugging_face_config,
    hugging_face_group,
    tokenizer_config,
)
from albert_tf.conversion.huggingface_tokenizer import TOKENIZER_CONFIG
from albert_tf.conversion.name_mapping import HUGGING_FACE_SCOPE, head_names, variable_map
from albert_tf.conversion.transfer import (
    ForeignModel,
    check_groups,
    find_single_file,
    infer_task,
    list_files,
    with_usual_names,
)
from albert_tf.errors import (
    InputError,
    add_place,
    check_choice,
    make_check,
    make_list_check,
    shorten,
)
from albert_tf.io import dump_json, parse_json, read_local_bytes, read_local_json, write_local_json
from albert_tf.runs.build_model import task_of
from albert_tf.runs.checkpoints import CheckpointTensors
from albert_tf.runs.schemas import check_task
from albert_tf.text.text_tokenizer import SpecialIds
from albert_tf.text.tokenizer_config import SENTENCEPIECE

# Data types of the format, and their names in NumPy and TensorFlow.
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def open_safetensors(path: Path) -> CheckpointTensors:
    """Opens a safetensors file, or several files with an index. Values are read when they are needed.

    Args:
      path: path of `model.safetensors`, or of `model.safetensors.index.json` beside its parts.
    Returns:
      The shapes and types of the tensors, and a function that reads one.
    Raises:
      InputError: a file is damaged, or the index names no files.
      OSError: a file is missing or cannot be read.
    """
    parts = {path.name}
    if path.suffix == ".json":
        weight_map = read_local_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(part, str) for part in weight_map.values()):
            raise InputError(f"{path} holds no weight_map of tensors to the names of files beside it")
        parts = set(weight_map.values())
        if outside := sorted(part for part in parts if part in ("", "..") or Path(part).name != part):
            raise InputError(f"{path} names {shorten(outside[0])}, which is no file beside it: copy it again")
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for part in parts:
        with _open_file(path.parent / part) as file:
            for name in file.keys():  # noqa: SIM118 - it cannot be iterated over
                view = file.get_slice(name)
                files[name], shapes[name] = path.parent / part, tuple(view.get_shape())
                dtypes[name] = _FLOATS.get(view.get_dtype(), view.get_dtype())

    def read(name: str) -> np.ndarray:
        with _open_file(files[name]) as file:  # opened again: a truncated file is an error, not a crash
            return file.get_tensor(name)

    return CheckpointTensors(str(path), shapes, dtypes, read)


@contextlib.contextmanager
def _open_file(path: Path) -> Iterator[Any]:
    """Opens a safetensors file and checks its header; InputError if it is damaged."""
    path.open("rb").close()  # without permission to read, the library says that the file is missing
    try:
        with safe_open(path, "np") as file:
            yield file
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file, or damaged: {error}") from error


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray]
) -> None:
    """Writes float32 tensors one at a time. The library needs all tensors in memory at once.

    Args:
      path: the new file. Nobody may read its folder yet, since the file is not written atomically.
      shapes: shape of every tensor by name.
      read: function from a tensor's name to its value.
    """
    # transformers refuses files without this entry.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = dump_json(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(np.ascontiguousarray(read(name), "<f4").data)  # tofile does not say why it fails


HUGGING_FACE_CONFIG, HUGGING_FACE_VOCABULARY = "config.json", "spiece.model"
WEIGHTS_FILE, WEIGHTS_INDEX_FILE = "model.safetensors", "model.safetensors.index.json"

_WITHOUT_POOLER = ("ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering")
_POOLER = ("pooler/dense/kernel", "pooler/dense/bias")

POOLING_FILE, MODULES_FILE = "1_Pooling/config.json", "modules.json"  # of sentence-transformers
SENTENCE_LENGTH_FILE = "sentence_bert_config.json"  # of sentence-transformers, with `max_seq_length`
_READ_MODULES = ("Transformer", "Pooling", "Normalize")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")

_PROJECTION = f"{HUGGING_FACE_SCOPE}encoder.embedding_hidden_mapping_in"
# Names of LayerNorms in files that were converted from TensorFlow, and the usual names.
_OLDER_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def open_hugging_face_folder(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """Opens the weights in a folder of transformers, or a file with weights in such a folder.

    Raises:
      InputError: the config contradicts the weights, or describes a network that this package cannot build.
    """
    folder = path if path.is_dir() else path.parent
    _warn_about_sentence_vectors(folder)
    tensors = open_safetensors(_find_weights(path))
    config = config or find_single_file(folder, HUGGING_FACE_CONFIG)
    values, shape = read_local_json(config), AlbertConfig.from_json_file(config)
    family = shape.family
    tensors = tensors.rename({_newer_name(name): name for name in tensors.shapes})
    tensors = with_usual_names(tensors, f"{family}.", "embeddings.word_embeddings.weight")
    tensors, ignored = _resolve_tied_tensors(tensors, family)
    ignored.add(f"{family}.embeddings.position_ids")  # always 0, 1, 2, …
    if family == "albert":
        identity = _identity_layer(shape.hidden_size) if shape.embedding_size == shape.hidden_size else {}
        if identity and all(
            name in tensors.shapes and np.array_equal(tensors.read(name), value)
            for name, value in identity.items()
        ):
            shape = shape.replace(project_embeddings=None)
            ignored |= identity.keys()
        check_groups(shape, hugging_face_group)
    task = {"model": "encoder"}
    if not partial:
        with add_place(config):
            task = _refine_task(infer_task(tensors, "hugging_face", family), values)
    if family == "roberta" and task["model"] == "pretrainer" and shape.hidden_act != "gelu_erf":
        problem = "the head for masked words has gelu_erf in transformers: its logits differ"
        logging.warning("%s: hidden_act is %s, but %s", config, shape.hidden_act, problem)
    with_pooler = variable_map("hugging_face", shape.with_pooler(), task)
    is_pooled = task["model"] in ("classifier", "multiple_choice")
    if is_pooled or with_pooler[_POOLER[0]].name in tensors.shapes:
        shape = shape.with_pooler()
    elif family == "bert" and class_suffix(task) in (*_WITHOUT_POOLER, class_suffix({"model": "encoder"})):
        shape = shape.replace(pooler="none")  # the result of `add_pooling_layer=False`
    if family == "roberta" and is_pooled:  # the encoder of a classifier may have an unused pooler
        ignored |= {f"roberta.pooler.dense.{name}" for name in ("weight", "bias")}
    return ForeignModel(
        tensors,
        shape,
        task | _longest_text(folder, task, shape.max_position_embeddings),
        variable_map("hugging_face", shape, task),
        vocabulary=None,  # `with_tokenizer` finds it
        is_ignored=ignored.__contains__,
        optional=_POOLER if class_suffix(task) in _WITHOUT_POOLER else (),
    )


def _warn_about_sentence_vectors(folder: Path) -> None:
    """Warns if sentence-transformers makes other vectors than the mean, the default of our embeddings."""
    if (file := folder / POOLING_FILE).is_file():
        prefix = "pooling_mode_"
        modes = [name for name, value in read_local_json(file).items() if value is True]
        modes = [name.removeprefix(prefix) for name in modes if name.startswith(prefix)]
        if modes == ["cls_token"]:
            logging.warning('%s pools the first token: pass pooling="first" to "feature-extraction"', file)
        elif modes != ["mean_tokens"]:
            pooling = " and ".join(modes) or "nothing"
            logging.warning("%s pools by %s: here are mean and first alone", file, pooling)
    if (file := folder / MODULES_FILE).is_file():
        modules = parse_json(read_local_bytes(file), file)
        make_list_check(make_check("Mapping"))(str(file), modules)
        types = [str(module.get("type")).rpartition(".")[2] for module in modules]
        if others := [name for name in types if name not in _READ_MODULES]:
            logging.warning("%s: vectors here are those before %s, which is not read", file, others[0])


def _longest_text(folder: Path, task: Mapping[str, Any], positions: int) -> dict[str, int]:
    """`seq_length` of task.json, as sentence-transformers or the tokenizer of a fine-tuned network has it."""
    is_of_sentences = (folder / SENTENCE_LENGTH_FILE).is_file()
    if task["model"] in ("encoder", "pretrainer") and not is_of_sentences:
        return {}
    lengths = [positions]
    for file, key in ((SENTENCE_LENGTH_FILE, "max_seq_length"), (TOKENIZER_CONFIG, "model_max_length")):
        length = read_local_json(folder / file).get(key) if (folder / file).is_file() else None
        if type(length) is int and length > 0:
            lengths.append(length)
    return {"seq_length": min(lengths)}


def _newer_name(name: str) -> str:
    """The name of a tensor in newer files."""
    ending = ".".join(name.rsplit(".", 2)[-2:])
    return name.removesuffix(ending) + _OLDER_ENDINGS.get(ending, ending)


def _resolve_tied_tensors(tensors: CheckpointTensors, family: str) -> tuple[CheckpointTensors, set[str]]:
    """Gives the tensors of the MLM head their usual names; also returns the names of repeated tensors.

    Raises:
      InputError: tensors that should be tied differ.
    """
    # Files may hold both of two tied tensors: the output layer of the MLM head, and its bias.
    bias = head_names("hugging_face", {"model": "pretrainer", "sentence_objective": "none"}, family)[-1]
    layer = bias.removesuffix(".bias") + ("" if family == "distilbert" else ".decoder")
    tied = {f"{layer}.weight": f"{family}.embeddings.word_embeddings.weight", f"{layer}.bias": bias}
    repeated = {name for name, other in tied.items() if name != other}
    for name in repeated & tensors.shapes.keys():
        other = tied[name]
        if other not in tensors.shapes:
            tensors = tensors.rename({other if old == name else old: old for old in tensors.shapes})
        elif not np.array_equal(tensors.read(name), tensors.read(other)):
            raise InputError(f"{tensors.origin}: {name} differs from {other}: the MLM head is tied")
    return tensors, repeated


def _find_weights(path: Path) -> Path:
    """The path of the safetensors file, or of the index of several, in a folder or at a path."""
    if path.is_dir():
        patterns = (WEIGHTS_FILE, WEIGHTS_INDEX_FILE, "*.safetensors", *(f"*{suffix}" for suffix in _PICKLES))
        path = next((file for pattern in patterns for file in list_files(path, pattern)), path / WEIGHTS_FILE)
    if path.suffix in _PICKLES:
        raise InputError(
            f"{path} is a pickle: opening it runs whatever code it holds, so it is not read. Where you trust "
            "it, let transformers write model.safetensors: from_pretrained(…).save_pretrained(…)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: no checkpoint there")
    return path


def _refine_task(task: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the entries of config.json to the task of the heads; InputError if they contradict each other."""
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise InputError(f"architectures={architectures!r} is not a list of classes of transformers")
    if "num_labels" in task and any(name.endswith("ForMultipleChoice") for name in architectures):
        task = {"model": "multiple_choice", "num_choices": values.get("num_choices", 4)}  # the number in RACE
    elif "num_labels" in task:
        if any(name.endswith("ForTokenClassification") for name in architectures):
            words = values.get("words", PUNCTUATION_WORDS)  # public datasets divide words so
            task = {**task, "model": "token_classifier"} | ({} if words == SPACE_WORDS else {"words": words})
        else:
            task |= _problem_entries(values.get("problem_type"), task["num_labels"])
        task |= {"threshold": values["threshold"]} if "threshold" in values else {}
        labels = _label_names(values.get("id2label"), task["num_labels"])
        task |= {} if labels is None else {"labels": labels}
    task |= {key: values[key] for key in READING_KEYS if key in values}
    check_task(task)
    if task.get("sentence_objective", "none") != "none" and "sentence_objective" in values:
        check_choice("sentence_objective", values["sentence_objective"], ("sop", "nsp"))
        return {**task, "sentence_objective": values["sentence_objective"]}
    return task


def _problem_entries(problem_type: Any, num_labels: int) -> dict[str, bool]:
    """The entries of task.json for a `problem_type`; InputError for regression of several numbers."""
    if problem_type is None:
        return {}
    check_choice("problem_type", problem_type, PROBLEM_TYPES)
    if problem_type == MULTI_LABEL_PROBLEM:
        return {"multi_label": True}
    if (problem_type == REGRESSION_PROBLEM) != (num_labels == 1):
        outputs = f"{num_labels} outputs" if num_labels > 1 else "1 output"
        raise InputError(
            f"problem_type={problem_type!r} with {outputs}: here one is regression, more are not"
        )
    return {}


def _label_names(names: Any, num_labels: int) -> list[str] | None:
    """The names of the labels in the order of their ids; None if they are only numbered."""
    if names is None:
        return None
    if not isinstance(names, Mapping):
        raise InputError(f"id2label={shorten(names)} is not an object from ids to labels")
    if set(names) != set(map(str, range(num_labels))):
        ids = f"ids {', '.join(names)}" if names else "no ids"
        raise InputError(f"id2label has {ids}: the head has 0 to {num_labels - 1}")
    for number, name in names.items():
        if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
            raise InputError(f"id2label has {name!r} for {number}: labels are texts that are not empty")
    labels = [str(names[str(number)]) for number in range(num_labels)]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"id2label has {repeated[0]!r} twice")
    return None if labels == [f"LABEL_{number}" for number in range(num_labels)] else labels


def _identity_layer(size: int) -> dict[str, np.ndarray]:
    """A projection that does not change the embeddings: transformers has one even if E = H."""
    return {f"{_PROJECTION}.weight": np.eye(size), f"{_PROJECTION}.bias": np.zeros(size)}


def write_hugging_face(
    model: Any,
    folder: Path,
    task: Mapping[str, Any],
    tokenizer: Mapping[str, bool],
    kind: str = SENTENCEPIECE,
    special: SpecialIds | None = None,
) -> None:
    """Writes config.json, model.safetensors and tokenizer_config.json for `from_pretrained` of transformers.

    Args:
      model: a model of this package.
      folder: an existing folder for the files.
      task: the entries of task.json.
      tokenizer: the settings of the tokenizer, from tokenizer.json of a run.
      kind: kind of the tokenizer: "sentencepiece", "wordpiece" or "byte_level_bpe".
      special: the ids of the special tokens. None: there is no vocabulary.
    Raises:
      InputError: transformers cannot express this network.
      OSError: a file cannot be written.
    """
    config = model.config
    write_local_json(folder / HUGGING_FACE_CONFIG, hugging_face_config(config, task, special))
    shape = config.replace(project_embeddings=True) if config.family == "albert" else config
    theirs = variable_map("hugging_face", shape, task_of(model))
    ours = {entry.name: name for name, entry in theirs.items()}
    variables = {variable.name.partition(":")[0]: variable for variable in model.variables}

    def value(name: str) -> np.ndarray:
        variable = variables.get(ours[name])
        if variable is None:
            return _identity_layer(config.hidden_size)[name]
        return theirs[ours[name]].convert(np.asarray(variable.read_value()))

    shapes = {entry.name: entry.shape for entry in theirs.values()}
    write_safetensors(folder / WEIGHTS_FILE, shapes, value)
    write_local_json(folder / TOKENIZER_CONFIG, tokenizer_config(kind, tokenizer, config, task))
