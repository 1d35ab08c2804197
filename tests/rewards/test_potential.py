"""Potential-based shaping: a slow loop, telescoping sums of real episodes, invariance in tabular MDPs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs import VecEnv, make
from jaxrew.rewards import Anneal, Potential
from jaxrew.rewards.potential import shape
from jaxrew.training.rollout import init_collector, random_play
from tests.references.rewards_experience import SPEC, context, flat, learnt, rescored, rollouts, scored, started
from tests.references.rewards_oracles import PotentialOracle, greedy_policy, random_mdp, segments

GAMMA = 0.95


def warmth(facts):
    return facts["heat"] * 2.0 + facts["cell"][0] - facts["level"]


def ramp(frames):
    """The weight of `Anneal(start=1, end=0.2, over=0.5)` in a run of 1,000 frames."""
    return 1.0 - 0.8 * min(frames / 500, 1.0)


@pytest.mark.parametrize("anneal", [False, True])
def test_equals_a_slow_loop_over_consecutive_rollouts(anneal):
    module = Anneal(Potential(warmth), 1.0, 0.2, over=0.5) if anneal else Potential(warmth)
    module.validate(SPEC, 5)
    oracle = PotentialOracle(warmth, GAMMA, ramp if anneal else lambda frames: 1.0, 5)
    state, step = started(module), 0
    for batch in rollouts(0, num_rollouts=8):
        rewards, state, _ = scored(module, state, batch, step)
        np.testing.assert_allclose(rewards["task"], oracle.reward(batch), rtol=1e-5, atol=1e-5)
        step += batch.reward.size


def test_terminated_wins_over_truncated():
    batch = next(rollouts(0))
    batch = batch._replace(truncated=batch.ended)
    terminated = np.asarray(batch.terminated)
    assert terminated.any()
    before, after = (
        np.asarray(f["heat"] * 2.0 + f["cell"][..., 0] - f["level"]) for f in (batch.facts, batch.next_facts)
    )
    module = Potential(warmth)
    reward = module.reward(started(module), batch, context()._replace(task_gamma=0.5))[0]["task"]
    np.testing.assert_allclose(reward, np.where(terminated, 0.0, 0.5 * after) - before, atol=1e-5)


@functools.cache
def random_episodes(name, num_envs, num_steps, num_rollouts):
    """The spec of a real environment, and consecutive rollouts of random play in it."""
    env = VecEnv(make(name), num_envs)
    collector, batches = init_collector(env, jax.random.key(0)), []
    play = jax.jit(lambda collector, key: random_play(env, collector, key, num_steps))
    for k in range(num_rollouts):
        collector, batch = play(collector, jax.random.key(1 + k))
        batches.append(batch)
    return env.spec, batches


@pytest.mark.parametrize("anneal", [False, True])
@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_discounted_sums_of_real_episodes_telescope(name, anneal):
    """CartPole under random play ends by terminating, MountainCar by truncating; rollouts cut across episodes."""
    spec, batches = random_episodes(name, 4, 73, 6)
    fact = next(fact.name for fact in spec.facts if fact.dtype == "float32")
    module = Potential(lambda facts: 1.0 + facts[fact] ** 2)
    if anneal:
        module = Anneal(module, 1.0, 0.2, over=0.5)
    module.validate(spec, 4)
    weights = [ramp(4 * t) if anneal else 1.0 for t in range(73 * 6 + 1)]
    state, rewards = started(module, 4, spec=spec), []
    for k, batch in enumerate(batches):
        reward, state, _ = scored(module, state, batch, 4 * 73 * k, spec=spec)
        rewards.append(reward["task"])
    whole = jax.tree.map(lambda *x: np.concatenate(x), *batches)
    rewards = np.concatenate(rewards).astype(np.float64)
    phi = 1.0 + np.asarray(whole.facts[fact], np.float64) ** 2
    next_phi = 1.0 + np.asarray(whole.next_facts[fact], np.float64) ** 2
    endings = set()
    for i, episodes in segments(whole.ended).items():
        for first, last in episodes:
            length = last - first + 1
            total = (GAMMA ** np.arange(length) * rewards[first : last + 1, i]).sum()
            expected = -weights[first] * phi[first, i]
            if not whole.terminated[last, i]:
                expected += GAMMA**length * weights[last + 1] * next_phi[last, i]
            assert total == pytest.approx(expected, abs=2e-5)
            endings.add((bool(whole.terminated[last, i]), first // 73 == last // 73))
    assert {ending for ending, _ in endings} == {name == "CartPole-v1"}
    assert False in {within for _, within in endings}, "no episode ran from one rollout into the next"


def test_annealing_the_difference_would_not_telescope():
    """The control of the test above: weighing F instead of Phi leaves a remainder."""
    batch = next(rollouts(0, num_rollouts=8, terminates=0.08, truncates=0.0))
    module = Potential(warmth)
    raw, _, _ = scored(module, started(module), batch)
    weights = np.array([ramp(5 * t) for t in range(24)])
    phi = batch.facts["heat"] * 2.0 + batch.facts["cell"][..., 0] - batch.facts["level"]
    remainders = [
        (GAMMA ** np.arange(b - a + 1) * (weights[:, None] * raw["task"])[a : b + 1, i]).sum() + weights[a] * phi[a, i]
        for i, episodes in segments(batch.ended).items()
        for a, b in episodes
    ]
    assert np.abs(remainders).max() > 0.05


def test_the_optimal_policy_of_tabular_mdps_is_unchanged():
    """200 random MDPs by value iteration; a terminal potential that is not zero does change policies."""
    rng, unchanged, changed_by_terminal = np.random.default_rng(0), 0, 0
    for _ in range(200):
        transitions, rewards, terminal = random_mdp(rng)
        gamma, phi = rng.uniform(0.7, 0.99), rng.normal(scale=3.0, size=len(terminal))
        plain = np.broadcast_to(rewards[..., None], transitions.shape)
        policy, gap = greedy_policy(transitions, plain, terminal, gamma)
        if gap < 1e-4:
            continue
        arrival = np.broadcast_to(phi, transitions.shape)
        here = np.broadcast_to(phi[:, None, None], transitions.shape)
        ends = np.broadcast_to(terminal, transitions.shape)
        with jax.enable_x64(True):
            shaped = np.asarray(shape(jnp.array(here), jnp.array(arrival), jnp.array(ends), gamma))
            wrong = np.asarray(shape(jnp.array(here), jnp.array(arrival), jnp.zeros_like(ends), gamma))
        np.testing.assert_array_equal(greedy_policy(transitions, plain + shaped, terminal, gamma)[0], policy)
        unchanged += 1
        changed_by_terminal += not np.array_equal(greedy_policy(transitions, plain + wrong, terminal, gamma)[0], policy)
    assert unchanged >= 190
    assert changed_by_terminal >= 50


def test_uses_the_discount_of_the_task():
    batch = next(rollouts(0, terminates=0.0))
    module = Potential(warmth)
    gain = jax.jit(lambda gamma: module.reward(started(module), batch, context()._replace(task_gamma=gamma))[0]["task"])
    following = batch.next_facts["heat"] * 2.0 + batch.next_facts["cell"][..., 0] - batch.next_facts["level"]
    np.testing.assert_allclose(gain(0.9) - gain(0.4), 0.5 * following, atol=1e-5)


def test_rescore_equals_the_reward_and_keeps_the_state():
    module = Potential(warmth)
    assert module.recomputable
    state = started(module)
    for batch in rollouts(3, num_rollouts=3):
        rewards, state, _ = scored(module, state, batch)
        np.testing.assert_allclose(
            rescored(module, state, flat(batch))["task"], rewards["task"].reshape(-1), rtol=1e-5, atol=1e-5
        )
    assert learnt(module, state, batch)[1] == {}
    annealed = Anneal(module)
    assert not annealed.recomputable
    with pytest.raises(TypeError, match="replay its collected reward"):
        annealed.rescore(state, flat(batch), context())


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda facts: facts["haet"], "unknown fact of Cells 'haet'; did you mean 'heat'?"),
        (lambda facts: facts["heading"], "shape \\(\\), and <lambda> returns \\(2,\\)"),
        (lambda facts: (facts["heat"], 1.0), "and <lambda> returns tuple"),
    ],
)
def test_errors(fn, message):
    with pytest.raises(ValueError, match=message):
        Potential(fn).validate(SPEC, 5)


def test_needs_facts_to_read():
    with pytest.raises(ValueError, match="Cells documents none"):
        Potential(warmth).validate(dataclasses.replace(SPEC, facts=()), 5)
    Potential(lambda facts: 3).validate(SPEC, 5)
