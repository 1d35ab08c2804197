"""MiniGrid-LockedRoom: six rooms along a corridor, one locked, its key in another."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level
from jaxrew.types import Fact

_SIZE, _LEFT, _RIGHT, _HEIGHT = 19, 7, 11, 6
"""Side of the grid, the corridor's two walls, and the height of a room with one wall."""


@dataclasses.dataclass(frozen=True)
class LockedRoom(MiniGrid):
    """Get the key from the room the mission names, unlock the door of its colour and go to the goal."""

    landmarks: ClassVar[dict[str, int]] = {"key": c.KEY, "goal": c.GOAL}
    mission: ClassVar[str] = (
        "get the {locked_colour} key from the {key_room_colour} room, "
        "unlock the {locked_colour} door and go to the goal"
    )

    @property
    def name(self) -> str:
        return "MiniGrid-LockedRoom-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return _SIZE, _SIZE

    @property
    def max_steps(self) -> int:
        return 10 * _SIZE

    def build(self, level: Level) -> dict[str, Any]:
        x, y = level.x, level.y
        beside = (x < _LEFT) | (x > _RIGHT)
        level.fill((x == _LEFT) | (x == _RIGHT) | (beside & (y % _HEIGHT == 0)), c.GREY_WALL)
        # Rooms are numbered left, right, from the top down.
        locked_room = level.below(6)
        key_room = (locked_room + level.between(1, 6)) % 6
        colours = level.permutation(6)
        for room in range(6):
            kind = jnp.where(room == locked_room, c.LOCKED_DOOR, c.CLOSED_DOOR)
            level.put((_LEFT, _RIGHT)[room % 2], room // 2 * _HEIGHT + 3, c.cell(kind, colours[room]))

        def place(room, cell) -> None:
            left, top = jnp.where(room % 2 == 0, 0, _RIGHT), room // 2 * _HEIGHT
            level.put(left + level.between(1, _LEFT), top + level.between(1, _HEIGHT), cell)

        place(locked_room, c.GREEN_GOAL)
        place(key_room, c.cell(c.KEY, colours[locked_room]))
        level.place_agent((x >= _LEFT) & (x < _RIGHT))
        return {"locked_colour": colours[locked_room], "key_room_colour": colours[key_room]}

    def task_facts(self) -> tuple[Fact, ...]:
        return (
            Fact("locked_colour", "colour of the locked door and its key, as in front_colour", 0, 5),
            Fact("key_room_colour", "colour of the door of the room with the key", 0, 5),
        )

    def import_task(self, world: Any) -> dict[str, Any]:
        locked = next(room.color for room in world.rooms if room.locked)
        key_room = world.mission.split(" from the ")[1].split()[0]
        return {"locked_colour": c.COLOURS.index(locked), "key_room_colour": c.COLOURS.index(key_room)}
