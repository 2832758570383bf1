"""What Lamb and AdamW have in common, against google-research/albert's recorded updates."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError
from albert_tf.optimization import AdamW, Lamb, WarmupPolynomialDecay, create_optimizer, global_norm
from albert_tf.optimization.lamb import trust_ratio

STEPS = 8
both = pytest.mark.parametrize("name", ["lamb", "adamw"])


class Recording:
    """One of the recorded optimizer runs."""

    def __init__(self, path):
        self.arrays = dict(np.load(path))
        self.names = [key.removeprefix("initial:") for key in self.arrays if key.startswith("initial:")]

    def variables(self):
        return [tf.Variable(self.arrays[f"initial:{name}"], name=name) for name in self.names]

    def gradients(self, step):
        return [tf.constant(self.arrays[f"grad:{step}:{name}"]) for name in self.names]

    def optimizer(self, name, **kwargs):
        a = self.arrays
        return create_optimizer(
            name,
            init_lr=float(a["learning_rate"]),
            num_train_steps=int(a["num_train_steps"]),
            num_warmup_steps=int(a["num_warmup_steps"]),
            weight_decay=float(a["weight_decay"]),
            clip_norm=float(a["clip_norm"]),
            **kwargs,
        )

    def check(self, step, variables):
        for name, variable in zip(self.names, variables, strict=True):
            expected = self.arrays[f"value:{step}:{name}"]
            np.testing.assert_allclose(
                variable.numpy(), expected, rtol=0, atol=1e-6, err_msg=f"{step} {name}"
            )


@pytest.fixture
def recording(golden, name):
    return Recording(golden / "optimizers" / f"{name}.npz")


@both
def test_recorded_updates(recording, name):
    variables, optimizer = recording.variables(), recording.optimizer(name)
    for step in range(STEPS):
        optimizer.apply_gradients(zip(recording.gradients(step), variables, strict=True))
        recording.check(step, variables)
    moved = [
        np.abs(recording.arrays[f"value:{STEPS - 1}:{n}"] - recording.arrays[f"initial:{n}"]).max()
        for n in recording.names
    ]
    assert min(moved) > 1e-5  # else the comparison would say nothing


@both
def test_in_a_graph_under_mixed_precision(recording, name):
    variables, optimizer = recording.variables(), recording.optimizer(name)
    scaled = keras.mixed_precision.LossScaleOptimizer(optimizer)
    scaled.build(variables)
    scaled.get_scaled_loss(tf.constant(1.0))

    @tf.function
    def train_step(gradients):
        gradients = scaled.get_unscaled_gradients([g * scaled.loss_scale for g in gradients])
        scaled.apply_gradients(zip(gradients, variables, strict=True))

    for step in range(STEPS):
        train_step(recording.gradients(step))
        recording.check(step, variables)


@both
def test_replicas_sum_before_clipping(recording, name, two_replicas):
    """A third of the gradient on one replica and two thirds on the other update as the whole one."""
    with two_replicas.scope():
        variables, optimizer = recording.variables(), recording.optimizer(name)

    @tf.function
    def train_step(gradients):
        def replica_step():
            share = (
                1.0 + tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
            ) / 3
            optimizer.apply_gradients([(share * g, v) for g, v in zip(gradients, variables, strict=True)])

        two_replicas.run(replica_step)

    for step in range(STEPS):
        train_step(recording.gradients(step))
        recording.check(step, variables)
        for variable in variables:
            first, second = two_replicas.experimental_local_results(variable)
            np.testing.assert_array_equal(first.numpy(), second.numpy())


@both
def test_sparse_gradient_equals_its_dense_form(name):
    """Rows that occur twice count with their sum, in the clipping too."""
    rows, values = [1, 3, 1], np.array([[3.0, 0.0], [0.0, 4.0], [-2.0, 1.0]], np.float32)
    summed = np.zeros([5, 2], np.float32)
    np.add.at(summed, rows, values)
    results = []
    for gradient in (tf.IndexedSlices(values, rows, [5, 2]), tf.constant(summed)):
        table = tf.Variable(np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2), name="word_embeddings")
        optimizer = create_optimizer(name, init_lr=0.1, num_train_steps=10)
        for _ in range(2):
            optimizer.apply_gradients([(gradient, table)])
        results.append(table.numpy())
        np.testing.assert_allclose(global_norm([gradient, None]), np.sqrt((summed**2).sum()), rtol=1e-6)
    np.testing.assert_array_equal(*results)


@both
def test_round_trip_through_json(name):
    optimizer = create_optimizer(
        name,
        init_lr=0.25,
        num_train_steps=20,
        num_warmup_steps=5,
        weight_decay=0.125,
        power=2.0,
        clip_norm=0.5,
        decay_after_warmup=True,
        beta_1=0.75,
        beta_2=0.875,
        epsilon=1e-3,
        exclude_from_weight_decay=["kernel$"],
        **({"exclude_from_layer_adaptation": ["table"]} if name == "lamb" else {}),
    )
    config = json.loads(json.dumps(keras.optimizers.serialize(optimizer)))
    copy = keras.optimizers.deserialize(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()
    results = []
    for each in (optimizer, copy):
        variables = [tf.Variable([1.0, 2.0], name="dense/kernel"), tf.Variable([3.0, 4.0], name="table")]
        for _ in range(3):
            each.apply_gradients([(tf.constant([5.0, -6.0]), variable) for variable in variables])
        results.append([variable.numpy() for variable in variables])
    np.testing.assert_array_equal(*results)


@both
def test_fixed_rate_and_no_clipping(name):
    """One step by hand with g = 100: r = 0.1 g / (√(0.001 g²) + ε) = √10, λ = 0."""
    variable = tf.Variable([3.0, 4.0], name="kernel")
    optimizer = {"lamb": Lamb, "adamw": AdamW}[name](
        learning_rate=0.1, weight_decay=0.0, global_clipnorm=None
    )
    optimizer.apply_gradients([(tf.constant([100.0, 100.0]), variable)])
    # LAMB: ‖x‖ / ‖r‖ = 5 / √20.
    step = 0.1 * (5 / np.sqrt(20) if name == "lamb" else 1.0) * np.sqrt(10)
    np.testing.assert_allclose(variable.numpy(), [3 - step, 4 - step], rtol=1e-5)


@both
def test_decay_leaves_layer_norm_and_biases_alone(name):
    names = [
        "encoder/transformer/group_0/inner_group_0/LayerNorm_1/gamma",
        "embeddings/LayerNorm/beta",
        "layer_norm/gamma",
        "cls/predictions/output_bias",
        "pooler/dense/bias",
        "pooler/dense/kernel",
    ]
    variables = [tf.Variable([1.0, 1.0], name=name) for name in names]
    optimizer = create_optimizer(name, init_lr=0.5, num_train_steps=10, weight_decay=0.5)
    optimizer.apply_gradients([(tf.zeros([2]), variable) for variable in variables])
    moved = [name for name, variable in zip(names, variables, strict=True) if variable.numpy()[0] != 1]
    assert moved == ["pooler/dense/kernel"]


def test_trains_in_keras_fit():
    start = keras.initializers.Constant(0.5)
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer=start, name="dense")])
    model.compile(create_optimizer("lamb", init_lr=0.2, num_train_steps=60, num_warmup_steps=5), "mse")
    x = np.random.default_rng(0).normal(size=[64, 2]).astype(np.float32)
    history = model.fit(x, x @ [[1.0], [-1.0]], batch_size=64, epochs=60, verbose=0).history["loss"]
    assert history[-1] < 0.05 * history[0]


def test_update_stays_outside_xla(monkeypatch):
    """Keras would compile the update wherever there is a GPU."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["a GPU"])
    assert not create_optimizer("lamb", init_lr=0.5, num_train_steps=10).jit_compile


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "adam"}, "'adam'.*lamb, adamw"),
        ({"num_warmup_steps": 11}, "num_warmup_steps=11"),
        ({"num_warmup_steps": 2.5}, "num_warmup_steps=2.5 must be a whole number"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"clip_norm": 0.0}, "global_clipnorm=0.0"),
        ({"beta_1": 1.0}, "beta_1=1.0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"init_lr": -1.0}, "init_lr=-1.0"),
        ({"num_train_steps": 0}, "num_train_steps=0"),
        ({"power": 0.0}, "power=0.0"),
    ],
)
def test_impossible_values_are_named(change, named):
    with pytest.raises(InputError, match=named):
        create_optimizer(**{"name": "lamb", "init_lr": 0.1, "num_train_steps": 10, **change})


