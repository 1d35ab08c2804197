"""Rewards in classic reinforcement learning, on accelerators.

`train(agent, env, reward)` trains one agent per seed in one compiled program; `load(run_dir)` reads a run back.
"""

from jaxrew._shadow import check_shadowing

check_shadowing()

from jaxrew.training.run import Run, load  # noqa: E402
from jaxrew.training.train import train  # noqa: E402

__all__ = ["Run", "load", "train"]
