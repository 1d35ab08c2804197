"""Exact MiniGrid: the levels, dynamics and observations of Farama's `minigrid` 3.2.0, compiled.

`IDS[name](**settings)` builds an environment; `import_state` brings a Farama level over.
"""

from collections.abc import Callable
from functools import partial

from envs.minigrid.cells import unpack
from envs.minigrid.core import MiniGrid
from envs.minigrid.doorkey import DoorKey
from envs.minigrid.dynamicobstacles import DynamicObstacles
from envs.minigrid.empty import Empty
from envs.minigrid.farama import import_state
from envs.minigrid.fetch import Fetch
from envs.minigrid.fourrooms import FourRooms
from envs.minigrid.goto import GoToDoor, GoToObject
from envs.minigrid.keycorridor import KeyCorridor
from envs.minigrid.lava import Crossing, DistShift, LavaGap
from envs.minigrid.lockedroom import LockedRoom
from envs.minigrid.memory import Memory
from envs.minigrid.multiroom import MultiRoom, MultiRoomNoisyTV
from envs.minigrid.obstructedmaze import VARIANTS, ObstructedMaze
from envs.minigrid.playground import Playground
from envs.minigrid.putnear import PutNear
from envs.minigrid.redbluedoors import RedBlueDoors
from envs.minigrid.unlock import BlockedUnlockPickup, Unlock, UnlockPickup
from envs.minigrid.world import GridState

IDS: dict[str, Callable[..., MiniGrid]] = {
    **{f"MiniGrid-Empty-{n}x{n}-v0": partial(Empty, size=n) for n in (5, 6, 8, 16)},
    **{f"MiniGrid-Empty-Random-{n}x{n}-v0": partial(Empty, size=n, random_start=True) for n in (5, 6)},
    **{f"MiniGrid-DoorKey-{n}x{n}-v0": partial(DoorKey, size=n) for n in (5, 6, 8, 16)},
    "MiniGrid-FourRooms-v0": FourRooms,
    "MiniGrid-MultiRoom-N2-S4-v0": partial(MultiRoom, num_rooms=2, room_size=4),
    # Farama's v0 of this id has six rooms, whatever its name says.
    "MiniGrid-MultiRoom-N4-S5-v0": partial(MultiRoom, num_rooms=6, room_size=5),
    "MiniGrid-MultiRoom-N4-S5-v1": partial(MultiRoom, num_rooms=4, room_size=5),
    "MiniGrid-MultiRoom-N6-v0": partial(MultiRoom, num_rooms=6, room_size=10),
    **{
        f"MiniGrid-KeyCorridorS{s}R{r}-v0": partial(KeyCorridor, room_size=s, num_rows=r)
        for s, r in ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3))
    },
    "MiniGrid-Unlock-v0": Unlock,
    "MiniGrid-UnlockPickup-v0": UnlockPickup,
    "MiniGrid-BlockedUnlockPickup-v0": BlockedUnlockPickup,
    **{f"MiniGrid-ObstructedMaze-{v}-v0": partial(ObstructedMaze, variant=v, version=0) for v in VARIANTS},
    **{
        f"MiniGrid-ObstructedMaze-{v}-v1": partial(ObstructedMaze, variant=v, version=1)
        for v in ("2Dlhb", "1Q", "2Q", "Full")
    },
    **{f"MiniGrid-LavaGapS{n}-v0": partial(LavaGap, size=n) for n in (5, 6, 7)},
    **{
        f"MiniGrid-{name}CrossingS{s}N{n}-v0": partial(Crossing, size=s, num_crossings=n, obstacle=obstacle)
        for name, obstacle in (("Lava", "lava"), ("Simple", "wall"))
        for s, n in ((9, 1), (9, 2), (9, 3), (11, 5))
    },
    **{
        f"MiniGrid-Dynamic-Obstacles-{start}{n}x{n}-v0": partial(
            DynamicObstacles, size=n, num_obstacles=count, random_start=bool(start)
        )
        for start, n, count in (("", 5, 2), ("Random-", 5, 2), ("", 6, 3), ("Random-", 6, 3), ("", 8, 4), ("", 16, 8))
    },
    "MiniGrid-DistShift1-v0": partial(DistShift, strip2_row=2),
    "MiniGrid-DistShift2-v0": partial(DistShift, strip2_row=5),
    **{f"MiniGrid-MemoryS{n}-v0": partial(Memory, size=n) for n in (7, 9, 11, 13)},
    **{f"MiniGrid-MemoryS{n}Random-v0": partial(Memory, size=n, random_length=True) for n in (13, 17)},
    **{f"MiniGrid-RedBlueDoors-{n}x{n}-v0": partial(RedBlueDoors, size=n) for n in (6, 8)},
    "MiniGrid-LockedRoom-v0": LockedRoom,
    **{f"MiniGrid-Fetch-{s}x{s}-N{n}-v0": partial(Fetch, size=s, num_objects=n) for s, n in ((5, 2), (6, 2), (8, 3))},
    **{f"MiniGrid-GoToDoor-{n}x{n}-v0": partial(GoToDoor, size=n) for n in (5, 6, 8)},
    **{f"MiniGrid-GoToObject-{n}x{n}-N2-v0": partial(GoToObject, size=n, num_objects=2) for n in (6, 8)},
    **{f"MiniGrid-PutNear-{s}x{s}-N{n}-v0": partial(PutNear, size=s, num_objects=n) for s, n in ((6, 2), (8, 3))},
    "MiniGrid-Playground-v0": Playground,
}
"""Farama's ids, each with what builds its environment: `IDS["MiniGrid-DoorKey-8x8-v0"](obs="partial")`."""

PAPERS: dict[str, Callable[..., MiniGrid]] = {
    **{
        f"MiniGrid-MultiRoom-N{n}-S{s}-v0": partial(MultiRoom, num_rooms=n, room_size=s)
        for n, s in ((7, 4), (7, 8), (10, 4), (10, 10), (12, 10))
    },
    "MiniGrid-MultiRoomNoisyTV-N7-S4-v0": partial(MultiRoomNoisyTV, num_rooms=7, room_size=4),
}
"""Ids that papers use and Farama does not register."""

FAMILIES: dict[str, Callable[..., MiniGrid]] = {
    f"MiniGrid-{family.__name__}": family
    for family in (
        *(Empty, DoorKey, FourRooms, MultiRoom, MultiRoomNoisyTV, KeyCorridor, Unlock, UnlockPickup),
        *(BlockedUnlockPickup, ObstructedMaze, LavaGap, Crossing, DistShift, DynamicObstacles, Memory, RedBlueDoors),
        *(LockedRoom, Fetch, GoToDoor, GoToObject, PutNear, Playground),
    )
}
"""Families with all their parameters free: `FAMILIES["MiniGrid-MultiRoom"](num_rooms=10, room_size=10)`."""

__all__ = ["FAMILIES", "IDS", "PAPERS", "DoorKey", "Empty", "GridState", "MiniGrid", "import_state", "unpack"]
