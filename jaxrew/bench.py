"""Throughput of an environment or of a whole training, measured the way the README's numbers are."""

import importlib.metadata
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrew.rewards import NoReward, RewardModule
from jaxrew.training.lanes import Program, Settings, init_lanes, make_program, place, run_chunk
from jaxrew.training.loop import CHUNK_CAPACITY
from jaxrew.training.train import check_parts, stack
from jaxrew.types import as_leaves

REPEATS = 3


def bench_env(env: Any, num_envs: int, steps: int, resets: str = "fresh") -> dict[str, Any]:
    """Steps/s of `num_envs` environments under random actions, observations and resets included.

    Args:
      env: an `Environment`.
      num_envs: N.
      steps: of each environment, in one compiled scan.
      resets: "fresh" or "pool".
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    vec_env = env.vectorise(num_envs, resets)

    @jax.jit
    def start(key):
        return vec_env.init(key)

    @jax.jit
    def play(key, state, obs):
        action_key, env_key = jax.random.split(key)
        actions = vec_env.spec.action_space.sample(action_key, (steps, num_envs))

        def one_step(carry, inputs):
            # The observation is carried, so that no step's can be left out.
            key_t, action = inputs
            state, obs, step = vec_env.step(key_t, carry[0], action)
            return (state, obs, carry[2] + step.reward), None

        keys = jax.random.split(env_key, steps)
        return jax.lax.scan(one_step, (state, obs, jnp.zeros(num_envs)), (keys, actions))[0]

    key = jax.random.key(0)
    state, obs = start(key)
    compiled, compile_seconds = _compile(play, key, state, obs)
    return _report(lambda repeat: compiled(jax.random.key(repeat), state, obs), num_envs * steps, compile_seconds)


def bench_train(
    agent: Any, env: Any, reward: RewardModule | None, seeds: int, steps: int, lanes: str = "auto"
) -> dict[str, Any]:
    """Steps/s of a whole training over all seeds, initialisation included and compilation apart.

    Args:
      agent, env, reward, lanes: as for `jaxrew.train`.
      seeds: how many train in one program.
      steps: frames of one seed; whole updates are run.
    """
    training = compile_train(agent, env, reward, seeds, steps, lanes)
    report = _report(training.run, training.frames, training.compile_seconds)
    return report | {"lanes": training.program.mode, "updates": training.updates}


class CompiledTraining(NamedTuple):
    """`run(repeat)` trains all seeds from start to end, others for every `repeat`; `frames` are summed over seeds."""

    run: Callable[[int], Any]
    frames: int
    updates: int
    compile_seconds: float
    program: Program


def compile_train(
    agent: Any, env: Any, reward: RewardModule | None, seeds: int, steps: int, lanes: str = "auto"
) -> CompiledTraining:
    """Compiles a training for timing it; arguments as for `bench_train`."""
    reward = NoReward() if reward is None else reward
    vec_env = env.vectorise(agent.num_envs)
    check_parts(agent, vec_env, reward)
    program = make_program(vec_env, seeds, lanes)
    settings = place(program, stack(Settings(as_leaves(agent), as_leaves(reward)), seeds))
    updates = max(1, (steps - reward.warm_steps * agent.num_envs) // agent.frames_per_update)
    frames = seeds * (updates * agent.frames_per_update + reward.warm_steps * agent.num_envs)

    def keys(repeat: int) -> jax.Array:
        return place(program, jax.vmap(jax.random.key)(repeat * seeds + jnp.arange(seeds)))

    init, init_seconds = _compile(init_lanes, program, settings, keys(0))
    example = init(settings, keys(0))
    total_steps = jnp.float32(steps)
    chunk, chunk_seconds = _compile(run_chunk, program, settings, example, jnp.int32(0), total_steps, CHUNK_CAPACITY)

    def train(repeat: int) -> Any:
        state = init(settings, keys(repeat))
        for first in range(0, updates, CHUNK_CAPACITY):
            count = min(CHUNK_CAPACITY, updates - first)
            state, rows = chunk(settings, state, jnp.int32(count), total_steps)
        return rows

    return CompiledTraining(train, frames, updates, init_seconds + chunk_seconds, program)


def _compile(function: Any, *args: Any) -> tuple[Any, float]:
    """The compiled function, its static arguments bound, and the seconds that took."""
    started = time.perf_counter()
    compiled = function.lower(*args).compile()
    return compiled, time.perf_counter() - started


def _report(run: Callable[[int], Any], frames: int, compile_seconds: float) -> dict[str, Any]:
    """Runs once to warm up, then `REPEATS` times."""
    jax.block_until_ready(run(0))
    seconds = []
    for repeat in range(1, REPEATS + 1):
        started = time.perf_counter()
        jax.block_until_ready(run(repeat))
        seconds.append(time.perf_counter() - started)
    device = jax.local_devices()[0]
    return {
        "compile_seconds": round(compile_seconds, 2),
        "run_seconds": round(statistics.median(seconds), 4),
        "steps_per_second_median": round(frames / statistics.median(seconds)),
        "steps_per_second_best": round(frames / min(seconds)),
        "frames": frames,
        "device": f"{len(jax.local_devices())} x {device.device_kind}",
        "versions": {name: importlib.metadata.version(name) for name in ("jaxrew", "jax", "jaxlib")},
    }
