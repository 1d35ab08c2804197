"""Environments by name."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from envs import brax, gymnax, minigrid, tabular
from envs.base import Environment
from jaxrew.types import unknown


def make(name: str, /, **options: Any) -> Environment:
    """The environment called `name`, with its options, which are those of the class that `name` stands for.

    Raises ValueError for an unknown name, naming the nearest, and for an unknown option, naming the valid ones.
    """
    factories = _factories()
    if name not in factories:
        raise ValueError(unknown("environment", name, factories))
    valid = _options(factories[name])
    for option in options:
        if option not in valid:
            sentence = f"unknown option {option!r} of {name}; valid options: {', '.join(valid) or 'none'}"
            near = difflib.get_close_matches(option, valid, n=1, cutoff=0.7)
            raise ValueError(sentence + (f"; did you mean {near[0]!r}?" if near else ""))
    return factories[name](**options)


def ids() -> list[str]:
    """Every name that `make` knows, sorted."""
    return sorted(_factories())


def _factories() -> dict[str, Callable[..., Environment]]:
    return {
        **gymnax.FACTORIES,
        **minigrid.IDS,
        **minigrid.PAPERS,
        **minigrid.FAMILIES,
        **tabular.FACTORIES,
        **brax.FACTORIES,
    }


def _options(factory: Callable[..., Environment]) -> list[str]:
    """The arguments of `factory` that it leaves open: a MiniGrid id fixes the size, which is then no option."""
    fixed = factory.keywords if isinstance(factory, functools.partial) else {}
    return [name for name in inspect.signature(factory).parameters if name not in fixed]
