"""MuJoCo-like bodies from brax, stepped raw: no auto-reset, no episode wrapper, and the true final observation.

Dynamics are the library's own `reset` and `step`. What differs is the casing: every leaf has a strong dtype,
`terminated` is the library's `done` and `truncated` is set at the time limit alone, the state between steps holds only
what the next one reads, and quantities of the body are named facts. Two tasks pay sparsely, with the library's own
reward kept as a fact. brax is imported when the first of these environments is made, which takes some seconds.

Bodies in contact are chaotic: two programs that round differently (jitted alone or inside a training step, on another
device) agree to about 1e-6 in one step and can be metres apart after thirty. Within one program, runs repeat exactly.

Actions outside -1 to 1 are clipped by the actuators, but pay their full control cost, as in the library. Learning needs
normalised observations. `fast`, which tests the library itself, is left out, and so is `swimmer`: brax 0.14.2 calls a
form of `jnp.clip` there that JAX has removed.
"""

import functools
from collections.abc import Callable

from envs.base import Environment
from envs.brax.bodies import BODIES
from envs.brax.core import Brax
from envs.brax.sparse import AntGoal, ForwardSparse

FACTORIES: dict[str, Callable[..., Environment]] = {
    **{f"brax/{body}": functools.partial(Brax, body=body) for body in BODIES},
    "brax/halfcheetah-sparse": functools.partial(ForwardSparse, body="halfcheetah"),
    "brax/ant-goal": functools.partial(AntGoal, body="ant"),
}
