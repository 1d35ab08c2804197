"""Reward modules, one file per idea, and their compositions."""

from jaxrew.rewards.base import Bonus, Component, Context, NoReward, RewardModule
from jaxrew.rewards.compose import Scale, Sum, score
from jaxrew.rewards.counts import Counts
from jaxrew.rewards.potential import Potential
from jaxrew.rewards.rnd import RND
from jaxrew.rewards.transforms import Anneal, Chain, Clip, Normalize, Transform
from jaxrew.types import unknown

BY_NAME = {"none": NoReward, "rnd": RND, "counts": Counts}
"""Modules that need no argument, for command lines."""


def by_name(name: str) -> RewardModule:
    """The module called `name` with its default settings. Raises ValueError naming the nearest one."""
    if name not in BY_NAME:
        raise ValueError(unknown("reward", name, BY_NAME))
    return BY_NAME[name]()


__all__ = [
    "RND",
    "Anneal",
    "Bonus",
    "Chain",
    "Clip",
    "Component",
    "Context",
    "Counts",
    "NoReward",
    "Normalize",
    "Potential",
    "RewardModule",
    "Scale",
    "Sum",
    "Transform",
    "by_name",
    "score",
]
