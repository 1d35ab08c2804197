"""What families promise: levels that can be solved, rewards for the task alone, views and settings as documented."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.wrappers import FullyObsWrapper, OneHotPartialObsWrapper
from scipy import stats

from envs.minigrid import IDS, import_state, unpack
from envs.minigrid.dynamicobstacles import DynamicObstacles
from envs.minigrid.empty import Empty
from envs.minigrid.fetch import Fetch
from envs.minigrid.goto import GoToDoor, GoToObject
from envs.minigrid.keycorridor import KeyCorridor
from envs.minigrid.lava import Crossing, DistShift, LavaGap
from envs.minigrid.memory import Memory
from envs.minigrid.multiroom import MultiRoom
from envs.minigrid.obstructedmaze import ObstructedMaze
from envs.minigrid.putnear import PutNear
from envs.minigrid.redbluedoors import RedBlueDoors
from tests.references.minigrid_agent import Agent
from tests.references.minigrid_census import Levels, exact, farama_levels, our_levels
from tests.references.minigrid_oracles import export, solvable, targets, wins
from tests.references.minigrid_replay import make_farama, record, replay

FAMILIES = list({type(build()): name for name, build in reversed(IDS.items())}.values())[::-1]
"""The first id of each family."""

SOMETIMES_UNSOLVABLE = ("2Dlhb-v0", "1Q-v0", "2Q-v0", "Full-v0", "Fetch", "PutNear")
"""Where a ball may take a key's place, or things that must not be touched may close a corner: in Farama's too."""

TWO_KINDS = ("MiniGrid-KeyCorridorS3R2-v0", "MiniGrid-GoToDoor-6x6-v0")
"""One id with occlusion, and one without whose rooms are smaller than the grid and have doors in the border."""


def is_sometimes_unsolvable(name):
    return any(part in name for part in SOMETIMES_UNSOLVABLE)


ROOMY = [name.replace("KeyCorridorS3R1", "KeyCorridorS4R3") for name in FAMILIES]
"""One id of each family in whose levels one can stand beside the target."""


@functools.cache
def drawn(name):
    """400 levels of ours: `(env, state, levels)`."""
    env = IDS[name]()
    state = jax.device_get(jax.jit(env.levels)(jax.random.split(jax.random.key(7), 400)))
    return env, state, look(env, state)


def look(env, state):
    """Our states as `Levels`, without missions."""
    contents = state.boxes.grid if state.boxes else np.ones_like(state.grid)
    grids, contents = (np.swapaxes(np.asarray(unpack(cells)), 1, 2) for cells in (state.grid, contents))
    positions = np.stack([state.agent % env.shape[1], state.agent // env.shape[1]], axis=1)
    return Levels(grids, contents, positions, state.direction, dict(state.task), np.array([]))


# -- levels can be solved ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROOMY)
def test_levels_can_be_solved(name):
    env, _, levels = drawn(name)
    share = solvable(levels, env).mean()
    assert share == 1 or (is_sometimes_unsolvable(name) and share > 0.9)


def test_levels_that_cannot_be_solved_are_noticed():
    env, _, levels = drawn("MiniGrid-UnlockPickup-v0")
    grids = levels.grids.copy()
    grids[grids[..., 0] == 5] = (1, 0, 0)
    assert not solvable(levels._replace(grids=grids), env).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_levels_can_be_solved_as_often_as_faramas(name, capsys):
    env, count = IDS[name](), 4_000
    ours = solvable(our_levels(env, count, seed=5), env).sum()
    theirs = solvable(farama_levels(name, env, count), env).sum() if is_sometimes_unsolvable(name) else count
    with capsys.disabled():
        print(f"\n| {name} | {count} | {count - ours} | {count - theirs} |", end="")
    assert ours == count or is_sometimes_unsolvable(name)
    assert exact(np.array([ours]), count, np.array([theirs]), count)[0] > 1e-3


@pytest.mark.slow
def test_a_ball_takes_a_keys_place_in_one_of_fifteen_levels():
    """In ObstructedMaze-2Dlhb-v0 the first box lies on one of 15 free cells, to one of which the second ball goes."""
    levels, count = our_levels(IDS["MiniGrid-ObstructedMaze-2Dlhb-v0"](), 60_000, seed=8, batch=4_000), 60_000
    lost = ((levels.contents[..., 0] == 5).sum(axis=(1, 2)) == 1).sum()
    assert stats.binomtest(int(lost), count, 1 / 15).pvalue > 1e-3


def play_our_levels(name, count):
    """Levels of ours, put into Farama's world and played there without a mistake: `(levels, recordings)`."""
    env, farama = IDS[name](), make_farama(name)
    levels, recordings = our_levels(env, count, seed=6, batch=count), []
    for k in range(count):
        export(farama, levels, k)
        recordings.append(record(farama, env, Agent(np.random.default_rng(k), 0.0)))
        cells = np.swapaxes(np.asarray(unpack(recordings[-1].state.grid)), 0, 1)
        np.testing.assert_array_equal(cells, levels.grids[k])
        for name, values in levels.tasks.items():
            np.testing.assert_array_equal(recordings[-1].state.task[name], values[k])
    return env, levels, recordings


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_levels_are_solved_in_faramas_world_in_time_at_length(name, capsys):
    env, levels, recordings = play_our_levels(name, 100)
    solved = np.array([recording.outcome["reward"][-1] > 0 for recording in recordings])
    wrong = replay(env, recordings)
    with capsys.disabled():
        print(f"\n| {name} | {solved.sum()} | {solvable(levels, env).sum()} | {sum(wrong.values())} |", end="")
    assert not any(wrong.values()), wrong
    if "Dynamic" in name:
        assert solved.mean() > 0.8
    elif "Playground" not in name:
        np.testing.assert_array_equal(solved, solvable(levels, env))


