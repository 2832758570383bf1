"""Faults that the tests must notice: mistakes that were made once, here or elsewhere, or are easily made."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A change of one place in the code."""

    description: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


MASKING = ("tests/albert_tf/data/test_masking.py", "tests/albert_tf/data/test_statistics.py")
SEGMENTS = ("tests/albert_tf/data/test_segments.py", "tests/albert_tf/data/test_statistics.py")
LAYER = ("tests/albert_tf/models/test_layer.py",)
ENCODER = ("tests/albert_tf/models/test_encoder.py",)
OPTIMIZERS = ("tests/albert_tf/optimization",)
UPDATES = ("tests/albert_tf/training/test_train_step.py",)

FAULTS = (
    Fault(
        "masking: spans of all lengths are equally likely",
        "albert_tf/data/masking.py",
        "weights = 1 / np.arange(1, max_ngram + 1)",
        "weights = np.ones(max_ngram)",
        MASKING,
    ),
    Fault(
        "masking: the budget is rounded down",
        "albert_tf/data/masking.py",
        "share = tf.round(",
        "share = tf.floor(",
        MASKING,
    ),
    Fault(
        "masking: a tile goes over the end of the first segment",
        "albert_tf/data/masking.py",
        "words = tf.where(segments == 2, words + last - words_before, words)",
        "words = tf.where(segments == 3, words + last - words_before, words)",
        MASKING,
    ),
    Fault(
        "masking: special tokens count for the budget",
        "albert_tf/data/masking.py",
        "tokens = tf.reduce_sum(tf.cast(inside, tf.int32), axis=1)",
        "tokens = tf.reduce_sum(tf.ones_like(tile), axis=1)",
        MASKING,
    ),
    Fault(
        "masking: kept tokens are replaced, too",
        "albert_tf/data/masking.py",
        "shown = tf.where(real & ~kept, shown, original)",
        "shown = tf.where(real, shown, original)",
        MASKING,
    ),
    Fault(
        "masking: single pieces are masked in place of whole words",
        "albert_tf/data/masking.py",
        "(segments != before) | tf.gather(starts_word, word_ids)",
        "inside",
        MASKING,
    ),
    Fault(
        "segments: labels of the order are exchanged",
        "albert_tf/data/segments.py",
        "pairs = Segments(starts, lengths, tf.cast(swapped, tf.int32))",
        "pairs = Segments(starts, lengths, tf.cast(~swapped, tf.int32))",
        SEGMENTS,
    ),
    Fault(
        "segments: one target length in ten is not short",
        "albert_tf/data/segments.py",
        "return tf.where(short, lengths, max_tokens)",
        "return tf.where(short, max_tokens, max_tokens)",
        SEGMENTS,
    ),
    Fault(
        "segments: a chunk crosses the end of its document",
        "albert_tf/data/segments.py",
        "return tf.minimum(reached, documents.document_ends)",
        "return tf.minimum(reached, documents.document_ends[-1:])",
        SEGMENTS,
    ),
    Fault(
        "segments: all is trimmed at the back",
        "albert_tf/data/segments.py",
        "tf.unstack(tf.stack(starts) + at_front, num=len(starts))",
        "tf.unstack(tf.stack(starts) + 0 * at_front, num=len(starts))",
        SEGMENTS,
    ),
    Fault(
        "segments: the random next segment is of the same document",
        "albert_tf/data/segments.py",
        "other = (own + 1 + _uniform_below(others, document_seed)) % count",
        "other = (own + 0 * _uniform_below(others, document_seed)) % count",
        SEGMENTS,
    ),
    Fault(
        "layer: scores are not divided by the root of the head size",
        "albert_tf/models/layers.py",
        "query * (1 / math.sqrt(query.shape[-1]))",
        "query * (1 / query.shape[-1])",
        (*LAYER, *ENCODER),
    ),
    Fault(
        "layer: padding is attended to",
        "albert_tf/models/layers.py",
        "MASKED_SCORE = -10000.0",
        "MASKED_SCORE = 0.0",
        (*LAYER, *ENCODER),
    ),
    Fault(
        "layer: LayerNorm's epsilon stands outside of the root",
        "albert_tf/models/layers.py",
        "tf.math.rsqrt(variance + epsilon) * gamma",
        "(1 / (tf.sqrt(variance) + epsilon)) * gamma",
        LAYER,
    ),
    Fault(
        "layer: dropout does not scale what it keeps",
        "albert_tf/models/layers.py",
        "return tf.where(keep, x / (1 - rate), tf.zeros([], x.dtype))",
        "return tf.where(keep, x, tf.zeros([], x.dtype))",
        LAYER,
    ),
    Fault(
        "layer: both GELUs are the tanh form",
        "albert_tf/models/layers.py",
        "functools.partial(tf.nn.gelu, approximate=False)",
        "functools.partial(tf.nn.gelu, approximate=True)",
        (*LAYER, "tests/albert_tf/models/test_heads.py", "tests/albert_tf/conversion/test_huggingface.py"),
    ),
    Fault(
        "sharing: a layer's group is computed with truncated floats",
        "albert_tf/models/sharing.py",
        "[layer * groups // layers for layer in range(layers)]",
        "[int(layer / layers * groups) for layer in range(layers)]",
        ("tests/albert_tf/models/test_sharing.py",),
    ),
    Fault(
        "encoder: every layer drops the same elements",
        "albert_tf/models/encoder.py",
        "tuple(seeds[3 * index : 3 * index + 3])",
        "tuple(seeds[0:3])",
        ENCODER,
    ),
    Fault(
        "encoder: the pooler reads the second token",
        "albert_tf/models/encoder.py",
        "self.pooler(sequence[:, 0])",
        "self.pooler(sequence[:, 1])",
        ENCODER,
    ),
    Fault(
        "embeddings: ids of positions start at 1",
        "albert_tf/models/embeddings.py",
        "tf.slice(self.position_embeddings, [0, 0], [tf.shape(mask)[1], -1], name)",
        "tf.slice(self.position_embeddings, [1, 0], [tf.shape(mask)[1], -1], name)",
        ("tests/albert_tf/models/test_embeddings.py",),
    ),
    Fault(
        "heads: logits have no bias",
        "albert_tf/models/heads.py",
        "return tf.nn.bias_add(tf.cast(logits, tf.float32), tf.cast(bias, tf.float32))",
        "return tf.cast(logits, tf.float32)",
        ("tests/albert_tf/models/test_heads.py",),
    ),
    Fault(
        "losses: rows that fill a batch up count",
        "albert_tf/models/loss_sums.py",
        "loss=tf.reduce_sum(weights * losses)",
        "loss=tf.reduce_sum(losses)",
        ("tests/albert_tf/pretraining/test_objective.py",),
    ),
    Fault(
        "adamw: moments are corrected for their bias",
        "albert_tf/optimization/adamw.py",
        "return beta_1 * m + (1 - beta_1) * g,",
        "return (beta_1 * m + (1 - beta_1) * g) / (1 - beta_1),",
        OPTIMIZERS,
    ),
    Fault(
        "adamw: LayerNorm and biases decay",
        "albert_tf/optimization/adamw.py",
        'EXCLUDED = ("LayerNorm", "layer_norm", "bias")',
        'EXCLUDED = ("no variable",)',
        OPTIMIZERS,
    ),
    Fault(
        "lamb: the trust ratio leaves the decay out",
        "albert_tf/optimization/lamb.py",
        "return x - trust_ratio(x, u) * lr * u, m, v",
        "return x - trust_ratio(x, u - decay * x) * lr * u, m, v",
        OPTIMIZERS,
    ),
    Fault(
        "schedule: the first rate of the warm-up is not 0",
        "albert_tf/optimization/schedules.py",
        "self.init_lr * (tf.cast(step, tf.float32) / max(self.num_warmup_steps, 1))",
        "self.init_lr * (tf.cast(step + 1, tf.float32) / max(self.num_warmup_steps, 1))",
        OPTIMIZERS,
    ),
    Fault(
        "updates: a replica divides by its own weights",
        "albert_tf/training/train_step.py",
        'weights = replica.all_reduce("SUM", self.objective.weights(rows))',
        "weights = self.objective.weights(rows)",
        UPDATES,
    ),
    Fault(
        "updates: all replicas work on the same rows",
        "albert_tf/training/train_step.py",
        "tf.reshape(tensor, shape)[replica.replica_id_in_sync_group % replicas]",
        "tf.reshape(tensor, shape)[0]",
        UPDATES,
    ),
    Fault(
        "updates: gradients are clipped before replicas are summed",
        "albert_tf/training/train_step.py",
        'terms, gradients = replica.all_reduce("SUM", sums)',
        "terms, gradients = sums",
        UPDATES,
    ),
    Fault(
        "updates: a non-finite gradient goes unnoticed",
        "albert_tf/training/train_step.py",
        "tf.stack([*losses, gradient_norm])",
        "tf.stack([*losses])",
        UPDATES,
    ),
    Fault(
        "packing: the second segment is trimmed first",
        "albert_tf/text/packing.py",
        "kept_a = tf.minimum(a, tf.maximum(budget - budget // 2, budget - b))",
        "kept_a = tf.minimum(a, tf.maximum(budget, budget - b))",
        ("tests/albert_tf/text/test_packing.py",),
    ),
    Fault(
        "normalisation: case is folded before accents go",
        "albert_tf/text/sentencepiece.py",
        'text = tf_text.normalize_utf8(text, "NFD")',
        'text = tf_text.normalize_utf8(tf_text.case_fold_utf8(text) if lowercase else text, "NFD")',
        ("tests/albert_tf/text/test_normalization.py",),
    ),
    Fault(
        "windows: the last one of a document is missing",
        "albert_tf/text/packing.py",
        "further = tf.maximum(lengths - budgets + steps - 1, 0) // steps",
        "further = tf.maximum(lengths - budgets, 0) // steps",
        ("tests/albert_tf/text/test_windows.py",),
    ),
    Fault(
        "spans: an answer starts where another window shows more context",
        "albert_tf/models/answer_spans.py",
        "return in_context & (contexts == tf.gather(best, tf.maximum(tokens, 0)))",
        "return in_context",
        ("tests/albert_tf/models/test_spans.py",),
    ),
    Fault(
        "squad: articles are not left out of answers",
        "albert_tf/tasks/squad_metrics.py",
        '_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION))',
        "text.lower().translate(_WITHOUT_PUNCTUATION)",
        ("tests/albert_tf/tasks",),
    ),
    Fault(
        "squad: the first annotated answer counts, not the best",
        "albert_tf/tasks/squad_metrics.py",
        "exact, f1 = map(max, zip(*scores, strict=True))",
        "exact, f1 = scores[0]",
        ("tests/albert_tf/tasks",),
    ),
    Fault(
        "loop: the best checkpoint is deleted with the old ones",
        "albert_tf/training/loop.py",
        "kept = {*steps[-self.training.loop.keep :], self.best.step(book.lines, steps)}",
        "kept = {*steps[-self.training.loop.keep :]}",
        (
            "tests/albert_tf/finetuning/test_best_step.py",
            "tests/albert_tf/training/test_loop.py",
        ),
    ),
    Fault(
        "loop: weights that are not finite are saved",
        "albert_tf/training/loop.py",
        "if not all_finite(self.state.model.trainable_variables):",
        "if False:",
        ("tests/albert_tf/training/test_loop.py",),
    ),
    Fault(
        "best: the highest loss is the best",
        "albert_tf/runs/run_directory.py",
        "sign = 1 if self.is_highest else -1",
        "sign = 1",
        ("tests/albert_tf/runs/test_metrics_log.py",),
    ),
    Fault(
        "resume: batches are drawn anew",
        "albert_tf/training/stages.py",
        'return {**parts, "iterator": self.iterator, "drawn_at": self.drawn_at}',
        "return parts",
        (
            "tests/albert_tf/finetuning/test_resume.py",
            "tests/albert_tf/training/test_loop.py",
        ),
    ),
    Fault(
        "growth: layers come from the first ones of a deeper run",
        "albert_tf/runs/warm_start.py",
        "layer = index // inner * source.num_hidden_layers // config.num_hidden_layers",
        "layer = index // inner",
        ("tests/albert_tf/runs/test_growth.py",),
    ),
    Fault(
        "growth: a head of other labels is copied",
        "albert_tf/runs/warm_start.py",
        '["model", "task", "labels", "pooling"]',
        '["model"]',
        (
            "tests/albert_tf/finetuning/test_starts.py",
            "tests/albert_tf/runs/test_growth.py",
        ),
    ),
    Fault(
        "conversion: kernels are not transposed for PyTorch",
        "albert_tf/runs/variable_names.py",
        "return value.T if self.is_transposed else value.reshape(self.shape_here)",
        "return value.reshape(self.shape)",
        ("tests/albert_tf/conversion/test_huggingface.py",),
    ),
    Fault(
        "tagging: a word has the least likely tag",
        "albert_tf/tasks/tagging.py",
        "tags = tf.argmax(scores, axis=-1, output_type=tf.int32)",
        "tags = tf.argmin(scores, axis=-1, output_type=tf.int32)",
        ("tests/albert_tf/tasks/test_kinds.py",),
    ),
    Fault(
        "tagging: what follows a punctuation mark belongs to it",
        "albert_tf/text/packing.py",
        "return opens | is_mark | is_after",
        "return opens | is_mark",
        ("tests/albert_tf/text/test_windows.py",),
    ),
    Fault(
        "multi_label: the threshold is not that of the task",
        "albert_tf/tasks/multi_label.py",
        '{"is_label": scores >= self.threshold}',
        '{"is_label": scores >= 0.5}',
        ("tests/albert_tf/tasks/test_kinds.py",),
    ),
    Fault(
        "serving: the longest row of a request is cut",
        "albert_tf/tasks/serving.py",
        "longest = tf.maximum(tf.reduce_max(lengths), least)",
        "longest = tf.maximum(tf.reduce_min(lengths), least)",
        ("tests/albert_tf/tasks/test_kinds.py", "tests/albert_tf/inference/test_pipeline.py"),
    ),
    Fault(
        "classification: the threshold between two labels is not that of the task",
        "albert_tf/tasks/classification.py",
        "tf.cast(scores[:, 1] >= self.threshold, tf.int64)",
        "tf.cast(scores[:, 1] >= 0.5, tf.int64)",
        ("tests/albert_tf/finetuning/test_evaluation.py",),
    ),
    Fault(
        "reports: each bin counts alike in the calibration error",
        "albert_tf/tasks/metrics.py",
        "error = sum(count * abs(mean - share) for _, mean, share, count in rows) / max(len(scores), 1)",
        "error = sum(abs(mean - share) for _, mean, share, count in rows) / max(len(rows), 1)",
        ("tests/albert_tf/tasks/test_curves.py",),
    ),
    Fault(
        "layers: padding counts as tokens do",
        "albert_tf/analysis/hidden_states.py",
        "inputs[INPUT_MASK]) > 0]",
        "inputs[INPUT_MASK]) >= 0]",
        ("tests/albert_tf/analysis/test_layers.py",),
    ),
    Fault(
        "plan: a ring sends the gradients once",
        "albert_tf/analysis/run_plan.py",
        "return 2 * (update.devices - 1)",
        "return (update.devices - 1)",
        ("tests/albert_tf/analysis/test_plan.py",),
    ),
)
