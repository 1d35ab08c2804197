"""Records episodes of Farama environments and replays their actions in ours, all episodes in one batch."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import minigrid  # noqa: F401 (registers the ids)
import numpy as np
from jax import lax

from envs.minigrid import DoorKey, GridState, MiniGrid, import_state, unpack
from envs.minigrid.dynamicobstacles import DynamicObstacles


class Recording(NamedTuple):
    """One Farama episode of T steps: what came out, and our import of its first state and observation.

    `seen` holds arrays `[T + 1, ...]` that describe a moment, `outcome` arrays `[T]` that describe a step, `mission` is
    Farama's.
    """

    state: GridState
    obs: jax.Array
    actions: np.ndarray
    seen: dict[str, np.ndarray]
    outcome: dict[str, np.ndarray]
    mission: str


@dataclasses.dataclass(frozen=True)
class ScriptedObstacles(DynamicObstacles):
    """Ours, except that the balls go where the first argument of `stir` says, `[N, balls, 2]`."""

    def stir(self, key: jax.Array, state: GridState, action: jax.Array) -> GridState:
        rows, old = jnp.arange(key.shape[0]), state.task["obstacle_pos"]
        grid = state.grid
        for ball in range(key.shape[1]):
            grid = grid.at[rows, old[:, ball, 1], old[:, ball, 0]].set(1)
            grid = grid.at[rows, key[:, ball, 1], key[:, ball, 0]].set(6 | 2 << 4)
        return state._replace(grid=grid, task={"obstacle_pos": key})


def scripted(env: MiniGrid) -> MiniGrid:
    """The environment to replay in: itself, or one whose balls follow a script."""
    return ScriptedObstacles(**dataclasses.asdict(env)) if isinstance(env, DynamicObstacles) else env


def make_farama(name: str, **settings: Any) -> Any:
    """Farama's environment of that id, without wrappers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        return gymnasium.make(name, **settings).unwrapped


def record(
    farama: Any, env: MiniGrid, choose: Callable[[Any], int], steps: int | None = None, at_most: int | None = None
) -> Recording:
    """Plays Farama from its current state to the end of the episode, or for `steps` steps whatever ends meanwhile.

    `at_most` cuts long episodes off.
    """
    world = farama.unwrapped
    state, obs = import_state(farama, env)
    moments, actions, outcomes = [moment(world, env, world.gen_obs())], [], []
    while len(actions) < (steps or at_most or np.inf) and (steps or not (outcomes and any(outcomes[-1][1:]))):
        actions.append(choose(world))
        seen, reward, terminated, truncated, _ = world.step(actions[-1])
        assert seen["mission"] == world.mission
        moments.append(moment(world, env, seen))
        outcomes.append((np.float32(reward), terminated, truncated))
    seen = {name: np.array([entry[name] for entry in moments]) for name in moments[0]}
    reward, terminated, truncated = map(np.array, zip(*outcomes, strict=True))
    outcome = {"reward": reward, "terminated": terminated, "truncated": truncated}
    return Recording(state, obs, np.array(actions, np.int32), seen, outcome, world.mission)


def moment(world: Any, env: MiniGrid, seen: dict[str, Any]) -> dict[str, Any]:
    """Everything that describes a Farama state: its image, and the facts we claim about it but the mission's words."""
    front, held = world.grid.get(*world.front_pos), world.carrying
    front_code = front.encode() if front else (1, 0, 0)
    held_code = held.encode() if held else (1, 0, 0)
    facts = {
        "image": seen["image"],
        "agent_pos": tuple(world.agent_pos),
        "direction": seen["direction"],
        "front": front_code[0],
        "front_colour": front_code[1],
        "front_state": front_code[2],
        "carrying": held_code[0],
        "carrying_colour": held_code[1],
        "step_count": world.step_count,
    }
    for kind in env.landmarks:
        place = next((k for k, thing in enumerate(world.grid.grid) if thing and thing.type == kind), None)
        facts[f"{kind}_pos"] = (-1, -1) if place is None else (place % world.width, place // world.width)
    for name in ("target_pos", "success_pos", "failure_pos"):
        if hasattr(world, name):
            facts[name] = tuple(map(int, getattr(world, name)))
    if hasattr(world, "obstacles"):
        facts["obstacle_pos"] = [tuple(ball.cur_pos) for ball in world.obstacles]
    if isinstance(env, DoorKey):
        door = next(thing for thing in world.grid.grid if thing and thing.type == "door")
        facts["door_state"] = 0 if door.is_open else 2 if door.is_locked else 1
    return facts


def replay(env: MiniGrid, recordings: list[Recording]) -> dict[str, int]:
    """Plays the recorded actions in ours, and counts the entries of every field that differ."""
    length = max(len(recording.actions) for recording in recordings)

    def padded(rows: list[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(row, [(0, length - len(row))] + [(0, 0)] * (row.ndim - 1)) for row in rows], axis=1)

    state = jax.tree.map(lambda *leaves: np.stack(leaves), *[recording.state for recording in recordings])
    moves = None
    if isinstance(env, DynamicObstacles):
        env, moves = scripted(env), padded([r.seen["obstacle_pos"][1:].astype(np.int32) for r in recordings])
    actions = padded([recording.actions for recording in recordings])
    start_facts, steps = jax.device_get(_play(env, state, actions, moves))
    facts = {name: np.concatenate([start_facts[name][None], later]) for name, later in steps.facts.items()}
    wrong: dict[str, int] = {"mission": 0}
    for i, recording in enumerate(recordings):
        count = len(recording.actions)
        for name, expected in recording.outcome.items():
            wrong[name] = wrong.get(name, 0) + _different(getattr(steps, name)[:count, i], expected)
        images = _image(env, np.concatenate([np.asarray(recording.obs)[None], steps.obs[:count, i]]))
        for name, expected in recording.seen.items():
            ours = images if name == "image" else facts[name][: count + 1, i]
            wrong[name] = wrong.get(name, 0) + _different(ours, expected)
        tasks = {fact.name: facts[fact.name][: count + 1, i] for fact in env.task_facts()}
        wrong["mission"] += _wrong_missions(env, recording, tasks)
    unchecked = [name for name in steps.facts if name not in wrong and f"{{{name}}}" not in env.mission]
    assert not unchecked, unchecked
    return wrong


@functools.partial(jax.jit, static_argnums=0)
def _play(env, state, actions, moves):
    def step(state, inputs):
        action, move = inputs
        return env.step_many(jax.random.key(0) if move is None else move, state, action)

    return env.facts_many(state), lax.scan(step, state, (actions, moves))[1]


def _wrong_missions(env, recording, tasks):
    """Moments at which our mission, made of the numbers in the task, is not Farama's."""
    rows = [np.reshape(values, (len(values), -1)) for name, values in tasks.items() if name != "obstacle_pos"]
    rows = np.concatenate(rows, axis=1) if rows else np.zeros((len(recording.actions) + 1, 1))
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    texts = [env.mission_text(recording.state._replace(task={n: v[k] for n, v in tasks.items()})) for k in first]
    return sum(int(n) for text, n in zip(texts, count, strict=True) if text != recording.mission)


def _image(env, obs):
    return _triples()[obs] if env.obs == "packed" else obs


@functools.cache
def _triples():
    """What every byte is unpacked to."""
    return np.asarray(unpack(jnp.arange(256, dtype=jnp.uint8)))


def _different(ours, theirs):
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    return int((ours != theirs).reshape(len(theirs), -1).any(axis=1).sum())
