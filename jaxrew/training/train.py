"""`train`: validates what it is given, then alternates between the compiled program and the host."""

import collections
import contextlib
import operator
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrew.rewards.base import NoReward, RewardModule
from jaxrew.training.lanes import Lane, Settings, make_program, place
from jaxrew.training.loop import CHUNK_CAPACITY, Loop
from jaxrew.training.progress import Progress
from jaxrew.training.record import describe
from jaxrew.training.recorder import Recorder
from jaxrew.training.run import Run, RunFolder, load
from jaxrew.training.transfer import transfer
from jaxrew.types import PyTree, as_leaves

if TYPE_CHECKING:
    from envs import Environment, VecEnv


MOST_SEEDS = 100_000
"""A count above this is taken for a slip."""


def train(
    agent: Any,
    env: "Environment | VecEnv",
    reward: RewardModule | None = None,
    *,
    seeds: int | Sequence[int] = 10,
    steps: int = 1_000_000,
    run_dir: str | Path | None = None,
    lanes: str = "auto",
    eval_every: int | None = None,
    eval_episodes: int = 32,
    resume: bool = False,
    init_from: Run | str | Path | None = None,
    overwrite: bool = False,
    save_seconds: float = 30.0,
    chunk_seconds: float = 2.0,
    wandb: bool | str = False,
    progress: bool = True,
    label: str | None = None,
) -> Run:
    """Trains one agent per seed, all seeds in one compiled program.

    Args:
      agent: settings with `init` and `update`, such as `agents.ppo.PPO`.
      env: an `Environment` (given `agent.num_envs` copies with fresh resets) or a `VecEnv`.
      reward: the reward module; None leaves the environment's reward alone.
      seeds: how many (0, 1, ...), or which. A seed's result depends on its value only.
      steps: frames of one seed, summed over its environments, warm-up included; only whole updates are run.
      run_dir: the run folder; None writes nothing.
      lanes: "map" runs the seeds of a device in turn, bit-equal whatever runs beside a seed; "vmap" side by side;
        "auto" takes "map" on CPU and "vmap" on accelerators.
      eval_every: frames between evaluations ("eval/return": mean of `eval_episodes` episodes by the sampled policy).
      resume: go on from the last checkpoint in `run_dir`, bit-equal to never having stopped.
      init_from: a run (or its folder) whose learnt parameters to start from.
      overwrite: replace the run in `run_dir`.
      save_seconds: least time between checkpoints; one is always kept at the end.
      chunk_seconds: aimed length of a chunk, the work between two looks by the host (at most 64 updates).
      wandb: mirror metrics to Weights & Biases, one run per seed; a string names the project.
      progress: draw a progress line.
      label: what the line starts with; by default the environment's and the module's names.

    Returns:
      a `Run`, whose metrics are `[seed, time]` arrays with one column per update.

    Raises:
      ValueError, FileExistsError: bad input, before anything is written.
      FloatingPointError: every seed's loss became NaN.
      KeyboardInterrupt: on Ctrl-C, once the state is saved.
    """
    reward = NoReward() if reward is None else reward
    seeds = _check_seeds(seeds)
    vec_env = _vectorised(env, agent)
    check_parts(agent, vec_env, reward)
    warm_frames, num_updates = _plan(agent, reward, steps)
    for name, value in (("eval_every", eval_every), ("eval_episodes", eval_episodes)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1" + (" or None" if name == "eval_every" else ""))
    program = make_program(vec_env, len(seeds), lanes)
    config = {
        "seeds": seeds,
        "steps": steps,
        "agent": describe(agent),
        "env": describe(vec_env),
        "reward": describe(reward),
        "lanes": program.mode,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "init_from": None if init_from is None else str(getattr(init_from, "path", init_from)),
    }
    folder = _open_folder(run_dir, config, resume, overwrite)
    settings = place(program, stack(Settings(as_leaves(agent), as_leaves(reward)), len(seeds)))
    loop = Loop(
        program, settings, seeds, num_updates, agent.frames_per_update, warm_frames, steps, eval_every, eval_episodes
    )
    if folder is not None and folder.complete:
        return _with_state(load(folder.path), _saved_lanes(loop, folder))
    kept = _restore(loop, folder)
    if loop.lanes is None:
        fresh = loop.start()
        if init_from is not None:
            loop.lanes = transfer(agent, fresh, seeds, init_from)

    label = label or f"{vec_env.spec.name} · {reward.label}"
    bar = Progress(loop.frames(num_updates), len(seeds), label, start_frames=loop.frames(loop.done), show=progress)
    project = None if not wandb else wandb if isinstance(wandb, str) else "jaxrew"
    with _stop_on_signal() as stop, Recorder(config, run_dir, folder, kept, overwrite, bar, project) as recorder:
        _run(loop, recorder, stop, save_seconds, chunk_seconds)
        run = recorder.finish(complete=loop.done == num_updates)
        if not run.complete:
            where = (
                f"kept in {run.path}; resume=True goes on" if run.path else "nothing was kept, as no run_dir was given"
            )
            recorder.say(f"stopped at {loop.frames(loop.done):,} of {steps:,} frames: {where}")
            raise KeyboardInterrupt
    return _with_state(run, loop.snapshot())


def _run(loop: Loop, recorder: Recorder, stop: threading.Event, save_seconds: float, chunk_seconds: float) -> None:
    """Chunks until the end or a signal. The next one is launched before the last one's metrics are read."""
    pending, count = None, 1
    saved = collected = time.perf_counter()
    while pending is not None or (loop.done < loop.num_updates and not stop.is_set()):
        launched = loop.launch(count) if loop.done < loop.num_updates and not stop.is_set() else None
        if pending is not None:
            recorder.record(loop.collect(pending))
            now = time.perf_counter()
            per_update = (now - collected) / pending.count
            collected, count = now, min(max(1, round(chunk_seconds / per_update)), 4 * count, CHUNK_CAPACITY)
        pending = launched
        last = loop.done == loop.num_updates or stop.is_set()
        if pending is not None and (last or time.perf_counter() - saved > save_seconds):
            recorder.record(loop.collect(pending))
            recorder.save(loop.snapshot())
            saved = collected = time.perf_counter()
            pending = None


def _check_seeds(seeds: int | Sequence[int]) -> list[int]:
    try:
        values = _count(seeds) if np.ndim(seeds) == 0 else [operator.index(seed) for seed in np.asarray(seeds, object)]
    except TypeError:
        raise ValueError(f"seeds={seeds!r} is neither a count nor a list of integers") from None
    if not values:
        raise ValueError(f"seeds={seeds!r} names no seed; give a count of at least 1 or a list of integers")
    repeated = [seed for seed, times in collections.Counter(values).items() if times > 1]
    if repeated:
        raise ValueError(f"seed {repeated[0]} is given more than once in {values}; seeds must differ")
    outside = [seed for seed in values if not 0 <= seed < 2**32]
    if outside:
        raise ValueError(f"seed {outside[0]} is outside 0 .. 2**32 - 1")
    return values


def _count(seeds: Any) -> list[int]:
    count = operator.index(seeds)
    if count > MOST_SEEDS:
        raise ValueError(f"seeds={count:,} is a count above {MOST_SEEDS:,}; for one seed of this value give [{count}]")
    return list(range(count))


def _vectorised(env: Any, agent: Any) -> "VecEnv":
    if not hasattr(env, "vectorise") and not hasattr(env, "num_envs"):
        made = f"; write envs.make({env!r})" if isinstance(env, str) else ""
        raise ValueError(f"env must be an Environment or a VecEnv, got {env!r}{made}")
    return env if hasattr(env, "num_envs") else env.vectorise(agent.num_envs)


def check_parts(agent: Any, env: "VecEnv", reward: Any) -> None:
    """Raises ValueError, in one sentence, when agent, environment and reward do not go together."""
    if not isinstance(reward, RewardModule):
        hint = f"; write {reward.__name__}()" if isinstance(reward, type) else ""
        raise ValueError(f"reward must be a reward module or None, got {reward!r}{hint}")
    if isinstance(agent, type):
        raise ValueError(f"agent must be an instance, got the class; write {agent.__name__}()")
    if env.num_envs != agent.num_envs:
        raise ValueError(f"the VecEnv has num_envs={env.num_envs}, the agent {agent.num_envs}; make them equal")
    agent.validate(env.spec)
    reward.validate(env.spec, agent.num_envs)
    if "task" in (stream.name for stream in reward.streams()):
        raise ValueError(f"{reward.label} names a stream of its own 'task', the environment's; give it another name")
    if reward.replaces_task and "task" not in reward.pays:
        raise ValueError(f"{reward.label} replaces the task reward, so it must pay into 'task', not {reward.pays}")
    for stream in agent.streams(reward):
        if not 0.0 <= stream.gamma <= 1.0:
            raise ValueError(f"gamma of stream {stream.name!r} must lie in [0, 1], got {stream.gamma}")
        if not stream.episodic and stream.gamma >= 1.0:
            raise ValueError(
                f"stream {stream.name!r} is not episodic, so its gamma must be below 1, got {stream.gamma}"
            )


def _plan(agent: Any, reward: RewardModule, steps: int) -> tuple[int, int]:
    """Frames of random play before training, and the whole updates that fit into `steps` after it."""
    warm_frames = reward.warm_steps * agent.num_envs
    num_updates = (int(steps) - warm_frames) // agent.frames_per_update
    if num_updates < 1:
        warm = f" after {warm_frames:,} of warm-up" if warm_frames else ""
        raise ValueError(
            f"steps={steps:,} is less than one update of {agent.frames_per_update:,} frames{warm}; "
            f"give at least {warm_frames + agent.frames_per_update:,}"
        )
    if steps >= 2**31:
        raise ValueError(f"steps={steps:,} does not fit 32-bit counters; give less than {2**31:,} a seed")
    return warm_frames, num_updates


def _open_folder(run_dir: str | Path | None, config: dict, resume: bool, overwrite: bool) -> RunFolder | None:
    """The folder to go on with, if any; a new one is not made before the first chunk is sound."""
    if run_dir is None:
        if resume:
            raise ValueError("resume=True needs run_dir, the folder of the run to go on with")
        return None
    if RunFolder.check(run_dir, config, resume=resume, overwrite=overwrite):
        return RunFolder(Path(run_dir).resolve())
    return None


def _restore(loop: Loop, folder: RunFolder | None) -> list:
    """Puts the loop where the folder's last checkpoint left it; the metrics up to there."""
    if folder is None:
        return []
    checkpoint = folder.latest_checkpoint()
    if checkpoint is None:
        if folder.has_checkpoints:
            raise ValueError(f"no checkpoint in {folder.path} can be read; overwrite=True starts again")
        return folder.resume_after(-1)
    lanes = checkpoint.restore(loop.structure())
    kept = folder.resume_after(checkpoint.chunk)
    loop.restore(lanes, sum(chunk["frames"].shape[1] for chunk in kept))
    return kept


def _with_state(run: Run, lanes: Lane | None) -> Run:
    """The run with what its agents learnt, where that is known."""
    if lanes is not None:
        run.state = lanes.state
        run.params = getattr(run.state, "params", None)
    return run


def _saved_lanes(loop: Loop, folder: RunFolder) -> Lane | None:
    """The lanes at the end of a complete run, None when its checkpoints are gone."""
    checkpoint = folder.latest_checkpoint()
    return None if checkpoint is None else checkpoint.restore(loop.structure())


def stack(settings: PyTree, num_lanes: int) -> PyTree:
    """The same settings for every lane, leaves `[L, ...]`."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_lanes, *leaf.shape)), settings)


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, _: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
