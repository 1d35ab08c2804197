"""Exact MiniGrid: the levels, dynamics and observations of Farama's `minigrid` 3.2.0, compiled.

`IDS[name](**settings)` builds an environment; `import_state` brings a Farama level over.
"""

from collections.abc import Callable
from functools import partial

from envs.minigrid.cells import unpack
from envs.minigrid.core import GridState, MiniGrid
from envs.minigrid.doorkey import DoorKey
from envs.minigrid.empty import Empty
from envs.minigrid.farama import import_state

IDS: dict[str, Callable[..., MiniGrid]] = {
    **{f"MiniGrid-Empty-{n}x{n}-v0": partial(Empty, size=n) for n in (5, 6, 8, 16)},
    **{f"MiniGrid-Empty-Random-{n}x{n}-v0": partial(Empty, size=n, random_start=True) for n in (5, 6)},
    **{f"MiniGrid-DoorKey-{n}x{n}-v0": partial(DoorKey, size=n) for n in (5, 6, 8, 16)},
}
"""Farama's ids, each with what builds its environment: `IDS["MiniGrid-DoorKey-8x8-v0"](obs="partial")`."""

__all__ = ["IDS", "DoorKey", "Empty", "GridState", "MiniGrid", "import_state", "unpack"]
