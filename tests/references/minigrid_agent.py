"""A scripted agent that solves Farama's MiniGrid worlds, with its own statement of the rules.

It knows the whole world, what boxes hold included. It takes the cheapest path to what it wants as if things could be
walked through at a price, deals with the first obstacle on it (opens the door, fetches the key, carries the ball
aside), and looks anew.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tests.references.minigrid_worlds import meddle

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
MOVABLE = ("key", "ball", "box")

Cell = tuple[int, int]
Actions = list[int]


class Agent:
    """Plays a world well, except that an action is random with probability `noise`."""

    def __init__(self, rng: np.random.Generator, noise: float):
        self.rng, self.noise, self.todo = rng, noise, []

    def __call__(self, world: Any) -> int:
        world = world.unwrapped
        if self.rng.random() < self.noise:
            self.todo = []
            return int(self.rng.integers(world.action_space.n))
        family = type(world).__name__
        if family == "PlaygroundEnv":
            return meddle(world, self.rng)
        if not self.todo or family == "DynamicObstaclesEnv":
            self.todo = (TASKS.get(family) or to_the_goal)(Situation(world), world) or []
        return self.todo.pop(0) if self.todo else int(self.rng.integers(world.action_space.n))


class Situation:
    """A world as it is now. Plans are lists of actions; None is no plan.

    Attributes:
      things: the objects by their cells.
      ban: cells never to enter.
      hands_off: whether things must stay where they are.
    """

    def __init__(self, world: Any, hands_off: bool = False):
        objects, width = world.grid.grid, world.width
        self.things = {(k % width, k // width): thing for k, thing in enumerate(objects) if thing is not None}
        self.size = width, world.height
        self.place = as_cell(world.agent_pos)
        self.direction, self.held = int(world.agent_dir), world.carrying
        self.ban: frozenset[Cell] = frozenset()
        self.hands_off = hands_off

    def find(self, matches: Callable[[Any], Any]) -> list[Cell]:
        return [cell for cell, thing in self.things.items() if matches(thing)]

    def holds(self, kind: str, colour: str | None = None) -> bool:
        return self.held is not None and self.held.type == kind and colour in (None, self.held.color)

    def price(self, cell: Cell) -> float:
        """Steps it takes to pass through a cell, roughly."""
        if cell in self.ban or not (0 <= cell[0] < self.size[0] and 0 <= cell[1] < self.size[1]):
            return np.inf
        thing = self.things.get(cell)
        if thing is None or thing.type in ("floor", "goal"):
            return 1
        if thing.type == "door":
            if thing.is_locked and not self.holds("key", thing.color):
                return 30 if self.keys(thing.color) or self.hidden(thing.color) else np.inf
            return 1 if thing.is_open else 2
        return 12 if thing.type in MOVABLE and not self.hands_off else np.inf

    def keys(self, colour: str) -> list[Cell]:
        return self.find(lambda thing: thing.type == "key" and thing.color == colour)

    def hidden(self, colour: str) -> list[Cell]:
        return self.find(lambda thing: thing.type == "box" and is_key(thing.contains, colour))

    def distances(self, start: Cell, free_only: bool = False) -> tuple[dict[Cell, float], dict[Cell, Cell]]:
        """Cheapest cost of every cell from `start`, and where one comes from.

        The price of a cell is paid to leave it, so that impassable cells have a distance too.
        """
        cost, parents, done, queue = {start: 0.0}, {}, set(), [(0.0, start)]
        while queue:
            spent, cell = heapq.heappop(queue)
            if cell in done:
                continue
            done.add(cell)
            toll = 1 if cell == start else self.price(cell)
            if toll == np.inf or (free_only and cell != start and self.is_obstacle(cell)):
                continue
            for dx, dy in STEPS:
                there = cell[0] + dx, cell[1] + dy
                if spent + toll < cost.get(there, np.inf):
                    cost[there] = spent + toll
                    parents[there] = cell
                    heapq.heappush(queue, (spent + toll, there))
        return cost, parents

    def is_obstacle(self, cell: Cell) -> bool:
        thing = self.things.get(cell)
        return thing is not None and not thing.can_overlap()

    def path(self, parents: dict[Cell, Cell], cell: Cell) -> list[Cell]:
        """From the first step to `cell`."""
        path = []
        while cell != self.place:
            path.append(cell)
            cell = parents[cell]
        return path[::-1]

    # -- plans ---------------------------------------------------------------------------------------------------------

    def walk(self, path: Iterable[Cell], enter: bool) -> Actions:
        """Follows a path; only turns to its last cell unless `enter`."""
        (x, y), direction, actions = self.place, self.direction, []
        for cell in path:
            wanted = STEPS.index((cell[0] - x, cell[1] - y))
            actions += {0: [], 1: [RIGHT], 2: [RIGHT, RIGHT], 3: [LEFT]}[(wanted - direction) % 4] + [FORWARD]
            (x, y), direction = cell, wanted
        return actions if enter else actions[:-1]

    def reach(self, target: Cell, action: int, later: tuple[Cell, ...] = ()) -> Actions | None:
        """Goes up to `target` and does `action` there (walks in, if it is FORWARD); `later` are the targets after."""
        parents = self.distances(self.place)[1]
        if target not in parents or target == self.place:
            return None
        path = self.path(parents, target)
        on_the_way = path if action == FORWARD else path[:-1]
        for k, cell in enumerate(on_the_way):
            if self.is_obstacle(cell):
                return self.clear(path[: k + 1], (target, *later))
        if action == PICKUP and self.held is not None:
            return self.put_aside((target, *later))
        return self.walk(path, enter=action == FORWARD) + ([] if action == FORWARD else [action])

    def clear(self, path: list[Cell], later: tuple[Cell, ...]) -> Actions | None:
        """Removes the obstacle at the end of a path."""
        cell = path[-1]
        thing = self.things[cell]
        if thing.type == "door":
            if thing.is_locked and not self.holds("key", thing.color):
                return self.fetch_key(cell, thing.color, later)
            return [*self.walk(path, enter=False), TOGGLE]
        return [*self.walk(path, enter=False), PICKUP] if self.held is None else self.put_aside(later)

    def fetch_key(self, door: Cell, colour: str, later: tuple[Cell, ...]) -> Actions | None:
        before, self.ban = self.ban, self.ban | {door}
        plan = None
        if self.held is not None and is_key(self.held.contains, colour):
            plan = self.put_aside((door, *later))
        elif keys := self.keys(colour):
            plan = self.reach(self.nearest(keys), PICKUP, (door, *later))
        elif boxes := self.hidden(colour):
            plan = self.reach(self.nearest(boxes), TOGGLE, (door, *later))
        self.ban = before
        return plan

    def nearest(self, cells: list[Cell]) -> Cell:
        cost = self.distances(self.place)[0]
        return min(cells, key=lambda cell: cost.get(cell, np.inf))

    def put_aside(self, later: tuple[Cell, ...]) -> Actions | None:
        """Drops what is held where it makes what comes later as short as can be."""
        cost, parents = self.distances(self.place, free_only=True)
        poses = sorted((spent, cell) for cell, spent in cost.items() if not self.is_obstacle(cell))
        unhindered = [self.distances(target)[0] for target in later]
        best, choice, tried = np.inf, None, {}
        for spent, cell in poses:
            if spent + sum(costs.get(cell, np.inf) for costs in unhindered) >= best:
                continue
            for dx, dy in STEPS:
                spot = cell[0] + dx, cell[1] + dy
                if spot in self.things or spot == self.place or self.price(spot) == np.inf:
                    continue
                if spot not in tried:
                    self.things[spot] = self.held
                    tried[spot] = [self.distances(target)[0] for target in later]
                    del self.things[spot]
                beside_door = any(is_door(self.things.get((spot[0] + a, spot[1] + b))) for a, b in STEPS)
                total = spent + 4 * beside_door + sum(costs.get(cell, np.inf) for costs in tried[spot])
                if total < best:
                    best, choice = total, (cell, spot)
        if choice is None:
            return None
        cell, spot = choice
        return [*self.walk([*self.path(parents, cell), spot], enter=False), DROP]


def as_cell(place: Any) -> Cell:
    x, y = place
    return int(x), int(y)


def is_key(thing: Any, colour: str) -> bool:
    return thing is not None and thing.type == "key" and thing.color == colour


def is_door(thing: Any) -> bool:
    return thing is not None and thing.type == "door"


# -- what each family asks for -----------------------------------------------------------------------------------------


def to_the_goal(now: Situation, world: Any) -> Actions | None:
    return now.reach(now.find(lambda thing: thing.type == "goal")[0], FORWARD)


def among_obstacles(now: Situation, world: Any) -> Actions | None:
    """Waits, turning, while balls close all paths: only walking into one costs."""
    now.hands_off = True
    return to_the_goal(now, world) or [LEFT]


def pick_up_object(now: Situation, world: Any) -> Actions | None:
    cells = now.find(lambda thing: thing is world.obj)
    return now.reach(cells[0], PICKUP) if cells else None


def unlock(now: Situation, world: Any) -> Actions | None:
    door = now.find(lambda thing: thing is world.door)[0]
    if now.holds("key", world.door.color):
        return now.reach(door, TOGGLE)
    return now.fetch_key(door, world.door.color, ())


def red_then_blue(now: Situation, world: Any) -> Actions | None:
    red, blue = (now.find(lambda thing, door=door: thing is door)[0] for door in (world.red_door, world.blue_door))
    if world.red_door.is_open:
        return now.reach(blue, TOGGLE)
    now.ban = frozenset([blue])
    return now.reach(red, TOGGLE)


def say_done(now: Situation, world: Any) -> Actions | None:
    return now.reach(as_cell(world.target_pos), DONE)


def fetch(now: Situation, world: Any) -> Actions | None:
    now.hands_off = True
    targets = now.find(lambda thing: (thing.type, thing.color) == (world.targetType, world.targetColor))
    return now.reach(now.nearest(targets), PICKUP)


def put_near(now: Situation, world: Any) -> Actions | None:
    now.hands_off = True
    if now.held is None:
        movers = now.find(lambda thing: (thing.type, thing.color) == (world.move_type, world.moveColor))
        return now.reach(movers[0], PICKUP) if movers else None  # a box that was opened is gone
    x, y = world.target_pos
    around = [(int(x) + dx, int(y) + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    return now.reach(now.nearest([c for c in around if c not in now.things and c != now.place]), DROP)


def remember(now: Situation, world: Any) -> Actions | None:
    now.ban = frozenset([as_cell(world.failure_pos)])
    return now.reach(as_cell(world.success_pos), FORWARD)


TASKS: dict[str, Callable[[Situation, Any], Actions | None]] = {
    "DynamicObstaclesEnv": among_obstacles,
    "KeyCorridorEnv": pick_up_object,
    "UnlockPickupEnv": pick_up_object,
    "BlockedUnlockPickupEnv": pick_up_object,
    "ObstructedMaze_1Dlhb": pick_up_object,
    "ObstructedMaze_Full": pick_up_object,
    "ObstructedMaze_Full_V1": pick_up_object,
    "UnlockEnv": unlock,
    "RedBlueDoorEnv": red_then_blue,
    "GoToDoorEnv": say_done,
    "GoToObjectEnv": say_done,
    "FetchEnv": fetch,
    "PutNearEnv": put_near,
    "MemoryEnv": remember,
}
