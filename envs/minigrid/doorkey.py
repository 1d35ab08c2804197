"""MiniGrid-DoorKey: pick up the key, unlock the door in the dividing wall, reach the goal behind it."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import GridState, MiniGrid, random_words, walled
from jaxrew.types import Fact

YELLOW_KEY = c.cell(c.KEY, c.YELLOW)
LOCKED_YELLOW_DOOR = c.cell(c.LOCKED_DOOR, c.YELLOW)


@dataclasses.dataclass(frozen=True)
class DoorKey(MiniGrid):
    """Use the yellow key to open the yellow door, then get to the green goal at the bottom right.

    Attributes:
      size: side of the grid, walls included; 5 or more.
    """

    size: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 5:
            raise ValueError(f"size is {self.size}, but a DoorKey grid needs at least 5; try 5")

    @property
    def name(self) -> str:
        return f"MiniGrid-DoorKey-{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 10 * self.size**2

    def levels(self, keys: Array) -> tuple[Array, Array, Array]:
        room = walled(*self.shape)
        room[-2, -2] = c.GREEN_GOAL
        size, inside = self.size, self.size - 2
        split_word, agent_word, direction_word, door_word, key_word = random_words(keys, 5)

        split = split_word % (size - 4) + 2
        door = door_word % (size - 3) + 1
        # Agent and key are two different cells left of the wall: the key is drawn among one cell fewer and skips
        # the agent's.
        left = (split - 1) * inside
        agent_rank = agent_word % left
        key_rank = key_word % (left - 1)
        key_rank = key_rank + (key_rank >= agent_rank)

        def index(rank: Array) -> Array:
            return ((rank // (split - 1) + 1) * size + rank % (split - 1) + 1).astype(jnp.int32)

        places = jnp.arange(size * size).reshape(size, size)
        x, y = places % size, places // size

        def here(value: Array) -> Array:
            return value[:, None, None]

        wall = jnp.where(y == here(door), jnp.uint8(LOCKED_YELLOW_DOOR), jnp.uint8(c.GREY_WALL))
        grid = jnp.where(places == here(index(key_rank)), jnp.uint8(YELLOW_KEY), room)
        grid = jnp.where(x == here(split), wall, grid)
        return grid, index(agent_rank), (direction_word % 4).astype(jnp.int32)

    def fact_specs(self) -> tuple[Fact, ...]:
        far = self.size - 1
        return (
            *super().fact_specs(),
            Fact("key_pos", "cell of the key, (x, y); (-1, -1) while it is carried", -1, far, (2,), unit="cells"),
            Fact("door_pos", "cell of the door, (x, y)", 0, far, (2,), unit="cells"),
            Fact("door_state", "0 open, 1 closed, 2 locked", 0, 2),
            Fact("goal_pos", "cell of the goal, (x, y)", 0, far, (2,), unit="cells"),
        )

    def facts_many(self, state: GridState) -> dict[str, Array]:
        triples = c.unpack(state.grid.reshape(state.grid.shape[0], -1))
        is_key, is_door = triples[..., 0] == c.KEY, triples[..., 0] == c.DOOR
        carried = state.carrying == YELLOW_KEY
        return {
            **super().facts_many(state),
            "key_pos": jnp.where(carried[:, None], -1, self.position(jnp.argmax(is_key, axis=1))),
            "door_pos": self.position(jnp.argmax(is_door, axis=1)),
            "door_state": jnp.max(triples[..., 2], axis=1).astype(jnp.int32),
            "goal_pos": jnp.full((is_key.shape[0], 2), self.size - 2, jnp.int32),
        }
