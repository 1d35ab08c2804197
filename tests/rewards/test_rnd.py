"""Random network distillation against NumPy: whitening, reward filter, gradient and Adam by hand."""

import flax.linen as nn
import jax
import numpy as np
import pytest

from jaxrew.networks import GridEncoder
from jaxrew.rewards import RND
from jaxrew.types import Discrete, EnvSpec
from tests.references.rewards_experience import SPEC, flat, learnt, rescored, rollouts, scored, started, warmed
from tests.references.rewards_oracles import (
    AdamOracle,
    ReturnStdOracle,
    WhitenOracle,
    distillation_gradient,
    forward,
    layers_of,
)

SMALL = RND(hidden=(8, 8), embedding=6, warm_steps=24, learning_rate=1e-2)


def errors_of(module, state, features):
    """Squared errors of both networks, by hand, of whitened features `[T, N, ...]`."""
    rows = features.reshape(-1, *features.shape[2:])
    target, predictor = forward(layers_of(state.target), rows)[-1], forward(layers_of(state.predictor), rows)[-1]
    return ((target - predictor) ** 2).mean(-1).reshape(features.shape[:2])


@pytest.mark.parametrize("minibatches", [1, 3])
def test_equals_numpy_over_consecutive_rollouts(minibatches):
    """Reward, statistics, one pass of Adam: warm-up and six updates."""
    module = SMALL.replace(minibatches=minibatches)
    state = started(module)
    whiten, std, adam = WhitenOracle(), ReturnStdOracle(0.99, 5), AdamOracle(layers_of(state.predictor), 1e-2)
    batches = list(rollouts(0, num_rollouts=7))

    whiten.add(batches[0].next_obs)
    std.std(errors_of(module, state, whiten(batches[0].next_obs, 5.0)))
    state = warmed(module, state, batches[0])
    for k, batch in enumerate(batches[1:]):
        rewards, state, metrics = scored(module, state, batch)
        errors = errors_of(module, state, whiten(batch.next_obs, 5.0))
        scale = std.std(errors)
        np.testing.assert_allclose(rewards["rnd"], errors / scale, rtol=2e-4, atol=1e-5)
        assert metrics["reward/rnd/raw"] == pytest.approx((errors / scale).mean(), rel=1e-3)

        whiten.add(batch.next_obs)
        inputs, seed = whiten(batch.next_obs, 5.0).reshape(120, 3, 2), 10 + k
        rows = np.asarray(module._kept_rows(batch, jax.random.key(seed)))
        layers, losses = layers_of(state.predictor), []
        for minibatch in rows:
            x = inputs[minibatch]
            outputs = forward(layers_of(state.target), x)[-1]
            losses.append(((forward(layers, x)[-1] - outputs) ** 2).mean())
            layers = adam.step(layers, distillation_gradient(layers, x, outputs))
        frozen = state.target
        state, metrics = learnt(module, state, batch, seed=seed)
        for mine, theirs in zip(layers_of(state.predictor), layers, strict=True):
            np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-3, atol=2e-4)
            np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-3, atol=2e-4)
        assert metrics["reward/rnd/loss"] == pytest.approx(np.mean(losses), rel=1e-3)
        assert metrics["reward/rnd/std"] == pytest.approx(scale, rel=1e-3)
        jax.tree.map(np.testing.assert_array_equal, state.target, frozen)


@pytest.mark.parametrize(
    ("num_envs", "keep", "minibatches", "rows"),
    [
        (5, None, 4, (4, 30)),
        (64, None, 4, (4, 192)),
        (64, 0.25, 1, (1, 384)),
        (1, 0.01, 4, (1, 1)),
        (5, 1.0, 7, (7, 17)),
    ],
)
def test_trains_on_a_random_share_without_repeats(num_envs, keep, minibatches, rows):
    batch = next(rollouts(0, num_envs=num_envs))
    module = RND(keep=keep, minibatches=minibatches)
    kept = [np.asarray(module._kept_rows(batch, jax.random.key(seed))) for seed in range(20)]
    assert kept[0].shape == rows
    assert all(len(set(k.ravel())) == k.size for k in kept)
    assert not np.array_equal(kept[0], kept[1])
    # Every row of the rollout has the same chance: over 20 draws the mean row is the middle one, within 4 sigma.
    total, drawn = 24 * num_envs, np.concatenate([k.ravel() for k in kept])
    assert abs(drawn.mean() - (total - 1) / 2) < 4 * total / np.sqrt(12 * len(drawn))


def test_what_was_seen_often_is_paid_less_than_what_is_new():
    new = next(rollouts(0))
    seen = new._replace(next_obs=np.broadcast_to(new.next_obs[0, :4], (30, 4, 3, 2)).reshape(24, 5, 3, 2))
    state = warmed(SMALL, started(SMALL), new)
    for seed in range(60):
        state, _ = learnt(SMALL, state, seen, seed=seed)
    bonus = [float(rescored(SMALL, state, flat(batch))["rnd"].mean()) for batch in (seen, new)]
    assert bonus[0] < 0.5 * bonus[1]


def test_rescore_is_the_reward_with_statistics_frozen():
    module = SMALL
    state = started(module)
    warm, batch = rollouts(0, num_rollouts=2)
    state = warmed(module, state, warm)
    rewards, after, _ = scored(module, state, batch)
    # Scored with the moments of before, divided by the std of after.
    mixed = after._replace(features=state.features)
    np.testing.assert_allclose(rescored(module, mixed, flat(batch))["rnd"], rewards["rnd"].reshape(-1), rtol=1e-5)


def test_nothing_is_seen_before_the_warm_up_and_all_of_it_then():
    state = started(SMALL)
    assert state.features.count == state.returns.moments.count == 0
    state = warmed(SMALL, state, next(rollouts(0)))
    assert state.features.count == state.returns.moments.count == 24 * 5
    assert RND().warm_steps == 128


def test_any_encoder_and_observation_will_do():
    spec = EnvSpec("Image", (7, 7, 3), "uint8", Discrete(3), 100, features=lambda obs: obs / 10.0)
    module = RND(encoder=GridEncoder(channels=(4,), size=16), hidden=(8,), embedding=5)
    images = np.random.default_rng(0).integers(0, 9, (24, 5, 7, 7, 3)).astype(np.uint8)
    batch = next(rollouts(0))._replace(next_obs=images)
    state = started(module, spec=spec)
    rewards, after, _ = scored(module, state, batch, spec=spec)
    encode = lambda params: GridEncoder((4,), 16).apply({"params": params["params"]["encoder"]}, images / 10.0)  # noqa: E731
    dense = lambda params, k, x: x @ params["params"][f"Dense_{k}"]["kernel"]  # noqa: E731
    target = dense(state.target, 0, encode(state.target))
    predicted = dense(state.predictor, 1, nn.relu(dense(state.predictor, 0, encode(state.predictor))))
    expected = np.square(target - predicted).mean(-1) * after.returns.scale
    np.testing.assert_allclose(rewards["rnd"], expected, rtol=1e-4)


def test_streams():
    (stream,) = RND(coef=0.5).streams()
    assert (stream.name, stream.gamma, stream.coef, stream.episodic) == ("rnd", 0.99, 0.5, False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(keep=0.0), "keep = 0.0 must be a share above 0 and up to 1; try 1.0"),
        (dict(minibatches=0), "minibatches = 0 must be at least 1"),
        (dict(warm_steps=-1), "warm_steps = -1 must be 0 or more"),
        (dict(stream="task", coef=2.0), "write 2.0 \\* RND"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        RND(**settings).validate(SPEC, 5)
