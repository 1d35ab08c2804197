"""A breadth-first planner for MiniGrid levels, with its own statement of the rules it needs.

It reads encoded grids (`[x, y, 3]`: object, colour, state), so it plans on Farama's levels and on ours alike.
"""

from collections import deque

import numpy as np

LEFT, RIGHT, FORWARD, PICKUP, TOGGLE = 0, 1, 2, 3, 5
EMPTY, FLOOR, DOOR, KEY, GOAL = 1, 3, 4, 5, 8
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def plan(image: np.ndarray, position: tuple[int, int], direction: int, carrying: tuple[int, int] | None) -> list | None:
    """The shortest action list that reaches a goal by walking, picking up keys and toggling doors; None if none does.

    A search state is where the agent is and faces, what it carries (object, colour), and which cells have changed.
    """
    start = ((*position, direction), carrying, frozenset())
    parents: dict = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for action in (LEFT, RIGHT, FORWARD, PICKUP, TOGGLE):
            successor, reached = _after(image, node, action)
            if successor in parents:
                continue
            parents[successor] = (node, action)
            if reached:
                return _actions(parents, successor)
            queue.append(successor)
    return None


def _after(image, node, action):
    (x, y, direction), carrying, changes = node
    if action in (LEFT, RIGHT):
        turned = (direction + (1 if action == RIGHT else -1)) % 4
        return ((x, y, turned), carrying, changes), False
    front = (x + STEPS[direction][0], y + STEPS[direction][1])
    changed = dict(changes)
    kind, colour, state = changed.get(front, tuple(int(value) for value in image[front]))
    if action == FORWARD:
        if kind in (EMPTY, FLOOR, GOAL) or (kind == DOOR and state == 0):
            return ((*front, direction), carrying, changes), kind == GOAL
        return node, False
    if action == PICKUP:
        if kind != KEY or carrying is not None:
            return node, False
        carrying, changed[front] = (kind, colour), (EMPTY, 0, 0)
    elif kind != DOOR or (state == 2 and carrying != (KEY, colour)):
        return node, False
    else:
        changed[front] = (DOOR, colour, 1 if state == 0 else 0)
    return ((x, y, direction), carrying, frozenset(changed.items())), False


def _actions(parents, node):
    actions = []
    while parents[node] is not None:
        node, action = parents[node]
        actions.append(action)
    return actions[::-1]
