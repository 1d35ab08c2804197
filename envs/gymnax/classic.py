"""Classic control from gymnax: carts, cars and pendulums with real-valued states."""

import dataclasses
import math

import jax.numpy as jnp
from jax import Array

from envs.base import State
from envs.gymnax.adapter import TimeLimited, real
from jaxrew.types import Box, Discrete, EnvSpec, Fact


@dataclasses.dataclass(frozen=True)
class CartPole(TimeLimited):
    """CartPole-v1 (Barto, Sutton and Anderson, 1983): +1 per step until the pole falls or the cart leaves the track.

    Observation: cart position, cart velocity, pole angle, pole velocity. Actions: push left, push right.
    """

    max_steps: int = 500

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="CartPole-v1",
            obs_shape=(4,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                real("cart_position", "cart's distance right of the centre; the episode ends beyond 2.4", 4.8, "m"),
                real("cart_velocity", "cart's velocity to the right", math.inf, "m/s"),
                real("pole_angle", "pole's angle right of upright; the episode ends beyond 0.2095", 0.4189, "rad"),
                real("pole_velocity", "pole's angular velocity", math.inf, "rad/s"),
            ),
            success=474.0 if self.max_steps > 474 else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "cart_position": state.x,
            "cart_velocity": state.x_dot,
            "pole_angle": state.theta,
            "pole_velocity": state.theta_dot,
        }


@dataclasses.dataclass(frozen=True)
class MountainCar(TimeLimited):
    """MountainCar-v0 (Moore, 1990): -1 per step until an underpowered car reaches the top of the right hill.

    Observation: position, velocity. Actions: accelerate left, coast, accelerate right.
    """

    max_steps: int = 200

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="MountainCar-v0",
            obs_shape=(2,),
            obs_dtype="float32",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                Fact("car_position", "car's place along the track; the goal is at 0.5", -1.2, 0.6, (), "float32"),
                real("car_velocity", "car's velocity to the right, per step", 0.07),
            ),
            success=-float(self.max_steps),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"car_position": state.position, "car_velocity": state.velocity}


@dataclasses.dataclass(frozen=True)
class MountainCarContinuous(TimeLimited):
    """MountainCarContinuous-v0 (Moore, 1990): 100 for reaching the top of the right hill, less 0.1 force^2 per step.

    Observation: position, velocity. Action: force between -1 and 1. It is clipped for the motion only: as in the
    library, the cost is that of the action as given.
    """

    max_steps: int = 999

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="MountainCarContinuous-v0",
            obs_shape=(2,),
            obs_dtype="float32",
            action_space=Box(-1.0, 1.0, (1,)),
            max_steps=self.max_steps,
            facts=(
                Fact("car_position", "car's place along the track; the goal is at 0.45", -1.2, 0.6, (), "float32"),
                real("car_velocity", "car's velocity to the right, per step", 0.07),
            ),
            # Within so many steps, forces up to 1 never cost as much as the goal pays.
            success=0.0 if self.max_steps < 1000 else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"car_position": state.position, "car_velocity": state.velocity}


@dataclasses.dataclass(frozen=True)
class Acrobot(TimeLimited):
    """Acrobot-v1 (Sutton, 1996): -1 per step until the tip of a two-link pendulum swings above the bar.

    Observation: cosine and sine of both joint angles, then both velocities. Actions: torque -1, 0, +1 N m between
    the links. The library integrates one Runge-Kutta step per action.
    """

    max_steps: int = 500

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Acrobot-v1",
            obs_shape=(6,),
            obs_dtype="float32",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                real("joint_angle_1", "first link's angle from hanging down", math.pi, "rad"),
                real("joint_angle_2", "second link's angle from the first link's direction", math.pi, "rad"),
                real("joint_velocity_1", "first joint's angular velocity", 4 * math.pi, "rad/s"),
                real("joint_velocity_2", "second joint's angular velocity", 9 * math.pi, "rad/s"),
                real("tip_height", "height of the free end above the pivot; the goal is above 1", 2.0, "m"),
            ),
            success=-float(self.max_steps),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "joint_angle_1": state.joint_angle1,
            "joint_angle_2": state.joint_angle2,
            "joint_velocity_1": state.velocity_1,
            "joint_velocity_2": state.velocity_2,
            "tip_height": -jnp.cos(state.joint_angle1) - jnp.cos(state.joint_angle1 + state.joint_angle2),
        }


@dataclasses.dataclass(frozen=True)
class Pendulum(TimeLimited):
    """Pendulum-v1: keep a pendulum upright; the reward is -(angle^2 + 0.1 velocity^2 + 0.001 torque^2).

    Observation: cosine and sine of the angle, velocity. Action: torque between -2 and 2 N m, clipped. Never terminates.
    """

    max_steps: int = 200

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Pendulum-v1",
            obs_shape=(3,),
            obs_dtype="float32",
            action_space=Box(-2.0, 2.0, (1,)),
            max_steps=self.max_steps,
            facts=(
                real("angle", "angle from upright", math.pi, "rad"),
                real("angular_velocity", "angular velocity", 8.0, "rad/s"),
                real("torque", "torque applied on the last step, 0 at the start", 2.0, "N m"),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        angle = (state.theta + jnp.pi) % (2 * jnp.pi) - jnp.pi
        return {"angle": angle, "angular_velocity": state.theta_dot, "torque": state.last_u}
