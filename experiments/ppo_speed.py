"""How fast is PPO here, against PureJaxRL on the same machine in the same run, and what does a reward module cost?

Two contestants run whole trainings in turn, initialisation included and compilation apart. PureJaxRL has an environment
of its own, with this project's JAX and the gymnax it was written for:

    git clone https://github.com/luchris429/purejaxrl
    uv venv peer && uv pip install --python peer/bin/python "jax==0.11.2" gymnax==0.0.9 navix brax
    uv run experiments/ppo_speed.py --peer-python peer/bin/python --peer-code purejaxrl/purejaxrl

Measured: see `experiments/results/speed.md`.
"""

import dataclasses
import importlib
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from experiments import launch
from experiments.contest import Contestant, compiled, serve


class Work(NamedTuple):
    """Steps are frames of one seed; rollouts are 128 steps, networks 64-64 tanh."""

    env: str
    peer_env: str
    seeds: int
    steps: int
    num_envs: int
    num_epochs: int
    num_minibatches: int


WORK = {
    "cartpole": Work("CartPole-v1", "CartPole-v1", 1, 300_000, 4, 4, 4),
    "cartpole-16-seeds": Work("CartPole-v1", "CartPole-v1", 16, 100_000, 4, 4, 4),
    "doorkey": Work("MiniGrid-DoorKey-8x8-v0", "Navix-DoorKey-8x8-v0", 1, 1_000_000, 64, 1, 8),
}

PEER = "PureJaxRL"
MODULES = ("none", "rnd", "counts", "potential")


@dataclasses.dataclass
class Config:
    """See --help."""

    work: tuple[str, ...] = tuple(WORK)
    ours: str = "none"
    """The reward module of the first contestant: none, rnd, counts or potential."""
    against: str = PEER
    """The second contestant: PureJaxRL, or ours with one of those modules."""
    pairs: int = 7
    peer_python: Path = Path(sys.executable)
    """The interpreter of PureJaxRL's environment."""
    peer_code: Path = Path("purejaxrl/purejaxrl")
    """The folder of its ppo.py."""


def reward_module(name: str, work: Work):
    """One of MODULES, with its defaults."""
    from jaxrew.rewards import RND, Counts, Potential

    def distance(facts):
        return -1.0 * abs(facts["goal_pos"] - facts["agent_pos"]).sum()

    def angle(facts):
        return -abs(facts["pole_angle"])

    match name:
        case "rnd":
            return RND()
        case "counts":
            return Counts(facts=("agent_pos", "carrying", "door_state"), scope="episode", stream="task")
        case "potential":
            return Potential(distance if work.env.startswith("MiniGrid") else angle)


def ours(work: Work, module: str) -> None:
    """The process of a training of ours."""
    import envs
    import jaxrew
    from agents.ppo import PPO
    from jaxrew.bench import compile_train

    jaxrew.use_every_core()
    agent = PPO(num_envs=work.num_envs, num_steps=128, num_epochs=work.num_epochs, num_minibatches=work.num_minibatches)
    training = compile_train(agent, envs.make(work.env), reward_module(module, work), work.seeds, work.steps)
    serve(training.run, training.compile_seconds)


def purejaxrl(work: Work, code: str) -> None:
    """The process of PureJaxRL's training of the same work."""
    import pdb

    import jax

    sys.path.insert(0, code)
    pdb.set_trace = lambda: None  # ppo_minigrid has one in its loop
    train = importlib.import_module("ppo_minigrid" if work.peer_env.startswith("Navix") else "ppo").make_train(
        {
            "ENV_NAME": work.peer_env,
            "NUM_ENVS": work.num_envs,
            "TOTAL_TIMESTEPS": work.steps,
            "UPDATE_EPOCHS": work.num_epochs,
            "NUM_MINIBATCHES": work.num_minibatches,
            **{"NUM_STEPS": 128, "LR": 2.5e-4, "ANNEAL_LR": True, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2},
            **{"ENT_COEF": 0.01, "VF_COEF": 0.5, "MAX_GRAD_NORM": 0.5, "ACTIVATION": "tanh", "DEBUG": False},
        }
    )
    train = jax.jit(train if work.seeds == 1 else jax.vmap(train))

    def keys(repeat: int):
        key = jax.random.PRNGKey(repeat)
        return key if work.seeds == 1 else jax.random.split(key, work.seeds)

    program, compile_seconds = compiled(train, keys(0))
    serve(lambda repeat: program(keys(repeat)), compile_seconds)


def compare(config: Config, name: str) -> None:
    """Prints one row: how much longer the second contestant takes than the first."""
    sides = []
    for contestant in (config.ours, config.against):
        python = config.peer_python if contestant == PEER else sys.executable
        sides.append(Contestant(__file__, [name, contestant, str(config.peer_code)], python))
    # The first run of each warms the machine up; the order alternates.
    pairs = []
    for index in range(config.pairs + 1):
        runs = {side: sides[side].run() for side in ((0, 1) if index % 2 else (1, 0))}
        pairs.append((runs[0], runs[1]))
    pairs = pairs[1:]
    for side in sides:
        side.close()
    frames = WORK[name].seeds * WORK[name].steps
    rates = [frames / statistics.median(pair[side][0] for pair in pairs) for side in (0, 1)]
    wall, cpu = ([second[i] / first[i] for first, second in pairs] for i in (0, 1))
    compiled = " / ".join(f"{side.compile_seconds:.1f} s" for side in sides)
    print(
        f"| {name} | {rates[0] / 1e3:.0f}k/s, {rates[1] / 1e3:.0f}k/s "
        f"| {statistics.median(wall):.2f} [{min(wall):.2f}, {max(wall):.2f}] | {_mean_and_bound(wall)} "
        f"| {statistics.median(cpu):.2f} | {len(pairs)} | {compiled} |",
        flush=True,
    )


def _mean_and_bound(ratios: list[float]) -> str:
    """The mean with the half-width of its 95 % interval (Student's t)."""
    from scipy.stats import t

    if len(ratios) < 2:
        return f"{ratios[0]:.3f}"
    width = t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{statistics.mean(ratios):.3f} ± {width:.3f}"


def main(config: Config) -> None:
    from jaxrew.types import unknown

    for kind, names, choices in (
        ("work", config.work, WORK),
        ("reward", [config.ours], MODULES),
        ("contestant", [config.against], (*MODULES, PEER)),
    ):
        for name in names:
            if name not in choices:
                raise ValueError(unknown(kind, name, choices))
    print(
        f"| work | {config.ours}, {config.against} | {config.against} / {config.ours}, seconds: median [least, most] "
        "| mean | CPU seconds | pairs | compile |\n|---|---|---|---|---|---|---|"
    )
    for name in config.work:
        compare(config, name)


def worker(name: str, contestant: str, code: str) -> None:
    """The process of one contestant."""
    if contestant == PEER:
        purejaxrl(WORK[name], code)
    else:
        ours(WORK[name], contestant)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*json.loads(sys.argv[2]))
    else:
        launch(main, Config)
