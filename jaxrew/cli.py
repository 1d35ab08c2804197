"""The `jaxrew` command."""

import dataclasses
import importlib.metadata
import json
import sys
from pathlib import Path
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


def envs(pattern: tyro.conf.Positional[str] = "", /, facts: bool = False) -> None:
    """Lists environments: observation, actions, time limit and number of facts.

    Args:
      pattern: part of an id, or a glob such as "*DoorKey*"; by default all. One match alone also shows its facts.
      facts: what rewards may read of each match.
    """
    from jaxrew.envs_table import print_envs

    print_envs(pattern, facts)


def render(
    target: tyro.conf.Positional[str],
    /,
    out: Path,
    episodes: int = 1,
    steps: int = 200,
    seed: int | None = None,
    greedy: bool = False,
    fps: float | None = None,
    reward: str | None = None,
) -> None:
    """Draws a policy at work, with every reward below each frame.

    Args:
      target: a run folder, or an environment's id for random actions.
      out: the .gif to write; .html for brax.
      episodes: how many to show.
      steps: most steps in all.
      seed: of the run, by default its first; it decides the levels too.
      greedy: the likeliest actions instead of sampled ones.
      fps: steps a second, by default what suits the environment.
      reward: one of none, rnd, counts, with nothing learnt, instead of the run's own.
    """
    from rich.console import Console
    from rich.progress import track

    import jaxrew.render

    console = Console(stderr=True)
    result = jaxrew.render.render(
        target,
        out,
        episodes=episodes,
        steps=steps,
        seed=seed,
        greedy=greedy,
        fps=fps,
        reward=reward,
        progress=lambda frames: track(frames, "drawing", console=console, disable=not console.is_terminal),
    )
    returns = ", ".join(f"{value:.3g}" for value in result.returns)
    print(f"{out}: {result.frames} frames, {result.size / 1e6:.2f} MB, return {returns}")


def main(args: list[str] | None = None) -> None:
    """Runs the command line; bad input ends with its one sentence and status 2."""
    app = tyro.extras.SubcommandApp()
    app.command(name="bench")(bench)
    app.command(name="envs")(envs)
    app.command(name="render")(render)
    app.command(name="version")(version)
    try:
        app.cli(args=args, prog="jaxrew", config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def version() -> None:
    """Prints the version."""
    print(importlib.metadata.version("jaxrew"))
