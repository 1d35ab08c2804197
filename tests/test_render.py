"""Pictures: Farama's own pixels, the module's own rewards, and one frame for every state."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import envs
import jaxrew
from agents.ppo import PPO
from envs import wrappers
from envs.minigrid import IDS, import_state
from jaxrew import cli
from jaxrew.networks import MLP
from jaxrew.render import render
from jaxrew.render.drawings import PLANES, can_draw, drawing
from jaxrew.render.playback import (
    Series,
    fresh_scorer,
    play,
    random_policy,
    score_steps,
    trained_policy,
    trained_scorer,
)
from jaxrew.render.restore import rebuild, restore
from jaxrew.render.strip import Moment, Strip
from jaxrew.rewards import RND, Anneal, Chain, Clip, Context, Counts, Normalize, Potential, Sum, by_name
from jaxrew.training.record import describe
from tests.references.minigrid_replay import make_farama

AGENT = PPO(num_envs=4, num_steps=16, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))
REWARD = Sum(0.5 * RND(coef=0.1, warm_steps=8), Counts(beta=0.3, power=1.0, scope="episode", stream="task"))
DOORKEY = envs.make("MiniGrid-DoorKey-5x5-v0")
NO_EPISODE = jnp.float32(jnp.inf)


def in_order(states: list) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


# -- environments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "MiniGrid-DoorKey-8x8-v0",
        "MiniGrid-MultiRoom-N4-S5-v1",
        "MiniGrid-ObstructedMaze-1Dlhb-v0",
        "MiniGrid-LavaCrossingS9N1-v0",
        "MiniGrid-Playground-v0",
    ],
)
def test_minigrid_is_drawn_like_farama_pixel_for_pixel(name):
    farama, env, rng = make_farama(name), IDS[name](), np.random.default_rng(0)
    states, frames, farama_missions, carrying = [], [], [], []
    for seed in range(2):
        farama.reset(seed=seed)
        for _ in range(12):
            farama_missions.append(farama.mission)
            carrying.append(farama.carrying is not None)
            states.append(jax.device_get(import_state(farama, env)[0]))
            frames.append(farama.get_frame(highlight=True, tile_size=16))
            farama.step(int(rng.choice([0, 1, 2, 2, 2, 3, 5])))
    picture = drawing(env, in_order(states), np.zeros((len(states), 7, 7)))
    assert picture is not None
    for index, frame in enumerate(frames):
        np.testing.assert_array_equal(picture.image(index, 16), frame)  # pyright: ignore[reportCallIssue]
    assert picture.caption(0) == farama_missions[0]
    assert [bool(picture.remark(index)) for index in range(len(states))] == carrying
    assert len({frame.tobytes() for frame in frames}) > 5


def test_a_wrapper_is_drawn_as_what_it_wraps():
    wrapped = wrappers.TimeLimit(DOORKEY, max_steps=7)
    state, obs = jax.device_get(jax.jit(wrapped.reset_many)(jax.random.key(0)[None]))
    outer, inner = drawing(wrapped, state, obs), drawing(DOORKEY, state.env, obs)
    assert outer is not None
    assert inner is not None
    np.testing.assert_array_equal(outer.image(0), inner.image(0))


def test_boards_are_drawn_by_channel():
    env = envs.make("Breakout-MinAtar")
    state, obs = jax.device_get(jax.jit(env.reset_many)(jax.random.key(0)[None]))
    picture = drawing(env, state, obs)
    assert picture is not None
    tile = picture.image(0).shape[0] // 10
    middles = picture.image(0)[tile // 2 :: tile, tile // 2 :: tile]
    np.testing.assert_array_equal((middles == PLANES[0]).all(-1), obs[0].max(-1) == 0)
    np.testing.assert_array_equal((middles == PLANES[4]).all(-1), obs[0, ..., 3] > 0)


def test_tiles_follow_the_agent():
    env: Any = envs.make("tabular/cliff")
    state, obs = jax.device_get(jax.jit(env.reset_many)(jax.random.key(0)[None]))
    picture = drawing(env, state, obs)
    assert picture is not None
    image = picture.image(0)
    tile = image.shape[1] // env.grid.shape[1]
    row, column = env.cells[state.index[0]]
    colours = image[tile // 2 :: tile, tile // 2 :: tile]
    agent = colours[row, column]
    assert ((colours == agent).all(-1)).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in envs.ids() if not name.startswith(("brax/", "MiniGrid-"))])
def test_what_can_be_drawn_is(name, tmp_path):
    if not can_draw(envs.make(name)):
        with pytest.raises(ValueError, match="has no drawing"):
            render(name, tmp_path / "a.gif")
        return
    result = render(name, tmp_path / "a.gif", steps=5)
    assert Image.open(tmp_path / "a.gif").n_frames == result.frames > 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
def test_brax_links_are_where_the_library_has_them(tmp_path):
    from jaxrew.render import _states
    from jaxrew.render.brax import links

    env: Any = envs.make("brax/inverted_pendulum")
    playback = play(env, *random_policy(env.spec), jax.random.key(0), 1, 5)
    x = links(env, _states(playback))
    for t in range(len(playback.ended)):
        physics = jax.tree.map(lambda leaf, t=t: leaf[t, 0], playback.after).physics
        q = env._unpack(physics).q
        # The cart slides along x by the first joint's position.
        np.testing.assert_allclose(x.pos[t + 1, 0, 0], q[0], atol=1e-5)
    result = render("brax/inverted_pendulum", tmp_path / "a.html", steps=5)
    assert result.frames == result.returns[0] + 1  # it pays 1 a step
    assert "data:image/png" in (tmp_path / "a.html").read_text()


# -- playing and scoring -----------------------------------------------------------------------------------------------


def test_a_playback_holds_true_successors_and_stops_with_the_last_episode():
    env = envs.make("CartPole-v1")
    playback = play(env, *random_policy(env.spec), jax.random.key(1), 2, 200)
    batch, ended = playback.batch, playback.ended
    assert ended.sum() == 2
    assert ended[-1]
    np.testing.assert_array_equal(batch.next_obs[:-1][~ended[:-1]], batch.obs[1:][~ended[:-1]])
    position, angle = np.abs(batch.next_obs[:, 0, 0]), np.abs(batch.next_obs[:, 0, 2])
    np.testing.assert_array_equal((position > 2.4) | (angle > 12 * np.pi / 180), ended)
    np.testing.assert_array_equal(playback.after.theta[:, 0], batch.next_obs[:, 0, 2])
    np.testing.assert_array_equal(playback.before.theta[:, 0], batch.obs[:, 0, 2])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two seeds of a run on disk and, loaded by the trainer, in memory."""
    path = tmp_path_factory.mktemp("run") / "run"
    options: dict[str, Any] = {"seeds": [3, 5], "steps": 8 * 4 + 2 * 64, "run_dir": path, "progress": False}
    return jaxrew.train(AGENT, DOORKEY, REWARD, **options)


