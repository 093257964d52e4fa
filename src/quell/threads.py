"""How many cores there are, and how many threads XLA has.

Threads are the same number on every machine, because the last bits depend on it.

XLA cuts long sums (over a matrix product's inner dimension, over an array's rows) into parts by the threads of its CPU
client, by default one for every core that the process may use. The client reads `PJRT_NPROC` when it is made, at the
first use of JAX. Whoever set that variable, or used JAX before importing quell, has another number.
"""

import os
import sys

VARIABLE, THREADS = "PJRT_NPROC", 2


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def settle() -> None:
    """Fix the number for this process and its children, unless it is fixed already or it is too late."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        os.environ.setdefault(VARIABLE, str(THREADS))


def xla_threads() -> int:
    """The number in use."""
    for name in (VARIABLE, "NPROC"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return cores()
