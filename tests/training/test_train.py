"""`train`: stopping and going on, stopped seeds, memory, and what it says to bad input."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
import jaxrew
from jaxrew.rewards import RND, Bonus, Chain, Counts, Potential, RewardModule, Sum
from jaxrew.training.loop import Loop
from jaxrew.training.run import RunFolder
from jaxrew.types import static
from tests.training import interrupted
from tests.training.test_lanes import compilations

TINY = interrupted.AGENT
CARTPOLE = envs.make("CartPole-v1")


def quick(agent: Any = TINY, env: Any = CARTPOLE, reward: Any = None, **options):
    return jaxrew.train(agent, env, reward, **({"seeds": 2, "steps": 640, "progress": False} | options))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return interrupted.train(tmp_path_factory.mktemp("unbroken") / "run")


def final_leaves(run_dir):
    checkpoint = RunFolder(Path(run_dir)).latest_checkpoint()
    assert checkpoint is not None
    return checkpoint.leaves


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_resuming_is_bit_equal_to_never_stopping(unbroken, tmp_path, number):
    run_dir = tmp_path / "run"
    script = [sys.executable, interrupted.__file__, str(run_dir)]
    process = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 12:
            os.kill(process.pid, number)
            break
    process.communicate(timeout=120)
    assert process.returncode != 0
    partial = jaxrew.load(run_dir)
    assert not partial.complete
    assert 0 < len(partial.frames) < 60

    resumed = interrupted.train(run_dir, resume=True)
    assert resumed.complete
    for name, values in unbroken.metrics.items():
        np.testing.assert_array_equal(values, resumed.metrics[name], err_msg=name)
    for a, b in zip(final_leaves(unbroken.path), final_leaves(run_dir), strict=True):
        np.testing.assert_array_equal(a, b)
    again = interrupted.train(run_dir, resume=True)
    np.testing.assert_array_equal(again.metrics["return_sum"], unbroken.metrics["return_sum"])
    jax.tree.map(np.testing.assert_array_equal, again.params, resumed.params)


def test_metrics_and_evaluation(unbroken):
    assert unbroken.metrics["frames"].tolist() == [64 * k for k in range(1, 61)]
    assert unbroken.metrics["return/task"].shape == (2, 60)
    evaluated = np.flatnonzero(~np.isnan(unbroken.metrics["eval/return"][0])) + 1
    assert evaluated.tolist() == [25, 50, 60]
    # DeepSea episodes have length 5: 4 environments x 16 steps finish 12 or 16 of them an update, by where they stand.
    assert unbroken.metrics["episodes"][0, :5].tolist() == [12, 12, 12, 12, 16]
    assert (unbroken.metrics["length_sum"] == 5 * unbroken.metrics["episodes"]).all()
    assert (np.diff(unbroken.metrics["coverage"]) >= 0).all()
    # Rows 1 to 4 have 2 to 5 columns within reach, and the row past the last has 5.
    assert unbroken.metrics["coverage"].max() <= 2 + 3 + 4 + 5 + 5


def test_seeds_may_be_numpy_integers():
    assert quick(seeds=np.int64(2), steps=64).seeds == [0, 1]
    assert quick(seeds=np.array([4, 1]), steps=64).seeds == [4, 1]


def test_init_from_takes_the_parameters_and_leaves_new_heads_fresh(unbroken, tmp_path):
    env = envs.make("DeepSea-bsuite", size=5)
    fresh = quick(env=env, reward=RND(warm_steps=0), seeds=[2], steps=64)
    taken = quick(env=env, reward=RND(warm_steps=0), seeds=[2], steps=64, init_from=unbroken)
    source = jax.tree.map(lambda leaf: leaf[1], unbroken.params)["params"]
    distance = lambda run, head: np.abs(run.params["params"][head]["kernel"][0] - source[head]["kernel"]).max()  # noqa: E731
    assert distance(taken, "policy") < 1e-3 < distance(fresh, "policy")
    np.testing.assert_allclose(
        taken.params["params"]["value_rnd"]["kernel"], fresh.params["params"]["value_rnd"]["kernel"], atol=2e-3
    )
    with pytest.raises(ValueError, match=r"holds seeds \[5, 2\], not 1"):
        quick(env=env, seeds=[1, 2], steps=64, init_from=unbroken)


class Poison(RewardModule):
    """NaN from 200 frames on, in the seeds whose key says so."""

    def init(self, key, spec, num_envs):
        return jax.random.bernoulli(key)

    def reward(self, state, batch, ctx):
        bad = state & (ctx.step > 200)
        return {"task": jnp.where(bad, jnp.nan, 0.0) * batch.reward}, state


def test_a_seed_that_becomes_nan_is_named_and_frozen(capfd):
    poisoned = quick(reward=Poison(), seeds=range(10, 16))
    plain = quick(seeds=range(10, 16))
    stopped = np.isnan(poisoned.metrics["loss/policy"]).any(axis=1)
    assert 0 < stopped.sum() < 6
    said = capfd.readouterr().err
    for row, seed in enumerate(range(10, 16)):
        assert (f"seed {seed} stopped at 320 frames: reward/poison/raw is not finite" in said) == stopped[row]
    # The others are what they would have been, and the stopped one kept the metrics from before.
    names = ("return_sum", "episodes")
    for name in names:
        np.testing.assert_array_equal(poisoned.metrics[name][~stopped], plain.metrics[name][~stopped])
        np.testing.assert_array_equal(poisoned.metrics[name][stopped, :4], plain.metrics[name][stopped, :4])


def test_damaged_checkpoints_are_not_started_over(tmp_path):
    path = tmp_path / "run"
    quick(run_dir=path)
    status = json.loads((path / "status.json").read_text())
    (path / "status.json").write_text(json.dumps(status | {"complete": False}))
    for checkpoint in (path / "checkpoints").glob("*.npz"):
        checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read; overwrite=True starts again"):
        quick(run_dir=path, resume=True)


class Broken(RewardModule):
    def reward(self, state, batch, ctx):
        return {"task": batch.reward * jnp.nan}, state


# Beside a sound module, whose share of the reward is NaN as well.
@pytest.mark.parametrize("reward", [Broken(), Sum(Counts(), Broken())])
def test_all_seeds_nan_names_the_module_and_writes_nothing(tmp_path, reward):
    with pytest.raises(FloatingPointError, match="reward/broken/raw is not finite"):
        quick(env=envs.make("DeepSea-bsuite", size=5), reward=reward, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_memory_does_not_grow_with_steps(monkeypatch):
    """The compiled program is the same for 1x and 10x steps, and so are the bytes that live beside it."""
    live = []

    class Watched(Loop):
        def collect(self, chunk):
            live.append(sum(array.nbytes for array in jax.live_arrays()))
            return super().collect(chunk)

    monkeypatch.setattr("jaxrew.training.train.Loop", Watched)
    quick(steps=640)
    most, before = max(live), compilations()
    live.clear()
    quick(steps=6400)
    assert compilations() == before
    assert len(live) > 3
    assert max(live) <= most


class Returns(RewardModule):
    """Whatever it is told to."""

    result: Any = static(None)

    def reward(self, state, batch, ctx):
        return self.result(state, batch)


class Task(Bonus, kw_only=True):
    """Its stream would be called like the environment's."""


