"""The README's examples run as printed."""

import re
from pathlib import Path

import jax
import numpy as np

from envs.minigrid import cells
from tests.references.rewards_experience import rollouts, scored, started


def example(name):
    """What the README's block that defines `name` defines."""
    text = (Path(__file__).parent.parent / "README.md").read_text()
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"class {name}" in code]
    scope = {}
    exec(block, scope)
    return scope[name]


def test_the_level_family_builds_what_it_says():
    env = example("LavaField")()
    state = env.levels(jax.random.split(jax.random.key(0), 50))
    kinds = np.asarray(cells.kind(state.grid)).reshape(50, -1)
    assert ((kinds == cells.LAVA).sum(axis=1) == 3).all()
    assert ((kinds == cells.GOAL).sum(axis=1) == 1).all()
    assert len(np.unique(kinds, axis=0)) == 50


def test_the_reward_pays_the_mean_change_of_the_features():
    module = example("Surprise")(coef=0.1)
    (batch,) = rollouts(seed=0, num_rollouts=1)
    rewards, _, _ = scored(module, started(module), batch)
    change = np.abs(batch.next_obs.astype(np.float32) - batch.obs.astype(np.float32))
    np.testing.assert_allclose(rewards["surprise"], change.mean(axis=(2, 3)), rtol=1e-6)