def test_restored_is_what_the_trainer_left(run):
    trained = restore(run.path, 5)
    assert trained.env == DOORKEY
    assert describe(trained.reward) == describe(REWARD)
    assert (trained.frames, trained.total_steps) == (160, 160)
    jax.tree.map(np.testing.assert_array_equal, trained.state.params, jax.tree.map(lambda leaf: leaf[1], run.params))

    act, policy = trained_policy(trained, greedy=True)
    playback = play(trained.env, act, policy, jax.random.key(0), 1, 40)
    lane = jax.tree.map(lambda leaf: leaf[1], run.state)
    actions = AGENT.act(DOORKEY.spec, REWARD, lane, playback.batch.obs[:, 0], jax.random.key(0), True)
    np.testing.assert_array_equal(playback.batch.action[:, 0], actions)


def test_components_are_those_of_the_module_and_memory_starts_empty(run):
    trained, key = restore(run.path, 3), jax.random.key(2)
    playback = play(DOORKEY, *random_policy(DOORKEY.spec), jax.random.key(0), 2, 300)
    scorer = trained_scorer(trained)
    series = {part.label: part for part in score_steps(scorer, playback.batch, DOORKEY.spec, key)}
    assert list(series) == ["task", "counts", "rnd"]
    assert series["rnd"].note == "coef 0.1"
    np.testing.assert_array_equal(series["task"].values, playback.batch.reward[:, 0])

    # Learnt numbers are the run's, only the environments' own are new.
    learnt, kept = jax.tree.leaves(run.state.reward_state), jax.tree.leaves(scorer.state)
    shared = [(a[0], b) for a, b in zip(learnt, kept, strict=True) if a[0].shape == np.shape(b)]
    assert len(shared) > 10
    assert len(shared) < len(kept)
    for a, b in shared:
        np.testing.assert_array_equal(a, b)

    ctx = Context(key, jnp.int32(160), jnp.float32(160), AGENT.gamma, DOORKEY.spec)
    rewards, _ = jax.jit(lambda s, b: REWARD.reward(s, b, ctx._replace(key=key)))(scorer.state, playback.batch)
    np.testing.assert_allclose(series["rnd"].values, rewards["rnd"][:, 0], rtol=1e-5)
    np.testing.assert_allclose(series["counts"].values, rewards["task"][:, 0], rtol=1e-6)

    visits: dict[tuple, int] = {}
    for t, start in enumerate([True, *playback.ended[:-1]]):
        if start:
            visits = {tuple(playback.batch.facts["agent_pos"][t, 0]): 1}
        place = tuple(playback.batch.next_facts["agent_pos"][t, 0])
        visits[place] = visits.get(place, 0) + 1
        assert series["counts"].values[t] == pytest.approx(0.3 / visits[place])


