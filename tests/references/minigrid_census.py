"""Draws levels from ours and from Farama's generators, and tests whether they have the same distribution.

What is random in a level is turned into a hundred or so labels and a few thousand yes-or-no questions; each gets an
exact or a chi-square test of homogeneity, and the smallest p-value is corrected for their number (Bonferroni).
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import ndimage, stats

from envs.minigrid import MiniGrid, unpack
from tests.references.minigrid_replay import make_farama

KINDS = {2: "wall", 3: "floor", 4: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava"}
WALL, DOOR, KEY, BOX, LAVA, LOCKED = 2, 4, 5, 7, 9, 2


class Levels(NamedTuple):
    """Levels of one id.

    Attributes:
      grids: Farama's encoding, `[count, x, y, 3]`.
      contents: the encoding of what boxes hold, likewise.
      positions, directions: the agent's, `[count, 2]` and `[count]`.
      tasks: the numbers of the missions, each `[count, ...]`.
      missions: the missions in words.
    """

    grids: np.ndarray
    contents: np.ndarray
    positions: np.ndarray
    directions: np.ndarray
    tasks: dict[str, np.ndarray]
    missions: np.ndarray


def our_levels(env: MiniGrid, count: int, seed: int, batch: int = 1000) -> Levels:
    """The first `count` levels of a seed, drawn `batch` at a time."""
    draw, keys = jax.jit(env.levels), jax.random.split(jax.random.key(seed), -(-count // batch) * batch)
    parts = [jax.device_get(draw(keys[k : k + batch])) for k in range(0, len(keys), batch)]
    state = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)
    tasks = {fact.name: state.task[fact.name] for fact in env.task_facts()}
    contents = state.boxes.grid if state.boxes else np.ones_like(state.grid)
    grids, contents = (np.swapaxes(np.asarray(unpack(cells)), 1, 2) for cells in (state.grid, contents))
    return Levels(
        grids,
        contents,
        np.asarray(env.position(state.agent)),
        state.direction,
        tasks,
        missions(env, state, count),
    )


def missions(env: MiniGrid, state: Any, count: int) -> np.ndarray:
    """The words of every level, made once for each combination of numbers."""
    rows = [values.reshape(count, -1) for name, values in state.task.items() if name != "obstacle_pos"]
    rows = np.concatenate(rows, axis=1) if rows else np.zeros((count, 1))
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    texts = [env.mission_text(jax.tree.map(lambda leaf: leaf[k], state)) for k in first]  # noqa: B023
    return np.array(texts)[which.ravel()]


def farama_levels(name: str, env: MiniGrid, count: int, seed: int = 0) -> Levels:
    world, rows = make_farama(name), []
    for level in range(count):
        world.reset(seed=None if level else seed)
        rows.append(
            (world.grid.encode(), boxed(world), world.agent_pos, world.agent_dir, env.import_task(world), world.mission)
        )
    grids, contents, positions, directions, tasks, words = zip(*rows, strict=True)
    tasks = {fact.name: np.array([task[fact.name] for task in tasks]) for fact in env.task_facts()}
    grids, contents, positions, directions, words = map(np.array, (grids, contents, positions, directions, words))
    return Levels(grids, contents, positions, directions, tasks, words)


def boxed(world: Any) -> np.ndarray:
    """The encoding of what boxes hold."""
    codes = np.tile(np.array([1, 0, 0], np.uint8), (world.width, world.height, 1))
    for k, thing in enumerate(world.grid.grid):
        if thing is not None and thing.contains is not None:
            codes[k % world.width, k // world.width] = thing.contains.encode()
    return codes


# -- what is random in a level -----------------------------------------------------------------------------------------


def labels(levels: Levels) -> dict[str, np.ndarray]:
    """Everything that may differ between levels, each as a label per level (rows `[count, anything]`)."""
    count, _, height = levels.grids.shape[:3]
    kinds, colours, states = (levels.grids[..., k].reshape(count, -1).astype(np.int64) for k in range(3))
    inside = levels.contents.reshape(count, -1, 3).astype(np.int64)
    cell = levels.positions[:, 0] * height + levels.positions[:, 1]
    out = {
        "agent": cell,
        "direction": levels.directions,
        "agent x direction": cell * 4 + levels.directions,
        "walls": kinds == WALL,
        "walls in rows and columns": np.concatenate(
            [(levels.grids[..., 0] == WALL).sum(axis=axis) for axis in (1, 2)], axis=1
        ),
        "things and colours": counts_of(np.where(kinds > WALL, kinds * 8 + colours, 0), 80),
        "door colours and states": counts_of(np.where(kinds == DOOR, 1 + colours * 3 + states, 0), 19),
        "door states": counts_of(np.where(kinds == DOOR, 1 + states, 0), 4),
        "boxes and contents": counts_of(
            np.where(inside[..., 0] > 1, colours * 100 + inside[..., 0] * 8 + inside[..., 1], 0), 700
        ),
        "keys without locks": keys_without_locks(kinds, colours, states, inside),
        "mission": unique_numbers(levels.missions),
        **rooms(levels),
    }
    ahead = levels.positions + np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[levels.directions]
    out["ahead"] = levels.grids[np.arange(count), ahead[:, 0], ahead[:, 1]]
    places = {"agent": cell}
    for kind, name in KINDS.items():
        here = kinds == kind
        if kind == WALL or not here.any():
            continue
        first = np.where(here.any(axis=1), here.argmax(axis=1), -1)
        last = np.where(here.any(axis=1), here.shape[1] - 1 - here[:, ::-1].argmax(axis=1), -1)
        out[f"number: {name}"] = here.sum(axis=1)
        out[f"colours: {name}"] = counts_of(np.where(here, 1 + colours, 0), 7)
        out[f"{name} and {name}"] = np.stack([first, last], axis=1)
        places |= {f"first {name}": first, f"last {name}": last}
    names = list(places)
    for k, one in enumerate(names):
        for other in names[:k]:
            a, b = places[one], places[other]
            distance = np.abs(a // height - b // height) + np.abs(a % height - b % height)
            out[f"distance: {one}, {other}"] = np.where((a < 0) | (b < 0), -1, distance)
        out[f"place: {one}"], out[f"agent x {one}"] = places[one], np.stack([cell, places[one]], axis=1)
    for name, values in levels.tasks.items():
        out[f"task: {name}"] = values
        if name.endswith("_pos") and values.ndim == 2:
            out[f"thing at {name}"] = levels.grids[np.arange(count), values[:, 0], values[:, 1]]
    return {name: np.asarray(rows).reshape(count, -1).astype(np.int64) for name, rows in out.items()}


def counts_of(codes: np.ndarray, size: int) -> np.ndarray:
    """How often each code but 0 occurs in each row."""
    rows = np.zeros((len(codes), size), np.int64)
    np.add.at(rows, (np.arange(len(codes))[:, None], codes), 1)
    return rows[:, 1:]


def keys_without_locks(kinds, colours, states, inside) -> np.ndarray:
    """Keys less locked doors, of each colour."""
    keys = counts_of(np.where(kinds == KEY, 1 + colours, 0), 7)
    keys += counts_of(np.where(inside[..., 0] == KEY, 1 + inside[..., 1], 0), 7)
    return keys - counts_of(np.where((kinds == DOOR) & (states == LOCKED), 1 + colours, 0), 7)


def unique_numbers(texts: np.ndarray) -> np.ndarray:
    """A number for each text that does not depend on the other texts."""
    return np.array([int.from_bytes(text.encode()[-160:], "little") % (2**61 - 1) for text in texts.tolist()])


def rooms(levels: Levels) -> dict[str, np.ndarray]:
    """Sizes of the regions that walls, doors and lava divide a level into."""
    kinds, rows = levels.grids[..., 0], []
    for level, (x, y) in zip(kinds, levels.positions, strict=True):
        regions, count = ndimage.label((level != WALL) & (level != DOOR) & (level != LAVA))  # pyright: ignore
        boxes = ndimage.find_objects(regions)
        sizes = sorted((box[0].stop - box[0].start, box[1].stop - box[1].start) for box in boxes)
        goals = regions[level == 8]
        agents, goals = (boxes[k - 1] if k else None for k in (regions[x, y], goals[0] if len(goals) else 0))
        ends = [end for box in (agents, goals) for end in ([s.stop - s.start for s in box] if box else [0, 0])]
        rows.append([count, hash(tuple(sizes)), *ends, int(agents == goals)])
    rows = np.array(rows)
    return {
        "number of rooms": rows[:, 0],
        "room sizes": rows[:, 1],
        "the agent's room": rows[:, 2:4],
        "the goal's room": rows[:, 4:6],
        "agent and goal in one room": rows[:, 6],
    }


# -- tests -------------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """`p` is the smallest p-value times the number of tests, `which` the test that it comes from."""

    p: float
    tests: int
    which: str


def compare(ours: Levels, theirs: Levels) -> Verdict:
    """Whether two samples of levels come from one distribution: p-value of the whole."""
    a, b = labels(ours), labels(theirs)
    p_values = {}
    for name in sorted({*a, *b}):
        # A kind that occurs on one side alone differs in the number of every cell as well.
        if name in a and name in b:
            p, categories = homogeneity(a[name], b[name])
            p_values |= {name: p} if categories > 1 else {}
    for kind, name in KINDS.items():
        here, there = ((levels.grids[..., 0] == kind).sum(axis=0).ravel() for levels in (ours, theirs))
        varies = np.flatnonzero((here + there > 0) & (here + there < len(ours.grids) + len(theirs.grids)))
        p = exact(here[varies], len(ours.grids), there[varies], len(theirs.grids))
        p_values |= {f"{name} in cell {k}": value for k, value in zip(varies, p, strict=True)}
    if not p_values:
        return Verdict(1.0, 0, "")
    worst = min(p_values, key=p_values.__getitem__)
    return Verdict(min(1.0, p_values[worst] * len(p_values)), len(p_values), worst)


def homogeneity(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, int]:
    """p-value of the two-sample chi-square test, with categories seen under 10 times pooled; and the categories."""
    _, which = np.unique(np.concatenate([ours, theirs]), axis=0, return_inverse=True)
    which = which.ravel()
    size = which.max() + 1
    table = np.stack([np.bincount(side, minlength=size) for side in (which[: len(ours)], which[len(ours) :])])
    rare = table.sum(axis=0) < 10
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic, freedom = ((table - expected) ** 2 / expected).sum(), table.shape[1] - 1
    return (float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0), int(size)


def exact(ours: np.ndarray, n: int, theirs: np.ndarray, m: int) -> np.ndarray:
    """Two-sided p-values of Fisher's exact test that `ours` of n and `theirs` of m have one probability."""
    law = stats.hypergeom(n + m, ours + theirs, n)
    return np.minimum(1, 2 * np.minimum(law.cdf(ours), law.sf(ours - 1)))
