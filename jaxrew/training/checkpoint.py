"""Training state on disk: atomic writes, and one `.npz` file a checkpoint, checked leaf by leaf on the way back."""

import dataclasses
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrew.types import PyTree

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""What reading a torn or corrupt file may raise."""

KEY_IMPLEMENTATIONS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The training state after chunk `chunk`: its leaves in tree order, and the path, shape and dtype of each."""

    chunk: int
    leaves: list[np.ndarray]
    structure: list[tuple[str, tuple[int, ...], str]]

    def restore(self, like: PyTree) -> PyTree:
        """The saved state, as NumPy arrays and PRNG keys, in the structure of `like`.

        `like` is a tree of arrays or of `jax.ShapeDtypeStruct`. Raises ValueError naming the first leaf whose path,
        shape or dtype differs.
        """
        expected = _structure(like)
        for position in range(max(len(expected), len(self.structure))):
            saved, wanted = (s[position] if position < len(s) else None for s in (self.structure, expected))
            if saved != wanted:
                raise ValueError(
                    f"the checkpoint of chunk {self.chunk} does not fit this program: leaf {position} is "
                    f"{_text(saved)} in the checkpoint but {_text(wanted)} here; restore it with the code and "
                    "configuration that saved it"
                )
        leaves = [_unpack(leaf, dtype) for leaf, (_, _, dtype) in zip(self.leaves, self.structure, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)


def save_checkpoint(path: Path, tree: PyTree) -> None:
    """Writes the leaves of `tree` and their structure to `path`, atomically and without pickle."""
    arrays = {f"leaf{i}": _pack(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    write_arrays(path, arrays | {"structure": np.frombuffer(json.dumps(_structure(tree)).encode(), np.uint8)})


def load_checkpoint(path: Path) -> Checkpoint:
    """Reads what `save_checkpoint` wrote. Raises one of `UNREADABLE` when the file is torn or corrupt."""
    arrays = read_arrays(path)
    structure = [(place, tuple(shape), dtype) for place, shape, dtype in json.loads(arrays["structure"].tobytes())]
    return Checkpoint(int(path.stem), [arrays[f"leaf{i}"] for i in range(len(structure))], structure)


def _structure(tree: PyTree) -> list[tuple[str, tuple[int, ...], str]]:
    """Path, shape and dtype of every leaf: unlike the text of a treedef, the same in every process."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), tuple(np.shape(leaf)), _dtype(leaf)) for path, leaf in leaves]


def _dtype(leaf: Any) -> str:
    return str(leaf.dtype) if hasattr(leaf, "dtype") else str(np.asarray(leaf).dtype)


def _text(leaf: tuple[str, tuple[int, ...], str] | None) -> str:
    return "missing" if leaf is None else f"{leaf[0]} {leaf[2]}{list(leaf[1])}"


def _pack(leaf: Any) -> np.ndarray:
    """A leaf as a dtype that `.npy` files know: key data for PRNG keys, bits for bfloat16 and its like."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _unpack(array: np.ndarray, dtype: str) -> Any:
    if dtype in KEY_IMPLEMENTATIONS:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=KEY_IMPLEMENTATIONS[dtype])
    return array if str(array.dtype) == dtype else array.view(np.dtype(dtype))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name to a `.npz` file, atomically."""
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads every array of a `.npz` file, which checks their sums; never unpickles."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, atomically."""
    write_atomically(path, lambda file: file.write(json.dumps(value, indent=2).encode() + b"\n"))


def read_json(path: Path) -> Any:
    """Reads a JSON file."""
    return json.loads(path.read_text())


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Calls `write` on a file beside `path`, flushes it to disk and renames it: readers see the old file or the new."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries, so that a rename survives a power cut."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
