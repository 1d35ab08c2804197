"""Pictures of a policy at work: a GIF of its episodes with every reward below each frame, or brax's HTML viewer."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrew.render.drawings import DRAWABLE, can_draw, drawing, unwrapped
from jaxrew.render.playback import (
    Playback,
    Series,
    fresh_scorer,
    play,
    random_policy,
    score_steps,
    trained_policy,
    trained_scorer,
)
from jaxrew.render.restore import restore
from jaxrew.rewards import NoReward, by_name
from jaxrew.training.run import is_run_folder
from jaxrew.types import Discrete, unknown

FASTEST = 50
"""Frames a second that programs show; they play faster GIFs slowly."""


class Scene(NamedTuple):
    """What there is to draw: an environment, what happened in it, and what was paid for that."""

    env: Any
    playback: Playback
    series: list[Series]


class Rendered(NamedTuple):
    """What was written: the number of frames, the bytes, and the task return of each episode shown (the last may be
    cut short).
    """

    frames: int
    size: int
    returns: list[float]


def render(
    target: str,
    out: str | Path,
    *,
    episodes: int = 1,
    steps: int = 200,
    seed: int | None = None,
    greedy: bool = False,
    fps: float | None = None,
    reward: str | None = None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Rendered:
    """Draws a policy at work.

    Args:
      target: a run folder, for what a seed of it has learnt, or an environment's id, for random actions.
      out: the file to write, `.gif`; `.html` for brax. Its folder is made.
      episodes: how many to show.
      steps: most steps in all.
      seed: of the run, by default its first; it decides the levels too.
      greedy: the likeliest actions instead of sampled ones.
      fps: steps a second, by default what suits the environment.
      reward: a module of `jaxrew.rewards.BY_NAME` to show, with nothing learnt, instead of the run's own.
      progress: wraps the frames while they are drawn.

    Raises:
      ValueError, FileNotFoundError: bad input, in one sentence.
    """
    out = Path(out)
    for name, value in (("episodes", episodes), ("steps", steps)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if fps is not None and not 0 < fps <= FASTEST:
        raise ValueError(f"fps={fps} is outside what a GIF can show; give at most {FASTEST}")
    if out.suffix not in (".gif", ".html"):
        raise ValueError(f"{out} cannot be written: {out.suffix or 'no ending'} is no kind of picture; use .gif")
    scene = _scene(target, out, episodes, steps, seed, greedy, reward)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".html":
        from jaxrew.render.brax import write_html

        frames = write_html(out, *unwrapped(scene.env, _states(scene.playback)), scene.series)
    else:
        frames = _write(out, scene, fps, progress)
    ends = [0, *(np.flatnonzero(scene.playback.ended) + 1), len(scene.playback.ended)]
    returns = [float(scene.series[0].values[a:b].sum()) for a, b in itertools.pairwise(ends) if b > a]
    return Rendered(frames, out.stat().st_size, returns)


def _scene(
    target: str, out: Path, episodes: int, steps: int, seed: int | None, greedy: bool, reward: str | None
) -> Scene:
    """Plays the policy that `target` names."""
    module = None if reward is None else by_name(reward)
    trained = restore(target, seed) if _is_run(target) else None
    if trained is not None:
        env, seed = trained.env, trained.seed
        act, policy = trained_policy(trained, greedy)
    else:
        import envs

        env, seed = envs.make(target), seed or 0
        act, policy = random_policy(env.spec)
    _check_drawable(env, out)
    play_key, start_key, score_key = jax.random.split(jax.random.key(seed), 3)
    if trained is not None and module is None:
        scorer = trained_scorer(trained)
    else:
        scorer = fresh_scorer(env, module or NoReward(), start_key)
    playback = play(env, act, policy, play_key, episodes, steps)
    return Scene(env, playback, score_steps(scorer, playback.batch, env.spec, score_key))


def _is_run(target: str) -> bool:
    """Whether `target` is to be read as a folder. Raises ValueError, naming the nearest, when it is nothing."""
    import envs

    if target in envs.ids():
        return False
    path = Path(target)
    if not path.exists():
        folders = [str(child) for child in path.parent.glob("*") if is_run_folder(child)]
        raise ValueError(unknown("run folder or environment", target, [*envs.ids(), *folders]))
    return True


def _check_drawable(env: Any, out: Path) -> None:
    """Raises ValueError when the environment cannot be drawn to a file like `out`."""
    name = env.spec.name
    is_brax = any(cls.__module__.startswith("envs.brax.") for cls in type(unwrapped(env)[0]).__mro__)
    if out.suffix == ".html" and not is_brax:
        raise ValueError(f"{name} is drawn as a GIF, not HTML, which is for brax; use {out.with_suffix('.gif')}")
    if out.suffix == ".gif" and is_brax:
        raise ValueError(f"{name} is drawn as HTML, not GIF; use {out.with_suffix('.html')}")
    if not is_brax and not can_draw(env):
        raise ValueError(f"{name} has no drawing; there are drawings of {DRAWABLE}, and of brax as HTML")


def _order(ended: np.ndarray) -> list[tuple[int, int, int]]:
    """The frames of T steps: `(index, start, steps)`, each episode's first state and then every successor.

    `index` counts the states before the steps and then, from T on, those after them; `start` is the episode's first
    step, of which `steps` are done.
    """
    frames, start = [], 0
    for t in range(len(ended)):
        if t == start:
            frames.append((t, start, 0))
        frames.append((len(ended) + t, start, t + 1 - start))
        start = t + 1 if ended[t] else start
    return frames


def _states(playback: Playback) -> Any:
    """The states of all frames, in order, `[F, ...]`."""
    order = np.array([index for index, _, _ in _order(playback.ended)])
    return jax.tree.map(
        lambda before, after: np.concatenate([before, after])[order, 0], playback.before, playback.after
    )


def _write(out: Path, scene: Scene, fps: float | None, progress: Callable[[Iterable], Iterable]) -> int:
    from jaxrew.render.strip import Moment, Strip, write_gif

    playback, ended = scene.playback, scene.playback.ended
    frames = _order(ended)
    order = np.array([index for index, _, _ in frames])
    obs = np.concatenate([playback.batch.obs, playback.batch.next_obs])[order, 0]
    picture = drawing(scene.env, _states(playback), obs)
    assert picture is not None
    ends = {start: next((t + 1 for t in range(start, len(ended)) if ended[t]), len(ended)) for _, start, _ in frames}
    episode = {start: number + 1 for number, start in enumerate(sorted(ends))}
    has_caption = bool(picture.caption(0))
    strip = Strip(scene.series, picture.image(0).shape[:2], 1 + has_caption)

    def draw(index: int) -> Any:
        _, start, steps = frames[index]
        events = _events(scene, picture.actions, start, steps)
        number = [f"episode {episode[start]}"] if len(ends) > 1 else []
        lines = [" · ".join(filter(None, [*number, *events, picture.remark(index)]))]
        lines += [picture.caption(index)] if has_caption else []
        return strip.frame(picture.image(index), Moment(start, ends[start] - start, steps), lines)

    pause = round(1000 / (fps or picture.fps))
    last = [index + 1 == len(frames) or frames[index + 1][2] == 0 for index in range(len(frames))]
    write_gif(out, draw, len(frames), [max(pause, 1000) if end else pause for end in last], progress)
    return len(frames)


def _events(scene: Scene, words: Sequence[str], start: int, steps: int) -> list[str]:
    """What has just happened: the step, the action, and how the episode ended."""
    events = [f"step {steps}"]
    if steps:
        t, batch = start + steps - 1, scene.playback.batch
        events.append(_action(scene.env.spec.action_space, batch.action[t, 0], words))
        if batch.terminated[t, 0]:
            events.append("terminated")
        elif batch.truncated[t, 0]:
            events.append("truncated")
    return events


def _action(space: Any, action: Any, words: Sequence[str]) -> str:
    if isinstance(space, Discrete):
        return words[int(action)] if int(action) < len(words) else f"action {int(action)}"
    return "action " + ", ".join(f"{value:.2f}" for value in np.ravel(action))
