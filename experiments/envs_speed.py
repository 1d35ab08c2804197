"""How fast is MiniGrid here, against NAVIX and xminigrid on the same machine in the same run?

Each contender is a process that compiles one scan of random actions, observations and fresh levels included, and is
asked for its speed in turn. The peers live in an environment of their own:

    uv venv peers && uv pip install --python peers/bin/python navix xminigrid
    uv run experiments/envs_speed.py --peer-python peers/bin/python

Measured: see `experiments/results/envs.md`.
"""

import dataclasses
import importlib
import json
import statistics
import sys
from pathlib import Path

from experiments import launch
from experiments.contest import Contestant, compiled, serve

TASKS = {
    "Empty-8x8": ("MiniGrid-Empty-8x8", "Navix-Empty-8x8-v0"),
    "DoorKey-8x8": ("MiniGrid-DoorKey-8x8", "Navix-DoorKey-8x8-v0"),
    "FourRooms": ("MiniGrid-FourRooms", "Navix-FourRooms-v0"),
    "KeyCorridorS3R3": (None, "Navix-KeyCorridorS3R3-v0"),
}
"""MiniGrid's tasks by xminigrid's name (it lacks KeyCorridor) and NAVIX's."""

PEERS = ("xminigrid", "navix")
CONTENDERS = ("packed", "image", "pool", *PEERS)


@dataclasses.dataclass
class Config:
    """See --help."""

    peer_python: Path
    """The interpreter of the environment that has navix and xminigrid."""
    tasks: tuple[str, ...] = tuple(TASKS)
    num_envs: tuple[int, ...] = (16, 1024)
    contenders: tuple[str, ...] = CONTENDERS
    """Ours with fresh levels as packed bytes or as Farama's image, or packed from a pool; and the peers."""
    frames: int = 200_000
    """Of one run, summed over the environments."""
    rounds: int = 5


def ours(task: str, contender: str, num_envs: int):
    """`(init(key), step(key, carry, action))` of ours."""
    import envs

    obs = "partial" if contender == "image" else "packed"
    resets = "pool" if contender == "pool" else "fresh"
    env = envs.make(f"MiniGrid-{task}-v0", obs=obs).vectorise(num_envs, resets)

    def step(key, carry, action):
        state, obs, outcome = env.step(key, carry[0], action)
        return (state, obs), (outcome.reward, outcome.terminated | outcome.truncated)

    return env.init, step


def xminigrid(task: str, num_envs: int):
    """The same of xminigrid, which resets by itself."""
    import jax

    env, params = importlib.import_module("xminigrid").make(TASKS[task][0])
    env = importlib.import_module("xminigrid.wrappers").GymAutoResetWrapper(env)

    def step(_, timestep, action):
        timestep = jax.vmap(env.step, (None, 0, 0))(params, timestep, action)
        return timestep, (timestep.reward, timestep.last())

    return lambda key: jax.vmap(env.reset, (None, 0))(params, jax.random.split(key, num_envs)), step


def navix(task: str, num_envs: int):
    """The same of NAVIX, which resets by itself."""
    import jax

    navix = importlib.import_module("navix")
    env = navix.make(TASKS[task][1], observation_fn=navix.observations.symbolic_first_person)

    def step(_, timestep, action):
        timestep = jax.vmap(env.step)(timestep, action)
        return timestep, (timestep.reward, timestep.is_done())

    return lambda key: jax.vmap(env.reset)(jax.random.split(key, num_envs)), step


def worker(contender: str, task: str, num_envs: int, steps: int) -> None:
    """The process of one contender."""
    import jax

    peers = {"xminigrid": xminigrid, "navix": navix}
    init, step = peers[contender](task, num_envs) if contender in peers else ours(task, contender, num_envs)

    @jax.jit
    def run(key):
        init_key, action_key, step_key = jax.random.split(key, 3)
        actions = jax.random.randint(action_key, (steps, num_envs), 0, 6 if contender == "xminigrid" else 7)

        def body(carry, inputs):
            carry, (reward, ended) = step(inputs[0], carry, inputs[1])
            return carry, (reward.sum(), ended.sum())

        # The observation is carried and the last one returned, so that no step's can be left out. Adding them up would
        # take as long as the whole step here.
        return jax.lax.scan(body, init(init_key), (jax.random.split(step_key, steps), actions))

    program, compile_seconds = compiled(run, jax.random.key(0))
    serve(lambda repeat: program(jax.random.key(repeat)), compile_seconds)


def compare(config: Config, task: str, num_envs: int) -> None:
    """Prints the rows of one task at one size."""
    steps = config.frames // num_envs
    contestants = {
        name: Contestant(
            __file__, [name, task, num_envs, steps], config.peer_python if name in PEERS else sys.executable
        )
        for name in config.contenders
        if name != "xminigrid" or TASKS[task][0] is not None
    }
    # The first run of each warms the machine up.
    rounds = [{name: c.run()[0] for name, c in contestants.items()} for _ in range(config.rounds + 1)][1:]
    for name, contestant in contestants.items():
        contestant.close()
        rate = steps * num_envs / statistics.median(seconds[name] for seconds in rounds)
        ratios = [
            f"{statistics.median(seconds[peer] / seconds[name] for seconds in rounds):.1f} x {peer}"
            for peer in PEERS
            if peer in contestants and name not in PEERS
        ]
        speed = f"{rate / 1e6:.3g}M | {contestant.compile_seconds:.1f} s"
        print(f"| {task} | {num_envs:,} | {name} | {speed} | {', '.join(ratios)} |", flush=True)


def main(config: Config) -> None:
    print(
        "| task | environments | contender | steps/s | compile | ratio, median of rounds |\n|---|---|---|---|---|---|"
    )
    for task in config.tasks:
        for num_envs in config.num_envs:
            compare(config, task, num_envs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*json.loads(sys.argv[2]))
    else:
        launch(main, Config)
