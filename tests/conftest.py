"""Eight virtual CPU devices, caches that outlive the process, and a compiler in a hurry."""

import os
import sys
from pathlib import Path

# Where Python is told to write no bytecode, each process that tests start would spend ten seconds on the same imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import jax  # noqa: E402 (its bytecode too)

# Most of the suite's time is compilation; this saves a seventh of it. Processes that tests start inherit it.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_llvm_disable_expensive_passes=true".strip()

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
