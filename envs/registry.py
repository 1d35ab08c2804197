"""Environments by name."""

from collections.abc import Callable
from typing import Any

from envs.base import Environment
from jaxrew.types import unknown


def make(name: str, **options: Any) -> Environment:
    """The environment called `name`, with its options (see the class that `name` stands for).

    Raises ValueError, naming the nearest valid choice, for an unknown name or option.
    """
    factories = _factories()
    if name not in factories:
        raise ValueError(unknown("environment", name, factories))
    return factories[name](**options)


def ids() -> list[str]:
    """Every name that `make` knows, sorted."""
    return sorted(_factories())


def _factories() -> dict[str, Callable[..., Environment]]:
    from envs import gymnax

    return dict(gymnax.FACTORIES)
