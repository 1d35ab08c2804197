"""Bandits, point masses, a reacher and Pong from gymnax."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from envs.base import State
from envs.gymnax.adapter import TimeLimited, real, step_count
from jaxrew.types import Box, Discrete, EnvSpec, Fact


@dataclasses.dataclass(frozen=True)
class BernoulliBandit(TimeLimited):
    """BernoulliBandit-misc (Wang et al., 2017): two arms that pay 1 with probability p and 1 - p, drawn per episode.

    Observation: last reward, last action one-hot, and time, from -1 at the start to 1 after 100 steps whatever the
    limit. Never terminates.

    Attributes:
      reward_prob: p, or 1 - p: which arm has which is drawn for each episode.
      max_steps: the time limit.
    """

    reward_prob: float = 0.1
    max_steps: int = 100

    def __post_init__(self) -> None:
        if not 0.0 <= self.reward_prob <= 1.0:
            raise ValueError(f"reward_prob is {self.reward_prob}; it is a probability, between 0 and 1")
        super().__post_init__()

    @property
    def params(self) -> dict[str, Any]:
        return super().params | {"reward_prob": self.reward_prob}

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="BernoulliBandit-misc",
            obs_shape=(4,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                Fact("arm_probabilities", "how often each arm pays", 0.0, 1.0, (2,), "float32"),
                Fact("last_action", "arm pulled last, 0 at the start", 0, 1),
                step_count(self.max_steps),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "arm_probabilities": state.reward_probs,
            "last_action": state.last_action,
            "step_count": state.time.astype(jnp.int32),
        }


@dataclasses.dataclass(frozen=True)
class GaussianBandit(TimeLimited):
    """GaussianBandit-misc (Lange and Sprekeler, 2022): arm 0 pays 0; is arm 1 of this episode better?

    Arm 1 pays normal noise around a mean that is itself normal, drawn per episode. Observation: last reward, last
    action one-hot, and time, from -1 at the start to 1 after 100 steps whatever the limit. Never terminates.

    Attributes:
      mean_mu: what arm 1 pays on average over episodes.
      sigma_p: standard deviation of its mean between episodes.
      sigma_l: standard deviation of what it pays within one.
      max_steps: the time limit.
    """

    mean_mu: float = -1.0
    sigma_p: float = 1.0
    sigma_l: float = 0.1
    max_steps: int = 100

    def __post_init__(self) -> None:
        for name, sigma in (("sigma_p", self.sigma_p), ("sigma_l", self.sigma_l)):
            if not sigma >= 0.0:
                raise ValueError(f"{name} is {sigma}; a standard deviation is at least 0")
        super().__post_init__()

    @property
    def params(self) -> dict[str, Any]:
        return super().params | {"mean_mu": self.mean_mu, "sigma_p": self.sigma_p, "sigma_l": self.sigma_l}

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="GaussianBandit-misc",
            obs_shape=(4,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                real("arm_mean", "what arm 1 pays on average in this episode", math.inf),
                Fact("last_action", "arm pulled last, 0 at the start", 0, 1),
                step_count(self.max_steps),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "arm_mean": state.mu,
            "last_action": state.last_action,
            "step_count": state.time.astype(jnp.int32),
        }


@dataclasses.dataclass(frozen=True)
class PointRobot(TimeLimited):
    """PointRobot-misc (Dorfman et al., 2021): find an unseen goal on a half circle, again and again.

    +1 per step begun within 0.2 of the goal, which sends the robot back to a random start. Observation: position, last
    reward, last action, and time, from -1 at the start to 1 after 100 steps whatever the limit. Action: displacement
    in x and y between -0.1 and 0.1, clipped for the motion, not in the observation. Never terminates.

    Attributes:
      dense_reward: pay minus the distance to the goal instead.
      center_init: start at the centre instead of anywhere within the half circle.
      max_steps: the time limit.
    """

    dense_reward: bool = False
    center_init: bool = False
    max_steps: int = 100

    @property
    def params(self) -> dict[str, Any]:
        return super().params | {"dense_reward": self.dense_reward, "center_init": self.center_init}

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="PointRobot-misc",
            obs_shape=(6,),
            obs_dtype="float32",
            action_space=Box(-0.1, 0.1, (2,)),
            max_steps=self.max_steps,
            facts=(
                real("robot_xy", "where the robot is", math.inf, shape=(2,)),
                real("goal_xy", "the goal, on the upper half of the unit circle", 1.0, shape=(2,)),
                Fact("goals_reached", "how often the goal was reached in this episode", 0, self.max_steps),
                step_count(self.max_steps),
            ),
            success=None if self.dense_reward else 0.0,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "robot_xy": state.pos,
            "goal_xy": state.goal,
            "goals_reached": state.goals_reached,
            "step_count": state.time.astype(jnp.int32),
        }


@dataclasses.dataclass(frozen=True)
class Reacher(TimeLimited):
    """Reacher-misc: bring the tip of a two-link arm to a goal; the reward is exp(-distance^2).

    Observation: cosines, sines and velocities of both links, then the goal. Action: both links' angular accelerations,
    -1 to 1 rad/s^2, not clipped. Angles are not wrapped, velocities not limited. Never terminates.
    """

    max_steps: int = 100

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Reacher-misc",
            obs_shape=(8,),
            obs_dtype="float32",
            action_space=Box(-1.0, 1.0, (2,)),
            max_steps=self.max_steps,
            facts=(
                real("link_angles", "each link's angle from the x axis", math.inf, "rad", (2,)),
                real("link_velocities", "each link's angular velocity", math.inf, "rad/s", (2,)),
                real("tip_xy", "where the tip is; each link has length 1", 2.0, shape=(2,)),
                real("goal_xy", "where it should be", 2.0, shape=(2,)),
                step_count(self.max_steps),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "link_angles": state.angles,
            "link_velocities": state.angle_vels,
            "tip_xy": jnp.stack([jnp.cos(state.angles).sum(), jnp.sin(state.angles).sum()]),
            "goal_xy": state.goal_xy,
            "step_count": state.time.astype(jnp.int32),
        }


@dataclasses.dataclass(frozen=True)
class Swimmer(TimeLimited):
    """Swimmer-misc: swim to a goal and stay clear of urchins; the reward is at most 1, at the goal.

    It is exp(-distance^2 / 2) times the product of 1 - exp(-30 distance^2) over the urchins. Observation: urchins,
    position, velocity, goal. Action: acceleration in x and y, -1 to 1, not clipped. Never terminates.

    Attributes:
      num_urchins: how many there are.
      max_steps: the time limit.
    """

    num_urchins: int = 5
    max_steps: int = 500

    def __post_init__(self) -> None:
        if self.num_urchins < 1:
            raise ValueError(f"num_urchins is {self.num_urchins}; there is at least 1")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"num_urchins": self.num_urchins}

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Swimmer-misc",
            obs_shape=(2 * self.num_urchins + 6,),
            obs_dtype="float32",
            action_space=Box(-1.0, 1.0, (2,)),
            max_steps=self.max_steps,
            facts=(
                real("swimmer_xy", "where the swimmer is; the water has no edge", math.inf, shape=(2,)),
                real(
                    "swimmer_velocity", "its velocity per unit of time, of which a step takes 0.05", math.inf, "", (2,)
                ),
                real("goal_xy", "where it should be", 1.0, shape=(2,)),
                real("urchins_xy", "where the urchins are", 1.0, shape=(self.num_urchins, 2)),
                step_count(self.max_steps),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "swimmer_xy": state.xy,
            "swimmer_velocity": state.xy_vel,
            "goal_xy": state.goal_xy,
            "urchins_xy": state.urchin_xys,
            "step_count": state.time,
        }


@dataclasses.dataclass(frozen=True)
class Pong(TimeLimited):
    """Pong-misc: +1 per step while the ball is in play against a paddle that follows it.

    Observation: `[30, 40, 3]` uint8 of paddles, ball and the ball one step before. Actions: stay, up, down for the left
    paddle. The episode terminates where the ball leaves to either side, so a goal against the opponent earns nothing.
    Nothing is random: the ball starts level with both paddles, and staying keeps it in play. As in the library it does
    not bounce off the upper edge but flies on, drawn in row 0.
    """

    max_steps: int = 1000

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Pong-misc",
            obs_shape=(30, 40, 3),
            obs_dtype="uint8",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                Fact("paddle_row", "row of the middle of the left paddle", 2, 27),
                Fact("opponent_row", "row of the middle of the right paddle", 2, 27),
                real("ball_row", "row of the ball, from the top", math.inf),
                Fact("ball_column", "column of the ball; outside 0 to 39 the episode has ended", -1, 40, (), "float32"),
                Fact("ball_velocity", "rows down and columns to the right that the ball moves per step", -3, 3, (2,)),
            ),
            position="paddle_row",
            success=self.max_steps - 1.0,
        )

    def facts(self, state: State) -> dict[str, Array]:
        paddle, opponent = state.paddle_centers.astype(jnp.int32)
        return {
            "paddle_row": paddle,
            "opponent_row": opponent,
            "ball_row": state.ball_position[0],
            "ball_column": state.ball_position[1],
            "ball_velocity": state.ball_velocity,
        }
