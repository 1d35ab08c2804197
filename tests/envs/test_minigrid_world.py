"""The core that all families share: every object and action against Farama, in worlds no family generates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.constants import COLOR_NAMES
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall

from envs.minigrid import import_state, unpack
from envs.minigrid.view import pass_light, visible
from envs.minigrid.world import DONE, DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE
from tests.references.minigrid_replay import record, replay
from tests.references.minigrid_worlds import ODDS, FaramaWorld, OpenWorld, World, make_thing, meddle, random_world


def fuzz(env, worlds, steps, seed):
    """Random worlds, random actions, nothing stops at an episode's end: `(recordings, mismatches by field)`."""
    rng = np.random.default_rng(seed)
    recordings = []
    for _ in range(worlds):
        recordings.append(record(random_world(env, rng), env, lambda world: meddle(world, rng), steps))
    return recordings, replay(env, recordings)


@pytest.mark.parametrize(
    "env",
    [World(height=7, width=9), OpenWorld(height=6, width=5), World(height=9, width=6, view_size=5, obs="partial")],
    ids=lambda env: f"{type(env).__name__}-{env.height}x{env.width}-view{env.view_size}",
)
def test_random_worlds(env):
    recordings, wrong = fuzz(env, worlds=30, steps=80, seed=0)
    assert not any(wrong.values()), wrong
    seen = {name: np.concatenate([r.seen[name] for r in recordings]) for name in ("front", "carrying", "front_state")}
    assert set(np.unique(seen["front"])) == set(range(1, 10))
    assert set(np.unique(seen["carrying"])) == {1, 5, 6, 7}
    assert set(np.unique(seen["front_state"])) == {0, 1, 2}
    assert sum(r.outcome["reward"].sum() for r in recordings) > 0


@pytest.mark.slow
@pytest.mark.parametrize("view_size", [3, 5, 7, 9, 11])
@pytest.mark.parametrize("kind", [World, OpenWorld])
def test_random_worlds_at_length(kind, view_size, capsys):
    recordings, wrong = fuzz(kind(height=8, width=11, view_size=view_size), worlds=300, steps=100, seed=view_size)
    steps = sum(len(recording.actions) for recording in recordings)
    with capsys.disabled():
        print(f"\n| {kind.__name__} | {view_size} | {len(recordings)} | {steps} | {sum(wrong.values())} |", end="")
    assert not any(wrong.values()), wrong


def box_in_front(contents):
    return {(3, 2): Box("purple", contents)}


STORIES = {
    "a box becomes its contents, which can be carried off": (
        lambda: box_in_front(Key("red")),
        [TOGGLE, PICKUP, RIGHT, DROP],
    ),
    "an empty box vanishes": (lambda: box_in_front(None), [TOGGLE, FORWARD, FORWARD]),
    "a carried box keeps its contents": (
        lambda: box_in_front(Ball("blue")),
        [PICKUP, RIGHT, DROP, TOGGLE, PICKUP, LEFT, DROP, TOGGLE],
    ),
    "a box may hold a box": (lambda: box_in_front(Box("grey")), [TOGGLE, TOGGLE, FORWARD]),
    "a box may hold a goal, and opening it pays nothing": (lambda: box_in_front(Goal()), [TOGGLE, FORWARD]),
    "full hands pick up nothing": (
        lambda: {(3, 2): Ball("red"), (2, 3): Key("blue")},
        [PICKUP, RIGHT, PICKUP, LEFT, DROP, RIGHT, PICKUP],
    ),
    "empty hands drop nothing": (lambda: {}, [DROP, FORWARD]),
    "an open door takes no object": (
        lambda: {(2, 3): Ball("green"), (3, 2): Door("green", is_open=True)},
        [RIGHT, PICKUP, LEFT, DROP, FORWARD, DROP],
    ),
    "a floor takes no object": (lambda: {(2, 3): Key("red"), (3, 2): Floor("red")}, [RIGHT, PICKUP, LEFT, DROP]),
    "an unlocked door swings both ways": (lambda: {(3, 2): Door("red")}, [FORWARD, TOGGLE, TOGGLE, TOGGLE, FORWARD]),
    "a locked door stays shut without a key": (
        lambda: {(3, 2): Door("red", is_locked=True)},
        [TOGGLE, FORWARD, PICKUP],
    ),
    "a key of another colour does not fit": (
        lambda: {(2, 3): Key("blue"), (3, 2): Door("red", is_locked=True)},
        [RIGHT, PICKUP, LEFT, TOGGLE, FORWARD],
    ),
    "a ball of the same colour does not fit": (
        lambda: {(2, 3): Ball("red"), (3, 2): Door("red", is_locked=True)},
        [RIGHT, PICKUP, LEFT, TOGGLE, FORWARD],
    ),
    "the key that fits unlocks, opens and is kept; the door never locks again": (
        lambda: {(2, 3): Key("red"), (3, 2): Door("red", is_locked=True)},
        [RIGHT, PICKUP, LEFT, TOGGLE, TOGGLE, TOGGLE, FORWARD, FORWARD, DROP],
    ),
    "lava ends the episode with nothing": (lambda: {(3, 2): Lava()}, [PICKUP, TOGGLE, DROP, DONE, FORWARD]),
    "floors and walls of any colour": (lambda: {(3, 2): Floor("yellow"), (4, 2): Wall("red")}, [FORWARD, FORWARD]),
}


