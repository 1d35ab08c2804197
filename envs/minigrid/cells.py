"""What a grid cell is: one byte, and its translation to MiniGrid's (object, colour, state) triple.

The low four bits are MiniGrid's object code; a closed and a locked door have codes of their own, so that the state
channel needs no bits. The high four bits are the colour: `cell = object | colour << 4`.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT, CLOSED_DOOR, LOCKED_DOOR = range(13)
"""Object codes. `DOOR` is an open one; the last two are ours, all others MiniGrid's."""

RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)

COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
OBJECTS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")

OPEN, CLOSED, LOCKED = range(3)
"""Door states, the third channel of MiniGrid's image; 0 for everything that is not a door."""


ONEHOT = len(OBJECTS) + len(COLOURS) + 3
"""Channels of Farama's one-hot observation: objects, colours and door states."""


def cell(kind: Any, colour: Any) -> Any:
    """The byte of an object of a colour; an integer of the type that goes in, or an array of them."""
    return kind | colour << 4


GREY_WALL = cell(WALL, GREY)
GREEN_GOAL = cell(GOAL, GREEN)
RED_LAVA = cell(LAVA, RED)


def word(name: str, value: Any) -> str:
    """The word for a number of a mission, by the name of its fact: a colour, an object, or the number itself."""
    if name.endswith("colour"):
        return COLOURS[int(value)]
    return OBJECTS[int(value)] if name.endswith("object") else str(value)


def kind(cells: Array) -> Array:
    """Our object code, in which doors that are shut differ from open ones."""
    return cells & 15


def is_opaque(cells: Array) -> Array:
    """Whether the view ends here: walls and doors that are shut."""
    return (kind(cells) == WALL) | (kind(cells) >= CLOSED_DOOR)


def unpack(cells: Array) -> Array:
    """Bytes `[...]` as MiniGrid's image `[..., 3]`: object, colour and state, uint8."""
    # The barrier keeps XLA from computing the bytes anew for each channel. So would a table of all 256 triples, but
    # reading it takes as long as a network's first dense layer.
    cells = lax.optimization_barrier(cells)
    low = kind(cells)
    shut = low >= CLOSED_DOOR
    state = jnp.where(shut, low - jnp.uint8(CLOSED_DOOR - CLOSED), jnp.uint8(OPEN))
    return jnp.stack([jnp.where(shut, jnp.uint8(DOOR), low), cells >> 4, state], axis=-1)


def onehot(cells: Array) -> Array:
    """Bytes `[...]` as Farama's `OneHotPartialObsWrapper` shows them, uint8 `[..., 20]`: object, colour, state."""
    image = unpack(cells)
    sizes = (len(OBJECTS), len(COLOURS), 3)
    parts = [image[..., k, None] == jnp.arange(size, dtype=jnp.uint8) for k, size in enumerate(sizes)]
    return jnp.concatenate(parts, axis=-1).astype(jnp.uint8)


def image_features(image: Array) -> Array:
    """MiniGrid's image `[..., 3]` as float32, each channel divided by its largest code so that it spans [0, 1].

    One-hot channels make the first dense layer and its gradient six times slower on a CPU, embeddings twice.
    """
    return image.astype(jnp.float32) * jnp.array([1 / AGENT, 1 / GREY, 1 / LOCKED], jnp.float32)


def packed_features(cells: Array) -> Array:
    """Bytes `[...]` as float32 `[..., 3]`: `image_features` of `unpack`."""
    return image_features(unpack(cells))
