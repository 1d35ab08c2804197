"""Records are JSON, tell apart what differs, and read the same in every process."""

import dataclasses
import enum
import functools
import hashlib
import inspect
import json
import math
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from jaxrew.networks import MLP
from jaxrew.training.record import MAX_LISTED, compare_config, describe, provenance
from jaxrew.types import Stream, as_leaves, static


def double(x):
    return 2 * x


def scaled(by):
    return lambda x: by * x


class Module(struct.PyTreeNode):
    stream: Stream
    coef: chex.Numeric = 0.1
    potential: object = static(double)
    network: object = static(MLP((32, 16)))


class Mode(enum.Enum):
    TRAIN = 1


class Plain:
    def __init__(self, size):
        self.size = size
        self._cache = object()

    def method(self):
        return self.size


HERE = __name__


def test_a_module_is_recorded_with_all_that_makes_it_up():
    record = describe(Module(Stream(0.99, name="rnd")))
    assert json.loads(json.dumps(record)) == record
    assert record["class"] == f"{HERE}.Module"
    assert record["stream"] == {
        "class": "jaxrew.types.Stream", "gamma": 0.99, "coef": 1.0, "name": "rnd", "episodic": True,
    }  # fmt: skip
    source = hashlib.sha256(inspect.getsource(double).encode()).hexdigest()[:16]
    assert record["potential"] == {"function": f"{HERE}.double", "source": source}
    assert record["network"]["class"] == "jaxrew.networks.MLP"
    assert record["network"]["sizes"] == [32, 16]
    assert record["network"]["activation"]["function"].endswith("tanh")
    assert "parent" not in record["network"]


def test_a_cast_to_float32_does_not_change_the_record():
    module = Module(Stream(0.999), coef=3e-4)
    assert describe(as_leaves(module)) == describe(module)
    assert describe(np.float32(0.1)) == describe(jnp.float32(0.1)) == 0.1
    assert describe(np.float64(0.1)) == 0.1


def test_a_swept_float_is_a_list():
    assert describe(Module(Stream(0.99), coef=jnp.asarray([0.1, 0.2], jnp.float32)))["coef"] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("value", "record"),
    [
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (3, 3),
        (np.int32(3), 3),
        (math.inf, "inf"),
        (np.float32(-math.inf), "-inf"),
        (math.nan, "nan"),
        (jnp.asarray(0.5, jnp.bfloat16), 0.5),
        ("name", "name"),
        (Mode.TRAIN, "TRAIN"),
        (np.dtype("float32"), "float32"),
        (jnp.float32, {"type": "jax.numpy.float32"}),
        (Path("a") / "b", str(Path("a") / "b")),
        ({2: (1, 2), "x": {3}}, {"2": [1, 2], "x": [3]}),
        (Plain(4), {"class": f"{HERE}.Plain", "size": 4}),
        (namedtuple("Pair", "a b")(1, 2.5), {"class": f"{HERE}.Pair", "a": 1, "b": 2.5}),
        (jax.random.key(7), [0, 7]),
    ],
)
def test_values(value, record):
    assert describe(value) == record
    assert json.loads(json.dumps(describe(value), allow_nan=False)) == record


def test_functions_are_told_apart_by_source_closure_and_arguments():
    assert describe(scaled(2)) != describe(scaled(3))
    assert describe(scaled(2)) == describe(scaled(2))
    assert describe(functools.partial(double, 1)) != describe(functools.partial(double, 2))
    assert describe(Plain(1).method) != describe(Plain(2).method)
    assert describe(jax.jit(double)) == describe(double)
    assert describe(nn.initializers.orthogonal(1.0)) != describe(nn.initializers.orthogonal(2.0))
    text = "lambda x: x * 2"
    assert describe(eval(text)) != describe(eval(text.replace("2", "3")))


def test_large_arrays_are_hashed_and_cycles_end():
    large = np.zeros(MAX_LISTED + 1, np.float32)
    record = describe(large)
    assert record == describe(jnp.asarray(large))
    assert (record["shape"], record["dtype"]) == ([MAX_LISTED + 1], "float32")
    large[-1] = 1
    assert describe(large) != record
    parts = []
    loop = Plain(parts)
    parts.append(loop)
    assert describe(loop)["size"] == [{"recursive": f"{HERE}.Plain"}]


def test_records_hold_no_memory_addresses():
    @dataclasses.dataclass
    class Odd:
        things: tuple = (object(), nn.relu, jnp.tanh, jax.nn.gelu, np.tanh, print, scaled, MLP(), np.random.default_rng)

    assert "0x" not in json.dumps(describe(Odd()))


CONFIG = {"seeds": [1, 2], "agent": {"lr": 0.1, "sizes": [64, 64], "extra": {}}, "reward": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": CONFIG["agent"] | {"lr": 0.2}}, "'agent.lr' is 0.1 in the run folder but 0.2 here"),
        ({"agent": CONFIG["agent"] | {"sizes": [64, 32]}}, "'agent.sizes.1' is 64 in the run folder but 32 here"),
        ({"agent": CONFIG["agent"] | {"sizes": [64]}}, "'agent.sizes' is [64, 64] in the run folder but [64] here"),
        ({"reward": {"class": "RND"}}, "'reward' is None in the run folder but {'class': 'RND'} here"),
        ({"new": 1}, "'new' is missing in the run folder but 1 here"),
        ({"agent": CONFIG["agent"] | {"lr": True}}, "'agent.lr' is 0.1 in the run folder but True here"),
    ],
)
def test_the_first_difference_is_named(change, message):
    with pytest.raises(ValueError, match="cannot resume") as error:
        compare_config(CONFIG, CONFIG | change)
    assert message in str(error.value)


def test_equal_configs_pass_whatever_their_containers():
    compare_config(CONFIG, CONFIG | {"seeds": (1, 2)})


def test_provenance_names_versions_device_and_commit(tmp_path):
    record = provenance()
    assert record["packages"]["jax"] == jax.__version__
    assert record["python"] == ".".join(map(str, sys.version_info[:3]))
    assert record["device"]["count"] == len(jax.devices())
    assert record["device"]["platform"] == jax.default_backend()
    root = Path(__file__).parents[2]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True).stdout.strip()
    assert (record["git"] or {"commit": ""})["commit"] == head
    assert json.loads(json.dumps(record)) == record
