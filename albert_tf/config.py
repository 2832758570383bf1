"""AlbertConfig, the architecture of a network, and PRESETS, the published architectures."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.config_formats import BERT_DROPOUT, bert_to_albert_keys, config_fields
from albert_tf.errors import InputError, add_place, check_names, check_range
from albert_tf.io import json_text, read_local_json
from albert_tf.settings import SHARE, check_fields, setting

ACTIVATION_NAMES = ("gelu", "gelu_erf", "relu", "tanh", "linear")
POOLERS = ("tanh", "relu", "none")
SHARINGS = ("all", "attention", "ffn", "none")

# Config files of google-research/albert and google-research/bert. The second one describes a BERT.
GOOGLE_FILE, GOOGLE_BERT_FILE = "albert_config.json", "bert_config.json"

# Far more than anybody trains: such a graph takes about a minute and a gigabyte to build.
MAX_BLOCKS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig:
    """The architecture of a network. The defaults describe ALBERT base, version 2.

    The fields have the names of google-research/albert's `albert_config.json`. Six fields are added:
    `sharing`, `classifier_dropout_prob`, `layer_norm_eps`, `project_embeddings`, `position_offset` and
    `pooler`. BERT, RoBERTa and DistilBERT use the same fields with other values; see `PRESETS`.

    A config is frozen: `replace` returns a changed copy. All arguments must be given by name.

    Args:
      vocab_size: number of tokens in the vocabulary, V.
      embedding_size: width of the embeddings, E.
      hidden_size: width of the hidden states, H; a multiple of `num_attention_heads`.
      num_hidden_layers: number of layers, L.
      num_hidden_groups: number of groups, G. The layers of one group share their weights.
      num_attention_heads: number of attention heads, N.
      intermediate_size: inner width of a feed-forward block.
      inner_group_num: pairs of an attention block and a feed-forward block in one layer.
      sharing: which weights the layers share. "all": both blocks, within each group. "attention" or "ffn":
        only this block, over all layers; needs `num_hidden_groups=1`. "none": nothing; groups are ignored.
      hidden_act: "gelu" (Google's tanh approximation), "gelu_erf" (the exact GELU), "relu", "tanh" or
        "linear".
      hidden_dropout_prob: dropout rate of the embeddings and of the output of each block.
      attention_probs_dropout_prob: dropout rate of the attention probabilities.
      classifier_dropout_prob: dropout rate before the logits of a task head.
      max_position_embeddings: longest sequence, in tokens.
      type_vocab_size: number of segment types. 0: the network has none.
      initializer_range: standard deviation of the truncated normal distribution of new kernels.
      layer_norm_eps: epsilon of every LayerNorm.
      project_embeddings: True for a dense layer from E to H. None: only if E and H differ.
      position_offset: rows of the position table before the row of the first token. RoBERTa has 2: it counts
        only tokens that are not padding, and padding uses the row just before the first token's row.
      pooler: activation of the dense layer that makes `pooled_output`, "tanh" or "relu". "none": the network
        has no pooler.
    Raises:
      InputError: a value is impossible; the message names it.

    Example:
      >>> import albert_tf
      >>> config = albert_tf.AlbertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16)
      >>> config.replace(intermediate_size=4096) == albert_tf.PRESETS["albert_large_v2"]
      True
    """

    vocab_size: int = setting(30000, at_least=1)
    embedding_size: int = setting(128, at_least=1)
    hidden_size: int = setting(768, at_least=1)
    num_hidden_layers: int = setting(12, at_least=1)
    num_hidden_groups: int = setting(1, at_least=1)
    num_attention_heads: int = setting(12, at_least=1)
    intermediate_size: int = setting(3072, at_least=1)
    inner_group_num: int = setting(1, at_least=1)
    sharing: str = setting("all", choices=SHARINGS)
    hidden_act: str = setting("gelu", choices=ACTIVATION_NAMES)
    hidden_dropout_prob: float = setting(0.0, **SHARE)
    attention_probs_dropout_prob: float = setting(0.0, **SHARE)
    classifier_dropout_prob: float = setting(0.1, **SHARE)
    max_position_embeddings: int = setting(512, at_least=1)
    type_vocab_size: int = setting(2, at_least=0)
    initializer_range: float = setting(0.02, above=0, at_most=100)
    layer_norm_eps: float = setting(1e-12, above=0, at_most=1)
    project_embeddings: bool | None = None
    position_offset: int = setting(0, at_least=0)
    pooler: str = setting("tanh", choices=POOLERS)

    def __post_init__(self) -> None:
        check_fields(self)
        # No two fields may contradict each other.
        layers, groups = self.num_hidden_layers, self.num_hidden_groups
        width, heads = self.hidden_size, self.num_attention_heads
        if width % heads:
            raise InputError(f"hidden_size={width} is not a multiple of num_attention_heads={heads}")
        if layers * self.inner_group_num > MAX_BLOCKS:
            blocks = f"num_hidden_layers={layers} of inner_group_num={self.inner_group_num} blocks"
            raise InputError(f"{blocks} must be at most {MAX_BLOCKS}: all are parts of the graph")
        if groups > layers:
            raise InputError(f"num_hidden_groups={groups} is more than num_hidden_layers={layers}: use fewer")
        if self.sharing in ("attention", "ffn") and groups != 1:
            raise InputError(f"sharing={self.sharing} of all layers needs num_hidden_groups=1, not {groups}")
        if self.project_embeddings is False and self.embedding_size != width:
            sizes = f"embedding_size={self.embedding_size} and hidden_size={width}"
            raise InputError(f"project_embeddings=False needs the same {sizes}")

    @property
    def has_projection(self) -> bool:
        """True if the embeddings go through a dense layer [E, H] before the first block."""
        if self.project_embeddings is None:
            return self.embedding_size != self.hidden_size
        return self.project_embeddings

    @property
    def family(self) -> str:
        """The model whose published code can hold this network: "albert", "bert", "roberta" or "distilbert".

        >>> import albert_tf
        >>> [albert_tf.PRESETS[name].family for name in ("albert_base_v2", "roberta_base")]
        ['albert', 'roberta']
        """
        if self.sharing != "none" or self.inner_group_num > 1 or self.has_projection:
            return "albert"
        if self.position_offset:
            return "roberta"
        return "bert" if self.type_vocab_size else "distilbert"

    def check_length(self, seq_length: int, remedy: str = "the config has no more positions") -> None:
        """Raises InputError if `seq_length` tokens are more than the network has positions for."""
        check_range("seq_length", seq_length, at_most=self.max_position_embeddings, remedy=remedy)

    def with_pooler(self) -> AlbertConfig:
        """Returns the same network with the pooler that classifiers of its family have.

        Returns:
          This config, if it has a pooler. Else a copy with `pooler="relu"` (DistilBERT) or `pooler="tanh"`.
        """
        if self.pooler != "none":
            return self
        return self.replace(pooler="relu" if self.family == "distilbert" else "tanh")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AlbertConfig:
        """Reads the config from the values of a JSON file: Google's, Hugging Face's or this package's.

        Args:
          values: values by key. The key `model_type` ("albert", "bert", "roberta" or "distilbert") marks
            Hugging Face's config, and missing keys have Hugging Face's defaults. Otherwise the keys are the
            names of the fields, as in google-research/albert, and missing keys have the values of ALBERT
            base. Google's old keys are accepted if their values change nothing.
        Returns:
          The config.
        Raises:
          InputError: a key is unknown, or its value describes a network that this package cannot build.

        Example:
          >>> import albert_tf
          >>> albert_tf.AlbertConfig.from_dict({"hidden_size": 1024, "num_attention_heads": 16}).hidden_size
          1024
        """
        return cls(**config_fields(values, [field.name for field in dataclasses.fields(cls)]))

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> AlbertConfig:
        """Reads the config from a JSON file. See `from_dict` for its keys.

        Args:
          path: path of the file. The name `bert_config.json` means google-research/bert's config.
        Returns:
          The config.
        Raises:
          FileNotFoundError: the file does not exist.
          InputError: the file is not a valid config; the message names the file.
        """
        values = read_local_json(Path(path))
        with add_place(os.fspath(path), (ValueError,)):
            return cls.from_dict(
                bert_to_albert_keys(values) if Path(path).name == GOOGLE_BERT_FILE else values
            )

    def replace(self, **changes: Any) -> AlbertConfig:
        """Returns a copy of the config with new values for some fields.

        Args:
          **changes: new values by field name.
        Returns:
          The new config.
        Raises:
          InputError: a name is unknown or a value is impossible.

        Example:
          >>> import albert_tf
          >>> albert_tf.AlbertConfig().replace(num_hidden_layers=24).num_hidden_layers
          24
        """
        check_names(changes, [field.name for field in dataclasses.fields(self)], "config")
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields by name, ready for JSON. `from_dict` is the inverse.

        Returns:
          A dict with a value for each field.
        """
        return dataclasses.asdict(self)

    def to_json_string(self) -> str:
        """Returns all fields as a JSON object, one field per line.

        Returns:
          The text of a `config.json`.
        """
        return json_text(self.to_dict())