@pytest.mark.parametrize("name", ["exclude_from_weight_decay", "exclude_from_layer_adaptation"])
def test_one_text_is_no_list_of_patterns(name):
    with pytest.raises(InputError, match=rf"{name}='bias' is one text: write a list, \['bias'\]"):
        Lamb(learning_rate=0.1, **{name: "bias"})


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_weight_decay_none_is_no_decay_as_in_keras(kind):
    variable = tf.Variable([3.0, 4.0])
    kind(learning_rate=0.5, weight_decay=None).apply_gradients([(tf.zeros([2]), variable)])
    assert variable.numpy().tolist() == [3, 4]


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1])
def test_a_rate_that_is_none_is_named(rate):
    with pytest.raises(InputError, match=f"learning_rate={rate}"):
        AdamW(learning_rate=rate)


#


def test_trust_ratio():
    x, u, zero = tf.constant([[3.0], [4.0]]), tf.constant([[0.0], [10.0]]), tf.zeros([2, 1])
    assert [float(trust_ratio(a, b)) for a, b in ((x, u), (zero, u), (x, zero))] == [0.5, 1, 1]


@both
def test_bias_correction_by_hand(name):
    """Kingma and Ba 2015, algorithm 1; with LAMB's trust ratio, and without, three updates in float64."""
    generator = np.random.default_rng(0)
    x, gradients = generator.normal(size=[4, 2]), generator.normal(size=[3, 4, 2])
    variable = tf.Variable(x, dtype=tf.float64)
    settings = {"weight_decay": 0.2, "global_clipnorm": None, "bias_correction": True}
    made = {"lamb": Lamb, "adamw": AdamW}[name](0.1, **settings, epsilon=1e-3)
    optimizer = type(made).from_config(made.get_config())
    m, v = np.zeros([2, 4, 2])
    for step, g in enumerate(gradients, start=1):
        optimizer.apply_gradients([(tf.constant(g), variable)])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        u = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-3) + 0.2 * x
        ratio = np.linalg.norm(x) / np.linalg.norm(u) if name == "lamb" else 1
        x = x - 0.1 * ratio * u
    np.testing.assert_allclose(variable.numpy(), x, rtol=1e-6)  # the rate is float32


