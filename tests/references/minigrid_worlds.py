"""Farama worlds built by hand or at random, and the environment of ours that steps them."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from minigrid.core.constants import COLOR_NAMES
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from envs.minigrid import MiniGrid
from envs.minigrid.world import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE

ODDS = {
    **{"wall": 0.1, "floor": 0.1, "open": 0.1, "closed": 0.1, "locked": 0.1},
    **{"key": 0.15, "ball": 0.05, "box": 0.2, "goal": 0.05, "lava": 0.05},
}
"""How often a random thing is what."""


@dataclasses.dataclass(frozen=True)
class World(MiniGrid):
    """Ours, for levels that are only ever imported."""

    height: int = 5
    width: int = 5

    boxes_hold: ClassVar[bool] = True
    mission: ClassVar[str] = "anything"

    @property
    def name(self):
        return "World"

    @property
    def shape(self):
        return self.height, self.width

    @property
    def max_steps(self):
        return 100

    def build(self, level):
        raise AssertionError("worlds are imported, not generated")


@dataclasses.dataclass(frozen=True)
class OpenWorld(World):
    """Without occlusion."""

    see_through: ClassVar[bool] = True


class FaramaWorld(MiniGridEnv):
    """Farama's side: a walled room of the size of `ours`, with things in it: `{(x, y): object}`."""

    def __init__(self, ours: World, things: dict, position: tuple[int, int], direction: int):
        self.things, self.start = things, (position, direction)
        super().__init__(
            mission_space=MissionSpace(mission_func=lambda: "anything"),
            width=ours.width,
            height=ours.height,
            max_steps=ours.max_steps,
            agent_view_size=ours.view_size,
            see_through_walls=ours.see_through,
        )
        self.reset()

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        self.grid.wall_rect(0, 0, width, height)
        for (x, y), thing in self.things.items():
            self.grid.set(x, y, thing)
        self.agent_pos, self.agent_dir = self.start


def random_world(ours: World, rng: np.random.Generator) -> FaramaWorld:
    """A room with 10 to 50 % of the cells holding anything that MiniGrid knows; the agent may carry a thing."""
    density = rng.uniform(0.1, 0.5)
    cells = [(x, y) for x in range(1, ours.width - 1) for y in range(1, ours.height - 1)]
    things = {cell: random_thing(rng) for cell in cells if rng.random() < density}
    free = [cell for cell in cells if cell not in things or things[cell].can_overlap()]
    position = free[rng.integers(len(free))] if free else cells[0]
    if not free:
        del things[position]
    world = FaramaWorld(ours, things, position, int(rng.integers(4)))
    thing = random_thing(rng)
    world.carrying = thing if thing.can_pickup() else None
    return world


def meddle(world: MiniGridEnv, rng: np.random.Generator) -> int:
    """Random actions that mostly do something: walk where one can, meddle with things, turn away from walls."""
    held, front = world.carrying is not None, world.grid.get(*world.front_pos)
    if rng.random() < 0.15:
        return int(rng.integers(7))
    if front is None:
        return int(rng.choice([FORWARD, LEFT, RIGHT, DROP if held else FORWARD], p=[0.5, 0.15, 0.15, 0.2]))
    if front.type == "wall":
        return int(rng.choice([LEFT, RIGHT]))
    return int(rng.choice([FORWARD, LEFT, PICKUP, DROP, TOGGLE], p=[0.3, 0.1, 0.25, 0.1, 0.25]))


def random_thing(rng: np.random.Generator, boxed: bool = False):
    """Any object, mostly red or blue ones; a box holds nothing or any object but a box with something in it."""
    colour = str(rng.choice(["red", "blue", *COLOR_NAMES], p=[0.35, 0.35, *[0.05] * 6]))
    kind = rng.choice(list(ODDS), p=list(ODDS.values()))
    if kind == "box":
        return Box(colour, None if boxed or rng.random() < 0.4 else random_thing(rng, boxed=True))
    return make_thing(kind, colour)


def make_thing(kind: str, colour: str) -> WorldObj:
    """An object of one of the kinds of `ODDS`; lava has only one colour, and a box is empty."""
    makers: dict[str, Callable[[], WorldObj]] = {
        "wall": lambda: Wall(colour),
        "floor": lambda: Floor(colour),
        "open": lambda: Door(colour, is_open=True),
        "closed": lambda: Door(colour),
        "locked": lambda: Door(colour, is_locked=True),
        "key": lambda: Key(colour),
        "ball": lambda: Ball(colour),
        "box": lambda: Box(colour),
        "goal": lambda: Goal(colour),
        "lava": lambda: Lava(),
    }
    return makers[kind]()
