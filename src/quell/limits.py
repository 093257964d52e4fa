"""How much memory this process may still take: what the machine has free, its control groups, and its own limit."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from quell.errors import UsageError

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
V2 = ("memory.max", "memory.current", "")
"""Of a control group: its limit, what it uses, and what lines of its memory.stat begin with that count its children."""
UNREADABLE = (OSError, ValueError, LookupError)
"""What reading such a file raises where there is none, or where it says "max"."""


def require_memory(size: int, what: str) -> None:
    """Raise UsageError where less is free; before anything is allocated."""
    free, where = free_memory()
    if size > free:
        raise UsageError(f"{what} would take {gib(size)} GiB of memory, and {gib(free)} are free {where}")


def free_memory() -> tuple[int, str]:
    """Bytes that this process may still take, and by which limit."""
    return min(_limits())


def gib(size: int) -> str:
    return f"{size / 2**30:,.{0 if size >= 10 * 2**30 else 1}f}"


def _limits() -> Iterator[tuple[int, str]]:
    yield _machine(), "on this machine"
    for folder, names in _groups():
        with suppress(*UNREADABLE):
            yield max(0, _left(folder, *names)), f"in its control group, {folder}"
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield max(0, soft - _address_space()), "of what `ulimit -v` allows"


def _machine() -> int:
    """What could be had without swapping, and what room there is to swap; all there is, if that is unknown."""
    with suppress(*UNREADABLE):
        facts = _table(PROC / "meminfo")
        return 1024 * (facts["MemAvailable:"] + facts.get("SwapFree:", 0))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The control groups that count this process's memory, its own and all above it, as far as they can be seen.

    A container may see its own group as the root, and know it under the name that it has outside.
    """
    with suppress(*UNREADABLE):
        for line in (PROC / "self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            root, names = (GROUPS / "memory", V1) if controllers else (GROUPS, V2)
            own = root / name.strip("/")
            for folder in (own, *own.parents):
                if folder.is_relative_to(root):
                    yield folder, names


def _left(folder: Path, limit: str, used: str, all_of: str) -> int:
    """What a group may still take; copies of files that the kernel would give up count as free."""
    most, taken = (int((folder / name).read_text()) for name in (limit, used))
    with suppress(*UNREADABLE):
        facts = _table(folder / "memory.stat")
        taken -= facts[f"{all_of}inactive_file"] + facts[f"{all_of}active_file"]
    return most - max(0, taken)


def _address_space() -> int:
    """Bytes that this process has mapped."""
    with suppress(*UNREADABLE):
        return os.sysconf("SC_PAGE_SIZE") * int((PROC / "self/statm").read_text().split()[0])
    return 0


def _table(path: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    words = (line.split() for line in path.read_text().splitlines())
    return {word[0]: int(word[1]) for word in words}