# -- nothing pays but the task -----------------------------------------------------------------------------------------


def trial(name):
    """Levels of ours with the agent put beside the target, facing anywhere and carrying what it may, at a step each.

    Random play goes on from there. Returns `(env, [(levels, state, action, step, which still run), ...])`.
    """
    (env, state, levels), rng = drawn(name), np.random.default_rng(0)
    count = len(state.agent)
    place, ok = beside(targets(levels, env), levels.grids[..., 0] == 1, rng)
    carried = carriable(env, state, rng)
    grid = state.grid
    if isinstance(env, RedBlueDoors):
        opened = (grid == (11 | 0 << 4)) & (rng.random(count) < 0.5)[:, None, None]
        grid = np.where(opened, np.uint8(4), grid)
    state = state._replace(
        grid=grid,
        agent=np.where(ok, place[:, 1] * env.shape[1] + place[:, 0], state.agent).astype(np.int32),
        direction=rng.integers(0, 4, count).astype(np.int32),
        carrying=carried,
        step_count=rng.integers(0, env.max_steps, count).astype(np.int32),
    )
    step, history = jax.jit(env.step_many), []
    running = np.ones(count, bool)
    for t in range(24):
        action = rng.integers(0, env.num_actions, count).astype(np.int32)
        before, now = look(env, state), state
        state, out = jax.device_get(step(jax.random.key(t), state, action))
        history.append((before, now, action, out, running))
        running = running & ~(out.terminated | out.truncated)
    return env, history


def beside(mask, free, rng):
    """A random free cell beside or on a mask in each level, and whether there is one."""
    near = np.zeros_like(mask)
    for axis in (1, 2):
        for shift in (-1, 1):
            near |= np.roll(mask, shift, axis)
    score = rng.random(mask.shape) * (near & free)
    flat = score.reshape(len(mask), -1)
    return np.stack(np.unravel_index(flat.argmax(axis=1), mask.shape[1:]), axis=1), flat.max(axis=1) > 0


