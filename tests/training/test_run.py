"""The run folder survives kills, refuses what it should, and its statistics agree with slow loops."""

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.training.checkpoint import KEY_IMPLEMENTATIONS, read_json
from jaxrew.training.run import Run, RunFolder, assemble, load

SEEDS = [3, 11]
CONFIG = {"seeds": SEEDS, "agent": {"learning_rate": 3e-4, "sizes": [64, 64]}}


def chunk(index, updates=4, seeds=2):
    """Metrics that differ between chunks and seeds; update 1 of each chunk finishes no episode."""
    rng = np.random.default_rng(index)
    episodes = rng.integers(1, 9, (seeds, updates)).astype(np.int32)
    episodes[:, 1] = 0
    return {
        "frames": np.tile(np.int32(512) * (1 + index * updates + np.arange(updates, dtype=np.int32)), (seeds, 1)),
        "episodes": episodes,
        "return_sum": np.where(episodes > 0, rng.normal(size=(seeds, updates)), np.nan).astype(np.float32),
        "loss/policy": rng.normal(size=(seeds, updates)).astype(np.float32),
    }


def tree(value):
    return {"w": np.full((2, 3), value, np.float32), "step": np.int32(value), "none": None}


def folder_with(path, chunks, checkpoints=()):
    folder = RunFolder.create(path, CONFIG)
    for index in range(chunks):
        folder.append(chunk(index), index)
        if index in checkpoints:
            folder.save_checkpoint(index, tree(index))
    return folder


def newest(path):
    checkpoint = RunFolder.create(path, read_json(path / "config.json"), resume=True).latest_checkpoint()
    assert checkpoint is not None
    return checkpoint


def assert_same_metrics(run, chunks):
    expected = assemble([chunk(index) for index in range(chunks)], len(SEEDS))
    assert run.metrics.keys() == expected.keys()
    for name, values in expected.items():
        assert run.metrics[name].dtype == values.dtype
        np.testing.assert_array_equal(run.metrics[name], values)


def test_a_finished_run_loads_as_it_was_appended(tmp_path):
    folder = folder_with(tmp_path / "run", 3, checkpoints=[0, 1, 2])
    folder.finish()
    run = load(tmp_path / "run")
    assert_same_metrics(run, 3)
    assert run.complete
    assert run.seeds == SEEDS
    assert run.config == CONFIG
    assert run.seconds > 0
    assert run.provenance["packages"]["jax"] == jax.__version__
    assert run.provenance["device"]["count"] == len(jax.devices())
    assert sorted(child.name for child in (tmp_path / "run").iterdir()) == [
        "checkpoints", "config.json", "figures", "metrics.npz", "provenance.json", "status.json",
    ]  # fmt: skip
    assert [path.name for path in sorted((tmp_path / "run" / "checkpoints").iterdir())] == ["000001.npz", "000002.npz"]
    assert repr(run) == f"Run('{tmp_path}/run', 2 seeds, 12 updates, 6,144 frames a seed)"


def test_an_incomplete_run_loads_what_it_kept(tmp_path):
    folder_with(tmp_path / "run", 2)
    run = load(tmp_path / "run")
    assert not run.complete
    assert_same_metrics(run, 2)
    assert "incomplete" in repr(run)


