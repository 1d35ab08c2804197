"""Single-file scripts, each one question; `launch` is what they share."""

import sys
from collections.abc import Callable
from typing import Any


def launch(main: Callable[[Any], Any], config: type) -> None:
    """Reads `config`, a dataclass, from the command line (`--help` lists every field) and calls `main` with it.

    On CPU every core is a device, so that seeds run on all of them. Bad input ends with its one sentence and status 2,
    Ctrl-C with status 130.
    """
    import tyro

    import jaxrew

    jaxrew.use_every_core()
    try:
        main(tyro.cli(config, description=sys.modules[main.__module__].__doc__))
    except (ValueError, FileExistsError, FileNotFoundError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
