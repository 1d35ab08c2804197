"""Sum and Scale, and the metrics of every component."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.rewards import Anneal, Bonus, Chain, Clip, Counts, NoReward, Normalize, Potential, Scale, Sum
from jaxrew.types import as_leaves, static
from tests.references.rewards_experience import SPEC, flat, learnt, rescored, rollouts, scored, started


def warmth(facts):
    return facts["heat"]


class Noise(Bonus, kw_only=True):
    """Pays noise of the keys it is given, so that it shows which they were; wants a warm-up and reports its state."""

    warm_steps: int = static(16)

    def init(self, key, spec, num_envs):
        return jax.random.normal(key)

    def reward(self, state, batch, ctx):
        return {self.stream_name: state + jax.random.normal(ctx.key, batch.reward.shape)}, state

    def rescore(self, state, batch, ctx):
        return {self.stream_name: state + batch.reward}

    def update(self, state, batch, ctx):
        return state + jax.random.normal(ctx.key), {f"reward/{self.label}/state": state}


PARTS = (Noise(), Counts(), Counts(stream="task", scope="episode"), 0.5 * Potential(warmth))


class Hum(Noise, kw_only=True):
    """The same under another label."""


def run(module, batches):
    """Rewards of every rollout, the last state and the last metrics."""
    state, rewards, metrics = started(module), [], {}
    for seed, batch in enumerate(batches):
        reward, state, shown = scored(module, state, batch, seed=seed)
        state, more = learnt(module, state, batch, seed=seed)
        rewards.append(reward)
        metrics = shown | more
    return rewards, state, metrics


def test_sum_adds_stream_by_stream():
    batch = next(rollouts(0))
    together, counts, visits, potential = (
        scored(module, started(module), batch)[0] for module in (Sum(*PARTS), *PARTS[1:])
    )
    assert set(together) == {"noise", "counts", "task"}
    np.testing.assert_array_equal(together["counts"], counts["counts"])
    np.testing.assert_allclose(together["task"], visits["task"] + potential["task"], rtol=1e-6, atol=1e-6)


def test_the_order_is_irrelevant_to_the_last_bit():
    """Keys, and sums of three floats, would depend on it."""
    batches = list(rollouts(0, num_rollouts=2))
    noise, hum, potential, counts = Noise(), Hum(stream="task"), 0.3 * Potential(warmth), 0.7 * Counts(stream="task")
    rewards, _, metrics = run(Sum(noise, hum, potential, counts), batches)
    swapped, _, swapped_metrics = run(Sum(counts, potential, hum, noise), batches)
    chex.assert_trees_all_equal((rewards, metrics), (swapped, swapped_metrics))
    nested = Sum(counts, hum, Sum(potential, noise))
    np.testing.assert_array_equal(scored(nested, started(nested), batches[0])[0]["task"], rewards[0]["task"])


def test_streams_are_merged_by_name_and_must_agree():
    counts = Counts(stream="novelty")
    module = Sum(counts, 0.1 * Noise(stream="novelty"))
    module.validate(SPEC, 5)
    assert [stream.name for stream in module.streams()] == list(module.pays) == ["novelty"]
    assert module.warm_steps == 16
    rewards = run(module, list(rollouts(0, num_rollouts=1)))[0][0]
    assert set(rewards) == {"novelty"}
    for other in (Noise(gamma=0.9), Noise(coef=0.5), Noise(episodic=True)):
        with pytest.raises(
            ValueError, match="two modules pay into the stream 'novelty' with \\(gamma, coef, episodic\\)"
        ):
            Sum(counts, other.replace(stream="novelty")).validate(SPEC, 5)
    with pytest.raises(ValueError, match=r"did you mean 'cell'\?"):
        Sum(Counts(facts=("cel",)), Noise()).validate(SPEC, 5)


def test_metrics_of_every_component():
    module, batches = Sum(*PARTS[:3], Counts(coef=0.25, stream="half")), list(rollouts(0, num_rollouts=2))
    rewards, _, metrics = run(module, batches)
    names = ("noise", "counts", "counts_2", "half")
    assert set(metrics) == {
        *(f"reward/{name}/{kind}" for name in names for kind in ("raw", "scaled", "share")),
        *(f"reward/{name}/overflow" for name in names[1:]),
        "reward/noise/state",
    }
    mean = {name: float(reward.mean()) for name, reward in rewards[-1].items()}
    expected = [mean["noise"], mean["counts"], mean["task"], 0.25 * mean["half"]]
    np.testing.assert_allclose([metrics[f"reward/{name}/scaled"] for name in names], expected, rtol=1e-6)
    expected[0] = float(jnp.abs(rewards[-1]["noise"]).mean())
    shares = [metrics[f"reward/{name}/share"] for name in names]
    np.testing.assert_allclose(shares, np.array(expected) / np.sum(expected), rtol=1e-6)
    assert metrics["reward/half/raw"] == metrics["reward/counts/raw"]
    assert all(value.shape == () for value in metrics.values())


def test_a_nan_is_traced_to_its_component():
    module = Sum(Counts(), float("nan") * Counts(stream="bad"), 0.5 * Potential(lambda facts: jnp.log(facts["heat"])))
    batch = next(rollouts(0))
    _, _, metrics = scored(module, started(module), batch)
    assert jnp.isfinite(metrics["reward/counts/raw"])
    assert jnp.isfinite(metrics["reward/counts/scaled"])
    assert jnp.isfinite(metrics["reward/bad/raw"])
    assert jnp.isnan(metrics["reward/bad/scaled"])
    assert jnp.isnan(metrics["reward/potential/raw"])


def test_shares_are_zero_where_nothing_is_paid():
    module = Sum(0.0 * Counts(), 0.0 * Counts(stream="other"))
    _, _, metrics = scored(module, started(module), next(rollouts(0)))
    assert metrics["reward/counts/share"] == metrics["reward/other/share"] == 0.0
    assert metrics["reward/counts/raw"] > 0.0


def test_labels_are_unique_however_deep():
    deep = Sum(Sum(Counts(), Counts(stream="task")), 0.5 * Counts(), Chain(Counts(), Clip(0.0, 1.0)), NoReward())
    assert deep.labels == ("counts", "counts_2", "counts_3", "counts_4")
    _, _, metrics = run(deep, list(rollouts(0, num_rollouts=1)))
    assert {f"reward/{label}/overflow" for label in deep.labels} <= set(metrics)
    assert {f"reward/{label}/share" for label in deep.labels} <= set(metrics)
    assert Sum(Counts(stream="counts_2"), Counts(), Counts()).labels == ("counts_2", "counts", "counts_3")


@pytest.mark.parametrize(
    "scale", [0.5, 2, np.float32(0.5), np.float64(0.25), jnp.float32(0.5)], ids=lambda s: str(type(s))
)
def test_any_number_scales_a_module(scale):
    module = scale * Counts()
    assert isinstance(module, Scale)
    assert module.streams() == Counts().streams()
    batch = next(rollouts(0))
    rewards, state, metrics = scored(module, started(module), batch)
    raw, _, _ = scored(Counts(), started(Counts()), batch)
    np.testing.assert_allclose(rewards["counts"], float(scale) * raw["counts"], rtol=1e-6)
    assert metrics["reward/counts/scaled"] == pytest.approx(float(scale) * metrics["reward/counts/raw"])
    np.testing.assert_allclose(
        rescored(module, state, flat(batch))["counts"], float(scale) * rescored(Counts(), state, flat(batch))["counts"]
    )


def test_a_composition_is_what_its_parts_are():
    potential, episodic = Potential(warmth), Counts(scope="episode")
    assert [m.recomputable for m in (Sum(Noise(), Counts()), Sum(Noise(), episodic), 0.5 * episodic)] == [
        True,
        False,
        False,
    ]
    assert [m.shaping for m in (Sum(Noise(), potential), 2.0 * potential, Anneal(potential), Sum(Noise()))] == [
        True
    ] * 3 + [False]
    assert not Sum(Noise()).replaces_task
    assert Chain(0.5 * Noise(), Normalize()).warm_steps == 16


def test_compositions_are_pytrees_whose_floats_are_leaves():
    module = as_leaves(Sum(0.5 * Counts(), Chain(Noise(), Clip(-1.0, 1.0)), Anneal(Potential(warmth), 1.0, 0.0, 0.5)))
    leaves, structure = jax.tree.flatten(module)
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    # Counts: gamma, coef, beta, power and the scale; Noise: gamma, coef and two bounds; Anneal: 3.
    assert len(leaves) == 5 + 4 + 3
    chex.assert_trees_all_equal(structure.unflatten(leaves), module)


def test_sum_rescore_adds_what_the_parts_rescore():
    module, batch = Sum(Counts(), 2.0 * Counts(), Noise()), next(rollouts(0))
    state = started(module)
    _, state, _ = scored(module, state, batch)
    rewards = rescored(module, state, flat(batch))
    once = rescored(Counts(), state[0], flat(batch))["counts"]
    np.testing.assert_allclose(rewards["counts"], 3.0 * once, rtol=1e-6)
    np.testing.assert_allclose(rewards["noise"], rescored(Noise(), state[2], flat(batch))["noise"], rtol=1e-6)