#


def rates(schedule, steps):
    return np.array([float(schedule(tf.constant(step, tf.int64))) for step in steps])


def test_google_schedule_by_hand():
    schedule = WarmupPolynomialDecay(8.0, num_train_steps=20, num_warmup_steps=4)
    # 8 · t/4, then 8 · (1 - t/20): the decay has been running since step 0, so 8 is never reached.
    np.testing.assert_allclose(
        rates(schedule, [0, 1, 3, 4, 10, 19, 20, 21, 1000]), [0, 2, 6, 6.4, 4, 0.4, 0, 0, 0], rtol=1e-6
    )


def test_decay_after_warmup_reaches_the_peak():
    schedule = WarmupPolynomialDecay(8.0, 20, 4, decay_after_warmup=True)
    np.testing.assert_allclose(rates(schedule, [0, 2, 4, 12, 20, 25]), [0, 4, 8, 4, 0, 0], rtol=1e-6)


def test_power_and_no_warmup():
    schedule = WarmupPolynomialDecay(8.0, 20, power=2.0)
    np.testing.assert_allclose(rates(schedule, [0, 10, 15]), [8, 2, 0.5], rtol=1e-6)
    full = WarmupPolynomialDecay(1.0, 10, 10, decay_after_warmup=True)
    np.testing.assert_allclose(rates(full, [9, 10]), [0.9, 0], rtol=1e-6)


def test_last_steps_of_ten_million_differ():
    # 1 - t/T in float32 would round to multiples of 6e-8, more than a whole step.
    schedule = WarmupPolynomialDecay(1.0, 40_000_000)
    left = np.array([5, 4, 3, 2, 1, 0])
    np.testing.assert_allclose(rates(schedule, 40_000_000 - left), left / 4e7, rtol=1e-6)


def test_a_clip_that_would_have_no_effect_is_refused():
    for clip in ("clipnorm", "clipvalue"):
        with pytest.raises(InputError, match=f"{clip}=0.5: .*global_clipnorm=None"):
            AdamW(1e-3, **{clip: 0.5})
        optimizer = AdamW(1e-3, global_clipnorm=None, **{clip: 0.5})
        assert getattr(AdamW.from_config(optimizer.get_config()), clip) == 0.5
