"""Does PPO solve CartPole-v1, and how soon?

Ten seeds, 500k frames; solved means a mean return of the last 100 episodes of at least 475.

Measured: 10 of 10 seeds, after 245k frames in the median; 496.7 [490.3, 498.7] at the end.
"""

import dataclasses
from pathlib import Path

import envs
import jaxrew
from agents.ppo import PPO
from experiments import launch
from jaxrew.analysis import learning_curves, table


@dataclasses.dataclass
class Config:
    """Every hyperparameter is a flag."""

    agent: PPO = dataclasses.field(default_factory=lambda: PPO(num_envs=16, num_steps=128, learning_rate=1e-3))
    seeds: int = 10
    steps: int = 500_000
    """Frames of one seed."""
    out: Path = Path("runs/cartpole_ppo")
    resume: bool = False
    overwrite: bool = False


def main(config: Config) -> None:
    run = jaxrew.train(
        config.agent,
        envs.make("CartPole-v1"),
        seeds=config.seeds,
        steps=config.steps,
        run_dir=config.out / "ppo",
        resume=config.resume,
        overwrite=config.overwrite,
    )
    png, _ = learning_curves({"PPO": run}, config.out / "learning_curves", title="PPO on CartPole-v1", threshold=475)
    print(table({"PPO": run}, threshold=475))
    print(f"figure: {png}")


if __name__ == "__main__":
    launch(main, Config)
