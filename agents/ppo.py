"""Proximal policy optimisation (Schulman et al., 2017) for discrete actions, with one value head per reward stream.

One `update` is: collect a rollout, score it with the reward module, turn every stream's rewards into advantages (before
GAE, each stream with its own discount), add those up by weight, learn the policy and the values, let the module learn.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array
from jax.flatten_util import ravel_pytree

from jaxrew.networks import MLP, orthogonal_dense
from jaxrew.rewards.base import Context, NoReward, RewardModule
from jaxrew.rewards.compose import score
from jaxrew.training.normalise import Moments, init_moments, update_moments, whiten
from jaxrew.training.returns import gae, value_truncated
from jaxrew.training.rollout import Collector, init_collector, random_play, rollout
from jaxrew.types import Discrete, EnvSpec, PyTree, Stream, Transition, static

if TYPE_CHECKING:
    from envs import VecEnv


class ActorCritic(nn.Module):
    """Action logits `[..., A]` and one value per stream `[..., S]`, from one encoder or (default) one each."""

    num_actions: int
    streams: Sequence[str]
    encoder: nn.Module
    shared: bool = False

    @nn.compact
    def __call__(self, features: Array) -> tuple[Array, Array]:
        policy_embedding = self.encoder.copy(name="policy_encoder")(features)
        value_embedding = policy_embedding if self.shared else self.encoder.copy(name="value_encoder")(features)
        logits = orthogonal_dense(self.num_actions, scale=0.01, name="policy")(policy_embedding)
        values = [orthogonal_dense(1, scale=1.0, name=f"value_{name}")(value_embedding) for name in self.streams]
        return logits, jnp.concatenate(values, axis=-1)


class PPOState(NamedTuple):
    """Everything one seed carries from update to update."""

    key: Array
    step: Array
    params: PyTree
    opt_state: PyTree
    collector: Collector
    reward_state: PyTree
    obs_moments: Moments
    return_moments: Moments
    discounted_return: Array


class Minibatch(NamedTuple):
    """What the loss reads, `[B, ...]`; the last axis of values and targets is the stream."""

    obs: Array
    action: Array
    log_prob: Array
    value: Array
    target: Array
    advantage: Array


class PPO(struct.PyTreeNode):
    """Settings of PPO. Floats are leaves (a sweep may vary them); the rest shapes the compiled program.

    Attributes:
      learning_rate: of Adam, annealed linearly to 0 over the run if `anneal_learning_rate`.
      gamma, gae_lambda: of the task stream; the lambda serves all streams.
      task_coef: weight of the task advantage beside the streams' own `coef`.
      clip_ratio: epsilon of the clipped objective (and of the value clipping).
      num_envs, num_steps: N and T; one update consumes N T frames.
      num_epochs, num_minibatches: passes over the rollout and pieces per pass.
      hidden_sizes: of the default tanh MLP encoder; `network` replaces it by any linen module from features to
        `[..., D]`.
      shared_torso: one encoder for policy and values instead of one each.
      normalize_advantage: over each "minibatch", over the whole "batch", or "none"; after the streams are added up.
      normalize_obs: whiten features by running moments, clipped to +-10.
      normalize_task: divide the task reward by the running std of its discounted return.
    """

    transferable: ClassVar[tuple[str, ...]] = ("params", "obs_moments")
    """The fields of the state that `init_from` takes over."""

    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    task_coef: float = 1.0
    clip_ratio: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    adam_eps: float = 1e-5
    num_envs: int = static(64)
    num_steps: int = static(128)
    num_epochs: int = static(4)
    num_minibatches: int = static(4)
    hidden_sizes: tuple[int, ...] = static((64, 64))
    network: nn.Module | None = static(None)
    shared_torso: bool = static(False)
    clip_value: bool = static(True)
    anneal_learning_rate: bool = static(True)
    normalize_advantage: str = static("minibatch")
    normalize_obs: bool = static(False)
    normalize_task: bool = static(False)

    # -- boundary ------------------------------------------------------------------------------------------------------

    @property
    def frames_per_update(self) -> int:
        return self.num_envs * self.num_steps

    def validate(self, spec: EnvSpec) -> None:
        """Raises ValueError, in one sentence, for settings that cannot work."""
        if not isinstance(spec.action_space, Discrete):
            raise ValueError(f"PPO needs discrete actions, and {spec.name} has {spec.action_space}")
        for name in ("num_envs", "num_steps", "num_epochs", "num_minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("gamma", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.frames_per_update % self.num_minibatches:
            raise ValueError(
                f"num_envs * num_steps = {self.frames_per_update} does not divide into num_minibatches = "
                f"{self.num_minibatches}; {math.gcd(self.frames_per_update, self.num_minibatches)} would do"
            )
        if self.normalize_advantage not in ("minibatch", "batch", "none"):
            raise ValueError(
                f"normalize_advantage must be 'minibatch', 'batch' or 'none', got {self.normalize_advantage!r}"
            )

    def streams(self, reward: RewardModule) -> tuple[Stream, ...]:
        """The streams that get a value head, the task's first."""
        return (Stream(gamma=self.gamma, coef=self.task_coef, name="task"), *reward.streams())

    # -- the two functions of an agent ---------------------------------------------------------------------------------

    def init(self, key: Array, env: "VecEnv", reward: RewardModule = NoReward()) -> PPOState:  # noqa: B008
        """The state before the first update; modules that ask for it see random play first (its frames count)."""
        key, net_key, env_key, reward_key, play_key, warm_key = jax.random.split(key, 6)
        spec = env.spec
        collector = init_collector(env, env_key)
        features = spec.to_features(collector.obs)
        params = self._network(spec, reward).init(net_key, features)
        state = PPOState(
            key=key,
            step=jnp.int32(reward.warm_steps * self.num_envs),
            params=params,
            opt_state=self._optimizer(self.learning_rate).init(ravel_pytree(params)[0]),
            collector=collector,
            reward_state=reward.init(reward_key, spec, self.num_envs),
            obs_moments=init_moments(features.shape[1:] if self.normalize_obs else ()),
            return_moments=init_moments(),
            discounted_return=jnp.zeros(self.num_envs, jnp.float32),
        )
        if not reward.warm_steps:
            return state
        collector, batch = random_play(env, collector, play_key, reward.warm_steps)
        ctx = Context(warm_key, jnp.int32(0), jnp.float32(jnp.inf), self.gamma, spec)  # no schedule has begun
        return state._replace(collector=collector, reward_state=reward.warm(state.reward_state, batch, ctx))

    def update(
        self, env: "VecEnv", reward: RewardModule, state: PPOState, total_steps: Array
    ) -> tuple[PPOState, dict[str, Array]]:
        """One round of collect, score, learn the policy, learn the reward."""
        spec, streams = env.spec, self.streams(reward)
        key, rollout_key, noise_key, reward_key, shuffle_key = jax.random.split(state.key, 5)
        ctx = Context(reward_key, state.step, total_steps, self.gamma, spec)

        apply = self._forward(spec, reward, state.obs_moments)

        def act(obs: Array, uniform: Array) -> tuple[Array, dict[str, Array]]:
            logits, values = apply(state.params, obs)
            action = sample_action(logits, uniform)
            return action, {"log_prob": log_probability(logits, action), "values": values, "logits": logits}

        uniform = jax.random.uniform(noise_key, (self.num_steps, self.num_envs))
        collector, batch, metrics = rollout(env, act, state.collector, rollout_key, uniform, self.num_steps, state.step)
        rewards, reward_state, reward_metrics = score(reward, state.reward_state, batch, ctx)
        task_reward, return_moments, discounted_return = self._scaled_task_reward(state, batch)
        rewards = combine_task(rewards, task_reward, reward.replaces_task)

        # A critic with an encoder of its own reads the whole rollout at once, and XLA drops it from the loop above.
        values = batch.extras["values"] if self.shared_torso else apply(state.params, batch.obs)[1]
        last_values = apply(state.params, collector.obs)[1]
        bootstrap = lambda obs: apply(state.params, obs)[1]  # noqa: E731
        advantages, targets = self.advantages(streams, rewards, values, last_values, batch, bootstrap, spec.max_steps)

        flat = Minibatch(batch.obs, batch.action, batch.extras["log_prob"], values, targets, advantages)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), flat)
        params, opt_state, losses = self._learn(apply, state, flat, shuffle_key, total_steps)
        reward_state, learning_metrics = reward.update(reward_state, batch, ctx)

        obs_moments = state.obs_moments
        if self.normalize_obs:
            obs_moments = update_moments(obs_moments, spec.to_features(batch.obs))
        new_state = PPOState(
            key=key,
            step=state.step + self.frames_per_update,
            params=params,
            opt_state=opt_state,
            collector=collector,
            reward_state=reward_state,
            obs_moments=obs_moments,
            return_moments=return_moments,
            discounted_return=discounted_return,
        )
        metrics["reward/task/raw"] = batch.reward.mean()
        return new_state, metrics | losses | reward_metrics | learning_metrics

    def act(self, spec: EnvSpec, reward: RewardModule, state: PPOState, obs: Array, key: Array, greedy: bool) -> Array:
        """Actions `[N]` of the learnt policy, for evaluation."""
        logits, _ = self._forward(spec, reward, state.obs_moments)(state.params, obs)
        return jnp.argmax(logits, -1) if greedy else sample_action(logits, jax.random.uniform(key, logits.shape[:-1]))

    # -- the mathematics -----------------------------------------------------------------------------------------------

    def advantages(
        self,
        streams: Sequence[Stream],
        rewards: dict[str, Array],
        values: Array,
        last_values: Array,
        batch: Transition,
        bootstrap: Any,
        max_steps: int | None,
    ) -> tuple[Array, Array]:
        """The weighted sum over streams of GAE advantages `[T, N]`, and each stream's value targets `[T, N, S]`.

        `bootstrap(obs [K, ...]) -> [K, S]` values the true successors of truncated steps.
        """
        next_values = jnp.concatenate([values[1:], last_values[None]])
        true_next_values = value_truncated(next_values, batch, bootstrap, max_steps)
        total, targets = jnp.zeros_like(batch.reward), []
        for index, stream in enumerate(streams):
            following = true_next_values if stream.episodic else next_values
            advantage, target = gae(
                rewards[stream.name],
                values[..., index],
                following[..., index],
                batch.terminated,
                batch.truncated,
                stream.gamma,
                self.gae_lambda,
                stream.episodic,
            )
            total += stream.coef * advantage
            targets.append(target)
        return total, jnp.stack(targets, axis=-1)

    def loss(self, apply: Any, params: PyTree, data: Minibatch) -> tuple[Array, dict[str, Array]]:
        """Clipped surrogate + value_coef * sum over streams of squared errors / 2 - entropy_coef * entropy."""
        logits, values = apply(params, data.obs)
        log_prob = log_probability(logits, data.action)
        advantage = data.advantage
        if self.normalize_advantage == "minibatch":
            advantage = standardise(advantage)
        ratio = jnp.exp(log_prob - data.log_prob)
        clipped_ratio = jnp.clip(ratio, 1.0 - self.clip_ratio, 1.0 + self.clip_ratio)
        policy_loss = -jnp.minimum(ratio * advantage, clipped_ratio * advantage).mean()

        errors = jnp.square(values - data.target)
        if self.clip_value:
            clipped = data.value + jnp.clip(values - data.value, -self.clip_ratio, self.clip_ratio)
            errors = jnp.maximum(errors, jnp.square(clipped - data.target))
        value_loss = 0.5 * errors.mean(axis=0).sum()

        log_probs = jax.nn.log_softmax(logits)
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        total = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy
        metrics = {
            "loss/policy": policy_loss,
            "loss/value": value_loss,
            "entropy": entropy,
            "clip_fraction": (jnp.abs(ratio - 1.0) > self.clip_ratio).mean(),
        }
        return total, metrics

    # -- plumbing ------------------------------------------------------------------------------------------------------

    def _network(self, spec: EnvSpec, reward: RewardModule) -> ActorCritic:
        encoder = self.network
        if encoder is None:
            feature_ndim = len(
                jax.eval_shape(spec.to_features, jax.ShapeDtypeStruct(spec.obs_shape, spec.obs_dtype)).shape
            )
            encoder = MLP(self.hidden_sizes, feature_ndim=feature_ndim)
        names = tuple(stream.name for stream in self.streams(reward))
        return ActorCritic(num_actions(spec), names, encoder, self.shared_torso)

    def _forward(self, spec: EnvSpec, reward: RewardModule, obs_moments: Moments) -> Callable[[PyTree, Array], Any]:
        """`(params, obs) -> (logits, values)`."""
        network = self._network(spec, reward)

        def apply(params: PyTree, obs: Array) -> Any:
            features = spec.to_features(obs)
            if self.normalize_obs:
                features = whiten(obs_moments, features, clip=10.0)
            return network.apply(params, features)

        return apply

    def _optimizer(self, learning_rate: float | Array) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.max_grad_norm),
            optax.scale_by_adam(eps=self.adam_eps),
            optax.scale(-learning_rate),
        )

    def _learn(
        self, apply: Any, state: PPOState, data: Minibatch, key: Array, total_steps: Array
    ) -> tuple[PyTree, PyTree, dict[str, Array]]:
        """Several epochs of minibatch Adam; metrics are those of the last epoch.

        Adam sees all parameters as one vector: the same arithmetic in a few kernels instead of a few per layer, which
        saves a fifth of the learning step at small batches on CPU.
        """
        if self.normalize_advantage == "batch":
            data = data._replace(advantage=standardise(data.advantage))
        progress = state.step / total_steps if self.anneal_learning_rate else 0.0
        optimizer = self._optimizer(self.learning_rate * jnp.maximum(1.0 - progress, 0.0))
        vector, unravel = ravel_pytree(state.params)

        def loss(vector: Array, piece: Minibatch) -> tuple[Array, dict[str, Array]]:
            return self.loss(apply, unravel(vector), piece)

        def learn_minibatch(carry, rows):
            vector, opt_state = carry
            # Gathered once: without the barrier XLA gathers anew for each of its users.
            piece = jax.lax.optimization_barrier(jax.tree.map(lambda x: x[rows], data))
            (_, metrics), grads = jax.value_and_grad(loss, has_aux=True)(vector, piece)
            metrics["grad_norm"] = optax.tree.norm(grads)
            updates, opt_state = optimizer.update(grads, opt_state)
            return (vector + updates, opt_state), metrics

        # Sorting random words once halves the time of `jax.random.permutation`, which sorts again for fear of ties.
        order = jnp.argsort(jax.random.bits(key, (self.num_epochs, self.frames_per_update)), axis=-1)
        rows = order.reshape(self.num_epochs * self.num_minibatches, -1)
        (vector, opt_state), metrics = jax.lax.scan(learn_minibatch, (vector, state.opt_state), rows)
        return unravel(vector), opt_state, jax.tree.map(lambda x: x[-self.num_minibatches :].mean(), metrics)

    def _scaled_task_reward(self, state: PPOState, batch: Transition) -> tuple[Array, Moments, Array]:
        """The task reward, divided by the running std of its discounted return if asked (cut where episodes end)."""
        if not self.normalize_task:
            return batch.reward, state.return_moments, state.discounted_return

        def accumulate(running, inputs):
            reward_t, ended_t = inputs
            running = self.gamma * running + reward_t
            return jnp.where(ended_t, 0.0, running), running

        carry, returns = jax.lax.scan(accumulate, state.discounted_return, (batch.reward, batch.ended))
        moments = update_moments(state.return_moments, returns)
        return batch.reward / jnp.sqrt(moments.var + 1e-8), moments, carry