def test_a_run_without_a_chunk_loads_empty(tmp_path):
    RunFolder.create(tmp_path / "run", CONFIG)
    run = load(tmp_path / "run")
    assert run.last().shape == (2, 0)
    assert run.frames_to(0.5).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_torn_checkpoint_falls_back_to_the_one_before(tmp_path, damage):
    folder_with(tmp_path / "run", 4, checkpoints=[0, 1, 3])
    file = tmp_path / "run" / "checkpoints" / "000003.npz"
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[content.index(np.full((2, 3), 3, np.float32).tobytes()) + 5] ^= 1
    file.write_bytes(content[: {"truncate": len(content) // 2, "flip": len(content), "empty": 0}[damage]])
    checkpoint = newest(tmp_path / "run")
    assert checkpoint.chunk == 1
    np.testing.assert_array_equal(checkpoint.restore(tree(0))["w"], tree(1)["w"])


def test_resuming_discards_what_came_after_the_checkpoint(tmp_path):
    folder_with(tmp_path / "run", 5, checkpoints=[1, 2])
    (tmp_path / "run" / "shards" / ".000005.npz.tmp").write_bytes(b"half a shard")
    folder = RunFolder.create(tmp_path / "run", CONFIG, resume=True)
    kept = folder.resume_after(newest(tmp_path / "run").chunk)
    assert len(kept) == 3
    assert folder.chunks == 3
    assert sorted(path.name for path in (tmp_path / "run" / "shards").iterdir()) == [f"00000{i}.npz" for i in range(3)]
    for index in (3, 4, 5):
        folder.append(chunk(index), index)
    folder.finish()
    run = load(tmp_path / "run")
    assert_same_metrics(run, 6)
    assert [sitting["after_chunk"] for sitting in run.provenance["resumed"]] == [2]


def test_a_checkpoint_without_its_metrics_is_not_used(tmp_path):
    folder = folder_with(tmp_path / "run", 3, checkpoints=[1])
    folder.save_checkpoint(3, tree(3))
    (tmp_path / "run" / "shards" / "000002.npz").write_bytes(b"torn")
    assert newest(tmp_path / "run").chunk == 1


def test_a_damaged_shard_is_not_passed_over_at_the_end(tmp_path):
    folder = folder_with(tmp_path / "run", 3)
    (tmp_path / "run" / "shards" / "000001.npz").write_bytes(b"torn")
    with pytest.raises(OSError, match=r"shard 1 of 3 in .* is damaged"):
        folder.finish()
    assert not load(tmp_path / "run").complete


def test_no_checkpoint_means_from_the_start(tmp_path):
    folder_with(tmp_path / "run", 2)
    folder = RunFolder.create(tmp_path / "run", CONFIG, resume=True)
    assert folder.latest_checkpoint() is None
    assert folder.resume_after(-1) == []
    folder.append(chunk(0), 0)
    assert_same_metrics(load(tmp_path / "run"), 1)


def test_a_kill_between_consolidating_and_marking_loses_nothing(tmp_path):
    folder = folder_with(tmp_path / "run", 2, checkpoints=[1])
    status = (tmp_path / "run" / "status.json").read_bytes()
    shards = {path.name: path.read_bytes() for path in (tmp_path / "run" / "shards").iterdir()}
    folder.finish()
    (tmp_path / "run" / "shards").mkdir()
    for name, content in shards.items():
        (tmp_path / "run" / "shards" / name).write_bytes(content)
    assert_same_metrics(load(tmp_path / "run"), 2)
    (tmp_path / "run" / "status.json").write_bytes(status)
    assert_same_metrics(load(tmp_path / "run"), 2)
    assert newest(tmp_path / "run").chunk == 1
    RunFolder.create(tmp_path / "run", CONFIG, resume=True).finish()
    assert load(tmp_path / "run").complete


class Killed(BaseException):
    """Stands in for SIGKILL: nothing catches it, and the folder's code has no clean-up that could run after it."""


def test_a_kill_before_any_change_to_the_disk_leaves_a_run_to_go_on_with(tmp_path, monkeypatch):
    """Every rename, flush and removal in the life of a run is the last one once; then the run goes on to its end."""
    countdown = math.inf

    def dying(function):
        def call(*args, **kwargs):
            nonlocal countdown
            countdown -= 1
            if countdown < 0:
                raise Killed
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for module, name in ((os, "replace"), (os, "fsync"), (os, "unlink"), (shutil, "rmtree"), (Path, "unlink")):
        monkeypatch.setattr(module, name, dying(getattr(module, name)))
    monkeypatch.setattr("jaxrew.training.run.provenance", dict)

    def train(path):
        folder = RunFolder.create(path, CONFIG, resume=True)
        if folder.complete:
            return
        checkpoint = folder.latest_checkpoint()
        start = 0 if checkpoint is None else checkpoint.chunk + 1
        if checkpoint is not None:
            assert checkpoint.leaves[1][0, 0] == checkpoint.chunk
        folder.resume_after(start - 1)
        for index in range(start, 4):
            folder.append(chunk(index), index)
            folder.save_checkpoint(index, tree(index))
        folder.finish()

    kills = 0
    while True:
        countdown = kills
        path = tmp_path / str(kills)
        try:
            train(path)
        except Killed:
            kills += 1
        else:
            break
        countdown = math.inf
        if path.exists():
            assert_same_metrics(load(path), len(load(path).frames) // 4)
        train(path)
        assert_same_metrics(load(path), 4)
        assert load(path).complete
    assert kills > 40


WRITER = """
import sys
import numpy as np
from jaxrew.training.run import RunFolder
folder = RunFolder.create(sys.argv[1], {"seeds": [0]})
for index in range(10**6):
    frames = np.full((1, 2), index + 1, np.int32)
    folder.append({"frames": frames, "episodes": frames, "return_sum": frames}, index)
    folder.save_checkpoint(index, [np.full(20_000, index, np.float32)])
    if index == 3:
        print("going", flush=True)
"""


@pytest.mark.slow
def test_kill_nine_leaves_a_run_to_go_on_with(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"JAX_PLATFORMS": "cpu"}) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"going\n"
        writer.send_signal(signal.SIGKILL)
    run = load(tmp_path / "run")
    assert not run.complete
    chunks = len(run.frames) // 2
    np.testing.assert_array_equal(run.frames, np.repeat(1 + np.arange(chunks), 2))
    checkpoint = newest(tmp_path / "run")
    assert checkpoint.chunk in (chunks - 1, chunks - 2)
    np.testing.assert_array_equal(checkpoint.leaves[0], np.full(20_000, checkpoint.chunk, np.float32))


def test_a_used_folder_is_refused_and_overwritten_only_if_it_is_a_run(tmp_path):
    folder_with(tmp_path / "run", 1)
    with pytest.raises(FileExistsError, match="resume=True to go on with it or overwrite=True"):
        RunFolder.create(tmp_path / "run", CONFIG)
    RunFolder.create(tmp_path / "run", {"seeds": [1]}, overwrite=True)
    assert load(tmp_path / "run").seeds == [1]
    assert not list((tmp_path / "run" / "shards").iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for option in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(FileExistsError, match="not a run folder, so it is left alone"):
            RunFolder.create(tmp_path / "mine", CONFIG, **option)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "x"
    with pytest.raises(ValueError, match="exclude each other"):
        RunFolder.create(tmp_path / "run", CONFIG, resume=True, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "run"]


def test_an_empty_folder_and_a_missing_one_are_fine_with_resume(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "deep/missing"):
        folder = RunFolder.create(tmp_path / name, CONFIG, resume=True)
        assert folder.chunks == 0
        assert folder.latest_checkpoint() is None


def test_resume_names_the_first_field_that_differs(tmp_path):
    folder_with(tmp_path / "run", 1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    other = json.loads(json.dumps(CONFIG))
    other["agent"]["learning_rate"] = 0.001
    with pytest.raises(ValueError, match=r"'agent.learning_rate' is 0.0003 in the run folder but 0.001 here"):
        RunFolder.create(tmp_path / "run", other, resume=True)
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_append_refuses_wrong_order_shape_and_complete_runs(tmp_path):
    folder = folder_with(tmp_path / "run", 1)
    with pytest.raises(ValueError, match=r"chunk 3 is out of order .* the next one is 1"):
        folder.append(chunk(3), 3)
    with pytest.raises(ValueError, match=r"'entropy' has shape \(2,\); it must be \[seeds, updates\] = \(2, 4\)"):
        folder.append(chunk(1) | {"entropy": np.zeros(2)}, 1)
    folder.finish()
    with pytest.raises(ValueError, match="is complete; nothing can be added"):
        folder.append(chunk(1), 1)
    with pytest.raises(ValueError, match="is complete; load it"):
        folder.resume_after(0)


def test_load_names_the_nearest_run(tmp_path):
    folder_with(tmp_path / "doorkey", 1)
    with pytest.raises(FileNotFoundError, match=r"did you mean '.*/doorkey'"):
        load(tmp_path / "dorkey")
    with pytest.raises(ValueError, match="is not a run folder: it holds the run folders doorkey"):
        load(tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"is not a run folder: it has no status.json"):
        load(tmp_path / "other")


def test_checkpoints_bring_back_every_dtype_bit_for_bit(tmp_path):
    state = {
        "keys": [jax.random.split(jax.random.key(1, impl=name), 3) for name in KEY_IMPLEMENTATIONS.values()],
        "half": jnp.linspace(0, 1, 7).astype(jnp.bfloat16),
        "flag": jnp.asarray([True, False]),
        "scalar": jnp.float32(0.1),
        "table": (np.arange(6, dtype=np.uint32).reshape(2, 3), None, ()),
        "empty": np.zeros((0, 4), np.float32),
    }
    folder = folder_with(tmp_path / "run", 1)
    folder.save_checkpoint(0, state)
    like = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, state))
    restored = newest(tmp_path / "run").restore(like)
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    for saved, back in zip(jax.tree.leaves(state), jax.tree.leaves(restored), strict=True):
        assert saved.dtype == back.dtype
        if jax.dtypes.issubdtype(saved.dtype, jax.dtypes.prng_key):
            saved, back = jax.random.key_data(saved), jax.random.key_data(back)
        assert np.asarray(saved).tobytes() == np.asarray(back).tobytes()
        assert saved.shape == back.shape


def test_a_checkpoint_of_another_structure_is_refused(tmp_path):
    folder_with(tmp_path / "run", 1, checkpoints=[0])
    checkpoint = newest(tmp_path / "run")
    with pytest.raises(ValueError, match=r"leaf 1 is \['w'\] float32\[2, 3\] in the checkpoint but .* float32\[3\]"):
        checkpoint.restore(tree(0) | {"w": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"leaf 2 is missing in the checkpoint but \['z'\]"):
        checkpoint.restore(tree(0) | {"z": np.zeros(3)})


def slow_last(episodes, return_sum, wanted):
    result = np.full(episodes.shape, np.nan)
    for seed in range(len(episodes)):
        for end in range(episodes.shape[1]):
            count, total = 0, 0.0
            for start in range(end, -1, -1):
                count += episodes[seed, start]
                total += float(return_sum[seed, start]) if episodes[seed, start] else 0.0
                if count >= wanted:
                    result[seed, end] = total / count
                    break
    return result


@pytest.mark.parametrize("wanted", [1, 7, 100])
def test_last_and_frames_to_agree_with_a_slow_loop(wanted):
    metrics = assemble([chunk(index, updates=20, seeds=3) for index in range(4)], 3)
    run = Run([0, 1, 2], metrics)
    expected = slow_last(metrics["episodes"], metrics["return_sum"], wanted)
    np.testing.assert_allclose(run.last(wanted), expected, rtol=1e-12, atol=1e-12)
    assert np.isnan(run.last(10**6)).all()
    threshold = np.nanmedian(expected) + 0.05
    first = [next((run.frames[t] for t in range(80) if expected[seed, t] >= threshold), math.inf) for seed in range(3)]
    assert run.frames_to(threshold, wanted).tolist() == first
    assert run.frames_to(1e9).tolist() == [math.inf] * 3


def test_return_is_the_mean_of_finished_episodes():
    metrics = assemble([chunk(0)], 2)
    assert np.isnan(metrics["return/task"][:, 1]).all()
    np.testing.assert_allclose(
        metrics["return/task"][:, 0], chunk(0)["return_sum"][:, 0] / chunk(0)["episodes"][:, 0], rtol=1e-6
    )


def test_a_metric_that_a_chunk_lacks_is_nan_there():
    metrics = assemble([chunk(0), chunk(1) | {"evaluation/return": np.ones((2, 4), np.float32)}], 2)
    assert np.isnan(metrics["evaluation/return"][:, :4]).all()
    assert (metrics["evaluation/return"][:, 4:] == 1).all()


def test_csv_holds_every_number(tmp_path):
    run = Run(SEEDS, assemble([chunk(0)], 2))
    run.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert [row["seed"] for row in rows] == ["3"] * 4 + ["11"] * 4
    assert [int(row["frames"]) for row in rows[:4]] == run.frames.tolist()
    for index, row in enumerate(rows):
        value = run.metrics["return/task"][divmod(index, 4)]
        assert row["return/task"] == "" if np.isnan(value) else np.float32(row["return/task"]) == value


def test_a_stopped_seed_keeps_what_it_had():
    """Rows that were not run hold -1 episodes, which are none."""
    episodes = np.array([[10, 10, -1, -1]], np.int32)
    returns = np.array([[5.0, 5.0, np.nan, np.nan]], np.float32)
    run = Run([0], {"frames": np.arange(1, 5) * 100, "episodes": episodes, "return_sum": returns})
    np.testing.assert_allclose(run.last(10), [[0.5] * 4])
    np.testing.assert_array_equal(run.frames_to(0.6, 10), [np.inf])
