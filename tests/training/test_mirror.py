"""The wandb mirror: what its offline files hold, and when it goes offline."""

import http.server
import json
import socket
import struct
import sys
import threading
import time
import types

import numpy as np
import pytest

from jaxrew.training.mirror import POINTS_PER_CHUNK, WandbMirror

SEEDS = [3, 7, 11]


def chunk(first, updates=20):
    rng = np.random.default_rng(first)
    episodes = rng.integers(0, 3, (3, updates)).astype(np.int32)
    return {
        "frames": np.tile(512 * (first + 1 + np.arange(updates)), (3, 1)),
        "episodes": episodes,
        "return_sum": np.where(episodes > 0, rng.normal(size=episodes.shape), np.nan).astype(np.float32),
        "loss/policy": rng.normal(size=episodes.shape).astype(np.float32),
        "eval/return": np.full((3, updates), np.nan, np.float32),
    }


def records(path):
    """The records of a `.wandb` file: a seven-byte header, then blocks of 32 KiB in LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        if (room := 32768 - position % 32768) < 7:
            position += room
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()  # pyright: ignore[reportAttributeAccessIssue]
            record.ParseFromString(parts)
            yield record
            parts = b""


def history(path):
    """The logged points, by step."""
    points = {}
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            point = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
            points[point.pop("_step")] = {name: value for name, value in point.items() if name[0] != "_"}
    return points


def wait_until_written(path, seconds=60):
    """Wandb's service writes the end of a finished run some time later on a busy machine."""
    deadline = time.monotonic() + seconds
    while not any(record.WhichOneof("record_type") == "exit" for record in records(path)):
        assert time.monotonic() < deadline, f"{path} has no end"
        time.sleep(0.1)


def test_three_seeds_offline_hold_the_metrics(tmp_path, monkeypatch, capfd):
    import agents  # noqa: F401 (wandb comments on the name)

    monkeypatch.setenv("WANDB_MODE", "offline")
    mirror = WandbMirror("project", "group", SEEDS, {"agent": {"gamma": 0.99}}, tmp_path, id="0123abcd")
    assert mirror.offline
    chunks = [chunk(0), chunk(20), chunk(40, updates=1)]
    for metrics in chunks:
        mirror.log(metrics)
    mirror.finish()
    assert capfd.readouterr() == ("", "")
    whole = {name: np.concatenate([metrics[name] for metrics in chunks], axis=1) for name in chunks[0]}
    for lane, seed in enumerate(SEEDS):
        (file,) = tmp_path.glob(f"wandb/offline-run-*-0123abcd-{seed}/*.wandb")
        wait_until_written(file)
        (run,) = (record.run for record in records(file) if record.WhichOneof("record_type") == "run")
        config = {update.key: json.loads(update.value_json) for update in run.config.update}
        assert (run.run_group, run.display_name, config["seed"]) == ("group", f"group-{seed}", seed)
        assert config["agent"] == {"gamma": 0.99}
        points = history(file)
        assert len(points) == 2 * POINTS_PER_CHUNK + 1
        previous = 0
        for step, point in sorted(points.items()):
            index = step // 512 - 1
            assert point["frames"] == whole["frames"][lane, index]
            assert point["loss/policy"] == whole["loss/policy"][lane, index]
            assert "eval/return" not in point
            episodes = whole["episodes"][lane, previous : index + 1].sum()
            if episodes:
                total = np.nansum(whole["return_sum"][lane, previous : index + 1], dtype=np.float64)
                assert point["return/task"] == pytest.approx(total / episodes, rel=1e-12)
            else:
                assert "return/task" not in point
            previous = index + 1
        assert previous == 41


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def nobody():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("key", "answering", "environment", "mode"),
    [
        (False, True, None, "offline"),
        (True, False, None, "offline"),
        (True, True, None, None),
        (False, False, "online", None),
    ],
)
def test_the_mode(monkeypatch, server, nobody, key, answering, environment, mode):
    modes = []

    def init(**options):
        modes.append(options["mode"])
        return types.SimpleNamespace(offline=options["mode"] == "offline", finish=lambda: None)

    settings = types.SimpleNamespace(base_url=server if answering else nobody)
    fake = types.SimpleNamespace(
        init=init,
        login=lambda prompt, verify: key,
        setup=lambda *_: types.SimpleNamespace(settings=settings),
        Settings=dict,
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if environment is None:
        monkeypatch.delenv("WANDB_MODE", raising=False)
    else:
        monkeypatch.setenv("WANDB_MODE", environment)
    assert WandbMirror("project", "group", SEEDS, {}).offline == (mode == "offline")
    assert modes == [mode] * 3