def num_actions(spec: EnvSpec) -> int:
    """A, the number of discrete actions."""
    assert isinstance(spec.action_space, Discrete)
    return spec.action_space.n


def sample_action(logits: Array, uniform: Array) -> Array:
    """Actions `[...]` distributed as softmax(logits `[..., A]`), from uniform numbers `[...]` in [0, 1).

    By the inverse of the distribution function: one random number a sample where Gumbel-max takes A, and no logarithm.
    """
    thresholds = jnp.cumsum(jax.nn.softmax(logits), axis=-1)[..., :-1]
    return (thresholds <= uniform[..., None]).sum(axis=-1, dtype=jnp.int32)


def log_probability(logits: Array, action: Array) -> Array:
    """Log softmax(logits)[action], for logits `[..., A]` and integer actions `[...]`."""
    # A one-hot product, as the gradient of a gather would be a scatter.
    chosen = jax.nn.one_hot(action, logits.shape[-1])
    return (jax.nn.log_softmax(logits) * chosen).sum(axis=-1)


def standardise(x: Array) -> Array:
    """(x - mean) / (std + 1e-8)."""
    return (x - x.mean()) / (x.std() + 1e-8)


def combine_task(rewards: dict[str, Array], task_reward: Array, replaces_task: bool) -> dict[str, Array]:
    """A module's rewards with the environment's added to (or left out of) the "task" stream."""
    if replaces_task:
        return rewards
    return rewards | {"task": task_reward + rewards.get("task", 0.0)}
