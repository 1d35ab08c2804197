"""The listing of environments on the command line."""

import fnmatch
import math
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from jaxrew.types import Box, Discrete, EnvSpec, Fact, unknown

SLOW = "brax/"
"""Ids that take seconds to build: a listing shows no more than their names, unless the pattern asks for them."""
PLAIN_WIDTH = 160
"""Columns where there is no terminal."""


def matching(pattern: str, ids: list[str]) -> list[str]:
    """The ids that contain `pattern` or, if it has any of `*?[`, match it as a whole; case does not matter.

    An id itself is its only match. Raises ValueError, naming the nearest id, when there is none.
    """
    if pattern in ids:
        return [pattern]
    wanted = pattern.lower()
    is_glob = any(character in pattern for character in "*?[")
    found = [name for name in ids if (fnmatch.fnmatchcase(name.lower(), wanted) if is_glob else wanted in name.lower())]
    if not found:
        raise ValueError(unknown("environment", pattern, ids))
    return found


def print_envs(pattern: str, facts: bool, console: Console | None = None) -> None:
    """Prints the environments that match `pattern`, and their facts if there is one or `facts` asks for them."""
    import envs

    if console is None:
        console = Console()
        console = console if console.is_terminal else Console(width=PLAIN_WIDTH)
    names = matching(pattern, envs.ids())
    asked = len(names) == 1 or SLOW.rstrip("/") in pattern.lower()
    described = [name for name in names if asked or not name.startswith(SLOW)]
    built = [(name, _build(name)) for name in described]
    if built:
        console.print(envs_table(built))
    if len(described) < len(names):
        bare = [name for name in names if name not in described]
        console.print(f"Without details, as they are slow to build (jaxrew envs {SLOW} shows them): {', '.join(bare)}")
    if not (facts or len(names) == 1):
        return
    for name, spec in built:
        if isinstance(spec, str) or not spec.facts:
            console.print(f"{name} has no facts")
        else:
            console.print(facts_table(name, spec.facts))


def envs_table(built: list[tuple[str, EnvSpec | str]]) -> Table:
    """One row for each environment; a text instead of a spec stands in its place."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("id", "observation", "actions"):
        table.add_column(heading, overflow="fold")
    for heading in ("max steps", "facts"):
        table.add_column(heading, justify="right")
    for name, spec in built:
        if isinstance(spec, str):
            table.add_row(name, spec, "", "", "")
            continue
        limit = "none" if spec.max_steps is None else f"{spec.max_steps:,}"
        obs = f"{spec.obs_dtype}{list(spec.obs_shape)}"
        table.add_row(name, _plain(obs), _plain(_actions(spec.action_space)), limit, str(len(spec.facts)))
    return table


def facts_table(name: str, facts: tuple[Fact, ...]) -> Table:
    """What rewards may read of an environment."""
    table = Table(title=f"facts of {name}", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("fact", "type", "bounds", "unit"):
        table.add_column(heading, overflow="fold")
    table.add_column("meaning", overflow="fold", ratio=1)
    for fact in facts:
        kind = f"{fact.dtype}{list(fact.shape) if fact.shape else ''}"
        bounds = f"{_bound(fact.low)} to {_bound(fact.high)}"
        table.add_row(fact.name, _plain(kind), bounds, _plain(fact.unit), _plain(fact.meaning))
    return table


def _build(name: str) -> EnvSpec | str:
    """The spec of an environment with its default settings, or why there is none."""
    import envs

    try:
        return envs.make(name).spec
    except (TypeError, ImportError) as error:
        return str(error)


def _actions(space: Any) -> str:
    if isinstance(space, Discrete):
        return str(space.n)
    assert isinstance(space, Box)
    low, high = (f"{bound:g}" if isinstance(bound, int | float) else str(bound) for bound in (space.low, space.high))
    return f"{list(space.shape)} in {low} to {high}"


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else ("-inf" if value < 0 else "inf")


def _plain(text: str) -> str:
    """Text whose brackets rich leaves alone."""
    return text.replace("[", "\\[")
