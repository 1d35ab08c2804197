"""Settings of environments, checked against the types that their fields are annotated with."""

import dataclasses
import math
import types
import typing
from typing import Any

import numpy as np

NOUNS = {bool: "True or False", int: "a whole number", float: "a finite number", str: "a string", tuple: "a tuple"}


def check_settings(owner: Any) -> None:
    """Raises ValueError unless every setting has a type of its field.

    NumPy's numbers become Python's, whose sums do not overflow, and lists tuples, which can be hashed. Fields of other
    types than `NOUNS` are left alone.

    Args:
      owner: a frozen dataclass.
    """
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        kinds = _kinds(field.type)
        fits = [kind for kind in kinds if _fits(value, kind)]
        if not fits:
            nouns = " or ".join(NOUNS.get(kind, "None") for kind in kinds)
            raise ValueError(f"{field.name} is {value!r}; it must be {nouns}{_nearest(value, kinds)}")
        object.__setattr__(owner, field.name, _plain(value))


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The alternatives that an annotation offers, without the arguments of generic ones."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return tuple(kind for part in typing.get_args(annotation) for kind in _kinds(part))
    return (typing.get_origin(annotation) or annotation,)


def _fits(value: Any, kind: Any) -> bool:
    if kind is type(None):
        return value is None
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
    if kind in (str, tuple):
        return isinstance(value, (str,) if kind is str else (tuple, list))
    return True


def _nearest(value: Any, kinds: tuple[Any, ...]) -> str:
    """The valid number next to a fraction."""
    fraction = isinstance(value, float | np.floating) and math.isfinite(value)
    return f", like {round(float(value))}" if int in kinds and fraction else ""


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return tuple(_plain(entry) for entry in value) if isinstance(value, list | tuple) else value
