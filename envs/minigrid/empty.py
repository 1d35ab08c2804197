"""MiniGrid-Empty and MiniGrid-Empty-Random: an empty room with the goal in the far corner."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid, random_words, walled


@dataclasses.dataclass(frozen=True)
class Empty(MiniGrid):
    """Reach the green goal at the bottom right.

    Attributes:
      size: side of the grid, walls included; 4 or more.
      random_start: whether the agent starts anywhere, facing anywhere, instead of top left facing right.
    """

    size: int = 8
    random_start: bool = False

    see_through: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 4:
            raise ValueError(f"size is {self.size}, but an Empty grid needs at least 4; try 4")

    @property
    def name(self) -> str:
        return f"MiniGrid-Empty-{'Random-' if self.random_start else ''}{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    def levels(self, keys: Array) -> tuple[Array, Array, Array]:
        room = walled(*self.shape)
        room[-2, -2] = c.GREEN_GOAL
        num_envs, inside = keys.shape[0], self.size - 2
        place = direction = jnp.zeros(num_envs, jnp.int32)
        if self.random_start:
            place_word, direction_word = random_words(keys, 2)
            # The goal is the last cell inside, so leaving it out leaves 0 .. inside^2 - 2.
            place = (place_word % (inside**2 - 1)).astype(jnp.int32)
            direction = (direction_word % 4).astype(jnp.int32)
        agent = (place // inside + 1) * self.size + place % inside + 1
        return jnp.broadcast_to(room, (num_envs, *room.shape)), agent, direction
