"""MiniGrid-GoToDoor and MiniGrid-GoToObject: stand beside what the mission names and say done."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.fetch import DISTINCT, check_room, distinct_things
from envs.minigrid.level import Level
from envs.minigrid.world import DONE, TOGGLE, GridState
from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class _GoTo(MiniGrid, abc.ABC):
    """Done beside the target pays; done anywhere ends the episode, and so does toggling anything."""

    size: int = 5

    see_through: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def target_facts(self) -> tuple[Fact, ...]:
        """Where the target is, or was at the start."""
        far = self.size - 1
        return (Fact("target_pos", "where the target was at the start, (x, y)", 0, far, (2,), unit="cells"),)

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        distance = jnp.abs(self.position(after.agent) - after.task["target_pos"]).sum(axis=-1)
        success = (action == DONE) & (distance == 1)
        return self.pay(success, after), (action == DONE) | (action == TOGGLE)


@dataclasses.dataclass(frozen=True)
class GoToDoor(_GoTo):
    """Go to the door of the mission's colour, one of four, in a room of random width and height.

    Attributes:
      size: side of the grid and largest side of the room, walls included; 5 or more.
    """

    size: int = 5

    bordered: ClassVar[bool] = False
    mission: ClassVar[str] = "go to the {target_colour} door"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 5:
            raise ValueError(f"size is {self.size}, but a GoToDoor grid needs at least 5; try 5")

    @property
    def name(self) -> str:
        return f"MiniGrid-GoToDoor-{self.size}x{self.size}-v0"

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    def build(self, level: Level) -> dict[str, Any]:
        width, height = level.between(5, self.size + 1), level.between(5, self.size + 1)
        level.fill(level.rectangle(0, 0, self.size, self.size), c.EMPTY)
        level.fill(level.rectangle(0, 0, width, height), c.GREY_WALL)
        inside = level.rectangle(1, 1, width - 2, height - 2)
        level.fill(inside, c.EMPTY)
        xs = jnp.stack([level.between(2, width - 2), level.between(2, width - 2), jnp.int32(0), width - 1])
        ys = jnp.stack([jnp.int32(0), height - 1, level.between(2, height - 2), level.between(2, height - 2)])
        colours = level.permutation(6)
        for x, y, colour in zip(xs, ys, colours, strict=False):
            level.put(x, y, c.cell(c.CLOSED_DOOR, colour))
        level.place_agent(inside)
        target = level.below(4)
        return {"target_pos": jnp.stack([xs[target], ys[target]]), "target_colour": colours[target]}

    def task_facts(self) -> tuple[Fact, ...]:
        return *self.target_facts(), Fact("target_colour", "colour of the door to go to, as in front_colour", 0, 5)

    def import_task(self, world: Any) -> dict[str, Any]:
        return {"target_pos": world.target_pos, "target_colour": c.COLOURS.index(world.target_color)}


@dataclasses.dataclass(frozen=True)
class GoToObject(_GoTo):
    """Go to the object of the mission's kind and colour; where it was at the start counts.

    Attributes:
      size: side of the grid, walls included; 5 or more.
      num_objects: keys, balls and boxes in the room, no two alike.
    """

    size: int = 6
    num_objects: int = 2

    mission: ClassVar[str] = "go to the {target_colour} {target_object}"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_room(self.size, self.num_objects, self.name, DISTINCT)

    @property
    def name(self) -> str:
        return f"MiniGrid-GoToObject-{self.size}x{self.size}-N{self.num_objects}-v0"

    @property
    def max_steps(self) -> int:
        return 5 * self.size**2

    def build(self, level: Level) -> dict[str, Any]:
        things = distinct_things(level, self.num_objects)
        places = level.place_each(things)
        level.place_agent()
        target = level.below(self.num_objects)
        thing = things[target]
        return {"target_pos": places[target], "target_object": c.kind(thing), "target_colour": thing >> 4}

    def task_facts(self) -> tuple[Fact, ...]:
        return (
            *self.target_facts(),
            Fact("target_object", "what to go to: 5 key 6 ball 7 box", 5, 7),
            Fact("target_colour", "its colour, as in front_colour", 0, 5),
        )

    def import_task(self, world: Any) -> dict[str, Any]:
        return {
            "target_pos": world.target_pos,
            "target_object": c.OBJECTS.index(world.targetType),
            "target_colour": c.COLOURS.index(world.target_color),
        }
