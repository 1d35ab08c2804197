"""How deep a sea does PPO cross, with global counts and without?

In DeepSea of size N one action sequence of 2^N pays. Solved means that the mean return of the last 100 episodes
reaches 0.5 within the given frames.

Measured, 400k frames a seed: with counts N = 15 by 10 of 10 seeds, after 41k frames in the median, and N = 20 by 9;
without, N = 5 by 10 and N = 10 by 5, nothing beyond.
"""

import dataclasses
from pathlib import Path

import numpy as np

import envs
import jaxrew
from agents.ppo import PPO
from experiments import launch
from jaxrew.rewards import Counts


@dataclasses.dataclass
class Config:
    """Every hyperparameter is a flag."""

    sizes: tuple[int, ...] = (5, 10, 15, 20)
    agent: PPO = dataclasses.field(
        default_factory=lambda: PPO(num_envs=16, num_steps=64, learning_rate=1e-3, anneal_learning_rate=False)
    )
    counts: Counts = dataclasses.field(default_factory=lambda: Counts(coef=0.5, gamma=0.99, action=True))
    seeds: int = 10
    steps: int = 400_000
    """Frames of one seed."""
    out: Path = Path("runs/deepsea_counts")
    resume: bool = False
    overwrite: bool = False


def main(config: Config) -> None:
    print(f"{'size':>4}  {'bonus':<7}  {'solved':>7}  frames to 0.5 (median)")
    for size in config.sizes:
        for name, reward in (("none", None), ("counts", config.counts)):
            run = jaxrew.train(
                config.agent,
                envs.make("DeepSea-bsuite", size=size),
                reward,
                seeds=config.seeds,
                steps=config.steps,
                run_dir=config.out / f"{size}-{name}",
                resume=config.resume,
                overwrite=config.overwrite,
                label=f"N={size} {name:>6}",
            )
            frames = run.frames_to(0.5)
            solved = f"{np.isfinite(frames).sum()} of {config.seeds}"
            median = np.median(frames)
            print(f"{size:>4}  {name:<7}  {solved:>7}  {f'{median:,.0f}' if np.isfinite(median) else '-'}")


if __name__ == "__main__":
    launch(main, Config)
