"""Published recipes of pre-training, by name; the stages of a run; settings of examples and corpora."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.constants import (
    EXAMPLE_FORMATS,
    FULL_SENTENCES,
    INPUT_FORMATS,
    LONG_CHOICES,
    MEAN_WINDOW,
    OUTPUT_FORMATS,
    PACKED_FORMATS,
    SEGMENT_PAIR,
    SENTENCE_OBJECTIVES,
    SENTENCE_PAIR,
    TRUNCATE,
    WINDOW_POOLINGS,
    WINDOWS,
    WORD_EMBEDDINGS,
)
from albert_tf.errors import InputError, add_place, check_range
from albert_tf.io import parse_json
from albert_tf.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, check_fields, replace_fields, setting

MAX_SHARDS = 99_999  # of a split: the names of shards have five digits
NO_CLIPPING = "none turns clipping off"  # the remedy for a wrong clip_norm


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a run: consecutive steps with the same settings. None: the run's value.

    Args:
      until: share of the run's steps that are done when the stage ends; 1 for the last stage.
      num_hidden_layers: number of times that the shared layers are applied.
      seq_length: tokens per example; `masked_lm_prob` of them are masked.
      batch_size: examples per step; None: as many as keep the run's number of tokens per step.

    Raises:
      InputError: a value is impossible; the message names it.
    """

    until: float = setting(1.0, above=0, at_most=1, remedy="it is a share of the run's steps")
    num_hidden_layers: int | None = setting(None, **COUNT)
    seq_length: int | None = setting(None, **COUNT)
    batch_size: int | None = setting(None, **COUNT)

    def __post_init__(self) -> None:
        check_fields(self)


def parse_stages(values: Any) -> tuple[Stage, ...]:
    """The stages in a parsed JSON list of objects with the fields of Stage. Raises InputError otherwise."""
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError("stages must be a list of objects, such as [{}]")
    stages = []
    for number, value in enumerate(values):
        with add_place(f"stages[{number}]", (TypeError, InputError)):  # TypeError: an unknown key
            stages.append(Stage(**value))
    return tuple(stages)


def read_stages(path: str | os.PathLike[str]) -> tuple[Stage, ...]:
    """The stages in a JSON file. An InputError names the file."""
    values = parse_json(Path(path).read_bytes(), path)
    with add_place(os.fspath(path)):
        return parse_stages(values)


