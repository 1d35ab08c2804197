"""A training in a process of its own, for tests that stop it: `python interrupted.py RUN_DIR [resume]`."""

import sys
import time

import envs
import jaxrew
from agents.ppo import PPO
from jaxrew.rewards import Counts
from jaxrew.training.loop import Loop

AGENT = PPO(num_envs=4, num_steps=16, num_epochs=1, num_minibatches=2, hidden_sizes=(8,))
SEEDS, STEPS = [5, 2], 64 * 60


def train(run_dir, resume=False):
    """Sixty updates, a checkpoint after every chunk."""
    return jaxrew.train(
        AGENT,
        envs.make("DeepSea-bsuite", size=5),
        Counts(),
        seeds=SEEDS,
        steps=STEPS,
        run_dir=run_dir,
        resume=resume,
        eval_every=64 * 25,
        eval_episodes=4,
        save_seconds=0.0,
        chunk_seconds=0.0,
        progress=False,
    )


def slowly(launch):
    """Leaves time to stop the process between chunks."""

    def wrapped(self, count):
        time.sleep(0.05)
        print(self.done, flush=True)
        return launch(self, count)

    return wrapped


if __name__ == "__main__":
    from tests import conftest  # noqa: F401 (as many devices, and the compilation cache)

    Loop.launch = slowly(Loop.launch)
    train(sys.argv[1], resume="resume" in sys.argv)
