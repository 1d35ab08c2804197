"""What every module must satisfy, on one sum of all of them, told apart by their streams."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.rewards import RND, Anneal, Chain, Clip, Counts, Normalize, Potential, Sum, score
from jaxrew.types import as_leaves
from tests.references.rewards_experience import SPEC, context, learnt, rollouts, scored, started, warmed


def warmth(facts):
    return facts["heat"]


EVERYTHING = Sum(
    0.5 * RND(hidden=(8,)),
    Counts(),
    Counts(stream="episode", scope="episode"),
    Counts(stream="hashed", facts=("serial",), capacity=512),
    Counts(stream="pairs", action=True),
    Anneal(Potential(warmth), over=0.9),
    Chain(Counts(stream="chain"), Normalize(), Clip(-5.0, 5.0)),
    Chain(Counts(stream="chain2"), Normalize("reward_std")),
)
STREAMS = ("rnd", "counts", "episode", "hashed", "pairs", "task", "chain", "chain2")


@functools.cache
def settled():
    """A state some way into training."""
    EVERYTHING.validate(SPEC, 5)
    warm, *batches = rollouts(7, num_rollouts=3)
    state = warmed(EVERYTHING, started(EVERYTHING), warm)
    for batch in batches:
        _, state, _ = scored(EVERYTHING, state, batch)
        state, _ = learnt(EVERYTHING, state, batch)
    return state


def changed_where(rows, batch, other):
    """`batch` with the given rows (flags `[T]`) taken from `other`."""
    return jax.tree.map(lambda a, b: np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), b, a), batch, other)


def unnormalised(name, rewards):
    """Running divisors pool the whole batch by definition, so those rewards are compared up to one factor."""
    return rewards[name] / rewards[name][0, 0] if name in ("rnd", "chain", "chain2") else rewards[name]


def test_one_compile_per_structure():
    """Another rollout, state, key, step or float value never traces again."""

    @jax.jit
    @chex.assert_max_traces(n=1)
    def update(module, state, batch, key, step, gamma):
        ctx = context()._replace(key=key, step=step, task_gamma=gamma)
        rewards, state, metrics = score(module, state, batch, ctx)
        state, more = module.update(state, batch, ctx)
        return rewards, state, metrics | more

    state = settled()
    for k, batch in enumerate(rollouts(0, num_rollouts=3)):
        module = as_leaves(jax.tree.map(lambda leaf, k=k: leaf * (1.0 + 0.1 * k), EVERYTHING))
        rewards, state, metrics = update(
            module, state, batch, jax.random.key(k), jnp.int32(120 * k), jnp.float32(0.9 + 0.01 * k)
        )
        assert set(rewards) == set(STREAMS) == set(EVERYTHING.pays)
        chex.assert_tree_all_finite((rewards, metrics))


def test_floats_can_be_swept_over():
    """A vmap over float values gives what each value gives alone."""
    module, batch, state = as_leaves(EVERYTHING), next(rollouts(0)), settled()
    scales = jnp.array([0.5, 1.0, 1.5])
    settings = jax.vmap(lambda scale: jax.tree.map(lambda leaf: leaf * scale, module))(scales)
    swept, _, _ = jax.jit(jax.vmap(lambda module: score(module, state, batch, context())))(settings)
    for k, scale in enumerate(scales):
        alone, _, _ = scored(jax.tree.map(lambda leaf, scale=scale: leaf * scale, EVERYTHING), state, batch)
        chex.assert_trees_all_close(jax.tree.map(lambda x, k=k: x[k], swept), alone, rtol=1e-4, atol=1e-5)


def test_seeds_side_by_side_are_seeds_alone():
    batches = [next(rollouts(seed)) for seed in range(3)]
    states = [started(EVERYTHING, seed=seed) for seed in range(3)]
    module = as_leaves(EVERYTHING)
    together = jax.jit(jax.vmap(lambda state, batch: score(module, state, batch, context())))
    rewards, _, _ = together(*(jax.tree.map(lambda *x: jnp.stack(x), *each) for each in (states, batches)))
    for seed in range(3):
        alone, _, _ = scored(EVERYTHING, states[seed], batches[seed])
        chex.assert_trees_all_close(jax.tree.map(lambda x, seed=seed: x[seed], rewards), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_nothing_reads_past_a_reset(flag):
    """Replacing all that follows an end changes no earlier reward, the ending transition's included."""
    batch, other, end = next(rollouts(0)), next(rollouts(99)), 11
    at_end = np.broadcast_to((np.arange(24) == end)[:, None], (24, 5))
    batch = batch._replace(terminated=np.zeros_like(at_end), truncated=np.zeros_like(at_end))
    batch = batch._replace(**{flag: at_end})
    before, _, _ = scored(EVERYTHING, settled(), batch)
    after, _, _ = scored(EVERYTHING, settled(), changed_where(np.arange(24) > end, batch, other))
    for name in STREAMS:
        mine, theirs = unnormalised(name, before), unnormalised(name, after)
        np.testing.assert_allclose(mine[: end + 1], theirs[: end + 1], rtol=1e-5, err_msg=name)
        assert not np.allclose(mine[end + 1 :], theirs[end + 1 :])
        assert np.all(before[name][end] != 0.0)


def test_the_ending_transition_is_scored_by_its_true_successor():
    """Its reward moves with its next_obs and next_facts, and not with what the environment shows after the reset."""
    batch, other = next(rollouts(0)), next(rollouts(99))
    ended = np.ones((24, 5), bool)
    batch, state = batch._replace(terminated=~ended, truncated=ended), settled()
    reward, _, _ = scored(EVERYTHING, state, batch)
    first = np.arange(24) == 0
    arrived = batch._replace(
        next_obs=changed_where(first, batch.next_obs, other.next_obs),
        next_facts=changed_where(
            first, batch.next_facts, other.next_facts | {"serial": batch.next_facts["serial"] * 0}
        ),
    )
    restarted = batch._replace(
        obs=changed_where(~first, batch.obs, other.obs), facts=changed_where(~first, batch.facts, other.facts)
    )
    by_successor, by_restart = scored(EVERYTHING, state, arrived)[0], scored(EVERYTHING, state, restarted)[0]
    for name in STREAMS:
        np.testing.assert_array_equal(by_restart[name][0], reward[name][0])
        # Counts of pairs are of where the agent acts; in one-step episodes an episodic count is almost always 1.
        if name not in ("pairs", "episode"):
            assert not np.allclose(by_successor[name][0], reward[name][0]), name


def test_scoring_does_not_change_its_inputs():
    state, batch = settled(), next(rollouts(0))
    before = jax.tree.map(np.array, (state, batch))
    first, second = scored(EVERYTHING, state, batch), scored(EVERYTHING, state, batch)
    chex.assert_trees_all_equal(first, second)
    chex.assert_trees_all_equal(before, jax.tree.map(np.array, (state, batch)))
