"""MinAtar (Young and Tian, 2019) from gymnax: five Atari games on a 10 by 10 board.

Observations are `[10, 10, channels]` uint8, 0 or 1, rows from the top. Unlike in the original, actions never stick,
and the episodes of all five have a time limit.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array

from envs.base import State
from envs.gymnax.adapter import TimeLimited
from jaxrew.types import Discrete, EnvSpec, Fact

BOARD = 10


@dataclasses.dataclass(frozen=True)
class MinAtar(TimeLimited):
    """What the games share.

    Attributes:
      minimal_actions: only the actions that do something in this game, in the order stay, left, up, right, down, fire;
        otherwise all six of them.
      max_steps: the time limit.
    """

    minimal_actions: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        return {"use_minimal_action_set": self.minimal_actions}

    def _spec(self, name: str, channels: int, actions: int, position: str, facts: tuple[Fact, ...]) -> EnvSpec:
        return EnvSpec(
            name=name,
            obs_shape=(BOARD, BOARD, channels),
            obs_dtype="uint8",
            action_space=Discrete(actions if self.minimal_actions else 6),
            max_steps=self.max_steps,
            facts=facts,
            position=position,
        )


@dataclasses.dataclass(frozen=True)
class Asterix(MinAtar):
    """Asterix-MinAtar: +1 per treasure picked up; touching an enemy ends the episode.

    Channels: player, enemy, trail behind either, gold. Actions: stay, left, up, right, down. Enemies and treasure come
    faster and more often as time goes by. An arrival that finds no free lane empties one, as in the library.
    """

    max_steps: int = 1000

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        facts = (
            Fact("position", "row and column of the player", 0, BOARD - 1, (2,)),
            Fact("enemies", "enemies on the board", 0, 8),
            Fact("treasures", "treasures on the board", 0, 8),
            Fact("spawn_interval", "steps between arrivals", 1, 10, unit="steps"),
            Fact("move_interval", "steps between moves of enemies and treasures", 0, 5, unit="steps"),
        )
        return self._spec("Asterix-MinAtar", 4, 5, "position", facts)

    def facts(self, state: State) -> dict[str, Array]:
        gold, there = state.entities[:, 3], state.entities[:, 4]
        return {
            "position": jnp.stack([state.player_y, state.player_x]),
            "enemies": (there * (1 - gold)).sum(dtype=jnp.int32),
            "treasures": (there * gold).sum(dtype=jnp.int32),
            "spawn_interval": state.spawn_speed,
            "move_interval": state.move_speed,
        }


@dataclasses.dataclass(frozen=True)
class Breakout(MinAtar):
    """Breakout-MinAtar: +1 per brick; the episode ends when the ball passes the paddle.

    Channels: paddle, ball, where the ball was, brick. Actions: stay, left, right. A cleared wall is built anew.
    """

    max_steps: int = 1000

    @property
    def spec(self) -> EnvSpec:
        facts = (
            Fact("paddle_column", "column of the paddle, which moves along the last row", 0, BOARD - 1),
            Fact("ball", "row and column of the ball", 0, BOARD - 1, (2,)),
            Fact("ball_direction", "0 up and left, 1 up and right, 2 down and right, 3 down and left", 0, 3),
            Fact("bricks", "bricks left of the wall", 0, 30),
        )
        return self._spec("Breakout-MinAtar", 4, 3, "paddle_column", facts)

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "paddle_column": state.pos,
            "ball": jnp.stack([state.ball_y, state.ball_x]),
            "ball_direction": state.ball_dir,
            "bricks": state.brick_map.sum().astype(jnp.int32),
        }


@dataclasses.dataclass(frozen=True)
class Freeway(MinAtar):
    """Freeway-MinAtar: +1 each time the chicken has crossed eight lanes; a car sends it back to the start.

    Channels: chicken, car, then the trail of cars of speed 1 to 5. Actions: stay, up, down. The chicken moves at most
    every third step. Never terminates.
    """

    max_steps: int = 2500

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        facts = (
            Fact("chicken_row", "row of the chicken, 9 at the start; its column is 4", 1, BOARD - 1),
            Fact("move_timer", "steps until the chicken may move", 0, 3, unit="steps"),
            Fact("car_columns", "column of the car in each of the rows 1 to 8", 0, BOARD - 1, (8,)),
            Fact("car_speeds", "a car of speed s moves every |s| + 1 steps, to the right if s > 0", -5, 5, (8,)),
        )
        return self._spec("Freeway-MinAtar", 7, 3, "chicken_row", facts)

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "chicken_row": state.pos,
            "move_timer": state.move_timer,
            "car_columns": state.cars[:, 0],
            "car_speeds": state.cars[:, 3],
        }


@dataclasses.dataclass(frozen=True)
class Seaquest(MinAtar):
    """Seaquest-MinAtar: +1 per fish or submarine shot; surfacing with six divers pays up to 10 for the oxygen left.

    Channels: front and back of the submarine, its bullet, trail of anything that moves, enemy bullet, fish, enemy
    submarine, gauges of oxygen and of divers aboard, diver. Actions: stay, left, up, right, down, fire. Being hit, no
    oxygen, and surfacing without a diver end the episode.
    """

    max_steps: int = 1000

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        facts = (
            Fact("position", "row (0 at the surface) and column of the submarine", 0, BOARD - 1, (2,)),
            Fact("facing_right", "1 if the submarine faces right, otherwise 0", 0, 1),
            Fact("oxygen", "steps of air left; at -1 the episode has ended", -1, 200, unit="steps"),
            # Each surfacing takes one diver away, and six at once count as none: as in the original, it can go below 0.
            Fact("divers_aboard", "divers aboard; negative after a rescue of six", -self.max_steps, 6),
            Fact("fish", "fish on the board", 0, 100),
            Fact("enemy_submarines", "enemy submarines on the board", 0, 100),
        )
        return self._spec("Seaquest-MinAtar", 10, 6, "position", facts)

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "position": jnp.stack([state.sub_y, state.sub_x]),
            "facing_right": state.sub_or.astype(jnp.int32),
            "oxygen": state.oxygen,
            "divers_aboard": state.diver_count,
            "fish": state.e_fish_count,
            "enemy_submarines": state.e_subs_count,
        }


@dataclasses.dataclass(frozen=True)
class SpaceInvaders(MinAtar):
    """SpaceInvaders-MinAtar: +1 per alien shot; an alien or a bullet that hits the cannon ends the episode.

    Channels: cannon, alien, alien moving left, alien moving right, own bullet, enemy bullet. Actions: stay, left,
    right, fire. Aliens move faster the fewer they are; a new wave is slightly faster.
    """

    max_steps: int = 1000

    @property
    def spec(self) -> EnvSpec:
        facts = (
            Fact("cannon_column", "column of the cannon, which moves along the last row", 0, BOARD - 1),
            Fact("aliens", "aliens left of the wave", 0, 24),
            Fact("alien_direction", "-1 if the aliens move left, 1 if right", -1, 1),
            Fact("move_interval", "most steps between moves of the aliens", 6, 12, unit="steps"),
            Fact("shot_timer", "steps until the cannon may fire", 0, 5, unit="steps"),
        )
        return self._spec("SpaceInvaders-MinAtar", 6, 4, "cannon_column", facts)

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "cannon_column": state.pos,
            "aliens": state.alien_map.sum().astype(jnp.int32),
            "alien_direction": state.alien_dir,
            "move_interval": state.enemy_move_interval,
            "shot_timer": state.shot_timer,
        }
