"""Does a potential from the car's mechanical energy make MountainCar-v0 learnable for PPO?

F = gamma Phi(s') - Phi(s) leaves the optimal policy as it is (Ng et al., 1999) and pays for gaining height and speed.
"""

import dataclasses
from pathlib import Path

import jax.numpy as jnp

import envs
import jaxrew
from agents.ppo import PPO
from experiments import launch
from jaxrew.analysis import learning_curves, table
from jaxrew.rewards import Potential, Scale


def energy(facts):
    """Height of the hill under the car plus its kinetic energy, each about 0 to 1."""
    return 0.5 * jnp.sin(3.0 * facts["car_position"]) + 0.5 * (facts["car_velocity"] / 0.07) ** 2


@dataclasses.dataclass
class Config:
    """Every hyperparameter is a flag."""

    agent: PPO = dataclasses.field(
        default_factory=lambda: PPO(num_envs=16, num_steps=128, learning_rate=1e-3, gamma=0.99)
    )
    scale: float = 10.0
    """Of the potential."""
    seeds: int = 10
    steps: int = 500_000
    """Frames of one seed."""
    out: Path = Path("runs/mountaincar_potential")
    resume: bool = False
    overwrite: bool = False


def main(config: Config) -> None:
    runs = {
        name: jaxrew.train(
            config.agent,
            envs.make("MountainCar-v0"),
            reward,
            seeds=config.seeds,
            steps=config.steps,
            run_dir=config.out / name,
            resume=config.resume,
            overwrite=config.overwrite,
            label=f"{name:>9}",
        )
        for name, reward in (("none", None), ("potential", Scale(Potential(energy), config.scale)))
    }
    png, _ = learning_curves(runs, config.out / "learning_curves", title="PPO on MountainCar-v0", threshold=-110)
    print(table(runs, threshold=-110))
    print(f"figure: {png}")


if __name__ == "__main__":
    launch(main, Config)