def test_a_reward_by_name_has_learnt_nothing():
    scorer = fresh_scorer(DOORKEY, by_name("counts"), jax.random.key(0))
    playback = play(DOORKEY, *random_policy(DOORKEY.spec), jax.random.key(0), 1, 20)
    series = score_steps(scorer, playback.batch, DOORKEY.spec, jax.random.key(0))
    places = [tuple(place) for place in playback.batch.next_facts["agent_pos"][:, 0]]
    expected = [1 / np.sqrt(places[: t + 1].count(place)) for t, place in enumerate(places)]
    np.testing.assert_allclose(series[1].values, expected, rtol=1e-6)


# -- run folders -------------------------------------------------------------------------------------------------------


def potential(facts):
    return facts["agent_pos"].sum()


@pytest.mark.parametrize(
    "thing",
    [
        PPO(network=MLP((16, 8), feature_ndim=3), learning_rate=3e-4),
        Sum(Chain(RND(), Clip(-1.0, 1.0), Normalize()), Anneal(Counts(facts=("agent_pos",)), over=0.5)),
        0.5 * Potential(potential),
        wrappers.StickyActions(DOORKEY, probability=0.1).vectorise(8, "pool"),
        {"low": -float("inf"), "dtype": jnp.float32},
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_recorded_can_be_rebuilt(thing):
    record = json.loads(json.dumps(describe(thing)))
    assert json.loads(json.dumps(describe(rebuild(record)))) == record


def test_what_cannot_be_rebuilt_says_so():
    record = json.loads(json.dumps(describe(Potential(potential))))
    for change, sentence in (
        ({"fn": record["fn"] | {"source": "0" * 16}}, "has changed since the run"),
        ({"fn": describe(lambda facts: 0.0)}, "only the script that made it"),
        ({"class": "jaxrew.rewards.nothing.Here"}, "not to be found here"),
        ({"class": "nowhere.Here"}, "not to be found here"),
        ({"class": "subprocess.Popen", "args": ["true"]}, "neither a dataclass nor a named tuple"),
        ({"weight": 1.0}, "has changed since the run"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rebuild(record | change)
    assert rebuild(record | {"fn": record["fn"] | {"function": "__main__.potential"}}, __name__).fn is potential


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_gif_has_a_frame_for_every_state_in_farama_colours(run, tmp_path, capsys):
    out = tmp_path / "new" / "a.gif"
    cli.main(["render", str(run.path), "--out", str(out), "--seed", "5", "--steps", "40", "--fps", "20"])
    line = capsys.readouterr().out
    with Image.open(out) as gif:
        frames = [np.asarray(frame.convert("RGB"), int) for frame in _frames(gif)]
        durations = [frame.info["duration"] for frame in _frames(gif)]
    assert f"{len(frames)} frames" in line

    trained = restore(run.path, 5)
    act, policy = trained_policy(trained, greedy=False)
    playback = play(DOORKEY, act, policy, jax.random.split(jax.random.key(5), 3)[0], 1, 40)
    assert len(frames) == len(playback.ended) + 1
    assert durations == [50] * (len(frames) - 1) + [1000]
    picture = drawing(DOORKEY, jax.tree.map(lambda leaf: leaf[:, 0], playback.after), playback.batch.next_obs)
    assert picture is not None
    for t, frame in enumerate(frames[1:]):
        image = picture.image(t)
        left = (frame.shape[1] - image.shape[1]) // 2
        shown = frame[: image.shape[0], left : left + image.shape[1]]
        assert np.abs(shown - image).max() <= 8


def test_episodes_follow_each_other(tmp_path):
    result = render("CartPole-v1", tmp_path / "a.gif", episodes=3, steps=200)
    assert len(result.returns) == 3
    assert result.frames == sum(result.returns) + 3
    with Image.open(tmp_path / "a.gif") as gif:
        durations = [frame.info["duration"] for frame in _frames(gif)]
    assert len(durations) == result.frames
    lasts = np.cumsum([int(length) + 1 for length in result.returns]) - 1
    assert [durations[last] for last in lasts] == [1000] * 3
    assert durations.count(1000) == 3


def test_a_long_minigrid_gif_is_small(tmp_path):
    result = render("MiniGrid-DoorKey-8x8-v0", tmp_path / "a.gif", steps=99, reward="counts")
    assert result.frames == 100
    assert result.size < 2e6


def test_the_strip_shows_each_payment_at_its_step_and_nothing_of_the_future():
    values = np.zeros(10, np.float32)
    values[6] = 2.0
    strip = Strip([Series("task", values)], (8, 400), 1)
    blank, colour = np.full((8, 400, 3), 255, np.uint8), (31, 119, 180)

    def coloured(steps: int) -> np.ndarray:
        frame = np.asarray(strip.frame(blank, Moment(0, 10, steps), ["text"]))
        return np.argwhere((frame[:, 126:344] == colour).all(-1))  # the plot alone: 218 pixels for ten steps

    assert len(coloured(0)) == 0
    for steps in (1, 5, 9):
        assert abs(coloured(steps)[:, 1].max() - 21.8 * steps) <= 5
    before, after = coloured(6), coloured(9)
    assert before[:, 0].min() > after[:, 0].min() + 20
    highest = after[after[:, 0] <= after[:, 0].min() + 1][:, 1]
    assert abs(highest.min() - 21.8 * 6) <= 3
    assert abs(highest.max() - 21.8 * 7) <= 3


def _frames(gif: Any):
    for index in range(gif.n_frames):
        gif.seek(index)
        yield gif


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("MiniGrid-Dorkey-8x8-v0 --out a.gif", "did you mean 'MiniGrid-DoorKey-8x8-v0'?"),
        ("{tmp} --out a.gif", "is not a run folder"),
        ("{run} --out a.gif --seed 4", "holds no seed 4; the nearest of its 2 is 3"),
        ("{run}x --out a.gif", "did you mean '{run}'?"),
        ("CartPole-v1 --out a.mp4", ".mp4 is no kind of picture; use .gif"),
        ("CartPole-v1 --out a.html", "drawn as a GIF"),
        ("SimpleBandit-bsuite --out a.gif", "has no drawing; there are drawings of MiniGrid"),
        ("CartPole-v1 --out a.gif --steps 0", "steps must be at least 1, got 0"),
        ("CartPole-v1 --out a.gif --fps 200", "give at most 50"),
        ("CartPole-v1 --out a.gif --reward curiosity", "unknown reward 'curiosity'"),
        ("CartPole-v1 --out a.gif --reward counts", "CartPole-v1 has no position to count"),
    ],
)
def test_bad_input_is_one_sentence(args, sentence, run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {"tmp": tmp_path, "run": run.path}
    with pytest.raises(SystemExit) as stop:
        cli.main(["render", *(word.format(**places) for word in args.split())])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert sentence.format(**places) in error
    assert not list(Path().glob("a.*"))


def test_drawing_costs_other_commands_nothing():
    names = ("jaxrew.render", "minigrid", "gymnasium", "pygame", "gymnax", "brax")
    code = f"import sys, jaxrew, jaxrew.cli; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