_SIZE_FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
_SIZES = {
    "base": (12, 768, 12, 3072),
    "large": (24, 1024, 16, 4096),
    "xlarge": (24, 2048, 16, 8192),
    "xxlarge": (12, 4096, 64, 16384),
}
_ALBERT_CONFIGS = {
    name: AlbertConfig().replace(**dict(zip(_SIZE_FIELDS, row, strict=True))) for name, row in _SIZES.items()
}

# BERT differs from ALBERT: no shared layers, embeddings as wide as the hidden states, dropout.
_BERT_CONFIGS = {
    size: _ALBERT_CONFIGS[size].replace(
        embedding_size=_ALBERT_CONFIGS[size].hidden_size, sharing="none", **BERT_DROPOUT
    )
    for size in ("base", "large")
}
_ROBERTA = {
    "vocab_size": 50265,
    "hidden_act": "gelu_erf",
    "layer_norm_eps": 1e-5,
    "type_vocab_size": 1,
    "position_offset": 2,
    "pooler": "none",
}
_DISTILBERT = {"num_hidden_layers": 6, "type_vocab_size": 0, "pooler": "none"}
_BERT_VOCABULARIES = {"uncased": 30522, "cased": 28996}

PRESETS: dict[str, AlbertConfig] = {
    # Version 1 was trained with dropout, except xxlarge; version 2 without (google-research/albert, README).
    **{
        f"albert_{size}_v1": shape if size == "xxlarge" else shape.replace(**BERT_DROPOUT)
        for size, shape in _ALBERT_CONFIGS.items()
    },
    **{f"albert_{size}_v2": shape for size, shape in _ALBERT_CONFIGS.items()},
    # BERT's shape with ALBERT's vocabulary and activation, the paper's baseline.
    **{f"bert_{size}": shape for size, shape in _BERT_CONFIGS.items()},
    # Devlin et al. 2019; Liu et al. 2019; Sanh et al. 2019: the shapes of their published weights.
    **{
        f"bert_{size}_{case}": shape.replace(vocab_size=vocab_size, hidden_act="gelu_erf")
        for size, shape in _BERT_CONFIGS.items()
        for case, vocab_size in _BERT_VOCABULARIES.items()
    },
    **{f"roberta_{size}": shape.replace(**_ROBERTA) for size, shape in _BERT_CONFIGS.items()},
    **{
        f"distilbert_base_{case}": _BERT_CONFIGS["base"].replace(
            vocab_size=vocab_size, hidden_act="gelu_erf", **_DISTILBERT
        )
        for case, vocab_size in _BERT_VOCABULARIES.items()
    },
}
"""The architectures of published models by name. A preset is a config; it holds no weights.

ALBERT: `albert_{base,large,xlarge,xxlarge}_{v1,v2}`. BERT: `bert_{base,large}_{uncased,cased}`. RoBERTa:
`roberta_{base,large}`. DistilBERT: `distilbert_base_{uncased,cased}`. `bert_base` and `bert_large` are the
paper's baselines: BERT's shape with ALBERT's vocabulary and activation.
"""


