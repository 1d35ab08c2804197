"""Tabular environments, and the exact arrays and solvers that go with them."""

from envs.tabular.mdp import MDP, Tabular
from envs.tabular.tasks import FACTORIES, Chain, Cliff, GridWorld, RandomMDP, RiverSwim

__all__ = ["FACTORIES", "MDP", "Chain", "Cliff", "GridWorld", "RandomMDP", "RiverSwim", "Tabular"]
