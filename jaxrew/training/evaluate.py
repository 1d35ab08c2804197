"""Evaluation: the task reward alone, of a policy that does not learn, on levels of its own."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import Array

from jaxrew.training.lanes import Lane, Program, Settings, over_lanes

LONGEST_EPISODE = 10_000
"""Steps after which an episode of an environment without a time limit counts as it stands."""


@functools.partial(jax.jit, static_argnames=("program", "episodes", "greedy"))
def evaluate(
    program: Program, settings: Settings, lanes: Lane, keys: Array, episodes: int, greedy: bool = False
) -> Array:
    """Undiscounted task returns `[L, episodes]` of each lane's policy, sampled or greedy, one episode an environment.

    Key `keys[i]` alone decides lane i's levels, which are drawn independently of those it trains on.
    """
    env = dataclasses.replace(program.env, num_envs=episodes)
    limit = env.spec.max_steps or LONGEST_EPISODE

    def play(args, _):
        setting, lane, key = args
        reset_key, key = jax.random.split(key)
        env_state, obs = env.init(reset_key)

        def one_step(carry):
            index, env_state, obs, returns, running = carry
            act_key, env_key = jax.random.split(jax.random.fold_in(key, index))
            action = setting.agent.act(env.spec, setting.reward, lane.state, obs, act_key, greedy)
            env_state, obs, step = env.step(env_key, env_state, action)
            returns = returns + running * step.reward
            return index + 1, env_state, obs, returns, running & ~(step.terminated | step.truncated)

        def going_on(carry):
            return carry[-1].any() & (carry[0] < limit)

        start = (jnp.int32(0), env_state, obs, jnp.zeros(episodes), jnp.ones(episodes, bool))
        return jax.lax.while_loop(going_on, one_step, start)[3]

    return over_lanes(program, play)((settings, lanes, keys), ())
