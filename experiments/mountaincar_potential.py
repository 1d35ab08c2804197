"""Does a potential from the car's mechanical energy help PPO on MountainCar-v0?

F = gamma Phi(s') - Phi(s) leaves the optimal policy as it is (Ng et al., 1999) and pays for gaining height and speed.

Measured: it makes it sooner and safer. First goal after 17k frames in the median instead of 132k; -110 reached by 10 of
10 seeds instead of 7; -112.8 [-114.5, -110.2] after 500k frames instead of -114.3 [-141.9, -112.4].
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
    """Height of the hill under the car (-0.5 to 0.5) plus its kinetic energy (0 to 0.5)."""
    return 0.5 * jnp.sin(3.0 * facts["car_position"]) + 0.5 * (facts["car_velocity"] / 0.07) ** 2


@dataclasses.dataclass
class Config:
    """Every hyperparameter is a flag."""

    agent: PPO = dataclasses.field(
        default_factory=lambda: PPO(num_envs=16, num_steps=64, learning_rate=3e-3, gae_lambda=0.98, normalize_obs=True)
    )
    scale: float = 30.0
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
