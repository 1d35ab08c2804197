"""What environments look like: from states on the host to pictures `[H, W, 3]`, uint8.

A drawing belongs to a class of environments and is found by the class's name, so that nothing is imported before it is
needed. To add one, write a function of the environment and its states `[F, ...]` and enter it in `DRAWINGS`.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrew.types import EnvSpec

SIDE = 400
"""Pixels that the longer side of a frame has, about."""

FLOOR, WALL, AGENT, GOAL, TRAP, PATH, CLIFF = range(7)
TILES = np.array(
    [(240, 240, 240), (70, 70, 70), (31, 119, 180), (44, 160, 44), (214, 39, 40), (200, 215, 230), (150, 110, 80)],
    np.uint8,
)
PLANES = np.array(
    [
        *((20, 20, 25), (86, 180, 233), (240, 228, 66), (150, 90, 20), (213, 94, 0), (0, 158, 115), (204, 121, 167)),
        *((0, 114, 178), (230, 159, 0), (240, 240, 240), (140, 140, 140), (170, 220, 120), (120, 80, 200)),
    ],
    np.uint8,
)
"""Nothing, then the channels in turn."""


class Drawing(NamedTuple):
    """How to draw F states.

    Attributes:
      image: from an index below F to a picture; all have one size.
      fps: the usual speed.
      actions: the words for discrete actions; none means their numbers.
      caption: from an index to a line of text, "" for none.
      remark: from an index to a few words on the state, "" for none.
    """

    image: Callable[[int], np.ndarray]
    fps: float = 10.0
    actions: Sequence[str] = ()
    caption: Callable[[int], str] = lambda index: ""
    remark: Callable[[int], str] = lambda index: ""


def drawing(env: Any, states: Any, obs: Any) -> Drawing | None:
    """The drawing of states `[F, ...]` of `env` or of the environment it wraps; None where there is none.

    Other environments are drawn by what they observe, `obs` `[F, ...]`, where that is an image.
    """
    inner, inner_states = unwrapped(env, states)
    if (draw := _lookup(inner)) is not None:
        return draw(inner, inner_states)
    return _observed(obs) if _is_image(env.spec) else None


def can_draw(env: Any) -> bool:
    """Whether `drawing` will find one."""
    return _lookup(unwrapped(env)[0]) is not None or _is_image(env.spec)


def unwrapped(env: Any, states: Any = None) -> tuple[Any, Any]:
    """The innermost environment and its states: wrappers keep both in a field `env`."""
    while hasattr(env, "env"):
        env, states = env.env, getattr(states, "env", None)
    return env, states


def minigrid(env: Any, states: Any) -> Drawing:
    """Farama's own picture: the whole grid, with the cells that the agent sees highlighted."""
    with quiet():
        from minigrid.core.grid import Grid

    from envs.minigrid.cells import EMPTY, unpack, word
    from envs.minigrid.view import STEP_X, STEP_Y

    height, width = env.shape
    tile = max(6, min(48, SIDE // max(height, width)))
    cells = np.swapaxes(np.asarray(unpack(states.grid)), 1, 2)
    held = np.asarray(unpack(states.carrying))
    seen = _seen(env, states)
    size = env.view_size

    def image(index: int, tile: int = tile) -> np.ndarray:
        grid, _ = Grid.decode(cells[index])
        x, y = int(states.agent[index]) % width, int(states.agent[index]) // width
        direction = int(states.direction[index])
        forward = np.array([STEP_X[direction], STEP_Y[direction]])
        right = np.array([-forward[1], forward[0]])
        highlight = np.zeros((width, height), bool)
        for column, row in np.argwhere(seen[index]):
            place = np.array([x, y]) + forward * (size - 1 - row) + right * (column - size // 2)
            if (place >= 0).all() and (place < (width, height)).all():
                highlight[tuple(place)] = True
        return grid.render(tile, (x, y), direction, highlight)

    def mission(index: int) -> str:
        return env.mission_text(jax.tree.map(lambda leaf: leaf[index], states))

    def carrying(index: int) -> str:
        kind, colour, _ = (int(value) for value in held[index])
        return "" if kind == EMPTY else f"has {word('colour', colour)} {word('object', kind)}"

    actions = ("left", "right", "forward", "pick up", "drop", "toggle", "done")
    return Drawing(image, 10.0, actions, mission, carrying)


def _seen(env: Any, states: Any) -> np.ndarray:
    """The cells of the agent's view that nothing hides, `[F, size, size]`, indexed `[x, y]` as in the observation."""
    from envs.minigrid.view import view_cells, visible

    if env.see_through:
        return np.ones((len(states.agent), env.view_size, env.view_size), bool)
    view = jax.jit(lambda s: visible(view_cells(s.grid, s.agent, s.direction, env.view_size, env.bordered)))
    return np.asarray(view(states))


def classic_control(env: Any, states: Any) -> Drawing:
    """Gymnasium's picture of the same state."""
    # pygame would greet, and look for a screen and a sound card, which machines that train lack.
    for name, value in (("HIDE_SUPPORT_PROMPT", "1"), ("VIDEODRIVER", "dummy"), ("AUDIODRIVER", "dummy")):
        os.environ.setdefault(f"{'PYGAME' if name.startswith('HIDE') else 'SDL'}_{name}", value)
    with quiet():
        import gymnasium
        from gymnax.visualize.vis_gym import get_gym_state, set_gym_params
        from PIL import Image

        name = env.spec.name
        world: Any = gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True).unwrapped
        world.reset()
        set_gym_params(world, name, env.library[1])

    def image(index: int) -> np.ndarray:
        state = jax.tree.map(lambda leaf: leaf[index], states)
        world.state = get_gym_state(state, name)
        if hasattr(state, "last_u"):
            world.last_u = float(state.last_u)
        with quiet():
            picture = Image.fromarray(world.render())
        scale = SIDE / max(picture.size)
        size = round(picture.width * scale), round(picture.height * scale)
        return np.asarray(picture.resize(size, Image.Resampling.BOX))

    words = {"CartPole-v1": ("push left", "push right"), "MountainCar-v0": ("left", "coast", "right")}
    return Drawing(image, 30.0, words.get(name, ()))


def board(env: Any, states: Any) -> Drawing:
    """MinAtar and its like: each channel of the observation in a colour of its own, the last one on top."""
    library, params = env.library
    observe = jax.jit(jax.vmap(lambda state: library.get_obs(state, params)))
    return _planes(np.asarray(observe(states)))


def deep_sea(env: Any, states: Any) -> Drawing:
    """The diver in the grid of depth and column; the treasure lies at the end of the diagonal, below the last row."""
    tiles = np.full((env.size + 1, env.size), FLOOR)
    np.fill_diagonal(tiles, PATH)
    tiles[-1] = CLIFF
    tiles[-1, -1] = GOAL
    return _agent_on(tiles, np.stack([states.row, np.clip(states.column, 0, env.size - 1)], axis=1))


def maze(env: Any, states: Any) -> Drawing:
    """Agent and goal between walls."""
    tiles = np.where(np.asarray(env.library[0].env_map), FLOOR, WALL)
    return _agent_on(tiles, states.pos, states.goal)


def frozen_lake(env: Any, states: Any) -> Drawing:
    """The agent on the ice, its holes brown."""
    kinds = np.array([FLOOR, FLOOR, CLIFF, GOAL])  # the library's start, ice, hole, goal
    tiles = kinds[np.asarray(env.library[0].desc)]
    places = np.stack(np.divmod(states.position, tiles.shape[1]), axis=1)
    return _agent_on(tiles, places)._replace(actions=("left", "down", "right", "up"))


def grid_world(env: Any, states: Any) -> Drawing:
    """The layout, with the agent in it."""
    kinds = {"#": WALL, "G": GOAL, "X": TRAP, "C": CLIFF}
    tiles = np.vectorize(lambda char: kinds.get(char, FLOOR))(env.grid)
    return _agent_on(tiles, env.cells[states.index])._replace(actions=("up", "right", "down", "left"))


def tabular(env: Any, states: Any) -> Drawing:
    """All states in rows, the present one marked; green is terminal."""
    terminal = np.asarray(env.mdp.terminal)
    columns = min(len(terminal), 20)
    tiles = np.full((-(-len(terminal) // columns), columns), WALL)
    tiles.reshape(-1)[: len(terminal)] = np.where(terminal, GOAL, FLOOR)
    return _agent_on(tiles, np.stack(np.divmod(states.index, columns), axis=1))


DRAWINGS: dict[str, Callable[[Any, Any], Drawing]] = {
    "envs.minigrid.MiniGrid": minigrid,
    "envs.gymnax.CartPole": classic_control,
    "envs.gymnax.MountainCar": classic_control,
    "envs.gymnax.MountainCarContinuous": classic_control,
    "envs.gymnax.Acrobot": classic_control,
    "envs.gymnax.Pendulum": classic_control,
    "envs.gymnax.MinAtar": board,
    "envs.gymnax.Catch": board,
    "envs.gymnax.Pong": board,
    "envs.gymnax.DeepSea": deep_sea,
    "envs.gymnax.FourRooms": maze,
    "envs.gymnax.MetaMaze": maze,
    "envs.gymnax.FrozenLake": frozen_lake,
    "envs.tabular.GridWorld": grid_world,
    "envs.tabular.Tabular": tabular,
}
"""By package and name of a class; a subclass takes the nearest one's."""

DRAWABLE = (
    "MiniGrid, classic control, MinAtar, mazes, DeepSea, Catch, Pong, tabular MDPs and whatever observes an image"
)


def _lookup(env: Any) -> Callable[[Any, Any], Drawing] | None:
    names = (f"{'.'.join(cls.__module__.split('.')[:2])}.{cls.__name__}" for cls in type(env).__mro__)
    return next((DRAWINGS[name] for name in names if name in DRAWINGS), None)


def _is_image(spec: EnvSpec) -> bool:
    """Whether observations are `[H, W, C]` with few channels, of which three may be an RGB picture."""
    shape = spec.obs_shape
    return len(shape) == 3 and min(shape[:2]) >= 4 and 1 <= shape[2] <= 32


def _observed(obs: np.ndarray) -> Drawing:
    """Images `[F, H, W, C]` as they are or, where they are no pictures, by channel."""
    if obs.dtype != np.uint8 or obs.shape[-1] != 3 or obs.max() <= 1:
        return _planes(obs)
    scale = max(1, SIDE // max(obs.shape[1:3]))
    return Drawing(lambda index: obs[index].repeat(scale, axis=0).repeat(scale, axis=1), 15.0)


def _planes(obs: np.ndarray) -> Drawing:
    """The positive entries of channels `[F, H, W, C]` or of one alone, `[F, H, W]`, in colours."""
    obs = obs if obs.ndim == 4 else obs[..., None]
    channels = np.arange(obs.shape[-1]) % (len(PLANES) - 1) + 1
    tiles = np.max((obs > 0) * channels, axis=-1)
    return Drawing(lambda index: _paint(PLANES[tiles[index]]), 15.0)


def _agent_on(tiles: np.ndarray, places: Any, goals: Any = None) -> Drawing:
    """Tiles `[H, W]` with the agent at `places` `[F, 2]`, row and column, and a goal at `goals`."""

    def image(index: int) -> np.ndarray:
        picture = tiles.copy()
        if goals is not None:
            picture[tuple(goals[index])] = GOAL
        picture[tuple(places[index])] = AGENT
        return _paint(TILES[picture])

    return Drawing(image, 5.0)


def _paint(colours: np.ndarray) -> np.ndarray:
    """Colours `[H, W, 3]` as tiles, with a line between them."""
    tile = max(6, min(48, SIDE // max(colours.shape[:2])))
    picture = colours.repeat(tile, axis=0).repeat(tile, axis=1)
    picture[::tile] = picture[::tile] // 4 * 3
    picture[:, ::tile] = picture[:, ::tile] // 4 * 3
    return picture


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides what drawing libraries say of their own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
