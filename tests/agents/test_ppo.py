"""PPO: how rewards reach the gradient, what bootstraps, and the loss against NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agents.ppo import PPO, Minibatch, combine_task, sample_action
from jaxrew.rewards import NoReward, Potential
from jaxrew.training.returns import value_truncated
from jaxrew.types import Stream, Transition, as_leaves
from tests.references.returns_loop import gae_by_sums

T, N = 12, 3
TINY = PPO(num_envs=4, num_steps=8, num_epochs=1, num_minibatches=2, hidden_sizes=(8,))


def random_batch(rng, end_rate=0.2, num_steps=T):
    shape = (num_steps, N)
    obs = rng.normal(size=(num_steps, N, 2)).astype(np.float32)
    next_obs = rng.normal(size=(num_steps, N, 2)).astype(np.float32)
    terminated, truncated = (jnp.asarray(rng.random(shape) < end_rate) for _ in range(2))
    reward = jnp.asarray(rng.normal(size=shape), jnp.float32)
    action = jnp.zeros(shape, jnp.int32)
    return Transition(jnp.asarray(obs), action, reward, jnp.asarray(next_obs), terminated, truncated, {}, {})


def test_intrinsic_reward_reaches_the_advantage_before_gae():
    """Law 1: d A_t / d r_int,t+k = coef (gamma lambda)^k."""
    rng = np.random.default_rng(0)
    batch = random_batch(rng, end_rate=0.0)
    agent = as_leaves(PPO(gae_lambda=0.9))
    streams = (Stream(gamma=0.99), Stream(gamma=0.8, coef=0.3, name="bonus", episodic=False))
    values = jnp.asarray(rng.normal(size=(T, N, 2)), jnp.float32)

    def advantage(bonus):
        rewards = {"task": batch.reward, "bonus": bonus}
        return agent.advantages(streams, rewards, values, values[0], batch, lambda obs: jnp.zeros((len(obs), 2)), 100)[
            0
        ]

    jacobian = jax.jacobian(advantage)(jnp.zeros((T, N)))
    for t in range(T):
        for k in range(T - t):
            np.testing.assert_allclose(jacobian[t, 1, t + k, 1], 0.3 * (0.8 * 0.9) ** k, rtol=1e-5)
            assert jacobian[t, 1, t + k, 0] == 0.0
        assert not jacobian[t, :, :t].any()


def test_policy_gradient_differs_from_no_bonus():
    """Law 1, second half, through the whole update."""

    class Left(Potential):
        pass

    env = envs.make("CartPole-v1").vectorise(TINY.num_envs)
    agent, none = as_leaves(TINY), NoReward()
    potential = as_leaves(Left(lambda facts: -10.0 * jnp.abs(facts["pole_angle"])))
    state = agent.init(jax.random.key(0), env, none)
    plain, _ = agent.update(env, none, state, jnp.float32(1e4))
    state = agent.init(jax.random.key(0), env, potential)
    shaped, _ = agent.update(env, potential, state, jnp.float32(1e4))
    kernel = lambda s: s.params["params"]["policy"]["kernel"]  # noqa: E731
    assert not np.allclose(kernel(plain), kernel(shaped), atol=1e-6)


def test_episodic_and_other_streams_against_the_sum():
    """Law 3 through PPO's own assembly of next values."""
    rng = np.random.default_rng(1)
    batch = random_batch(rng)
    streams = (Stream(gamma=0.9, coef=1.5), Stream(gamma=0.7, coef=0.5, name="bonus", episodic=False))
    agent = as_leaves(PPO(gae_lambda=0.8))
    values = rng.normal(size=(T, N, 2)).astype(np.float32)
    last = rng.normal(size=(N, 2)).astype(np.float32)
    critic = lambda obs: jnp.stack([obs.sum(-1), obs.prod(-1)], -1)  # noqa: E731
    rewards = {"task": batch.reward, "bonus": batch.reward**2}
    total, _ = agent.advantages(streams, rewards, jnp.asarray(values), jnp.asarray(last), batch, critic, None)

    following = np.concatenate([values[1:], last[None]])
    true_following = np.where(np.asarray(batch.truncated)[..., None], critic(batch.next_obs), following)
    flags = np.asarray(batch.terminated), np.asarray(batch.truncated)
    expected = 1.5 * gae_by_sums(
        np.asarray(rewards["task"]), values[..., 0], true_following[..., 0], *flags, 0.9, 0.8, True
    ) + 0.5 * gae_by_sums(np.asarray(rewards["bonus"]), values[..., 1], following[..., 1], *flags, 0.7, 0.8, False)
    np.testing.assert_allclose(total, expected, atol=1e-5)


