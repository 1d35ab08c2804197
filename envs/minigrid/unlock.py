"""MiniGrid-Unlock, -UnlockPickup and -BlockedUnlockPickup: two rooms and a locked door between them."""

import dataclasses
from typing import Any, ClassVar

from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Words
from envs.minigrid.rooms import RIGHT, RoomLevel
from envs.minigrid.world import PICKUP, TOGGLE, GridState
from jaxrew.types import Fact

_ROOM_SIZE = 6


@dataclasses.dataclass(frozen=True)
class Unlock(MiniGrid):
    """Unlock the door with the key in the room."""

    landmarks: ClassVar[dict[str, int]] = {"key": c.KEY, "door": c.DOOR}
    mission: ClassVar[str] = "open the door"

    @property
    def name(self) -> str:
        return f"MiniGrid-{type(self).__name__}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return _ROOM_SIZE, 2 * _ROOM_SIZE - 1

    @property
    def max_steps(self) -> int:
        return 8 * _ROOM_SIZE**2

    def blank(self, words: Words) -> RoomLevel:
        return RoomLevel(words, _ROOM_SIZE, 1, 2)

    def build(self, level: RoomLevel) -> dict[str, Any] | None:
        colour = level.colour()
        level.add_door(0, 0, RIGHT, colour, locked=True)
        level.place_in_room(0, 0, c.cell(c.KEY, colour))
        level.place_agent_in_room(0, 0)

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        # The one door is either locked still or open.
        has_opened = (c.kind(after.grid) == c.DOOR).any(axis=(1, 2))
        success = (action == TOGGLE) & has_opened
        return self.pay(success, after), success


@dataclasses.dataclass(frozen=True)
class UnlockPickup(Unlock):
    """Pick up the box in the locked room."""

    landmarks: ClassVar[dict[str, int]] = {"key": c.KEY, "door": c.DOOR, "box": c.BOX}
    mission: ClassVar[str] = "pick up the {target_colour} box"

    def build(self, level: RoomLevel) -> dict[str, Any]:
        box_colour, door_colour = level.colour(), level.colour()
        level.place_in_room(1, 0, c.cell(c.BOX, box_colour))
        self._lock(level, door_colour)
        level.place_in_room(0, 0, c.cell(c.KEY, door_colour))
        level.place_agent_in_room(0, 0)
        return {"target_colour": box_colour}

    def _lock(self, level: RoomLevel, colour: Array) -> None:
        level.add_door(0, 0, RIGHT, colour, locked=True)

    def task_facts(self) -> tuple[Fact, ...]:
        return (Fact("target_colour", "colour of the box to fetch, as in front_colour", 0, 5),)

    def import_task(self, world: Any) -> dict[str, Any]:
        return {"target_colour": c.COLOURS.index(world.obj.color)}

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        success = (action == PICKUP) & (c.kind(after.carrying) == c.BOX)
        return self.pay(success, after), success


@dataclasses.dataclass(frozen=True)
class BlockedUnlockPickup(UnlockPickup):
    """Pick up the box in the locked room, whose door a ball blocks."""

    landmarks: ClassVar[dict[str, int]] = {**UnlockPickup.landmarks, "ball": c.BALL}

    @property
    def max_steps(self) -> int:
        return 16 * _ROOM_SIZE**2

    def _lock(self, level: RoomLevel, colour: Array) -> None:
        level.add_door(0, 0, RIGHT, colour, locked=True, blocked_by=c.cell(c.BALL, level.colour()))
