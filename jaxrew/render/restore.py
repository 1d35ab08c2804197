"""A trained policy out of a run folder: the objects that `config.json` describes, and what one seed learnt."""

import dataclasses
import functools
import importlib
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrew.rewards.base import RewardModule
from jaxrew.training.lanes import Lane
from jaxrew.training.record import describe
from jaxrew.training.run import RunFolder, load
from jaxrew.types import PyTree, as_leaves


class Trained(NamedTuple):
    """One seed of a run.

    Attributes:
      agent, reward: float leaves as float32 arrays.
      env: one environment.
      state: the agent's, without a seed axis.
      seed: which.
      frames, total_steps: environment steps done, and planned.
    """

    agent: Any
    env: Any
    reward: RewardModule
    state: PyTree
    seed: int
    frames: int
    total_steps: int


def restore(run_dir: str | Path, seed: int | None = None) -> Trained:
    """What `seed` (by default the first) had learnt at the run's last checkpoint.

    Raises what `jaxrew.load` raises; ValueError when the run lacks the seed, holds no checkpoint that can be read, or
    was made by code that is not here.
    """
    run = load(run_dir)
    path = Path(run_dir)
    seed = run.seeds[0] if seed is None else seed
    if seed not in run.seeds:
        nearest = min(run.seeds, key=lambda other: abs(other - seed))
        raise ValueError(f"{path} holds no seed {seed}; the nearest of its {len(run.seeds)} is {nearest}")
    checkpoint = RunFolder(path).latest_checkpoint()
    if checkpoint is None:
        raise ValueError(f"{path} holds no checkpoint that can be read; let it train until the first save")
    script = _script(run.provenance.get("command", ""))
    agent, vec_env, reward = (rebuild(run.config[part], script) for part in ("agent", "env", "reward"))
    agent, reward = as_leaves(agent), as_leaves(reward)
    one = jax.eval_shape(
        lambda agent, reward, key: Lane(agent.init(key, vec_env, reward), jnp.bool_(True)),
        *(agent, reward, jax.random.key(0)),
    )
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(run.seeds), *leaf.shape), leaf.dtype), one)
    row = run.seeds.index(seed)
    state = jax.tree.map(lambda leaf: leaf[row], checkpoint.restore(like)).state
    return Trained(agent, vec_env.env, reward, state, seed, int(run.frames[-1]), run.config["steps"])


def rebuild(record: Any, script: str | None = None) -> Any:
    """The object that `jaxrew.training.record.describe` made `record` of.

    Only dataclasses and named tuples are built, and functions found by name, so a record runs nothing but what it can
    import. A field that the record lacks takes its default.

    Args:
      record: what `describe` returned, after a trip through JSON: lists become tuples.
      script: the module that was `__main__` then.

    Raises ValueError when something is not here, has changed its source since, or cannot be told from its record.
    """
    if isinstance(record, list):
        return tuple(rebuild(value, script) for value in record)
    if not isinstance(record, dict):
        return float(record) if record in ("inf", "-inf", "nan") else record
    fields = {name: rebuild(value, script) for name, value in record.items() if name not in _HEADS}
    if "class" in record:
        return _built(_found(record["class"], script), record["class"], fields)
    if "function" in record:
        return _function(record, fields, script)
    if "type" in record:
        return _found(record["type"], script)
    if "sha256" in record or "recursive" in record:
        raise ValueError(f"the run records only a summary of a part of it, {record}, so it cannot be rebuilt")
    return fields


_HEADS = ("class", "function", "type", "source", "recursive", "sha256")


def _built(cls: Any, name: str, fields: dict[str, Any]) -> Any:
    if not isinstance(cls, type) or not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
        raise ValueError(f"{name} of the run is neither a dataclass nor a named tuple, so it cannot be rebuilt")
    if dataclasses.is_dataclass(cls):
        unset = [field.name for field in dataclasses.fields(cls) if not field.init]
        fields = {name: value for name, value in fields.items() if name not in unset}
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"{name} has changed since the run: {error}") from None


def _function(record: dict[str, Any], fields: dict[str, Any], script: str | None) -> Any:
    name = record["function"]
    if "closure" in record or "<" in name:
        raise ValueError(f"the run uses the function {name}, which only the script that made it can make again")
    function = getattr(fields["self"], name.rpartition(".")[2]) if "self" in record else _found(name, script)
    if describe(function).get("source") != record["source"]:
        raise ValueError(f"the function {name} has changed since the run; bring back the code that trained it")
    if "args" in record:
        return functools.partial(function, *fields["args"], **fields["kwargs"])
    return function


def _found(name: str, script: str | None) -> Any:
    """What stands under a dotted name, in the longest part of it that is a module."""
    if name.startswith("__main__.") and script is not None:
        name = script + name.removeprefix("__main__")
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:cut])
        try:
            return functools.reduce(getattr, parts[cut:], importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise ValueError(f"{name} of the run needs the module {error.name}, which is not installed") from None
        except AttributeError:
            break
    raise ValueError(f"{name} of the run is not to be found here; put the folder of its code on PYTHONPATH")


def _script(command: str) -> str | None:
    """The module that a recorded command line ran: `python -m experiments.x` or `python experiments/x.py`."""
    words = shlex.split(command)[1:]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    scripts = [word for word in words if word.endswith(".py")]
    return ".".join(Path(scripts[0]).with_suffix("").parts) if scripts and not Path(scripts[0]).is_absolute() else None