@pytest.mark.parametrize("max_steps", [4, 5, T, 1000])
def test_only_truncated_successors_are_valued(max_steps):
    """The bound on rows holds for the densest truncation an environment with this limit can make."""
    batch = random_batch(np.random.default_rng(2), end_rate=0.0)
    steps = np.arange(T)[:, None] + np.array([max_steps - 1, max_steps // 2, 0])
    truncated = jnp.asarray(steps % max_steps == max_steps - 1)
    batch = batch._replace(truncated=truncated, terminated=truncated & (jnp.arange(N) == 1))
    rows = []

    def critic(obs):
        rows.append(len(obs))
        return obs.sum(-1, keepdims=True)

    before = jnp.full((T, N, 1), 7.0)
    after = value_truncated(before, batch, critic, max_steps)
    cut = np.asarray(batch.truncated & ~batch.terminated)
    np.testing.assert_allclose(after[..., 0], np.where(cut, batch.next_obs.sum(-1), 7.0), rtol=1e-6)
    assert rows == [N * -(-T // max_steps)]


def test_actions_are_sampled_by_their_probabilities():
    rng = np.random.default_rng(4)
    logits = 2 * rng.normal(size=(5, 7)).astype(np.float32)
    logits[0, :] = [-np.inf, 0, -np.inf, 0, 1, -np.inf, 0]  # what cannot happen
    uniform = (np.arange(100_000) / 100_000).astype(np.float32)
    actions = np.asarray(sample_action(jnp.asarray(logits)[:, None], jnp.asarray(uniform)[None]))
    for row, chosen in zip(logits.astype(np.float64), actions, strict=True):
        frequencies = np.bincount(chosen, minlength=7) / uniform.size
        np.testing.assert_allclose(frequencies, np.exp(row) / np.exp(row).sum(), atol=3e-5)


def test_loss_against_numpy():
    rng = np.random.default_rng(3)
    size, actions = 50, 4
    logits = rng.normal(size=(size, actions)).astype(np.float32)
    values, old_values, targets = (rng.normal(size=(size, 2)).astype(np.float32) for _ in range(3))
    action = rng.integers(0, actions, size)
    old_log_prob, advantage = -rng.random(size).astype(np.float32) * 2, rng.normal(size=size).astype(np.float32)
    data = Minibatch(*map(jnp.asarray, (np.zeros(size), action, old_log_prob, old_values, targets, advantage)))
    agent = PPO(entropy_coef=0.03, value_coef=0.7, clip_ratio=0.1)
    total, metrics = agent.loss(lambda params, obs: (jnp.asarray(logits), jnp.asarray(values)), None, data)

    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    ratio = probs[np.arange(size), action] / np.exp(old_log_prob)
    standard = (advantage - advantage.mean()) / advantage.std()
    policy = -np.minimum(ratio * standard, np.clip(ratio, 0.9, 1.1) * standard).mean()
    clipped = old_values + np.clip(values - old_values, -0.1, 0.1)
    value = 0.5 * sum(np.maximum((values - targets) ** 2, (clipped - targets) ** 2).mean(0))
    entropy = -(probs * np.log(probs)).sum(-1).mean()
    np.testing.assert_allclose(total, policy + 0.7 * value - 0.03 * entropy, rtol=1e-5)
    np.testing.assert_allclose(metrics["clip_fraction"], (np.abs(ratio - 1) > 0.1).mean(), rtol=1e-6)


def test_one_value_head_per_stream_and_shared_torso():
    env = envs.make("CartPole-v1").vectorise(4)
    for shared, encoders in ((False, {"policy_encoder", "value_encoder"}), (True, {"policy_encoder"})):
        agent = dataclasses.replace(TINY, shared_torso=shared)
        params = agent.init(jax.random.key(0), env).params["params"]
        assert set(params) == encoders | {"policy", "value_task"}


def test_replacing_the_task_reward():
    rewards = {"task": jnp.ones(2), "other": jnp.zeros(2)}
    assert combine_task(rewards, jnp.full(2, 5.0), replaces_task=False)["task"].tolist() == [6.0, 6.0]
    assert combine_task(rewards, jnp.full(2, 5.0), replaces_task=True)["task"].tolist() == [1.0, 1.0]
    assert combine_task({}, jnp.full(2, 5.0), replaces_task=False)["task"].tolist() == [5.0, 5.0]


def test_task_rewards_are_scaled_by_the_std_of_their_discounted_sum():
    """Two rollouts; the sum is cut where an episode ends and carried where a rollout does."""
    rng = np.random.default_rng(5)
    agent = as_leaves(TINY.replace(normalize_task=True, gamma=0.9))
    env = envs.make("CartPole-v1").vectorise(TINY.num_envs)
    state = agent.init(jax.random.key(0), env)._replace(discounted_return=jnp.zeros(N))
    running, sums = np.zeros(N), []
    for _ in range(2):
        batch = random_batch(rng)
        scaled, moments, carry = agent._scaled_task_reward(state, batch)
        for reward_t, ended_t in zip(np.asarray(batch.reward), np.asarray(batch.ended), strict=True):
            running = 0.9 * running + reward_t
            sums.extend(running)
            running = np.where(ended_t, 0.0, running)
        np.testing.assert_allclose(scaled, batch.reward / np.std(sums), rtol=1e-4)
        state = state._replace(return_moments=moments, discounted_return=carry)


def test_observations_are_whitened_by_what_was_seen_before():
    agent = as_leaves(TINY.replace(normalize_obs=True))
    env, none = envs.make("CartPole-v1").vectorise(TINY.num_envs), NoReward()
    state, _ = agent.update(env, none, agent.init(jax.random.key(0), env), jnp.float32(1e4))
    assert state.obs_moments.count == TINY.frames_per_update
    obs = np.array([[0.1, -0.2, 0.05, 40.0]], np.float32)
    mean, std = np.asarray(state.obs_moments.mean), np.sqrt(np.asarray(state.obs_moments.var))
    plain = agent.replace(normalize_obs=False)._forward(env.spec, none, state.obs_moments)
    logits, _ = agent._forward(env.spec, none, state.obs_moments)(state.params, jnp.asarray(obs))
    expected, _ = plain(state.params, jnp.asarray(np.clip((obs - mean) / std, -10, 10)))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
