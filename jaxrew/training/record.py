"""What ran: JSON-able records of agents, rewards and environments, and of the machine and code behind a run."""

import dataclasses
import enum
import functools
import hashlib
import importlib.metadata
import inspect
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np

PACKAGES = ("jaxrew", "jax", "jaxlib", "flax", "optax", "gymnax", "brax", "numpy")
MAX_LISTED = 4096
"""Arrays with more entries than this are recorded by shape, dtype and hash."""


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def describe(obj: Any) -> Any:
    """A JSON-able record of an agent, a reward module, an environment, or any value inside one.

    Objects (dataclasses, linen modules, named tuples, plain objects) become `{"class": "module.Name", field: ...}`,
    functions `{"function": "module.name", "source": hash}` with what they close over. A float is the shortest decimal
    that gives it back at its own precision, so 0.0003 reads the same before and after a cast to float32; infinities
    and NaN are the strings "inf", "-inf" and "nan". Arrays are nested lists.
    """
    return _describe(obj, ())


def _describe(obj: Any, parents: tuple[int, ...]) -> Any:
    if obj is None or isinstance(obj, str):
        return obj
    if isinstance(obj, enum.Enum):
        return obj.name
    if isinstance(obj, np.generic | np.ndarray | jax.Array):
        return _array(obj)
    if isinstance(obj, bool | int | float):
        return _number(obj)
    if isinstance(obj, np.dtype | Path):
        return str(obj)
    if isinstance(obj, type):
        return {"type": _name(obj)}
    if id(obj) in parents:
        return {"recursive": _name(type(obj))}
    parents = (*parents, id(obj))
    if isinstance(obj, Mapping):
        return {str(key): _describe(value, parents) for key, value in obj.items()}
    if isinstance(obj, list | tuple) and not hasattr(obj, "_fields"):
        return [_describe(value, parents) for value in obj]
    if isinstance(obj, set | frozenset):
        return sorted((_describe(value, parents) for value in obj), key=repr)
    if callable(obj) and not dataclasses.is_dataclass(obj):
        return _function(obj, parents)
    return _object(obj, parents)


def _object(obj: Any, parents: tuple[int, ...]) -> Any:
    if hasattr(obj, "_fields"):
        fields = obj._asdict()
    elif dataclasses.is_dataclass(obj):
        # A linen module's `parent` and `name` say where it is used, not what it is.
        place = ("parent", "name") if isinstance(obj, nn.Module) else ()
        fields = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj) if field.name not in place}
    elif hasattr(obj, "__dict__"):
        fields = {name: value for name, value in vars(obj).items() if not name.startswith("_")}
    else:
        return _repr(obj)
    return {"class": _name(type(obj))} | {name: _describe(value, parents) for name, value in fields.items()}


def _function(function: Any, parents: tuple[int, ...]) -> dict[str, Any]:
    if isinstance(function, functools.partial):
        record = _describe(function.func, parents)
        return record | {"args": _describe(function.args, parents), "kwargs": _describe(function.keywords, parents)}
    if inspect.ismethod(function):
        return _function(function.__func__, parents) | {"self": _describe(function.__self__, parents)}
    inner = inspect.unwrap(function)
    if not hasattr(inner, "__qualname__"):
        return _object(function, parents)
    record: dict[str, Any] = {"function": _name(inner), "source": _source_hash(inner)}
    if closure := getattr(inner, "__closure__", None):
        cells = zip(inner.__code__.co_freevars, closure, strict=True)
        record["closure"] = {name: _describe(_contents(cell), parents) for name, cell in cells}
    return record


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that is never bound
        return None


def _source_hash(function: Any) -> str | None:
    """The first 16 hex digits of the SHA-256 of a function's source; of its byte code where there is no source."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        text = f"{code.co_code.hex()} {code.co_names} {_repr(code.co_consts)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _array(array: Any) -> Any:
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.asarray(array)
    if array.size > MAX_LISTED:
        digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
        return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": digest}
    return _nested(array)


def _nested(array: np.ndarray) -> Any:
    if array.ndim:
        return [_nested(row) for row in array]
    if array.dtype.kind in "biu":
        return array.item()
    return _number(float(str(array[()]))) if array.dtype.kind in "fV" else str(array)


def _number(value: float) -> Any:
    return value if isinstance(value, int) or math.isfinite(value) else str(value)


def _name(obj: Any) -> str:
    return f"{obj.__module__}.{obj.__qualname__}"


def _repr(obj: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(obj))


def compare_config(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises ValueError naming the first field, by dotted path, in which two configurations differ."""
    difference = _difference(*(json.loads(json.dumps(config)) for config in (old, new)))
    if difference is not None:
        path, recorded, current = difference
        raise ValueError(
            f"cannot resume: {path!r} is {recorded} in the run folder but {current} here; "
            "set it back, or choose another run folder"
        )


def _difference(old: Any, new: Any, path: str = "") -> tuple[str, str, str] | None:
    """The path of the first difference and what stands there in each."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {key: (old.get(key, _MISSING), new.get(key, _MISSING)) for key in old | new}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = dict(enumerate(zip(old, new, strict=True)))
    else:
        same = old == new and isinstance(old, bool) == isinstance(new, bool)
        return None if same else (path, repr(old), repr(new))
    children = (_difference(*pair, f"{path}.{key}" if path else str(key)) for key, pair in pairs.items())
    return next((difference for difference in children if difference is not None), None)


def provenance() -> dict[str, Any]:
    """Versions, devices, git commit, command line and time of the running process."""
    devices = jax.devices()
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": shlex.join([Path(sys.executable).name, *sys.orig_argv[1:]]),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "device": {"platform": devices[0].platform, "kind": devices[0].device_kind, "count": len(devices)},
        "processes": jax.process_count(),
        "git": _git_state(Path(__file__).parent) or _git_state(Path.cwd()),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state(folder: Path) -> dict[str, Any] | None:
    """The commit of the git tree that holds `folder`, and whether tracked files differ from it; None without one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=environment)
        return done.stdout.strip()

    try:
        return {
            "commit": git("rev-parse", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.SubprocessError):
        return None
