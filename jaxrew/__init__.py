"""Rewards in classic reinforcement learning, on accelerators.

`train(agent, env, reward)` trains one agent per seed in one compiled program; `load(run_dir)` reads a run back;
`use_every_core()` lets the seeds of a CPU run use them all.
"""

from jaxrew._shadow import check_shadowing

check_shadowing()

from jaxrew.training.lanes import use_every_core  # noqa: E402
from jaxrew.training.run import Run, load  # noqa: E402
from jaxrew.training.train import train  # noqa: E402

__all__ = ["Run", "load", "train", "use_every_core"]
