"""A family of MiniGrid levels as an environment: Farama's `minigrid` 3.2.0 (Chevalier-Boisvert et al., 2023), exactly.

A family (`empty.py`, `doorkey.py`, ...) subclasses `MiniGrid` and says how its levels are built and what ends and
rewards an episode. The rules of the world are in `world`, what the agent sees in `view`, the tools to build levels with
in `level` and `rooms`.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment
from envs.minigrid import cells as c
from envs.minigrid.level import Level, Words, mix
from envs.minigrid.view import STEP_X, STEP_Y, observe, overview
from envs.minigrid.world import FORWARD, Boxes, GridState, at, interact, move
from jaxrew.types import Discrete, EnvSpec, Fact, Step, unknown

OBSERVATIONS = ("packed", "partial", "onehot", "full")


@dataclasses.dataclass(frozen=True)
class MiniGrid(Environment, abc.ABC):
    """A MiniGrid level family.

    Attributes:
      obs: what the agent observes, all uint8 and indexed `[x, y]`.
        `"packed"`: what it sees, one byte per cell (see `cells`), `[view_size, view_size]`.
        `"partial"`: Farama's image of the same, object, colour and state, `[view_size, view_size, 3]`. Networks read
        the same features from both.
        `"onehot"`: Farama's `OneHotPartialObsWrapper`, `[view_size, view_size, 20]`.
        `"full"`: Farama's `FullyObsWrapper`, the whole grid and the agent in it, `[width, height, 3]`.
        Farama's separate `direction` is a fact, not part of the observation: the view turns with the agent.
      view_size: side of the square the agent sees, odd, 3 to 15.
      see_mission: whether the numbers of the mission (`task_facts`) follow the observation, which is then flat; without
        them a family whose mission differs from level to level cannot be solved for sure.
    """

    obs: str = "packed"
    view_size: int = 7
    see_mission: bool = False

    see_through: ClassVar[bool] = False
    """Whether walls and shut doors hide what is behind them (False) or not (True)."""
    boxes_hold: ClassVar[bool] = False
    """Whether boxes may hold an object, which needs a second plane in the state."""
    bordered: ClassVar[bool] = True
    """Whether the outermost cells are grey walls wherever the agent can see them."""
    num_actions: ClassVar[int] = 7
    """How many of left, right, forward, pick up, drop, toggle, done there are."""
    landmarks: ClassVar[dict[str, int]] = {}
    """Facts `NAME_pos`, each the place of the first object of a kind."""
    mission: ClassVar[str] = ""
    """Farama's mission, with the names of task facts in braces."""

    def __post_init__(self) -> None:
        check_choice("MiniGrid observation", self.obs, OBSERVATIONS)
        if not 3 <= self.view_size <= 15 or self.view_size % 2 == 0:
            nearest = min(max(3, self.view_size | 1), 15)
            raise ValueError(f"view_size is {self.view_size}, but it must be odd and from 3 to 15; try {nearest}")
        if self.see_mission and not self.task_facts():
            raise ValueError(f"see_mission is True, but the mission of {self.name} is always the same; leave it out")

    # -- what a family says --------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The id, Farama's where it has one."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Height and width of the grid, border walls included."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """The time limit."""

    @abc.abstractmethod
    def build(self, level: Any) -> dict[str, Any] | None:
        """Builds one level in what `blank` made; returns its task, if it has one."""

    def blank(self, words: Words) -> Level:
        """What `build` starts from: an empty walled room."""
        return Level(words, *self.shape)

    def task_facts(self) -> tuple[Fact, ...]:
        """The facts kept in `GridState.task`: what `build` returns."""
        return ()

    def import_task(self, world: Any) -> dict[str, Any]:
        """The task of a Farama world, to step both from the same level."""
        return {}

    def meant(self, action: Array) -> Array:
        """The action that the world carries out."""
        return action

    def stir(self, key: Array, state: GridState, action: Array) -> GridState:
        """What changes at random, before the agent acts."""
        return state

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        """`(reward, terminated)` `[N]` of a transition: walking onto a goal pays and ends, walking into lava ends.

        Args:
          state: before the action.
          action: the action taken.
          front: the cell that was ahead.
          after: after the action.
        """
        forward = action == FORWARD
        success = forward & (c.kind(front) == c.GOAL)
        return self.pay(success, after), success | (forward & (c.kind(front) == c.LAVA))

    def pay(self, success: Array, after: GridState) -> Array:
        """Success is worth 1 - 0.9 step_count / max_steps, this step counted; all else nothing."""
        return jnp.where(success, success_rewards(self.max_steps)[after.step_count], 0.0)

    # -- the environment -----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> EnvSpec:
        height, width = self.shape
        shape = (width, height, 3) if self.obs == "full" else (self.view_size, self.view_size)
        shape += {"packed": (), "full": (), "partial": (3,), "onehot": (c.ONEHOT,)}[self.obs]
        features = {"packed": c.packed_features, "onehot": None}.get(self.obs, c.image_features)
        if self.see_mission:
            features = _features_and_mission(features, shape)
            shape = (int(np.prod(shape)) + sum(int(np.prod(fact.shape)) for fact in self.task_facts()),)
        return EnvSpec(
            name=self.name,
            obs_shape=shape,
            obs_dtype="uint8",
            action_space=Discrete(self.num_actions),
            max_steps=self.max_steps,
            facts=self.fact_specs(),
            position="agent_pos",
            success=0.0,
            features=features,
        )

    def fact_specs(self) -> tuple[Fact, ...]:
        """What `facts_many` returns; families with facts of their own append them."""
        far, bulk = max(self.shape) - 1, "5 key 6 ball 7 box"
        return (
            Fact("agent_pos", "cell of the agent, (x, y) from the top left", 0, far, (2,), unit="cells"),
            Fact("direction", "where the agent faces: 0 right, 1 down, 2 left, 3 up", 0, 3),
            Fact("front", f"object ahead: 1 empty 2 wall 3 floor 4 door {bulk} 8 goal 9 lava", 1, 9),
            Fact("front_colour", "its colour: 0 red 1 green 2 blue 3 purple 4 yellow 5 grey; 0 if empty", 0, 5),
            Fact("front_state", "state of a door ahead: 0 open 1 closed 2 locked; 0 if no door", 0, 2),
            Fact("carrying", f"object carried: 1 nothing {bulk}", 1, 7),
            Fact("carrying_colour", "its colour, as in front_colour; 0 if nothing", 0, 5),
            Fact("step_count", "steps since the episode began", 0, self.max_steps, unit="steps"),
            *(
                Fact(
                    f"{name}_pos",
                    f"cell of the first {name} in reading order; (-1, -1) if none lies there",
                    -1,
                    far,
                    (2,),
                    unit="cells",
                )
                for name in self.landmarks
            ),
            *self.task_facts(),
        )

    def facts_many(self, state: GridState) -> dict[str, Array]:
        front = c.unpack(at(state.grid, self._front_index(state))).astype(jnp.int32)
        carrying = c.unpack(state.carrying).astype(jnp.int32)
        kinds = c.kind(state.grid).reshape(state.grid.shape[0], -1)
        return {
            "agent_pos": self.position(state.agent),
            "direction": state.direction,
            "front": front[:, 0],
            "front_colour": front[:, 1],
            "front_state": front[:, 2],
            "carrying": carrying[:, 0],
            "carrying_colour": carrying[:, 1],
            "step_count": state.step_count,
            **{f"{name}_pos": self._first(kinds, kind) for name, kind in self.landmarks.items()},
            **state.task,
        }

    def position(self, index: Array) -> Array:
        """Cell indices `[N]` as `(x, y)`, int32 `[N, 2]`."""
        width = self.shape[1]
        return jnp.stack([index % width, index // width], axis=-1)

    def observation(self, state: GridState) -> Array:
        """The observation of states `[N, ...]`."""
        if self.obs == "full":
            image = overview(state.grid, state.agent, state.direction)
        else:
            place = state.agent, state.direction, state.carrying
            cells = observe(state.grid, *place, self.view_size, self.see_through, self.bordered)
            image = {"packed": lambda x: x, "partial": c.unpack, "onehot": c.onehot}[self.obs](cells)
        if not self.see_mission:
            return image
        numbers = [state.task[fact.name].reshape(image.shape[0], -1) for fact in self.task_facts()]
        return jnp.concatenate([image.reshape(image.shape[0], -1), *(x.astype(jnp.uint8) for x in numbers)], axis=1)

    def levels(self, keys: Array) -> GridState:
        """Fresh levels, level i from `keys[i]` alone."""
        # Counted and mixed twice, once with each half of the key. Another threefry would take longer, to compile too.
        seed = jax.random.key_data(keys)
        counter = jnp.arange(max(self._num_words, 1), dtype=jnp.uint32)
        words = mix(mix(counter * jnp.uint32(0x9E3779B9) + seed[:, :1]) ^ seed[:, 1:])
        return jax.vmap(lambda values: self._level(Words(values)))(words)

    def reset_many(self, keys: Array) -> tuple[GridState, Array]:
        state = self.levels(keys)
        return state, self.observation(state)

    def step_many(self, key: Array, state: GridState, action: Array) -> tuple[GridState, Step]:
        stirred = self.stir(key, state, action)
        action = self.meant(action)
        index = self._front_index(state)
        front = at(stirred.grid, index)
        after = interact(move(stirred, index, front, action), index, front, action)
        after = after._replace(step_count=state.step_count + 1)
        reward, terminated = self.outcome(state, action, at(state.grid, index), after)
        truncated = after.step_count >= self.max_steps
        return after, Step(self.observation(after), reward, terminated, truncated, self.facts_many(after))

    def reset(self, key: Array) -> tuple[GridState, Array]:
        return unbatch(self.reset_many(key[None]))

    def step(self, key: Array, state: GridState, action: Array) -> tuple[GridState, Step]:
        return unbatch(self.step_many(key, batch_of_one(state), jnp.asarray(action)[None]))

    def facts(self, state: GridState) -> dict[str, Array]:
        return unbatch(self.facts_many(batch_of_one(state)))

    def mission_text(self, state: GridState) -> str:
        """Farama's mission string of one state."""
        words = {name: c.word(name, np.asarray(value)) for name, value in state.task.items()}
        return self.mission.format(**words)

    # -- plumbing ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _num_words(self) -> int:
        """How many random words a level needs, from a dry run."""
        words = Words()
        jax.eval_shape(lambda: self._level(words))
        return words.used

    def _level(self, words: Words) -> GridState:
        level = self.blank(words)
        task = self.build(level) or {}
        nothing = jnp.uint8(c.EMPTY)
        contents = jnp.full_like(level.grid, c.EMPTY) if level.contents is None else level.contents
        return GridState(
            grid=level.grid,
            agent=level.agent,
            direction=level.direction,
            carrying=nothing,
            step_count=jnp.int32(0),
            boxes=Boxes(contents, nothing) if self.boxes_hold else None,
            task={name: jnp.asarray(value, jnp.int32) for name, value in task.items()},
        )

    def _front_index(self, state: GridState) -> Array:
        width = self.shape[1]
        return state.agent + (jnp.array(STEP_X) + width * jnp.array(STEP_Y))[state.direction]

    def _first(self, kinds: Array, kind: int) -> Array:
        """The `(x, y)` of the first cell of a kind among `kinds` `[N, cells]`, or (-1, -1)."""
        here = kinds == kind
        if kind == c.DOOR:
            here |= kinds >= c.CLOSED_DOOR
        # One pass over few bytes; `argmax` and `any` take a fifth of a step on CPU.
        cells = kinds.shape[1]
        narrow = jnp.uint8 if cells < 256 else jnp.uint16
        first = jnp.where(here, jnp.arange(cells, dtype=narrow), narrow(cells)).min(axis=1).astype(jnp.int32)
        return jnp.where(first[:, None] < cells, self.position(first), -1)


def check_choice(kind: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError, naming the nearest choice, unless `value` is one."""
    if value not in choices:
        raise ValueError(unknown(kind, value, choices))


def success_rewards(max_steps: int) -> Array:
    """1 - 0.9 t / max_steps for t = 0 .. max_steps, rounded from float64: float32 sums differ by 1 ulp."""
    return jnp.asarray((1 - 0.9 * (np.arange(max_steps + 1) / max_steps)).astype(np.float32))


@functools.cache
def _features_and_mission(features: Any, shape: tuple[int, ...]) -> Any:
    """Flat features of an observation of `shape` with mission numbers behind it. Cached, to compare equal."""

    def split(obs: Array) -> Array:
        size, batch = int(np.prod(shape)), obs.shape[:-1]
        image = obs[..., :size].reshape(*batch, *shape)
        seen = image.astype(jnp.float32) if features is None else features(image)
        return jnp.concatenate([seen.reshape(*batch, -1), obs[..., size:] / jnp.float32(c.AGENT)], axis=-1)

    return split


def batch_of_one(tree):
    """Adds an axis of length 1 in front of every leaf."""
    return jax.tree.map(lambda x: x[None], tree)


def unbatch(tree):
    """Takes it away again."""
    return jax.tree.map(lambda x: x[0], tree)
