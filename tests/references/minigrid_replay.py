"""Records episodes of Farama environments and replays their actions in ours, all episodes in one batch."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import minigrid  # noqa: F401 (registers the ids)
import numpy as np
from jax import lax

from envs.minigrid import GridState, MiniGrid, import_state, unpack


class Recording(NamedTuple):
    """One Farama episode of T steps: what came out, and our import of its first state and observation.

    `seen` holds arrays `[T + 1, ...]` that describe a moment, `outcome` arrays `[T]` that describe a step.
    """

    state: GridState
    obs: jax.Array
    actions: np.ndarray
    seen: dict[str, np.ndarray]
    outcome: dict[str, np.ndarray]


def make_farama(name: str) -> Any:
    """Farama's environment of that id, without wrappers."""
    return gymnasium.make(name).unwrapped


def record(farama: Any, env: MiniGrid, choose: Callable[[Any], int], steps: int | None = None) -> Recording:
    """Plays Farama from its current state to the end of the episode, or for `steps` steps whatever ends meanwhile."""
    world = farama.unwrapped
    state, obs = import_state(farama, env)
    moments, actions, outcomes = [moment(world, world.gen_obs()["image"])], [], []
    while len(actions) < steps if steps else not (outcomes and any(outcomes[-1][1:])):
        actions.append(choose(world))
        seen, reward, terminated, truncated, _ = world.step(actions[-1])
        moments.append(moment(world, seen["image"]))
        outcomes.append((np.float32(reward), terminated, truncated))
    seen = {name: np.array([entry[name] for entry in moments]) for name in moments[0]}
    reward, terminated, truncated = map(np.array, zip(*outcomes, strict=True))
    outcome = {"reward": reward, "terminated": terminated, "truncated": truncated}
    return Recording(state, obs, np.array(actions, np.int32), seen, outcome)


def moment(world: Any, image: np.ndarray) -> dict[str, Any]:
    """Everything that describes a Farama state: its image, and the facts we claim about it."""
    front, held = world.grid.get(*world.front_pos), world.carrying
    front_code = front.encode() if front else (1, 0, 0)
    held_code = held.encode() if held else (1, 0, 0)
    facts = {
        "image": image,
        "agent_pos": tuple(world.agent_pos),
        "direction": world.agent_dir,
        "front": front_code[0],
        "front_colour": front_code[1],
        "front_state": front_code[2],
        "carrying": held_code[0],
        "carrying_colour": held_code[1],
        "step_count": world.step_count,
    }
    if type(world).__name__ == "DoorKeyEnv":
        places = {thing.type: (k % world.width, k // world.width) for k, thing in enumerate(world.grid.grid) if thing}
        door = world.grid.get(*places["door"])
        facts |= {
            "key_pos": places.get("key", (-1, -1)),
            "door_pos": places["door"],
            "door_state": 0 if door.is_open else 2 if door.is_locked else 1,
            "goal_pos": places["goal"],
        }
    return facts


def replay(env: MiniGrid, recordings: list[Recording]) -> dict[str, int]:
    """Plays the recorded actions in ours, and counts the entries of every field that differ."""
    length = max(len(recording.actions) for recording in recordings)
    actions = np.stack([np.pad(recording.actions, (0, length - len(recording.actions))) for recording in recordings], 1)
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[recording.state for recording in recordings])
    start_facts, steps = jax.device_get(_play(env, state, actions))
    wrong: dict[str, int] = {}
    for i, recording in enumerate(recordings):
        count = len(recording.actions)
        for name, expected in recording.outcome.items():
            wrong[name] = wrong.get(name, 0) + _different(getattr(steps, name)[:count, i], expected)
        for name, expected in recording.seen.items():
            first = _image(env, recording.obs) if name == "image" else start_facts[name][i]
            later = _image(env, steps.obs[:count, i]) if name == "image" else steps.facts[name][:count, i]
            wrong[name] = wrong.get(name, 0) + _different(np.concatenate([first[None], later]), expected)
    return wrong


@functools.partial(jax.jit, static_argnums=0)
def _play(env, state, actions):
    return env.facts_many(state), lax.scan(lambda s, a: env.step_many(jax.random.key(0), s, a), state, actions)[1]


def _image(env, obs):
    return np.asarray(unpack(obs) if env.obs == "packed" else obs)


def _different(ours, theirs):
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    return int((ours != theirs).reshape(len(theirs), -1).any(axis=1).sum())
