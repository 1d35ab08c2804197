"""brax's own viewer, with the rewards of the whole playback as a picture below it."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrew.render.drawings import quiet
from jaxrew.render.playback import Series


def write_html(path: Path, env: Any, states: Any, series: Sequence[Series]) -> int:
    """Writes a page that plays states `[F, ...]`. It loads the viewer's scripts from the network when it is opened."""
    with quiet():
        from brax.io import html

        library = env.library
        first = env._unpack(jax.tree.map(lambda leaf: leaf[0], states.physics))
        x = jax.device_get(links(env, states))
        count = x.pos.shape[0]
        frames = [first.replace(x=jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), x)) for i in range(count)]
        page = html.render(library.sys.tree_replace({"opt.timestep": library.dt}), frames, height=480)
    picture = f'<img alt="rewards per step" src="data:image/png;base64,{_plots(series)}">'
    path.write_text(page.replace("</body>", f"{picture}</body>"))
    return count


def links(env: Any, states: Any) -> Any:
    """Where the links of a body are, the library's transform with `pos` `[F, L, 3]` and `rot` `[F, L, 4]`."""
    from brax import kinematics

    from envs.brax.core import _layout

    layout = _layout(env)
    kept = jax.tree.unflatten(layout.structure, layout.kept)

    def of_state(physics: Any) -> Any:
        state = env._unpack(physics)
        # States hold what the next step reads: where the links are, or what that follows from, the joints.
        if kept.x.pos and kept.x.rot:
            return state.x
        return kinematics.forward(env.library.sys, state.q, state.qd)[0]

    return jax.jit(jax.vmap(of_state))(states.physics)


def _plots(series: Sequence[Series]) -> str:
    """All plots at their end, as a PNG in base64."""
    from jaxrew.render.strip import Moment, Strip

    length = len(series[0].values)
    blank = np.full((1, 800, 3), 255, np.uint8)
    image = Strip(series, (1, 800), 0).frame(blank, Moment(0, length, length), [])
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
