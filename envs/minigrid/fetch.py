"""MiniGrid-Fetch: pick up the object that the mission names."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level
from envs.minigrid.world import GridState
from jaxrew.types import Fact

_PHRASES = ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")


@dataclasses.dataclass(frozen=True)
class Fetch(MiniGrid):
    """Pick up the object of the mission's kind and colour; any other ends the episode.

    Attributes:
      size: side of the grid, walls included; 5 or more.
      num_objects: keys and balls in the room.
    """

    size: int = 8
    num_objects: int = 3

    see_through: ClassVar[bool] = True
    mission: ClassVar[str] = "{phrase} {target_colour} {target_object}"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_room(self.size, self.num_objects, self.name)

    @property
    def name(self) -> str:
        return f"MiniGrid-Fetch-{self.size}x{self.size}-N{self.num_objects}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 5 * self.size**2

    def build(self, level: Level) -> dict[str, Any]:
        things = c.cell(c.KEY + level.below(jnp.full(self.num_objects, 2)), level.below(jnp.full(self.num_objects, 6)))
        level.place_each(things)
        level.place_agent()
        target = things[level.below(self.num_objects)]
        return {"phrase": level.below(5), "target_object": c.kind(target), "target_colour": target >> 4}

    def task_facts(self) -> tuple[Fact, ...]:
        return (
            Fact("phrase", "which of Farama's five phrases the mission begins with", 0, 4),
            Fact("target_object", "what to fetch: 5 key 6 ball", 5, 6),
            Fact("target_colour", "its colour, as in front_colour", 0, 5),
        )

    def import_task(self, world: Any) -> dict[str, Any]:
        return {
            "phrase": _PHRASES.index(world.mission.rsplit(" ", 2)[0]),
            "target_object": c.OBJECTS.index(world.targetType),
            "target_colour": c.COLOURS.index(world.targetColor),
        }

    def mission_text(self, state: GridState) -> str:
        task = state.task
        thing = f"{c.COLOURS[int(task['target_colour'])]} {c.OBJECTS[int(task['target_object'])]}"
        return f"{_PHRASES[int(task['phrase'])]} {thing}"

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        ends = after.carrying != c.EMPTY
        success = after.carrying == c.cell(after.task["target_object"], after.task["target_colour"])
        return self.pay(success, after), ends


DISTINCT = 18
"""How many keys, balls and boxes differ in kind or colour."""


def check_room(size: int, num_objects: int, name: str, at_most: int = 10**9) -> None:
    """Raises ValueError unless a room of `size` holds so many objects and the agent."""
    if size < 5:
        raise ValueError(f"size is {size}, but {name} needs at least 5; try 5")
    most = min((size - 2) ** 2 - 1, at_most)
    if not 1 <= num_objects <= most:
        nearest = min(max(num_objects, 1), most)
        raise ValueError(f"num_objects is {num_objects}, but a room of size {size} takes 1 to {most}; try {nearest}")


def distinct_things(level: Level, count: int) -> Array:
    """Cells `[count]` of keys, balls and boxes, no two alike, all such sequences equally likely."""
    codes = level.permutation(DISTINCT)[:count]
    return c.cell(c.KEY + codes // 6, codes % 6)