def stage_ends(stages: Sequence[Stage], steps: int) -> list[int]:
    """The number of steps done at the end of each stage.

    Raises:
      InputError: the shares do not ascend to 1, or there are fewer steps than stages.
    """
    shares = [stage.until for stage in stages]
    if any(a >= b for a, b in itertools.pairwise(shares)) or shares[-1] != 1:
        raise InputError(f"stages end at the shares {shares} of the run: let them ascend, and the last be 1")
    # If there are few steps, each later stage still gets one.
    ends = [min(round(share * steps), steps - later) for later, share in enumerate(reversed(shares))][::-1]
    if any(a >= b for a, b in itertools.pairwise([0, *ends])):
        raise InputError(f"of steps={steps}, stages end after {ends}: with more `steps` each has one")
    return ends


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionSettings:
    """Settings of question answering: windows of the context, and answers. The names are those in task.json.

    Args:
      doc_stride: tokens from the start of a window to that of the next, capped at the size of a window.
      max_query_length: longest question, in tokens; longer questions are cut at the end.
      max_answer_length: longest answer, in tokens.
      n_best: answers kept for each question. Without answerability, also the number of starts, and of ends,
        that are combined in a window.

    Source: Lan et al. 2020, A.4; google-research/albert, run_squad_v1.py.
    """

    doc_stride: int = setting(128, **COUNT)
    max_query_length: int = setting(64, **COUNT)
    max_answer_length: int = setting(30, **COUNT)
    n_best: int = setting(20, **COUNT)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTexts:
    """Settings for texts that are longer than an input. The names are those in task.json.

    Args:
      long: part of a long text that is read: the beginning (truncate), the first quarter of an input and the
        end of the text (head_tail), or all, in windows.
      doc_stride: tokens from the start of a window to that of the next, capped at the size of a window.
      window_pooling: how the logits of a text are computed from those of its windows: their mean or maximum.
    """

    long: str = setting(TRUNCATE, choices=LONG_CHOICES)
    doc_stride: int = setting(QuestionSettings.doc_stride, **COUNT)
    window_pooling: str = setting(MEAN_WINDOW, choices=WINDOW_POOLINGS)

    def __post_init__(self) -> None:
        check_fields(self)

    def entries(self) -> dict[str, Any]:
        """The entries for task.json: none for truncate, `long` for head_tail, and all for windows."""
        if self.long == WINDOWS:
            return dataclasses.asdict(self)
        return {} if self.long == TRUNCATE else {"long": self.long}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """Settings of the examples for pre-training. The defaults are the paper's.

    Args:
      seq_length: tokens per example, S.
      max_predictions: most masked tokens per example, P; None: ceil(masked_lm_prob · seq_length).
      input_format: segment_pair: two segments of a text, or one without a sentence objective;
        sentence_pair: two single sentences; full_sentences: as many whole sentences as fit, across the ends
        of documents; doc_sentences: the same within one document.
      sentence_objective: "sop", "nsp" or "none"; full_sentences and doc_sentences need "none".
      short_seq_prob: share of the segment pairs that are shorter, at random.
      masked_lm_prob: share of the tokens that are masked; 0: none, for a loss that needs no masks.
      max_ngram: longest masked span, in words.
      whole_word: mask whole words.

    Source: Lan et al. 2020, §4.1; the input formats: Liu et al. 2019, §4.2.
    """

    seq_length: int = setting(512, **COUNT)
    max_predictions: int | None = None
    input_format: str = setting(SEGMENT_PAIR, choices=EXAMPLE_FORMATS)
    sentence_objective: str = setting("sop", choices=SENTENCE_OBJECTIVES)
    short_seq_prob: float = setting(0.1, at_least=0, at_most=1)
    masked_lm_prob: float = setting(0.15, **SHARE)
    max_ngram: int = setting(3, **COUNT)
    whole_word: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        if self.is_packed and self.sentence_objective != "none":
            objective = f"sentence_objective={self.sentence_objective}"
            raise InputError(
                f"{objective} with input_format={self.input_format}: choose sentence_objective=none"
            )
        specials = self.segments + 1
        remedy = f"{specials} special tokens and at least 2 of text"
        check_range("seq_length", self.seq_length, at_least=specials + 2, remedy=remedy)
        check_range("max_predictions", self.predictions, at_least=1, at_most=self.seq_length)

    @property
    def segments(self) -> int:
        """Number of segments in an example."""
        return 1 if self.sentence_objective == "none" and self.input_format != SENTENCE_PAIR else 2

    @property
    def is_packed(self) -> bool:
        """True if an example is as many whole sentences as fit."""
        return self.input_format in PACKED_FORMATS

    @property
    def predictions(self) -> int:
        """P: max_predictions or, if that is None, the masked share of a full example."""
        share = max(math.ceil(self.masked_lm_prob * self.seq_length), 1)
        return share if self.max_predictions is None else self.max_predictions


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparationSettings:
    """Settings that determine the content of a prepared corpus.

    Args:
      input_format: format of the text; lines: one sentence per line, blank lines between documents.
      text_field: field of jsonl that holds the text.
      shards: number of training files; memory must hold the tokens of one file.
      eval_share: share of the documents, chosen by hash, that goes into evaluation files.
      dedup: drop repeated documents.
      seed: seed of the order of the documents, and of examples.
      format: content of the files: documents, or examples with masks and pairs.
      seq_length: tokens per example, in the format examples.
      max_predictions: most masked tokens per example, in the format examples; none: 15 % of seq_length.
      dupe_factor: examples made from the same training text; evaluation text is used once.
    Raises:
      InputError: a value is impossible.
    """

    input_format: str = setting("lines", choices=INPUT_FORMATS)
    text_field: str = "text"
    shards: int = setting(16, at_least=1, at_most=MAX_SHARDS)
    eval_share: float = setting(0.0, **SHARE)
    dedup: bool = False
    seed: int = 0
    format: str = setting("documents", choices=OUTPUT_FORMATS)
    seq_length: int = setting(512, **COUNT)
    max_predictions: int | None = None
    dupe_factor: int = setting(10, at_least=1)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRecipe:
    """All hyper-parameters of a pre-training run except for the network. The defaults are the paper's.

    Args:
      optimizer: "lamb" or "adamw".
      learning_rate: learning rate that the decay begins from, at step 0; the warm-up joins it later.
      batch_size: examples per step, over all devices.
      steps: number of steps.
      warmup_steps: steps of linear warm-up.
      weight_decay: weight decay of all variables except for LayerNorms and biases.
      beta_1: decay rate of the gradient's running mean.
      beta_2: decay rate of the squared gradient's running mean.
      epsilon: epsilon of the optimizer.
      clip_norm: largest global norm of the gradients; None: no clipping.
      examples: settings of the examples.
      word_embeddings: initial word embeddings: random, or from counts of tokens that occur together.
      stages: JSON file of a list of {"until": share of the steps, "num_hidden_layers", "seq_length",
        "batch_size"}, whose shares ascend; none: all steps are alike.

    Source: Lan et al. 2020, §4.1; ε, β and the decay from google-research/albert.
    """

    optimizer: str = "lamb"
    learning_rate: float = setting(0.00176, **NOT_NEGATIVE)
    batch_size: int = setting(4096, **COUNT)
    steps: int = setting(125_000, **COUNT)
    warmup_steps: int = 3125
    weight_decay: float = setting(0.01, **NOT_NEGATIVE)
    beta_1: float = setting(0.9, **SHARE)
    beta_2: float = setting(0.999, **SHARE)
    epsilon: float = setting(1e-6, **POSITIVE)
    clip_norm: float | None = setting(1.0, **POSITIVE, remedy=NO_CLIPPING)
    examples: ExampleSettings = ExampleSettings()
    word_embeddings: str = setting("random", choices=WORD_EMBEDDINGS)
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        remedy = f"it cannot exceed steps={self.steps}; set warmup_steps, too, if you set steps"
        check_range("warmup_steps", self.warmup_steps, at_least=0, at_most=self.steps, remedy=remedy)
        _ = self.stage_ends
        for number, stage in enumerate(self.stages):
            with add_place(f"stages[{number}]"):
                self.for_stage(stage)

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The stages, or one stage for the whole run if there are none."""
        return self.stages or (Stage(),)

    @property
    def stage_ends(self) -> list[int]:
        """The number of steps done at the end of each stage."""
        return stage_ends(self.all_stages, self.steps)

    def for_stage(self, stage: Stage) -> PretrainingRecipe:
        """The recipe of a stage. Its `steps` are still the steps of the whole run."""
        run_length = self.examples.seq_length
        length, tokens = stage.seq_length or run_length, self.batch_size * run_length
        if stage.batch_size is None and tokens % length:
            raise InputError(f"seq_length={length} does not divide {tokens} tokens: name a batch_size")
        changes = {} if length == run_length else {"seq_length": length, "max_predictions": None}
        return self.replace(stages=(), batch_size=stage.batch_size or tokens // length, **changes)

    def replace(self, **changes: Any) -> PretrainingRecipe:
        """A copy of the recipe with some fields changed, also fields of its examples."""
        return replace_fields(self, **changes)


_PAPER = PretrainingRecipe()

_COLUMNS = (
    *("learning_rate", "batch_size", "steps", "warmup_steps", "beta_2", "clip_norm"),
    *("input_format", "sentence_objective", "short_seq_prob", "stages"),
)

# Devlin et al. 2019, §A.2: nine tenths of the updates have inputs of 128 tokens. Each update has 128,000
# tokens, so that a million updates are the paper's 40 epochs.
_BERT_STAGES = (Stage(until=0.9, seq_length=128), Stage())
_BERT = (1e-4, 256, 1_000_000, 10_000, 0.999, 1.0, SEGMENT_PAIR, "nsp", 0.1, _BERT_STAGES)
# Sanh et al. 2019, §3: batches of 4,000, no sentence objective. Rate, warm-up, clipping, betas and no weight
# decay come from the authors' code; the number of steps is not published.
_DISTILBERT = (5e-4, 4000, 500_000, 25_000, 0.98, 5.0, SEGMENT_PAIR, "none", 0.0, ())
_ROBERTA = (0.98, None, FULL_SENTENCES, "none", 0.0, ())  # Liu et al. 2019, Table 9 and §4.2

# Recipes with AdamW and masks of single tokens.
_ADAMW_RECIPES = {
    **{f"bert_{size}{case}": _BERT for size in ("base", "large") for case in ("", "_uncased", "_cased")},
    **{f"distilbert_base_{case}": _DISTILBERT for case in ("uncased", "cased")},
    "roberta_base": (6e-4, 8192, 500_000, 24_000, *_ROBERTA),
    "roberta_large": (4e-4, 8192, 500_000, 30_000, *_ROBERTA),
}

# Recipes by the name of the preset that they train; one_machine has no preset.
PRETRAINING_RECIPES: dict[str, PretrainingRecipe] = {
    # Lan et al. 2020, §4.1: the comparison of sizes, and all ablations.
    **{f"albert_{size}_v1": _PAPER for size in ("base", "large", "xlarge", "xxlarge")},
    # google-research/albert, README: 10M steps for the base model, 3M for the others.
    "albert_base_v2": _PAPER.replace(steps=10_000_000),
    **{f"albert_{size}_v2": _PAPER.replace(steps=3_000_000) for size in ("large", "xlarge", "xxlarge")},
    **{
        name: _PAPER.replace(
            optimizer="adamw",
            max_ngram=1,
            whole_word=False,
            weight_decay=0.0 if row is _DISTILBERT else 0.01,
            **dict(zip(_COLUMNS, row, strict=True)),
        )
        for name, row in _ADAMW_RECIPES.items()
    },
    # benchmarks/results/pretraining.md chose it. More masks: the idea of Wettig et al. 2023.
    "one_machine": _PAPER.replace(
        optimizer="adamw",
        learning_rate=1e-3,
        batch_size=32,
        steps=26_000,
        warmup_steps=300,
        seq_length=128,
        masked_lm_prob=0.3,
        max_ngram=1,
        word_embeddings="cooccurrence",
        stages=(
            Stage(until=0.23, num_hidden_layers=1, seq_length=64, batch_size=32),
            Stage(until=0.69, seq_length=64, batch_size=32),
            Stage(),
        ),
    ),
}

# The recipe of a network that is not a preset.
DEFAULT_RECIPE = "albert_base_v1"
