"""Two programs timed against each other: each compiles in a process of its own, then they run in turn.

These machines drift, so that only what ran side by side compares. A contestant's environment needs JAX and nothing of
this project, so that other libraries can be measured with the versions they ask for.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ANSWER = "contest: "


class Contestant:
    """A process of `script` that has compiled `job` and runs it when asked.

    Attributes:
      compile_seconds: what tracing and compiling took in that process.
    """

    def __init__(self, script: str, job: list[Any], python: str | Path = sys.executable):
        self._process = subprocess.Popen(
            [str(python), script, "--worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        self.compile_seconds = float(self._answer())

    def run(self) -> tuple[float, float]:
        """Seconds of wall clock and of CPU that one run took."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        wall, cpu = self._answer().split()
        return float(wall), float(cpu)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):  # libraries print too
                return line.removeprefix(ANSWER)
        raise ValueError(f"a contestant ended with status {self._process.wait()}; see its message above")


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """A jitted function compiled for `args`, and the seconds that tracing and compiling took."""
    started = time.perf_counter()
    program = function.lower(*args).compile()
    return program, time.perf_counter() - started


def serve(program: Callable[[int], Any], compile_seconds: float) -> None:
    """The contestant's side: says what compiling took, then runs `program(repeat)` for every line read."""
    import jax

    print(f"{ANSWER}{compile_seconds}", flush=True)
    for repeat, _ in enumerate(sys.stdin):
        started, cpu_started = time.perf_counter(), _cpu_seconds()
        jax.block_until_ready(program(repeat))
        print(f"{ANSWER}{time.perf_counter() - started} {_cpu_seconds() - cpu_started}", flush=True)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