def carriable(env, state, rng):
    """Nothing, or any thing; where only one thing may be carried on, that or nothing."""
    count = len(state.agent)
    things = (rng.integers(5, 8, count) | rng.integers(0, 6, count) << 4).astype(np.uint8)
    if isinstance(env, Fetch | DynamicObstacles):
        return np.full(count, 1, np.uint8)
    if isinstance(env, PutNear):
        things = (state.task["move_object"] | state.task["move_colour"] << 4).astype(np.uint8)
    if "Unlock" in type(env).__name__:
        door = state.grid.reshape(count, -1)
        colour = np.where(door & 15 == 12, door >> 4, 0).max(axis=1)
        things = np.where(rng.random(count) < 0.5, 5 | colour << 4, things).astype(np.uint8)
    if type(env).__name__ in ("UnlockPickup", "BlockedUnlockPickup", "KeyCorridor", "ObstructedMaze"):
        # What wins is picked up once: carrying another of its kind does not happen.
        kind = {"KeyCorridor": 6, "ObstructedMaze": 6}.get(type(env).__name__, 7)
        things = np.where(things & 15 == kind, 5 | (things & 240), things).astype(np.uint8)
    return np.where(rng.random(count) < 0.4, 1, things).astype(np.uint8)


@pytest.mark.parametrize("name", [*ROOMY, *(pytest.param(n, marks=pytest.mark.slow) for n in IDS if n not in ROOMY)])
def test_nothing_pays_but_the_task(name):
    env, history = trial(name)
    won = 0
    for levels, state, action, out, running in history:
        carrying = np.asarray(unpack(state.carrying))
        expected = wins(env, levels, carrying, action)
        rewards = (1 - 0.9 * ((state.step_count + 1) / env.max_steps)).astype(np.float32)
        paid = out.reward > 0
        np.testing.assert_array_equal(paid[running], (expected & (rewards > 0))[running])
        np.testing.assert_array_equal(out.reward[running & paid], rewards[running & paid])
        assert out.terminated[running & expected].all()
        assert (out.reward[running] < 0).sum() == 0 or "Dynamic" in name
        won += (paid & running).sum()
    # In KeyCorridorS3 the ball's room is one cell wide: nobody can stand beside the ball at the start.
    assert (won > 0) == ("Playground" not in name) or "KeyCorridorS3" in name


# -- moving obstacles --------------------------------------------------------------------------------------------------


def moves(balls, blocked, size, k=0):
    """Probability of each outcome when balls k, k + 1, ... move in turn to a free cell of their 3 x 3."""
    if k == len(balls):
        return {tuple(balls): 1.0}
    x, y = balls[k]
    around = [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    free = [p for p in around if min(p) > 0 and max(p) < size - 1 and p not in balls and p not in blocked] or [(x, y)]
    law = {}
    for place in free:
        for outcome, p in moves([*balls[:k], place, *balls[k + 1 :]], blocked, size, k + 1).items():
            law[outcome] = law.get(outcome, 0) + p / len(free)
    return law


@pytest.mark.parametrize(
    ("balls", "agent"),
    [([(1, 1), (2, 1), (1, 2)], (2, 2)), ([(3, 3), (2, 3), (4, 4)], (1, 1)), ([(4, 3), (2, 2), (3, 2)], (2, 3))],
)
def test_obstacles_move_to_free_cells_one_after_the_other(balls, agent):
    env, count = IDS["MiniGrid-Dynamic-Obstacles-6x6-v0"](), 20_000
    farama = make_farama("MiniGrid-Dynamic-Obstacles-6x6-v0")
    farama.reset(seed=0)
    things = farama.obstacles
    for ball in things:
        farama.grid.set(*ball.cur_pos, None)
    for ball, place in zip(things, balls, strict=True):
        farama.put_obj(ball, *place)
    farama.agent_pos = agent
    state, _ = import_state(farama, env)
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), state)
    after, _ = jax.jit(env.step_many)(jax.random.key(0), many, jnp.zeros(count, jnp.int32))
    law = moves(balls, {agent, (4, 4)} - set(balls), 6)
    seen, number = np.unique(np.asarray(after.task["obstacle_pos"]).reshape(count, -1), axis=0, return_counts=True)
    found = {tuple(map(tuple, row.reshape(-1, 2).tolist())): n for row, n in zip(seen, number, strict=True)}
    assert set(found) <= set(law)
    assert stats.chisquare([found.get(k, 0) for k in law], [count * p for p in law.values()]).pvalue > 1e-3
    cells = np.asarray(after.grid)
    assert ((cells == (6 | 2 << 4)).sum(axis=(1, 2)) == 3).all()


