"""Plays one environment and scores what it earned as training does: true successors, and the module's own code."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrew.render.restore import Trained
from jaxrew.rewards.base import Context, RewardModule, State
from jaxrew.training.rollout import init_collector, random_play
from jaxrew.types import EnvSpec, PyTree, Transition, as_leaves

Act = Callable[[PyTree, Array, Array], Array]
"""`(policy, obs [1, ...], key) -> action [1, ...]`."""


class Playback(NamedTuple):
    """T steps of one environment, on the host.

    Attributes:
      before, after: the environment's states that each step left and reached (before any reset), `[T, ...]`.
      batch: the transitions, `[T, 1, ...]`.
    """

    before: Any
    after: Any
    batch: Transition

    @property
    def ended(self) -> np.ndarray:
        """Where an episode ended, `[T]`."""
        return np.asarray(self.batch.ended)[:, 0]


class Series(NamedTuple):
    """What one source of reward paid at each step, `[T]`, and a word on it."""

    label: str
    values: np.ndarray
    note: str = ""


class Scorer(NamedTuple):
    """A reward module ready to score a playback: its state for one environment, and the moment of training."""

    module: RewardModule
    state: State
    frames: int
    total_steps: float
    task_gamma: float


def trained_policy(trained: Trained, greedy: bool) -> tuple[Act, PyTree]:
    """A run's policy, sampled or greedy."""
    spec = trained.env.spec

    def act(policy: PyTree, obs: Array, key: Array) -> Array:
        agent, reward, state = policy
        return agent.act(spec, reward, state, obs, key, greedy)

    return act, (trained.agent, trained.reward, trained.state)


def random_policy(spec: EnvSpec) -> tuple[Act, PyTree]:
    """Uniformly random actions."""
    return lambda _, obs, key: spec.action_space.sample(key, (obs.shape[0],)), ()


def play(env: Any, act: Act, policy: PyTree, key: Array, episodes: int, num_steps: int) -> Playback:
    """Plays until `episodes` have ended, at most `num_steps` steps."""
    playback = jax.device_get(_play(env, act, policy, key, num_steps, episodes > 1))
    ends = np.flatnonzero(playback.ended)
    shown = int(ends[episodes - 1]) + 1 if len(ends) >= episodes else num_steps
    return jax.tree.map(lambda leaf: leaf[:shown], playback)


@functools.partial(jax.jit, static_argnums=(0, 1, 4, 5))
def _play(env: Any, act: Act, policy: PyTree, key: Array, num_steps: int, restart: bool) -> Playback:
    key, first_key = jax.random.split(key)

    def one_step(carry, key_t):
        state, obs = carry
        act_key, step_key, reset_key = jax.random.split(key_t, 3)
        action = act(policy, obs, act_key)
        after, step = env.step_many(step_key, state, action)
        transition = Transition(
            obs=obs,
            action=action,
            reward=step.reward,
            next_obs=step.obs,
            terminated=step.terminated,
            truncated=step.truncated,
            facts=env.facts_many(state),
            next_facts=step.facts,
        )
        following = after, step.obs
        if restart:  # a reset can take longer to compile than all the rest
            fresh, ended = env.reset_many(reset_key[None]), transition.ended[0]
            following = jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, following)
        return following, Playback(state, after, transition)

    return jax.lax.scan(one_step, env.reset_many(first_key[None]), jax.random.split(key, num_steps))[1]


def trained_scorer(trained: Trained) -> Scorer:
    """A run's own reward module as it was at the end, its memory of the episode in each environment begun anew."""
    if not hasattr(trained.state, "reward_state"):
        kind = type(trained.agent).__name__
        raise ValueError(f"{kind} keeps no reward_state, so what its reward learnt is unknown; give --reward a name")
    module, spec = trained.reward, trained.env.spec
    fresh = module.init(jax.random.key(0), spec, 1)
    two = jax.eval_shape(lambda: module.init(jax.random.key(0), spec, 2))
    # What has another shape for two environments than for one belongs to environments; the rest was learnt.
    state = jax.tree.map(
        lambda learnt, one, pair: learnt if one.shape == pair.shape else one, trained.state.reward_state, fresh, two
    )
    gamma = next(stream.gamma for stream in trained.agent.streams(module) if stream.name == "task")
    return Scorer(module, state, trained.frames, trained.total_steps, gamma)


def fresh_scorer(env: Any, module: RewardModule, key: Array, task_gamma: float = 0.99) -> Scorer:
    """A module that has learnt nothing, warmed up by random play if it asks for that."""
    module.validate(env.spec, 1)
    module = as_leaves(module)
    vec_env = env.vectorise(1)

    @jax.jit
    def start(module: RewardModule, key: Array) -> State:
        init_key, env_key, play_key, warm_key = jax.random.split(key, 4)
        state = module.init(init_key, env.spec, 1)
        if not module.warm_steps:
            return state
        _, batch = random_play(vec_env, init_collector(vec_env, env_key), play_key, module.warm_steps)
        return module.warm(state, batch, Context(warm_key, jnp.int32(0), jnp.float32(jnp.inf), task_gamma, env.spec))

    return Scorer(module, start(module, key), 0, jnp.inf, task_gamma)


def score_steps(scorer: Scorer, batch: Transition, spec: EnvSpec, key: Array) -> list[Series]:
    """The environment's reward and what each component of the module paid at every step.

    Paid means after all weights and transforms around a component, summed over its streams, without the streams' coef.
    A component that pays only through others shows its own reward.
    """

    @jax.jit
    def components(module: RewardModule, state: State, batch: Transition, key: Array):
        step, total_steps = jnp.int32(scorer.frames), jnp.float32(scorer.total_steps)
        ctx = Context(key, step, total_steps, scorer.task_gamma, spec)
        weight = jnp.ones(batch.reward.shape[0] + 1, jnp.float32)
        parts, _ = module.components(state, batch, ctx, weight)
        # Labels are text, which a compiled function cannot return.
        return {part.label: (part.raw, part.paid) for part in parts}

    coefs = {stream.name: float(stream.coef) for stream in scorer.module.streams()}
    task = Series("task", np.asarray(batch.reward)[:, 0], "not learnt from" if scorer.module.replaces_task else "")
    series = [task]
    for label, (raw, paid) in jax.device_get(components(scorer.module, scorer.state, batch, key)).items():
        weights = [f"coef {coefs[name]:.3g}" for name in paid if coefs.get(name, 1.0) != 1.0]
        note = ", ".join(weights) if paid else "before the sum"
        series.append(Series(label, np.asarray(sum((paid or raw).values()))[:, 0], note))
    return series