@pytest.mark.parametrize("story", STORIES)
def test_stories(story):
    things, actions = STORIES[story]
    env, script = World(height=5, width=6), iter(actions + [DONE] * (9 - len(actions)))
    world = FaramaWorld(env, things(), position=(2, 2), direction=0)
    wrong = replay(env, [record(world, env, lambda _: next(script), steps=9)])
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("thing", [Goal("green"), Lava()])
@pytest.mark.parametrize("held", [None, Key("green"), Ball("green"), Box("green", Goal())])
def test_only_forward_ends_an_episode(thing, held):
    env = World(height=5, width=6)
    world = FaramaWorld(env, {(3, 2): thing}, position=(2, 2), direction=0)
    world.carrying = held
    state, _ = import_state(world, env)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * 7), state)
    _, step = jax.jit(env.step_many)(jax.random.key(0), states, jnp.arange(7))
    pays = np.float32(1 - 0.9 / 100) if isinstance(thing, Goal) else 0
    assert step.reward.tolist() == [pays if action == FORWARD else 0 for action in range(7)]
    assert step.terminated.tolist() == [action == FORWARD for action in range(7)]
    assert not step.truncated.any()


def test_light_in_a_row_is_faramas_for_all_masks():
    lit, clear = (grid.ravel() for grid in np.meshgrid(np.arange(128), np.arange(128), indexing="ij"))
    row, above = jax.jit(pass_light, static_argnums=2)(jnp.asarray(lit, jnp.uint32), jnp.asarray(clear, jnp.uint32), 7)
    row, above, weights = np.asarray(row), np.asarray(above), 1 << np.arange(7)
    grid = Grid(7, 3)
    for k in range(128 * 128):
        # The first two rows are walls, which show what reaches the second and let nothing move on.
        grid.grid[:14] = [Wall()] * 14
        grid.grid[14:] = [None if clear[k] >> x & 1 else Wall() for x in range(7)]
        # Farama lights the cells that this indexes: one cell in its own use, any set here.
        start: Any = (np.flatnonzero(lit[k] >> np.arange(7) & 1), 2)
        mask = grid.process_vis(start)
        assert (mask[:, 2] @ weights, mask[:, 1] @ weights) == (row[k], above[k]), (lit[k], clear[k])


@pytest.mark.parametrize("size", [3, 5, 7, 9, 15])
def test_light_in_a_view_is_faramas(size):
    rng = np.random.default_rng(size)
    opaque = rng.random((200, size, size)) < rng.uniform(0.1, 0.6, (200, 1, 1))
    ours = jax.jit(visible)(jnp.where(opaque, jnp.uint8(2), jnp.uint8(1)))
    for walls, seen in zip(opaque, np.asarray(ours), strict=True):
        grid = Grid(size, size)
        grid.grid = [Wall() if walls[x, y] else None for y in range(size) for x in range(size)]
        np.testing.assert_array_equal(seen, grid.process_vis((size // 2, size - 1)))


def test_unpack_is_faramas_encoding_of_everything():
    env = World(height=12, width=8)
    things = {
        (x + 1, y + 1): make_thing(kind, colour) for x, colour in enumerate(COLOR_NAMES) for y, kind in enumerate(ODDS)
    }
    world = FaramaWorld(env, things, position=(1, 2), direction=0)
    assert len(things) == 60
    state, _ = import_state(world, env)
    np.testing.assert_array_equal(np.swapaxes(np.asarray(unpack(state.grid)), 0, 1), world.grid.encode())


def test_import_refuses_what_the_state_cannot_hold():
    class EmptyBoxes(World):
        boxes_hold = False

    env = EmptyBoxes()
    with pytest.raises(ValueError, match=r"EmptyBoxes\.boxes_hold is False; set it to True"):
        import_state(FaramaWorld(env, {(3, 2): Box("red", Key("red"))}, (2, 2), 0), env)
    with pytest.raises(ValueError, match="one object inside another is the limit"):
        import_state(FaramaWorld(World(), {(3, 2): Box("red", Box("red", Key("red")))}, (2, 2), 0), World())
