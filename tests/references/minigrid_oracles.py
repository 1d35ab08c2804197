"""What can be won in MiniGrid levels and by which action, and our levels as Farama worlds. Written in NumPy."""

from typing import Any

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj

from envs.minigrid import MiniGrid
from tests.references.minigrid_agent import as_cell
from tests.references.minigrid_census import Levels

EMPTY, FLOOR, DOOR, KEY, BALL, BOX, GOAL = 1, 3, 4, 5, 6, 7, 8
FORWARD, PICKUP, DROP, TOGGLE, DONE = range(2, 7)
RED, BLUE, LOCKED = 0, 2, 2
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
THINGS = {KEY: "key", BALL: "ball", BOX: "box"}

PICKUPS = {"KeyCorridor": BALL, "UnlockPickup": BOX, "BlockedUnlockPickup": BOX, "ObstructedMaze": BALL}
"""Families whose target is an object to pick up, and its kind."""


def family(env: MiniGrid) -> str:
    return type(env).__name__


def targets(levels: Levels, env: MiniGrid) -> np.ndarray:
    """The cells that an episode is about, bool `[count, x, y]`."""
    kinds, colours = levels.grids[..., 0], levels.grids[..., 1]
    name, tasks = family(env), levels.tasks
    if name in PICKUPS:
        return (kinds == PICKUPS[name]) & ((colours == BLUE) | (name != "ObstructedMaze"))
    if name == "Unlock":
        return kinds == DOOR
    if name == "RedBlueDoors":
        return (kinds == DOOR) & (colours == BLUE)
    if name in ("Fetch", "PutNear"):
        part = "target" if name == "Fetch" else "move"
        kind, colour = (tasks[f"{part}_{what}"][:, None, None] for what in ("object", "colour"))
        return (kinds == kind) & (colours == colour)
    if name in ("GoToDoor", "GoToObject", "Memory"):
        return cells(levels, tasks["success_pos" if name == "Memory" else "target_pos"])
    return kinds == GOAL


def cells(levels: Levels, places: np.ndarray) -> np.ndarray:
    here = np.zeros(levels.grids.shape[:3], bool)
    here[np.arange(len(here)), places[:, 0], places[:, 1]] = True
    return here


def spread(mask: np.ndarray) -> np.ndarray:
    """The cells of a mask and those beside them."""
    out = mask.copy()
    out[:, 1:] |= mask[:, :-1]
    out[:, :-1] |= mask[:, 1:]
    out[:, :, 1:] |= mask[:, :, :-1]
    out[:, :, :-1] |= mask[:, :, 1:]
    return out


def solvable(levels: Levels, env: MiniGrid) -> np.ndarray:
    """Whether what is needed can be reached, bool `[count]`, if things can be moved aside and hands are never full.

    Reach grows until nothing is added: over free cells, unlocked doors, movable things (but not in Fetch and PutNear,
    where touching them ends the episode), and doors whose key, lying or boxed, has been reached.
    """
    if family(env) == "Playground":
        return np.ones(len(levels.grids), bool)
    kinds, colours, states = (levels.grids[..., k] for k in range(3))
    locked = (kinds == DOOR) & (states == LOCKED)
    walkable = np.isin(kinds, (EMPTY, FLOOR, GOAL)) | ((kinds == DOOR) & ~locked)
    if family(env) not in ("Fetch", "PutNear"):
        walkable |= np.isin(kinds, (KEY, BALL, BOX))
    if family(env) == "Memory":
        walkable &= ~cells(levels, levels.tasks["failure_pos"])
    if family(env) == "RedBlueDoors":
        walkable &= ~targets(levels, env)
    reached, before = cells(levels, levels.positions), -1
    while reached.sum() != before:
        before = reached.sum()
        at_hand, opens = spread(reached), np.zeros_like(locked)
        for colour in range(6):
            keys = ((kinds == KEY) & (colours == colour)) | (
                (levels.contents[..., 0] == KEY) & (levels.contents[..., 1] == colour)
            )
            opens |= locked & (colours == colour) & (keys & at_hand).any(axis=(1, 2), keepdims=True)
        reached |= at_hand & (walkable | opens)
    found = targets(levels, env) & (spread(reached) if targets_are_touched(env) else reached)
    if family(env) == "Unlock":
        found &= opens
    if family(env) == "RedBlueDoors":
        red = (kinds == DOOR) & (colours == RED) & spread(reached)
        found &= red.any(axis=(1, 2), keepdims=True)
    if family(env) == "PutNear":
        near = cells(levels, levels.tasks["target_pos"])
        for axis in (1, 2):
            near = near | np.roll(near, 1, axis) | np.roll(near, -1, axis)
        found &= (near & spread(reached) & (kinds == EMPTY)).any(axis=(1, 2), keepdims=True)
    return found.any(axis=(1, 2))