BAD_INPUT = {
    "unknown environment 'CartPole-v9'; did you mean 'CartPole-v1'": lambda _: envs.make("CartPole-v9"),
    "PPO needs discrete actions, and Pendulum-v1 has Box": lambda _: quick(env=envs.make("Pendulum-v1")),
    "steps=10 is less than one update of 64 frames; give at least 64": lambda _: quick(steps=10),
    "steps=640 is less than one update of 64 frames after 640 of warm-up": lambda _: quick(reward=RND(warm_steps=160)),
    "num_envs \\* num_steps = 64 does not divide into num_minibatches = 7": lambda _: quick(
        TINY.replace(num_minibatches=7)
    ),
    "seeds=0 names no seed": lambda _: quick(seeds=0),
    "seeds=\\[\\] names no seed": lambda _: quick(seeds=[]),
    "seed 3 is given more than once": lambda _: quick(seeds=[3, 1, 3]),
    "seed -1 is outside": lambda _: quick(seeds=[-1]),
    "resume=True needs run_dir": lambda _: quick(resume=True),
    "holds a run; give resume=True to go on with it or overwrite=True": lambda run: quick(run_dir=run.path),
    "'agent.learning_rate' is 0.00025 in the run folder but 0.01 here": lambda run: jaxrew.train(
        TINY.replace(learning_rate=0.01),
        envs.make("DeepSea-bsuite", size=5),
        Counts(),
        seeds=[5, 2],
        steps=interrupted.STEPS,
        run_dir=run.path,
        eval_every=64 * 25,
        eval_episodes=4,
        resume=True,
    ),
    "reward must be a reward module or None, got 'rnd'": lambda _: quick(reward="rnd"),
    "the VecEnv has num_envs=8, the agent 4": lambda _: quick(env=CARTPOLE.vectorise(8)),
    r"gamma must lie in \[0, 1\], got 1.5": lambda _: quick(TINY.replace(gamma=1.5)),
    "must be 'minibatch', 'batch' or 'none', got 'all'": lambda _: quick(TINY.replace(normalize_advantage="all")),
    "stream 'rnd' is not episodic, so its gamma must be below 1": lambda _: quick(reward=RND(gamma=1.0)),
    r"gamma of stream 'rnd' must lie in \[0, 1\], got 1.5": lambda _: quick(reward=RND(gamma=1.5)),
    "must be an Environment or a VecEnv, got 'CartPole-v1'; write envs.make": lambda _: quick(env="CartPole-v1"),
    "eval_every=0 must be at least 1 or None": lambda _: quick(eval_every=0),
    "eval_episodes=0 must be at least 1": lambda _: quick(eval_episodes=0),
    "facts = 'pole_angle' must be a tuple of names": lambda _: quick(reward=Counts(facts="pole_angle")),  # pyright: ignore
    r"Chain\(rnd\) has no transform": lambda _: quick(reward=Chain(RND())),
    "Sum takes reward modules, got <class": lambda _: quick(reward=Sum(RND(), Counts)),  # pyright: ignore
    r"Returns.reward must return \({'task': rewards \[T, N\]}, state\), got NoneType": lambda _: quick(
        reward=Returns(lambda state, batch: None)
    ),
    r"'task' has shape \(1, 4\), and \[T, N\] is \(16, 4\)": lambda _: quick(
        reward=Returns(lambda state, batch: ({"task": batch.reward[:1]}, state))
    ),
    "unknown stream of Returns 'taks'; did you mean 'task'": lambda _: quick(
        reward=Returns(lambda state, batch: ({"taks": batch.reward}, state))
    ),
    "Returns.reward must return a state like the one that init made": lambda _: quick(
        reward=Returns(lambda state, batch: ({"task": batch.reward}, jnp.zeros(3)))
    ),
    r"got the class; write PPO\(\)": lambda _: quick(type(TINY)),
    r"write RND\(\)": lambda _: quick(reward=RND),
    "seeds=1,000,000,000 is a count above": lambda _: quick(seeds=10**9),
    r"seeds=\[0.5\] is neither a count nor a list of integers": lambda _: quick(seeds=[0.5]),
    "is not a folder that can be written to": lambda run: quick(run_dir=run.path / "config.json" / "run"),
    "task names a stream of its own 'task'": lambda _: quick(reward=Task()),
    "shape": lambda _: quick(reward=Potential(lambda facts: jnp.ones(3))),
}


@pytest.mark.parametrize("sentence", BAD_INPUT)
def test_bad_input_is_answered_in_one_sentence(sentence, unbroken):
    with pytest.raises((ValueError, FileExistsError), match=sentence) as caught:
        BAD_INPUT[sentence](unbroken)
    assert "\n" not in str(caught.value)


def test_the_record_says_what_ran(unbroken):
    config = json.loads((unbroken.path / "config.json").read_text())
    assert config["reward"]["class"] == "jaxrew.rewards.counts.Counts"
    assert config["env"]["resets"] == "fresh"
    assert config["agent"]["learning_rate"] == 0.00025
    assert jaxrew.load(unbroken.path).provenance["packages"]["jax"]
