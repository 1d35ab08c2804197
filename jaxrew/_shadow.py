"""Tells, at the first import, when another package answers to a name that this project installs."""

import importlib.metadata
import importlib.util
import os
import sys

NAMES = ("agents", "envs")
"""Packages beside `jaxrew` that others ship too; editable installs come late on `sys.path` and lose to them."""


def check_shadowing(names: tuple[str, ...] = NAMES) -> None:
    """Raises ImportError, in one sentence, when one of `names` would be imported from elsewhere than beside `jaxrew`.

    A name that cannot be found at all is no conflict.
    """
    root = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for name in names:
        origin = _origin(name)
        if origin is None or os.path.dirname(_module_path(origin)) == root:
            continue
        distribution = _distribution(origin)
        cure = f"uninstall {distribution!r}" if distribution else "rename it"
        owner = f" from the distribution {distribution!r}" if distribution else ""
        raise ImportError(
            f"the package {name!r} of jaxrew is hidden by {origin}{owner}; {cure}, or put {root} first on PYTHONPATH",
            name=name,
            path=origin,
        )


def _origin(name: str) -> str | None:
    """The file that `import name` runs or ran, None for no such file (missing, built in, or a namespace package)."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = importlib.util.find_spec(name)
    return spec.origin if spec is not None and spec.has_location else None


def _module_path(origin: str) -> str:
    """The path without `.py` or `/__init__.py`, links resolved: what sits beside `jaxrew` when all is well."""
    stem = os.path.splitext(os.path.realpath(origin))[0]
    return os.path.dirname(stem) if os.path.basename(stem) == "__init__" else stem


def _distribution(origin: str) -> str | None:
    """The installed distribution that owns the file, if any says so."""
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            if file.name == os.path.basename(origin) and str(distribution.locate_file(file)) == origin:
                return distribution.metadata["Name"]
    return None
