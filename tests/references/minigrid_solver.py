"""A breadth-first planner for MiniGrid levels, with its own statement of the rules it needs.

It reads encoded grids (`[x, y, 3]`: object, colour, state), so it plans on Farama's levels and on ours alike.
"""

from collections import deque
from typing import Any

import numpy as np

LEFT, RIGHT, FORWARD, PICKUP, TOGGLE = 0, 1, 2, 3, 5
EMPTY, FLOOR, DOOR, KEY, GOAL = 1, 3, 4, 5, 8
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def plan(image: np.ndarray, position: tuple[int, int], direction: int, carrying: tuple[int, int] | None) -> list | None:
    """The shortest action list that reaches a goal by walking, picking up keys and toggling doors; None if none does.

    A search state is where the agent is and faces, what it carries (object, colour), and which cells have changed.
    """
    grid = [[tuple(cell) for cell in column] for column in image.tolist()]
    start: Any = ((*position, direction), carrying, ())
    parents: dict = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for action, successor, reached in _successors(grid, node):
            if successor in parents:
                continue
            parents[successor] = (node, action)
            if reached:
                return _actions(parents, successor)
            queue.append(successor)
    return None


def _successors(grid, node):
    (x, y, direction), carrying, changes = node
    yield LEFT, ((x, y, (direction - 1) % 4), carrying, changes), False
    yield RIGHT, ((x, y, (direction + 1) % 4), carrying, changes), False
    front = (x + STEPS[direction][0], y + STEPS[direction][1])
    changed = dict(changes)
    kind, colour, state = changed.get(front, grid[front[0]][front[1]])
    if kind in (EMPTY, FLOOR, GOAL) or (kind == DOOR and state == 0):
        yield FORWARD, ((*front, direction), carrying, changes), kind == GOAL
    if kind == KEY and carrying is None:
        changed[front] = (EMPTY, 0, 0)
        yield PICKUP, ((x, y, direction), (kind, colour), tuple(sorted(changed.items()))), False
    if kind == DOOR and (state != 2 or carrying == (KEY, colour)):
        changed[front] = (DOOR, colour, 1 if state == 0 else 0)
        yield TOGGLE, ((x, y, direction), carrying, tuple(sorted(changed.items()))), False


def _actions(parents, node):
    actions = []
    while parents[node] is not None:
        node, action = parents[node]
        actions.append(action)
    return actions[::-1]