def targets_are_touched(env: MiniGrid) -> bool:
    """Whether one stands beside the target, and not on it."""
    return family(env) in (*PICKUPS, "Unlock", "RedBlueDoors", "Fetch", "PutNear", "GoToDoor", "GoToObject")


def wins(env: MiniGrid, now: Levels, carrying: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Whether an action wins, bool `[count]`; `carrying` is encoded, `[count, 3]`."""
    name, count = family(env), np.arange(len(action))
    ahead = now.positions + np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[now.directions]
    # Only what walks on after its episode has ended may look out of the map.
    ahead = np.clip(ahead, 0, np.array(now.grids.shape[1:3]) - 1)
    front = now.grids[count, ahead[:, 0], ahead[:, 1]]
    on_target = targets(now, env)[count, ahead[:, 0], ahead[:, 1]]
    empty_handed = carrying[:, 0] == EMPTY
    if name == "Playground":
        return np.zeros(len(action), bool)
    if name in PICKUPS or name == "Fetch":
        return (action == PICKUP) & empty_handed & on_target
    if name == "Unlock":
        fits = (carrying[:, 0] == KEY) & (carrying[:, 1] == front[:, 1])
        return (action == TOGGLE) & on_target & (front[:, 2] == LOCKED) & fits
    if name == "RedBlueDoors":
        red_is_open = ((now.grids == (DOOR, RED, 0)).all(axis=-1)).any(axis=(1, 2))
        return (action == TOGGLE) & on_target & (front[:, 2] != 0) & red_is_open
    if name in ("GoToDoor", "GoToObject"):
        return (action == DONE) & (np.abs(now.positions - now.tasks["target_pos"]).sum(axis=1) == 1)
    if name == "PutNear":
        near = np.abs(ahead - now.tasks["target_pos"]).max(axis=1) <= 1
        return (action == DROP) & ~empty_handed & (front[:, 0] == EMPTY) & near
    return (action == FORWARD) & on_target & np.isin(front[:, 0], (EMPTY, GOAL))


def export(world: Any, levels: Levels, k: int) -> None:
    """Turns a Farama world of the same id into our level `k`, its task included."""
    world.reset()
    world.grid, _ = Grid.decode(levels.grids[k])
    for x, y in np.argwhere(levels.contents[k, ..., 0] != EMPTY):
        kind, colour, state = map(int, levels.contents[k, x, y])
        box: Any = world.grid.get(x, y)
        box.contains = WorldObj.decode(kind, colour, state)
    world.agent_pos, world.agent_dir = as_cell(levels.positions[k]), int(levels.directions[k])
    world.mission = str(levels.missions[k])
    task = {name: values[k] for name, values in levels.tasks.items()}
    for name in ("target_pos", "success_pos", "failure_pos"):
        if name in task:
            setattr(world, name, as_cell(task[name]))
    for ours, theirs in FARAMAS_NAMES.items():
        words = THINGS if ours.endswith("object") else COLOURS
        for name in theirs:
            if hasattr(world, name):
                setattr(world, name, words[int(task[ours])])
    point_at_things(world, task)


FARAMAS_NAMES = {
    "target_object": ("targetType", "target_type"),
    "target_colour": ("targetColor", "target_color"),
    "move_object": ("move_type",),
    "move_colour": ("moveColor",),
}
"""The numbers of our missions, and what Farama's families call them."""


def point_at_things(world: Any, task: dict[str, np.ndarray]) -> None:
    """Sets the fields of a Farama world that are objects of its grid."""
    things = [thing for thing in world.grid.grid if thing is not None]
    doors = {thing.color: thing for thing in things if thing.type == "door"}
    if hasattr(world, "obj"):
        kind = "box" if "Unlock" in type(world).__name__ else "ball"
        colour = "blue" if "Maze" in type(world).__name__ else COLOURS[int(task["target_colour"])]
        world.obj = next(thing for thing in things if (thing.type, thing.color) == (kind, colour))
    if hasattr(world, "door"):
        (world.door,) = doors.values()
    if hasattr(world, "red_door"):
        world.red_door, world.blue_door = doors["red"], doors["blue"]
    if hasattr(world, "obstacles"):
        places = [as_cell(place) for place in task["obstacle_pos"]]
        world.obstacles = [world.grid.get(*place) for place in places]
        for ball, place in zip(world.obstacles, places, strict=True):
            ball.cur_pos = place
    if "locked_colour" in task:
        for room in world.rooms:
            room.locked, room.color = room is world.rooms[0], COLOURS[int(task["locked_colour"])]