# Presets whose weights google-research/albert publishes as archives.
ARCHIVES = tuple(name for name in PRESETS if name.startswith("albert_"))

# Presets whose weights Hugging Face publishes, and their repositories.
REPOSITORIES = {
    **{
        f"bert_{size}_{case}": f"google-bert/bert-{size}-{case}"
        for size in ("base", "large")
        for case in ("uncased", "cased")
    },
    **{f"roberta_{size}": f"FacebookAI/roberta-{size}" for size in ("base", "large")},
    **{f"distilbert_base_{case}": f"distilbert/distilbert-base-{case}" for case in ("uncased", "cased")},
}

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]*\w", re.ASCII)  # OWNER/NAME


def published_format(name: str) -> str | None:
    """The format of a published checkpoint: "google", "huggingface" or "hub"; None if `name` is a path.

    Raises:
      InputError: `name` is a single word, and neither an existing path nor a published name.
    """
    if Path(name).exists():
        return None
    if name in ARCHIVES:
        return "google"
    if name.startswith(("http://", "https://")):
        return "hub"
    if name in REPOSITORIES or _REPOSITORY.fullmatch(name):
        return "huggingface"
    if not {"/", "."} & set(name):
        raise InputError(
            f"{name} is neither a path here nor a published name: {', '.join([*ARCHIVES, *REPOSITORIES])}; "
            "OWNER/NAME of Hugging Face, such as albert/albert-base-v2; an address of TF Hub, https://…"
        )
    return None
