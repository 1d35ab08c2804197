"""Environments by name."""

import inspect
from collections.abc import Callable
from typing import Any

from envs import gymnax
from envs.base import Environment
from jaxrew.types import unknown


def make(name: str, **options: Any) -> Environment:
    """The environment called `name`, with its options, which are those of the class that `name` stands for.

    Raises ValueError for an unknown name, naming the nearest, and for an unknown option, naming the valid ones.
    """
    factories = _factories()
    if name not in factories:
        raise ValueError(unknown("environment", name, factories))
    valid = inspect.signature(factories[name]).parameters
    for option in options:
        if option not in valid:
            raise ValueError(f"unknown option {option!r} of {name}; valid options: {', '.join(valid) or 'none'}")
    return factories[name](**options)


def ids() -> list[str]:
    """Every name that `make` knows, sorted."""
    return sorted(_factories())


def _factories() -> dict[str, Callable[..., Environment]]:
    return dict(gymnax.FACTORIES)
