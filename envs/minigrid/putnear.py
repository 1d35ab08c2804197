"""MiniGrid-PutNear: carry one object next to another."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.fetch import DISTINCT, distinct_things
from envs.minigrid.level import Level
from envs.minigrid.world import DROP, PICKUP, GridState
from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class PutNear(MiniGrid):
    """Put the object that the mission names near the other one; picking up a wrong one, or dropping, ends the episode.

    Attributes:
      size: side of the grid, walls included; 6 or more.
      num_objects: keys, balls and boxes, no two alike, none next to another at the start; 2 or more.
    """

    size: int = 6
    num_objects: int = 2

    see_through: ClassVar[bool] = True
    mission: ClassVar[str] = "put the {move_colour} {move_object} near the {target_colour} {target_object}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 6:
            raise ValueError(f"size is {self.size}, but a PutNear grid needs at least 6; try 6")
        # Each object keeps others from up to 9 cells.
        most = min(((self.size - 2) ** 2 - 1) // 9 + 1, DISTINCT)
        if not 2 <= self.num_objects <= most:
            raise ValueError(
                f"num_objects is {self.num_objects}, but {self.size} x {self.size} is sure to have room for 2 to "
                f"{most} that do not touch; try {min(max(self.num_objects, 2), most)}"
            )

    @property
    def name(self) -> str:
        return f"MiniGrid-PutNear-{self.size}x{self.size}-N{self.num_objects}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 5 * self.size

    def build(self, level: Level) -> dict[str, Any]:
        things = distinct_things(level, self.num_objects)
        places, apart = [], True
        for thing in things:
            x, y = level.place(thing, apart)
            apart = apart & ((abs(level.x - x) > 1) | (abs(level.y - y) > 1))
            places.append(jnp.stack([x, y]))
        level.place_agent()
        moved = level.below(self.num_objects)
        target = (moved + level.between(1, self.num_objects)) % self.num_objects
        return {
            "target_pos": jnp.stack(places)[target],
            "move_object": c.kind(things[moved]),
            "move_colour": things[moved] >> 4,
            "target_object": c.kind(things[target]),
            "target_colour": things[target] >> 4,
        }

    def task_facts(self) -> tuple[Fact, ...]:
        return (
            Fact("target_pos", "cell to put it near to, (x, y)", 1, self.size - 2, (2,), unit="cells"),
            Fact("move_object", "what to carry: 5 key 6 ball 7 box", 5, 7),
            Fact("move_colour", "its colour, as in front_colour", 0, 5),
            Fact("target_object", "what to put it near to: 5 key 6 ball 7 box", 5, 7),
            Fact("target_colour", "its colour, as in front_colour", 0, 5),
        )

    def import_task(self, world: Any) -> dict[str, Any]:
        return {
            "target_pos": world.target_pos,
            "move_object": c.OBJECTS.index(world.move_type),
            "move_colour": c.COLOURS.index(world.moveColor),
            "target_object": c.OBJECTS.index(world.target_type),
            "target_colour": c.COLOURS.index(world.target_color),
        }

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        task = after.task
        mover = c.cell(task["move_object"], task["move_colour"])
        picks_wrong = (action == PICKUP) & (after.carrying != c.EMPTY) & (after.carrying != mover)
        drops = (action == DROP) & (state.carrying != c.EMPTY)
        lands = drops & (after.carrying == c.EMPTY)
        place = self.position(self._front_index(after))
        near = (jnp.abs(place - task["target_pos"]) <= 1).all(axis=-1)
        return self.pay(lands & near, after), picks_wrong | drops
