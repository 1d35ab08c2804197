"""The environments of gymnax, stepped raw: no auto-reset, and the true final observation.

Dynamics are the library's `step_env` and `reset_env`, bit for bit. What differs is the casing: rewards are float32,
every leaf has a strong dtype, observations of zeros and ones are uint8, `truncated` is set at the time limit (alone,
unless the environment ends by itself on that very step), and the quantities of the state are named facts.
"""

from collections.abc import Callable

from envs.base import Environment
from envs.gymnax.adapter import Gymnax
from envs.gymnax.bsuite import Catch, DeepSea, DiscountingChain, MemoryChain, SimpleBandit, UmbrellaChain
from envs.gymnax.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from envs.gymnax.grids import FourRooms, FrozenLake, MetaMaze
from envs.gymnax.minatar import Asterix, Breakout, Freeway, Seaquest, SpaceInvaders
from envs.gymnax.misc import BernoulliBandit, GaussianBandit, PointRobot, Pong, Reacher, Swimmer

FACTORIES: dict[str, Callable[..., Environment]] = {
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Acrobot-v1": Acrobot,
    "Pendulum-v1": Pendulum,
    "Catch-bsuite": Catch,
    "DeepSea-bsuite": DeepSea,
    "DiscountingChain-bsuite": DiscountingChain,
    "MemoryChain-bsuite": MemoryChain,
    "SimpleBandit-bsuite": SimpleBandit,
    "UmbrellaChain-bsuite": UmbrellaChain,
    "Asterix-MinAtar": Asterix,
    "Breakout-MinAtar": Breakout,
    "Freeway-MinAtar": Freeway,
    "Seaquest-MinAtar": Seaquest,
    "SpaceInvaders-MinAtar": SpaceInvaders,
    "BernoulliBandit-misc": BernoulliBandit,
    "FourRooms-misc": FourRooms,
    "FrozenLake-misc": FrozenLake,
    "GaussianBandit-misc": GaussianBandit,
    "MetaMaze-misc": MetaMaze,
    "PointRobot-misc": PointRobot,
    "Pong-misc": Pong,
    "Reacher-misc": Reacher,
    "Swimmer-misc": Swimmer,
}
"""Every id of the library, except `MNISTBandit-bsuite`, which downloads its data."""

__all__ = [
    "FACTORIES",
    "Acrobot",
    "Asterix",
    "BernoulliBandit",
    "Breakout",
    "CartPole",
    "Catch",
    "DeepSea",
    "DiscountingChain",
    "FourRooms",
    "Freeway",
    "FrozenLake",
    "GaussianBandit",
    "Gymnax",
    "MemoryChain",
    "MetaMaze",
    "MountainCar",
    "MountainCarContinuous",
    "Pendulum",
    "PointRobot",
    "Pong",
    "Reacher",
    "Seaquest",
    "SimpleBandit",
    "SpaceInvaders",
    "Swimmer",
    "UmbrellaChain",
]
