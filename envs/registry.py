"""Environments by name."""

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
            known = unknown(f"option of {name}", option, valid) if valid else f"{name} has no options, not {option!r}"
            raise ValueError(known)
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
