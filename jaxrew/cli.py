"""The `jaxrew` command."""

import dataclasses
import importlib.metadata
import json
import sys
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class BenchEnv:
    """Throughput of an environment under random actions: one JSON line."""

    name: tyro.conf.Positional[str]
    """An id of `envs.ids()`."""
    num_envs: int = 1024
    steps: int = 1000
    """Steps of each environment."""
    resets: str = "fresh"
    """fresh: every level independent; pool: drawn from levels that are refreshed all the time."""

    def run(self) -> None:
        import envs
        from jaxrew.bench import bench_env

        result = bench_env(envs.make(self.name), self.num_envs, self.steps, self.resets)
        print(json.dumps({"bench": "env"} | dataclasses.asdict(self) | result))


@dataclasses.dataclass(frozen=True)
class BenchTrain:
    """Throughput of training PPO with default settings: one JSON line."""

    env: str = "CartPole-v1"
    reward: str = "none"
    """One of none, rnd, counts, with default settings."""
    seeds: int = 1
    num_envs: int = 64
    num_steps: int = 128
    num_epochs: int = 4
    num_minibatches: int = 4
    steps: int = 500_000
    """Frames of one seed."""
    lanes: str = "auto"

    def run(self) -> None:
        import envs
        import jaxrew
        from agents.ppo import PPO
        from jaxrew.bench import bench_train
        from jaxrew.rewards import by_name

        jaxrew.use_every_core()
        agent = PPO(
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            num_epochs=self.num_epochs,
            num_minibatches=self.num_minibatches,
        )
        result = bench_train(agent, envs.make(self.env), by_name(self.reward), self.seeds, self.steps, self.lanes)
        print(json.dumps({"bench": "train"} | dataclasses.asdict(self) | result))


Bench = Annotated[BenchEnv, tyro.conf.subcommand("env")] | Annotated[BenchTrain, tyro.conf.subcommand("train")]


def bench(what: Bench) -> None:
    """Measures throughput and prints one JSON line."""
    what.run()


def main(args: list[str] | None = None) -> None:
    """Runs the command line; bad input ends with its one sentence and status 2."""
    app = tyro.extras.SubcommandApp()
    app.command(name="bench")(bench)
    app.command(name="version")(version)
    try:
        app.cli(args=args, prog="jaxrew", config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def version() -> None:
    """Prints the version."""
    print(importlib.metadata.version("jaxrew"))
