"""Environments: `make` one by name, `VecEnv` steps many."""

from envs import wrappers
from envs.base import Environment
from envs.registry import ids, make
from envs.vector import VecEnv, VecState

__all__ = ["Environment", "VecEnv", "VecState", "ids", "make", "wrappers"]
