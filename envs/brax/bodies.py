"""What the bodies of brax are: sizes, facts, and how to read those from the library's state."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class Body:
    """A body, as the library's default settings make it.

    Attributes:
      obs_size: entries of an observation.
      action_size: entries of an action.
      facts: of its place and motion.
      read: those facts from the library's environment and pipeline state.
      terms: facts that are parts of the last step's reward: name -> (the library's metric, meaning).
      hidden_size: coordinates that the observation leaves out, because the task does not depend on them.
    """

    obs_size: int
    action_size: int
    facts: tuple[Fact, ...]
    read: Callable[[Any, Any], dict[str, Array]]
    terms: dict[str, tuple[str, str]]
    hidden_size: int = 0


def real(name: str, meaning: str, unit: str = "", shape: tuple[int, ...] = ()) -> Fact:
    """A float32 fact without bounds."""
    return Fact(name, meaning, -math.inf, math.inf, shape, "float32", unit)


def _point(name: str, meaning: str, unit: str = "m") -> Fact:
    return real(name, f"{meaning}: x (forward), y (left), z (up)", unit, (3,))


def _terms(**metrics: str) -> dict[str, tuple[str, str]]:
    meanings = {
        "forward_reward": "part of the last reward paid for speed along x, 0 at the start",
        "upward_reward": "part of the last reward paid for height, 0 at the start",
        "control_reward": "what the last action cost, at most 0; 0 at the start",
        "distance_reward": "minus the distance to the goal at the last step; 0 at the start",
        "near_reward": "minus the distance from hand to object at the last step; 0 at the start",
    }
    return {name: (metric, meanings[name]) for name, metric in metrics.items()}


_TORSO = (
    _point("torso_position", "torso's place"),
    _point("torso_velocity", "torso's velocity", "m/s"),
    real("height", "torso's height above the ground", "m"),
)


def _read_torso(env: Any, state: Any) -> dict[str, Array]:
    return {
        "torso_position": state.x.pos[0],
        "torso_velocity": state.xd.vel[0],
        "height": state.x.pos[0, 2],
    }


def _walker(obs_size: int, action_size: int, hidden_size: int, **metrics: str) -> Body:
    return Body(obs_size, action_size, _TORSO, _read_torso, _terms(**metrics), hidden_size)


def _read_pendulum(env: Any, state: Any) -> dict[str, Array]:
    return {
        "cart_position": state.q[0],
        "cart_velocity": state.qd[0],
        "pole_angle": state.q[1],
        "pole_velocity": state.qd[1],
    }


def _read_double_pendulum(env: Any, state: Any) -> dict[str, Array]:
    return {
        "cart_position": state.q[0],
        "cart_velocity": state.qd[0],
        "joint_angle_1": state.q[1],
        "joint_angle_2": state.q[2],
        "joint_velocity_1": state.qd[1],
        "joint_velocity_2": state.qd[2],
        "tip_height": _offset(state, 2, (0.0, 0.0, 0.6))[2],
    }


def _read_reacher(env: Any, state: Any) -> dict[str, Array]:
    return {
        "fingertip_position": _offset(state, 1, (0.11, 0.0, 0.0)),
        "target_position": state.x.pos[2],
    }


def _read_pusher(env: Any, state: Any) -> dict[str, Array]:
    def place(link: str) -> Array:
        index = env.sys.link_names.index(link)
        return _offset(state, index, env.sys.link.inertia.transform.pos[index])

    return {
        "hand_position": place("r_wrist_flex_link"),
        "object_position": place("object"),
        "goal_position": place("goal"),
    }


def _offset(state: Any, link: int, offset: Any) -> Array:
    """Where the point `offset`, in the frame of a link, is in the world."""
    from brax.base import Transform

    return state.x.take(link).do(Transform.create(pos=jnp.asarray(offset))).pos


BODIES = {
    "ant": _walker(27, 8, 2, forward_reward="reward_forward", control_reward="reward_ctrl"),
    "halfcheetah": _walker(17, 6, 1, forward_reward="reward_run", control_reward="reward_ctrl"),
    "hopper": _walker(11, 3, 1, forward_reward="reward_forward", control_reward="reward_ctrl"),
    "walker2d": _walker(17, 6, 1, forward_reward="reward_forward", control_reward="reward_ctrl"),
    "humanoid": _walker(244, 17, 2, forward_reward="forward_reward", control_reward="reward_quadctrl"),
    "humanoidstandup": _walker(244, 17, 2, upward_reward="reward_linup", control_reward="reward_quadctrl"),
    "inverted_pendulum": Body(
        4,
        1,
        (
            real("cart_position", "cart's distance right of the centre", "m"),
            real("cart_velocity", "cart's velocity to the right", "m/s"),
            real("pole_angle", "pole's angle from upright; the episode ends beyond 0.2", "rad"),
            real("pole_velocity", "pole's angular velocity", "rad/s"),
        ),
        _read_pendulum,
        {},
    ),
    "inverted_double_pendulum": Body(
        8,
        1,
        (
            real("cart_position", "cart's distance right of the centre", "m"),
            real("cart_velocity", "cart's velocity to the right", "m/s"),
            real("joint_angle_1", "first pole's angle from upright", "rad"),
            real("joint_angle_2", "second pole's angle from the first pole's direction", "rad"),
            real("joint_velocity_1", "first joint's angular velocity", "rad/s"),
            real("joint_velocity_2", "second joint's angular velocity", "rad/s"),
            real("tip_height", "height of the second pole's end; the episode ends at 1 or lower", "m"),
        ),
        _read_double_pendulum,
        {},
    ),
    "reacher": Body(
        11,
        2,
        (
            _point("fingertip_position", "fingertip's place"),
            _point("target_position", "target's place"),
        ),
        _read_reacher,
        _terms(distance_reward="reward_dist", control_reward="reward_ctrl"),
    ),
    "pusher": Body(
        23,
        7,
        (
            _point("hand_position", "hand's place"),
            _point("object_position", "object's place"),
            _point("goal_position", "goal's place"),
        ),
        _read_pusher,
        _terms(near_reward="reward_near", distance_reward="reward_dist", control_reward="reward_ctrl"),
    ),
}
