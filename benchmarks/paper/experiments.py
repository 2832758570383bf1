"""The experiments of the articles as tables: variants, metrics, and claims of the articles.

A variant changes the base network, its recipe or its text. Experiments share variants, and each variant is
trained once for each seed. A claim compares two variants by a metric; verdicts.py judges it.

Sources: Lan et al. 2020 (ALBERT), Liu et al. 2019 (RoBERTa), Sanh et al. 2019 (DistilBERT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import albert_tf

NOTHING: Mapping[str, Any] = MappingProxyType({})
Text = Literal["all", "part", "static"]  # part: one shard; static: the same shard, masked in advance
SHARDS = 16
TASKS = ("SST-2", "MRPC", "RTE")


class Scale(NamedTuple):
    """The size of the base network, and the amount of training.

    Attributes:
      hidden_size: H of the base.
      layers: L of the base.
      vocab_size: size of the SentencePiece model.
      steps: steps of pre-training the base; a budget replaces them.
      batch_size: examples per step.
      examples: largest number of examples of a task, for fine-tuning.
      epochs: epochs of fine-tuning.
      tasks: tasks for fine-tuning.
      timed_layers: layers of the networks whose speed is measured.
    """

    hidden_size: int = 128
    layers: int = 2
    vocab_size: int = 4000
    steps: int = 1000
    batch_size: int = 32
    examples: int = 1500
    epochs: int = 3
    tasks: Sequence[str] = TASKS
    timed_layers: int = 24


QUICK = Scale(
    hidden_size=64,
    vocab_size=2000,
    steps=30,
    batch_size=16,
    examples=160,
    epochs=1,
    tasks=("SST-2",),
    timed_layers=2,
)
SEQ_LENGTH = 64
# Small networks learn faster with more masks, masks of single words, and embeddings that begin with counts.
FLAGS = MappingProxyType(
    {
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "beta_2": 0.999,
        "weight_decay": 0.01,
        "seq_length": SEQ_LENGTH,
        "masked_lm_prob": 0.3,
        "max_ngram": 1,
        "word_embeddings": "cooccurrence",
        "sentence_objective": "sop",
    }
)


class Variant(NamedTuple):
    """A network and its pre-training, as changes of the base.

    Attributes:
      embedding: E divided by the base's H.
      width: H divided by the base's.
      depth: L divided by the base's.
      config: further fields of the config.
      flags: further flags of `pretrain` or `distill`.
      text: text to train on.
      teacher: variant to distil from; `distill` begins with the teacher's layers.
      is_random: True: a student begins with random weights instead.
      as_long_as: variant whose training time decides the number of steps.
    """

    embedding: float = 1 / 2
    width: float = 1
    depth: float = 1
    config: Mapping[str, Any] = NOTHING
    flags: Mapping[str, Any] = NOTHING
    text: Text = "all"
    teacher: str | None = None
    is_random: bool = False
    as_long_as: str | None = None

    def create_config(self, scale: Scale) -> albert_tf.AlbertConfig:
        """The network's config."""
        hidden = round(scale.hidden_size * self.width)
        fields = {
            "vocab_size": scale.vocab_size,
            "embedding_size": round(scale.hidden_size * self.embedding),
            "hidden_size": hidden,
            "num_hidden_layers": round(scale.layers * self.depth),
            "num_attention_heads": hidden // 32,
            "intermediate_size": 4 * hidden,
            "max_position_embeddings": SEQ_LENGTH,
            "initializer_range": 0.06,  # with 0.02 such narrow networks learn frequencies alone
        }
        return albert_tf.AlbertConfig(**{**fields, **self.config})


def _sharing_variant(sharing: str, embedding: float = 1 / 2, **changes: Any) -> Variant:
    """A variant with another kind of sharing."""
    return Variant(embedding=embedding, config={"sharing": sharing}, **changes)


def _student_variant(teacher: str | None = "bert", is_random: bool = False, **flags: Any) -> Variant:
    """A network of half the teacher's depth that is distilled without a sentence objective."""
    flags = {"sentence_objective": "none", **flags}
    if teacher is not None:
        flags["word_embeddings"] = "random"  # the teacher's embeddings replace them
    return _sharing_variant("none", 1, depth=0.5, flags=flags, teacher=teacher, is_random=is_random)


def _format_variant(input_format: str, objective: str) -> Variant:
    """A variant with another format of inputs."""
    return Variant(flags={"input_format": input_format, "sentence_objective": objective})


