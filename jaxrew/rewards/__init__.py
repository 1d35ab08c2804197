"""Reward modules, one file per idea, and their compositions."""

from jaxrew.rewards.base import Bonus, Component, Context, NoReward, RewardModule
from jaxrew.rewards.compose import Scale, Sum, score
from jaxrew.rewards.counts import Counts
from jaxrew.rewards.potential import Potential
from jaxrew.rewards.rnd import RND
from jaxrew.rewards.transforms import Anneal, Chain, Clip, Normalize, Transform

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
    "score",
]