# -- what is observed --------------------------------------------------------------------------------------------------


def look_around(name, env, look, **settings):
    """Ours and Farama's observations at 40 moments of Farama episodes."""
    farama, choose = make_farama(name, **settings), Agent(np.random.default_rng(1), 0.3)
    farama.reset(seed=1)
    for _ in range(40):
        yield np.asarray(import_state(farama, env)[1]), look(farama)
        _, _, terminated, truncated, _ = farama.step(choose(farama))
        if terminated or truncated:
            farama.reset()


MODES = {
    "partial": lambda world: world.gen_obs()["image"],
    "full": lambda world: FullyObsWrapper(world).observation(world.gen_obs())["image"],
    "onehot": lambda world: OneHotPartialObsWrapper(world).observation(world.gen_obs())["image"],
}


@pytest.mark.parametrize("name", TWO_KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_observations_are_those_of_faramas_wrappers(name, mode):
    env = IDS[name](obs=mode)
    for ours, theirs in look_around(name, env, MODES[mode]):
        assert (ours.shape, ours.dtype) == (env.spec.obs_shape, env.spec.obs_dtype)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", TWO_KINDS)
@pytest.mark.parametrize("size", [3, 5, 9, 11])
def test_views_of_other_sizes_are_faramas(name, size):
    env = IDS[name](view_size=size)
    for ours, theirs in look_around(name, env, MODES["partial"], agent_view_size=size):
        np.testing.assert_array_equal(unpack(jnp.asarray(ours)), theirs)


@pytest.mark.parametrize("name", ["MiniGrid-PutNear-6x6-N2-v0", "MiniGrid-Dynamic-Obstacles-6x6-v0"])
def test_the_mission_follows_the_observation_in_numbers(name):
    plain, env = IDS[name](), IDS[name](see_mission=True)
    keys = jax.random.split(jax.random.key(0), 50)
    image, state, obs = jax.jit(lambda k: (plain.reset_many(k)[1], *env.reset_many(k)))(keys)
    numbers = np.concatenate([np.asarray(state.task[f.name]).reshape(50, -1) for f in env.task_facts()], axis=1)
    assert (obs.shape[1:], obs.dtype) == (env.spec.obs_shape, env.spec.obs_dtype)
    np.testing.assert_array_equal(obs, np.concatenate([np.asarray(image).reshape(50, -1), numbers], axis=1))
    features = env.spec.to_features(obs)
    np.testing.assert_array_equal(features[:, : -numbers.shape[1]], plain.spec.to_features(image).reshape(50, -1))
    np.testing.assert_allclose(features[:, -numbers.shape[1] :], numbers / 10, rtol=1e-6)


# -- settings ----------------------------------------------------------------------------------------------------------

BAD = [
    (Empty, {"view_size": 6}, "view_size is 6, but it must be odd and from 3 to 15; try 7"),
    (Empty, {"view_size": 1}, "view_size is 1, .* try 3"),
    (Empty, {"view_size": 17}, "view_size is 17, .* try 15"),
    (Empty, {"obs": "packd"}, "unknown MiniGrid observation 'packd'; did you mean 'packed'"),
    (Empty, {"see_mission": True}, "see_mission is True, but the mission of .* is always the same; leave it out"),
    (Empty, {"size": 3}, "size is 3, but an Empty grid needs at least 4; try 4"),
    (DynamicObstacles, {"size": 4}, "size is 4, .* at least 5; try 5"),
    (DynamicObstacles, {"num_obstacles": 0}, "num_obstacles is 0, .* at least 1; try 1"),
    (LavaGap, {"size": 4}, "size is 4, .* at least 5; try 5"),
    (Crossing, {"size": 8}, "size is 8, but must be odd and 5 or more; try 9"),
    (Crossing, {"size": 3}, "size is 3, .* try 5"),
    (Crossing, {"num_crossings": 7}, "num_crossings is 7, .* 0 to 6; try 6"),
    (Crossing, {"num_crossings": -1}, "num_crossings is -1, .* try 0"),
    (Crossing, {"obstacle": "lav"}, "unknown crossing obstacle 'lav'; did you mean 'lava'"),
    (DistShift, {"strip2_row": 6}, "strip2_row is 6, but must be from 1 to 5"),
    (Memory, {"size": 8}, "size is 8, but must be odd and 7 or more; try 9"),
    (Memory, {"size": 5}, "size is 5, .* try 7"),
    (RedBlueDoors, {"size": 3}, "size is 3, .* at least 4; try 4"),
    (KeyCorridor, {"room_size": 2}, "room_size is 2, .* try 3"),
    (KeyCorridor, {"num_rows": 0}, "num_rows is 0, .* try 1"),
    (MultiRoom, {"num_rooms": 0}, "num_rooms is 0, .* try 1"),
    (MultiRoom, {"num_rooms": 1000}, "num_rooms is 1000, .* try"),
    (MultiRoom, {"room_size": 3}, "room_size is 3, .* try 4"),
    (MultiRoom, {"room_size": 25}, "room_size is 25, .* try 24"),
    (ObstructedMaze, {"variant": "2Dlhbb"}, "unknown ObstructedMaze variant '2Dlhbb'; did you mean '2Dlhb'"),
    (ObstructedMaze, {"version": 2}, "version is 2, .* try 1"),
    (Fetch, {"size": 4}, "size is 4, .* at least 5; try 5"),
    (Fetch, {"size": 5, "num_objects": 9}, "num_objects is 9, .* 1 to 8; try 8"),
    (Fetch, {"num_objects": 0}, "num_objects is 0, .* try 1"),
    (GoToDoor, {"size": 4}, "size is 4, .* at least 5; try 5"),
    (GoToObject, {"size": 4}, "size is 4, .* at least 5; try 5"),
    (GoToObject, {"size": 6, "num_objects": 19}, "num_objects is 19, .* try"),
    (PutNear, {"size": 5}, "size is 5, .* at least 6; try 6"),
    (PutNear, {"num_objects": 1}, "num_objects is 1, .* try 2"),
    (PutNear, {"num_objects": 9}, "num_objects is 9, .* try 2"),
]


@pytest.mark.parametrize(("kind", "settings", "answer"), BAD, ids=lambda value: getattr(value, "__name__", None))
def test_bad_settings_are_answered_in_a_sentence(kind, settings, answer):
    with pytest.raises(ValueError, match=answer):
        kind(**settings)


def test_every_setting_is_tried_with_a_bad_value():
    common = {"obs", "view_size", "see_mission", "random_start", "random_length", "side"}
    kinds = {type(build()) for build in IDS.values()}
    settings = {(kind, f.name) for kind in kinds for f in dataclasses.fields(kind) if f.name not in common}
    tried = {(kind, name) for kind, bad, _ in BAD for name in bad}
    assert {(kind.__name__, name) for kind, name in settings - tried} <= {("DoorKey", "size")}
