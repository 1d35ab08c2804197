"""The interface of one environment. `VecEnv` steps many."""

import abc
from typing import TYPE_CHECKING, Any

import jax
from jax import Array

from envs.settings import check_settings
from jaxrew.types import EnvSpec, Step

if TYPE_CHECKING:
    from envs.vector import VecEnv

State = Any


class Environment(abc.ABC):
    """A pure environment that never resets itself.

    Subclasses are frozen dataclasses of hashable settings (two equal ones share one compiled program) and implement
    `spec`, `reset`, `step` and `facts` for ONE environment. `reset_many`, `step_many` and `facts_many` act on a batch;
    override them where a batched program is faster than `vmap`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        # Types come first: what a subclass checks of its settings then gets numbers where it expects them.
        super().__init_subclass__(**options)
        check = cls.__dict__.get("__post_init__")
        if check is not None:
            cls.__post_init__ = lambda self: (check_settings(self), check(self))[1]

    def __post_init__(self) -> None:
        """Raises ValueError for settings that make no environment."""
        check_settings(self)

    @property
    @abc.abstractmethod
    def spec(self) -> EnvSpec:
        """What agents and rewards may know of this environment."""

    @abc.abstractmethod
    def reset(self, key: Array) -> tuple[State, Array]:
        """A fresh episode: `(state, obs)`."""

    @abc.abstractmethod
    def step(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        """One transition. Leaves of the new state have the shapes and dtypes of the old one's."""

    @abc.abstractmethod
    def facts(self, state: State) -> dict[str, Array]:
        """The facts that `spec.facts` documents, of this state."""

    def reset_many(self, keys: Array) -> tuple[State, Array]:
        """`reset` for keys `[N]`. Environment i depends on `keys[i]` alone."""
        return jax.vmap(self.reset)(keys)

    def step_many(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        """`step` for states and actions `[N, ...]`, from one key."""
        keys = jax.random.split(key, action.shape[0])
        return jax.vmap(self.step)(keys, state, action)

    def facts_many(self, state: State) -> dict[str, Array]:
        """`facts` for states `[N, ...]`."""
        return jax.vmap(self.facts)(state)

    def vectorise(self, num_envs: int, resets: str = "fresh") -> "VecEnv":
        """`num_envs` copies of this environment; see `VecEnv`."""
        from envs.vector import VecEnv

        return VecEnv(self, num_envs, resets)
