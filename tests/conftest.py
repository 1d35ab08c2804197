"""Eight virtual CPU devices, a compilation cache that outlives the process, and a compiler in a hurry."""

import os
from pathlib import Path

import jax

# Most of the suite's time is compilation; this saves a seventh of it. Processes that tests start inherit it.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_llvm_disable_expensive_passes=true".strip()

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
