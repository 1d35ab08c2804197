"""MiniGrid-LavaGap, -LavaCrossing, -SimpleCrossing and -DistShift: a goal behind lava, or behind walls."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid, check_choice
from envs.minigrid.level import Level
from envs.minigrid.world import GridState

_AVOID = "avoid the lava and get to the green goal square"
_FIND = "find the opening and get to the green goal square"


@dataclasses.dataclass(frozen=True)
class LavaGap(MiniGrid):
    """Pass through the gap in a strip of lava.

    Attributes:
      size: side of the grid, walls included; 5 or more.
    """

    size: int = 7

    mission: ClassVar[str] = _AVOID

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 5:
            raise ValueError(f"size is {self.size}, but a LavaGap grid needs at least 5; try 5")

    @property
    def name(self) -> str:
        return f"MiniGrid-LavaGapS{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    def build(self, level: Level) -> None:
        level.put_agent(1, 1, 0)
        level.put(self.size - 2, self.size - 2, c.GREEN_GOAL)
        x, y = level.between(2, self.size - 2), level.between(1, self.size - 1)
        level.fill((level.x == x) & (level.y > 0) & (level.y < self.size - 1) & (level.y != y), c.RED_LAVA)


@dataclasses.dataclass(frozen=True)
class Crossing(MiniGrid):
    """Cross rivers of lava, or walls, by their openings.

    Attributes:
      size: side of the grid, walls included; odd, 5 or more.
      num_crossings: how many rivers.
      obstacle: `"lava"` or `"wall"`.
    """

    size: int = 9
    num_crossings: int = 1
    obstacle: str = "lava"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("crossing obstacle", self.obstacle, ("lava", "wall"))
        if self.size < 5 or self.size % 2 == 0:
            raise ValueError(f"size is {self.size}, but must be odd and 5 or more; try {max(5, self.size | 1)}")
        if not 0 <= self.num_crossings <= 2 * self._places:
            raise ValueError(
                f"num_crossings is {self.num_crossings}, but {self.size} x {self.size} has room for 0 to "
                f"{2 * self._places}; try {min(max(self.num_crossings, 0), 2 * self._places)}"
            )

    @property
    def _places(self) -> int:
        """Rows, and columns, where a river may be: the even ones from 2 to size - 3."""
        return (self.size - 3) // 2

    @property
    def name(self) -> str:
        return f"MiniGrid-{'Lava' if self._lava else 'Simple'}CrossingS{self.size}N{self.num_crossings}-v0"

    @property
    def _lava(self) -> bool:
        return self.obstacle == "lava"

    def mission_text(self, state: GridState) -> str:
        return _AVOID if self._lava else _FIND

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    def build(self, level: Level) -> None:
        level.put_agent(1, 1, 0)
        level.put(self.size - 2, self.size - 2, c.GREEN_GOAL)
        order = level.permutation(2 * self._places)
        river = jnp.zeros(2 * self._places, bool).at[order[: self.num_crossings]].set(True)
        places = 2 * np.arange(1, self._places + 1)
        columns, rows = (jnp.zeros(self.size, bool).at[places].set(half) for half in jnp.split(river, 2))
        inside = (level.x > 0) & (level.y > 0) & (level.x < self.size - 1) & (level.y < self.size - 1)
        level.fill(inside & (columns | rows[:, None]), c.RED_LAVA if self._lava else c.GREY_WALL)

        # The rivers cut the grid into rooms. A random walk through them, right and down, opens each wall it passes.
        limits_x, limits_y = (
            jnp.sort(
                jnp.concatenate([jnp.zeros(1, int), jnp.where(half, places, self.size - 1), jnp.full(1, self.size - 1)])
            )
            for half in jnp.split(river, 2)
        )
        right, down = columns.sum(), rows.sum()
        room_x = room_y = jnp.int32(0)
        for _ in range(self.num_crossings):
            goes_right = level.below(jnp.maximum(right + down, 1)) < right
            left, top, end_x, end_y = limits_x[room_x], limits_y[room_y], limits_x[room_x + 1], limits_y[room_y + 1]
            x = jnp.where(goes_right, end_x, level.between(left + 1, end_x))
            y = jnp.where(goes_right, level.between(top + 1, end_y), end_y)
            level.put(x, y, c.EMPTY)
            room_x, room_y = room_x + goes_right, room_y + ~goes_right
            right, down = right - goes_right, down - ~goes_right


@dataclasses.dataclass(frozen=True)
class DistShift(MiniGrid):
    """Get past two strips of lava, whose second row differs between the two ids (Leike et al., 2017).

    Attributes:
      strip2_row: row of the second strip: 2 in the first id, 5 in the second.
    """

    strip2_row: int = 2

    see_through: ClassVar[bool] = True
    mission: ClassVar[str] = "get to the green goal square"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.strip2_row <= 5:
            raise ValueError(f"strip2_row is {self.strip2_row}, but must be from 1 to 5; try 2 or 5")

    @property
    def name(self) -> str:
        return {2: "MiniGrid-DistShift1-v0", 5: "MiniGrid-DistShift2-v0"}.get(
            self.strip2_row, f"MiniGrid-DistShift-{self.strip2_row}"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return 7, 9

    @property
    def max_steps(self) -> int:
        return 4 * 7 * 9

    def build(self, level: Level) -> None:
        level.put_agent(1, 1, 0)
        level.put(7, 1, c.GREEN_GOAL)
        level.fill((level.x >= 3) & (level.x < 6) & ((level.y == 1) | (level.y == self.strip2_row)), c.RED_LAVA)
