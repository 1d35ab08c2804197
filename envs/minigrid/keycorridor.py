"""MiniGrid-KeyCorridor: find the key in one of the rooms along a corridor, to fetch the ball behind the locked door."""

import dataclasses
from typing import Any, ClassVar

from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Words
from envs.minigrid.rooms import LEFT, UP, RoomLevel
from envs.minigrid.world import PICKUP, GridState
from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class KeyCorridor(MiniGrid):
    """Pick up the ball in the locked room.

    Attributes:
      room_size: side of a room, walls included; 3 or more.
      num_rows: rooms on either side of the corridor.
    """

    room_size: int = 6
    num_rows: int = 3

    landmarks: ClassVar[dict[str, int]] = {"key": c.KEY, "ball": c.BALL}
    mission: ClassVar[str] = "pick up the {target_colour} ball"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.room_size < 3:
            raise ValueError(f"room_size is {self.room_size}, but a room needs 3 with its walls; try 3")
        if self.num_rows < 1:
            raise ValueError(f"num_rows is {self.num_rows}, but there must be at least 1; try 1")

    @property
    def name(self) -> str:
        return f"MiniGrid-KeyCorridorS{self.room_size}R{self.num_rows}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.room_size - 1) * self.num_rows + 1, (self.room_size - 1) * 3 + 1

    @property
    def max_steps(self) -> int:
        return 30 * self.room_size**2

    def blank(self, words: Words) -> RoomLevel:
        return RoomLevel(words, self.room_size, self.num_rows, 3)

    def build(self, level: RoomLevel) -> dict[str, Any]:
        for j in range(1, self.num_rows):
            level.remove_wall(1, j, UP)
        locked_room, key_room = level.below(self.num_rows), level.below(self.num_rows)
        door_colour, ball_colour = level.colour(), level.colour()
        level.add_door(2, locked_room, LEFT, door_colour, locked=True)
        level.place_in_room(2, locked_room, c.cell(c.BALL, ball_colour))
        level.place_in_room(0, key_room, c.cell(c.KEY, door_colour))
        level.place_agent_in_room(1, self.num_rows // 2)
        level.connect_all()
        return {"target_colour": ball_colour}

    def task_facts(self) -> tuple[Fact, ...]:
        return (Fact("target_colour", "colour of the ball to fetch, as in front_colour", 0, 5),)

    def import_task(self, world: Any) -> dict[str, Any]:
        return {"target_colour": c.COLOURS.index(world.obj.color)}

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        success = (action == PICKUP) & (c.kind(after.carrying) == c.BALL)
        return self.pay(success, after), success