# The settings of `prepare --format examples`. No words can be counted in stored examples.
_STORED_MASKS = {"masked_lm_prob": 0.15, "max_ngram": 3, "word_embeddings": "random"}
VARIANTS: Mapping[str, Variant] = {
    "base": Variant(),
    "E = H/8": Variant(embedding=1 / 8),
    "E = H/4": Variant(embedding=1 / 4),
    "E = H": Variant(embedding=1),
    "not shared, E = H/8": _sharing_variant("none", 1 / 8),
    "not shared, E = H/4": _sharing_variant("none", 1 / 4),
    "not shared": _sharing_variant("none"),
    "bert": _sharing_variant("none", 1),
    "attention shared": _sharing_variant("attention"),
    "feed-forward shared": _sharing_variant("ffn"),
    "attention shared, E = H": _sharing_variant("attention", 1),
    "feed-forward shared, E = H": _sharing_variant("ffn", 1),
    "2 L, two groups": Variant(depth=2, config={"num_hidden_groups": 2}),
    "no objective": Variant(flags={"sentence_objective": "none"}),
    "NSP": Variant(flags={"sentence_objective": "nsp"}),
    "wide": Variant(width=2),
    "narrow": Variant(width=0.5),
    "L / 2": Variant(depth=0.5),
    "2 L": Variant(depth=2),
    "4 L": Variant(depth=4),
    "base, as long as wide": Variant(as_long_as="wide"),
    "bert, as long as wide": _sharing_variant("none", 1, as_long_as="wide"),
    "a sixteenth of the text": Variant(text="part"),
    "dropout": Variant(config={"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}),
    "dynamic masks": Variant(text="part", flags=_STORED_MASKS),
    "static masks": Variant(text="static", flags=_STORED_MASKS),
    "pairs of sentences, NSP": _format_variant("sentence_pair", "nsp"),
    "full sentences": _format_variant("full_sentences", "none"),
    "sentences of a document": _format_variant("doc_sentences", "none"),
    "student": _student_variant(),
    "student, no soft targets": _student_variant(soft_weight=0),
    "student, no cosine": _student_variant(cosine_weight=0),
    "student, no masked words": _student_variant(mlm_weight=0),
    "student, random start": _student_variant(is_random=True),
    "student, alone": _student_variant(teacher=None),
}
# Networks whose speed is measured: (preset, number of processes that share a step; 0: a forward pass).
TIMED: Mapping[str, tuple[str, int]] = {
    "ALBERT-large, a step": ("albert_large_v2", 1),
    "BERT-large, a step": ("bert_large", 1),
    "ALBERT-large, a step of two processes": ("albert_large_v2", 2),
    "BERT-large, a step of two processes": ("bert_large", 2),
    "DistilBERT, forward": ("distilbert_base_uncased", 0),
    "BERT-base, forward": ("bert_base_uncased", 0),
}

# Metrics: titles, and whether lower values are better.
METRICS: Mapping[str, tuple[str, bool]] = {
    "mlm_loss": ("masked words, nats", True),
    "mlm_accuracy": ("masked words", False),
    "nsp_accuracy": ("next sentence", False),
    "sop_accuracy": ("order", False),
    **{task: (task, False) for task in TASKS},
    "tasks": ("mean of the tasks", False),
    "seconds": ("seconds", True),
}
CHANCE = 0.5


class Claim(NamedTuple):
    """A claim of an article about the difference of two variants.

    Attributes:
      sentence: the claim in words.
      source: article and table.
      better: the better variant by the article.
      worse: the worse variant by the article, or a constant.
      metrics: compared metrics, each with its own verdict.
      margin: None: the claim is that `better` is better. A number: that both are equal up to this difference.
    """

    sentence: str
    source: str
    better: str
    worse: str | float
    metrics: Sequence[str] = ("mlm_loss", "tasks")
    margin: float | None = None


class Experiment(NamedTuple):
    """A table: its variants, the claims about them, and an article's values.

    Attributes:
      title: title of the table.
      variants: rows of the table.
      claims: claims about pairs of variants.
      published: the title of a column, and its cell for each variant; empty where the article has no value.
      metrics: columns of the table.
    """

    title: str
    variants: Sequence[str]
    claims: Sequence[Claim]
    published: Sequence[str]
    metrics: Sequence[str] = ("mlm_loss", "mlm_accuracy", "tasks")


_ALBERT, _ROBERTA, _DISTILBERT = "Lan et al. 2020", "Liu et al. 2019", "Sanh et al. 2019"


def _claim(
    source: str, sentence: str, better: str, worse: str | float, *metrics: str, **options: Any
) -> Claim:
    if metrics:
        options["metrics"] = metrics
    return Claim(sentence, source, better, worse, **options)


EXPERIMENTS: Mapping[str, Experiment] = {
    "speed": Experiment(
        "Speed",
        list(TIMED),
        [
            _claim(f"{_ALBERT}, Table 2", "ALBERT-large trains faster than BERT-large (1.7 times)",
                   "ALBERT-large, a step", "BERT-large, a step", "seconds"),
            _claim(f"{_ALBERT}, Table 2", "the same where gradients travel between processes",
                   "ALBERT-large, a step of two processes", "BERT-large, a step of two processes", "seconds"),
            _claim(_DISTILBERT, "DistilBERT answers faster than BERT-base (60 % faster)",
                   "DistilBERT, forward", "BERT-base, forward", "seconds"),
        ],
        ["the articles", "1.7 times as fast", "1", "", "", "410 s for STS-B", "668 s"],
        ("seconds",),
    ),
    "embedding": Experiment(
        "Embedding size",
        ["E = H/8", "E = H/4", "base", "E = H", "not shared, E = H/8", "not shared, E = H/4", "not shared",
         "bert"],
        [
            _claim(f"{_ALBERT}, Table 3", "without sharing, a larger E is better",
                   "bert", "not shared, E = H/8"),
            _claim(f"{_ALBERT}, Table 3", "with all shared, a small E is better than E = H",
                   "base", "E = H"),
            _claim(f"{_ALBERT}, Table 3", "with all shared, E can also be too small", "base", "E = H/8"),
        ],
        ["the article: E, mean of five tasks", "64: 79.0", "128: 80.1", "256: 79.6", "768: 79.8",
         "64: 81.3", "128: 81.7", "256: 81.8", "768: 82.3"],
    ),
    "sharing": Experiment(
        "Sharing",
        ["base", "attention shared", "feed-forward shared", "not shared", "E = H", "attention shared, E = H",
         "feed-forward shared, E = H", "bert", "2 L", "2 L, two groups"],
        [
            _claim(f"{_ALBERT}, Table 4", "sharing all costs (80.1 against 81.6)", "not shared", "base"),
            _claim(f"{_ALBERT}, Table 4", "sharing attention alone costs nothing (81.7 against 81.6)",
                   "attention shared", "not shared", "tasks", margin=0.01),
            _claim(f"{_ALBERT}, Table 4", "sharing the feed-forward blocks is what costs (80.2 against 81.7)",
                   "attention shared", "feed-forward shared"),
            _claim(f"{_ALBERT}, Table 4", "with E = H sharing all costs as well", "bert", "E = H"),
            _claim(f"{_ALBERT}, §4.5", "smaller groups are better", "2 L, two groups", "2 L"),
        ],
        ["the article, mean of five tasks", "80.1", "81.7", "80.2", "81.6", "79.8", "81.6", "79.5", "82.3",
         "", ""],
    ),
    "objectives": Experiment(
        "Sentence objectives",
        ["no objective", "NSP", "base"],
        [
            _claim(f"{_ALBERT}, Table 5", "who learned next sentences does not know their order (52.0 %)",
                   "NSP", CHANCE, "sop_accuracy", margin=0.03),
            _claim(f"{_ALBERT}, Table 5", "who learned the order knows next sentences, too (78.9 %)",
                   "base", CHANCE, "nsp_accuracy"),
            _claim(f"{_ALBERT}, Table 5", "the order can be learned (86.5 %)",
                   "base", CHANCE, "sop_accuracy"),
            _claim(f"{_ALBERT}, Table 5", "the order helps tasks more than next sentences",
                   "base", "NSP", "tasks"),
            _claim(f"{_ALBERT}, Table 5", "the order helps tasks more than no objective",
                   "base", "no objective", "tasks"),
            _claim(f"{_ALBERT}, Table 5", "a sentence objective costs masked words",
                   "no objective", "base", "mlm_accuracy"),
        ],
        ["the article: masked words, next sentence, order; mean of five tasks",
         "54.9, 52.4, 53.3; 79.0", "54.5, 90.5, 52.0; 79.2", "54.0, 78.9, 86.5; 80.1"],
        ("mlm_loss", "mlm_accuracy", "nsp_accuracy", "sop_accuracy", "tasks"),
    ),
    "time": Experiment(
        "Equal time",
        ["wide", "base, as long as wide", "bert, as long as wide"],
        [
            _claim(f"{_ALBERT}, Table 6", "in equal time a wider ALBERT is better than BERT",
                   "wide", "bert, as long as wide"),
            _claim(f"{_ALBERT}, Table 6", "and better than a narrower ALBERT with more steps",
                   "wide", "base, as long as wide"),
        ],
        ["the article, mean of five tasks", "ALBERT-xxlarge, 32 h: 88.7", "", "BERT-large, 34 h: 87.2"],
    ),
    "data": Experiment(
        "More data",
        ["a sixteenth of the text", "base"],
        [_claim(f"{_ALBERT}, Figure 2 and Table 7", "more text is better",
                "base", "a sixteenth of the text")],
        ["the article, mean of five tasks", "Wikipedia and books: 80.1", "ten times as much: 80.8"],
    ),
    "dropout": Experiment(
        "Dropout",
        ["dropout", "base"],
        [_claim(f"{_ALBERT}, Figure 2 and Table 8", "without dropout it is better", "base", "dropout")],
        ["the article, mean of five tasks", "90.4", "90.7"],
    ),
    "depth": Experiment(
        "Depth",
        ["L / 2", "base", "2 L", "4 L"],
        [
            _claim(f"{_ALBERT}, Table 11", "the same layer twice is better than once", "base", "L / 2"),
            _claim(f"{_ALBERT}, Table 11", "deeper is better", "2 L", "base"),
            _claim(f"{_ALBERT}, Table 11", "and deeper still", "4 L", "2 L"),
        ],
        ["the article: layers, mean of five tasks", "1: 52.9", "3: 71.2", "6: 77.2", "12: 81.5"],
    ),
    "width": Experiment(
        "Width",
        ["narrow", "base", "wide"],
        [
            _claim(f"{_ALBERT}, Table 12", "wider is better", "base", "narrow"),
            _claim(f"{_ALBERT}, Table 12", "and wider still", "wide", "base"),
        ],
        ["the article: H, mean of five tasks", "1024: 71.2", "2048: 74.6", "4096: 76.3"],
    ),
    "masks": Experiment(
        "Static and dynamic masks",
        ["static masks", "dynamic masks"],
        [_claim(f"{_ROBERTA}, Table 1", "dynamic masks are slightly better",
                "dynamic masks", "static masks")],
        ["the article: SQuAD 2.0, MNLI, SST-2", "78.3, 84.3, 92.5", "78.7, 84.0, 92.9"],
    ),
    "formats": Experiment(
        "Formats of the input",
        ["NSP", "pairs of sentences, NSP", "full sentences", "sentences of a document"],
        [
            _claim(f"{_ROBERTA}, Table 2", "segments are better than single sentences",
                   "NSP", "pairs of sentences, NSP"),
            _claim(f"{_ROBERTA}, Table 2", "without NSP it is at least as good", "full sentences", "NSP"),
            _claim(f"{_ROBERTA}, Table 2", "inputs of one document are better",
                   "sentences of a document", "full sentences"),
        ],
        ["the article: SQuAD 2.0, MNLI, SST-2, RACE", "78.7, 84.0, 92.9, 64.2", "76.2, 82.9, 92.1, 63.0",
         "79.1, 84.7, 92.5, 64.8", "79.7, 84.7, 92.7, 65.6"],
    ),
    "distillation": Experiment(
        "Distillation",
        ["bert", "student", "student, no soft targets", "student, no cosine", "student, no masked words",
         "student, random start", "student, alone"],
        [
            _claim(f"{_DISTILBERT}, Table 4", "the soft targets help (2.96)",
                   "student", "student, no soft targets"),
            _claim(f"{_DISTILBERT}, Table 4", "the cosine of hidden states helps (1.46)",
                   "student", "student, no cosine"),
            _claim(f"{_DISTILBERT}, Table 4", "the masked words help (0.31)",
                   "student", "student, no masked words"),
            _claim(f"{_DISTILBERT}, Table 4", "the teacher's layers help (3.69)",
                   "student", "student, random start"),
            _claim(_DISTILBERT, "a student is better than the same network alone",
                   "student", "student, alone"),
        ],
        ["the article, GLUE", "79.5", "77.0", "2.96 less", "1.46 less", "0.31 less", "3.69 less", ""],
    ),
}  # fmt: skip


def list_variants(tables: Sequence[str]) -> list[str]:
    """The trained variants of experiments, each after its teacher."""
    names: dict[str, None] = {}
    for table in tables:
        for name in EXPERIMENTS[table].variants:
            if name in VARIANTS:
                teacher = VARIANTS[name].teacher
                names.update(dict.fromkeys([*([teacher] if teacher else []), name]))
    return list(names)


class ParameterClaim(NamedTuple):
    """A claim about parameters of a larger and a smaller network, with the article's ratio or share."""

    sentence: str
    source: str
    larger: str
    smaller: str
    published: float
    is_share: bool = False  # True: share of parameters saved; False: ratio larger / smaller


PARAMETER_CLAIMS = (
    ParameterClaim("BERT-large has 18 times the parameters of ALBERT-large", f"{_ALBERT}, §1",
          "bert_large", "albert_large_v2", 18),
    ParameterClaim("ALBERT-xxlarge has about 70 % of BERT-large's", f"{_ALBERT}, §4.3",
          "bert_large", "albert_xxlarge_v2", 0.3, is_share=True),
    ParameterClaim("BERT-base has 9 times the parameters of ALBERT-base", f"{_ALBERT}, Table 1",
          "bert_base", "albert_base_v2", 9),
    ParameterClaim("DistilBERT is 40 % smaller than BERT-base", f"{_DISTILBERT}, abstract",
          "bert_base_uncased", "distilbert_base_uncased", 0.4, is_share=True),
)  # fmt: skip
