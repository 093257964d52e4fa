"""Starting a local Ray cluster that only this machine can reach, or connecting to an existing one."""

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from quell.errors import QuellError, UsageError, require
from quell.terminal.stopping import handlers_kept, last_words

CONNECT_SECONDS = 5.0  # for the TCP connection
CHECK_SECONDS = 20.0  # for Ray's own answer
QUIETLY: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
LOCAL_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Despite its name this decides on every system whether Ray takes the machine's outward address or loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_worker_niceness": "0",  # by default Ray's workers step back behind everything else on the machine
}
WATCHDOG = """
import os, signal, sys
if not os.read(0, 1):  # no goodbye was sent: the driver is gone, which Ray sees to itself if its node dies
    print("quell: error:", sys.argv[1], file=sys.stderr, flush=True)
for pid, started in (word.split(":") for word in sys.argv[2:]):
    try:
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[19] == started:
                os.kill(int(pid), signal.SIGKILL)
    except OSError:
        pass
"""
"""Ray's agents notice a minute late that their driver was killed."""


class Session:
    """A connection to Ray, and the local cluster behind it if this session started one."""

    def __init__(self, address: str | None, cpus: int) -> None:
        """Connect to `address`, or start a local cluster that offers `cpus` cores. A program that has already called
        `ray.init` keeps its cluster, and it is left running."""
        require("ray", "the Ray engine")
        already = _imported_and_connected()
        if already and address is not None:
            raise UsageError("this program is already connected to a Ray cluster; leave the address out to use it")
        self.local = address is None and not already
        self._ours = not already
        self._watchdog: subprocess.Popen[bytes] | None = None
        if already:
            return
        with handlers_kept(signal.SIGTERM, signal.SIGINT), warnings.catch_warnings():
            # Ray replaces the handler for SIGTERM while connecting; how a run is stopped is not its to decide.
            # Ray starts its processes by fork and exec; JAX warns of forks that go on without exec.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            if address is None:
                _start_local(cpus)
            else:
                _connect(address)
            self._watchdog = _watch(_descendants(os.getpid()) if self.local else ())

    def close(self) -> None:
        if self._ours:
            import ray

            ray.shutdown()
            self._ours = False
        if self._watchdog is not None:
            self._watchdog.communicate(b"x")


class _OnOurPath(list[str]):
    """Folders that Ray would have its workers import from: those that this program imports from itself."""

    def extend(self, folders: Iterable[str]) -> None:
        super().extend(folder for folder in folders if folder in (path or os.getcwd() for path in sys.path))


def _job() -> Any:
    """Ray puts the working directory on its workers' path, a run folder from elsewhere too."""
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = _OnOurPath()
    return job


def _watch(pids: Sequence[int]) -> subprocess.Popen[bytes]:
    """Have these processes killed with this one, however it ends, and the way to go on named."""
    words = []
    for pid in pids:
        with suppress(OSError):
            words.append(f"{pid}:{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}")
    told = last_words("killed, or lost with Ray's node")
    command = [sys.executable, "-I", "-S", "-c", WATCHDOG, told, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _descendants(pid: int) -> list[int]:
    """All processes below one, where the system tells (Linux)."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in children.read_text().split()]
    return found + [one for child in found for one in _descendants(child)]


def _imported_and_connected() -> bool:
    ray = sys.modules.get("ray")
    return bool(ray is not None and ray.is_initialized())


def _start_local(cpus: int) -> None:
    if "ray" not in sys.modules:  # which reads it on import; if it is there already: its own default from 2.59 on
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray makes and keeps the token itself (from 2.52 on)
    missing = {name: value for name, value in LOCAL_ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        import ray
        from ray._private import ray_constants, services

        # Ray reads the variable when it is first imported, which may have happened before.
        kept, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
        try:
            if services.get_node_ip_address() not in ("127.0.0.1", "::1"):
                raise QuellError("this version of Ray cannot be kept on the loopback interface; give an `address=...`")
            ray.init("local", num_cpus=cpus, num_gpus=0, include_dashboard=False, job_config=_job(), **QUIETLY)
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = kept
    except (OSError, RuntimeError) as error:
        raise QuellError(f"a local Ray cluster could not be started: {error}") from None
    finally:
        for name in missing:
            os.environ.pop(name, None)


def _connect(address: str) -> None:
    """Connect to a running cluster; a cluster that does not answer is an error within half a minute."""
    import ray

    if address.startswith("ray://"):
        raise UsageError("ray:// addresses (Ray Client) are not supported; give host:port of the cluster's head node")
    if address != "auto":
        _check_reachable(address)
    try:
        ray.init(address=address, job_config=_job(), **QUIETLY)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"no Ray cluster at {address!r}: {error}") from None


def _check_reachable(address: str) -> None:
    """Ask the head node whether it is well, with limits of our own: Ray itself would wait two minutes, then exit."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"the address {address!r} is not of the form host:port (Ray's default port is 6379), or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster at {address!r}: {getattr(error, 'strerror', None) or error}") from None
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        subprocess.run(command, capture_output=True, timeout=CHECK_SECONDS, check=True)
    except subprocess.SubprocessError:
        why = "another program, another version of Ray, or another token?"
        raise UsageError(f"what answers at {address!r} is not a healthy Ray cluster ({why})") from None
