"""Compiled programs, kept between processes: the second run of a task starts in about half the time.

This is JAX's persistent cache, in the user's own cache folder. What lies there is machine code that will be run, so the
folder is used only if it is this user's and no other user can write to it. A cache that the user chose is left alone,
and `JAX_ENABLE_COMPILATION_CACHE=false` does without one. The folder may be removed at any time.
"""

import hashlib
import os
import platform
import sys
import warnings
from contextlib import suppress
from pathlib import Path

LARGEST = 256 << 20  # bytes, beyond which the oldest programs go
SETTINGS = {
    "jax_compilation_cache_dir": "",
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def keep_compiled() -> None:
    """Have JAX keep what it compiles, in this process and its children, unless the user decided otherwise."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") is not None:
        return
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        folder = compiled_folder()
    except RuntimeError:  # no home folder is known
        return
    if not is_ours(folder):
        return
    prune(folder)
    settings = SETTINGS | {"jax_compilation_cache_dir": str(folder)}
    os.environ.update({name.upper(): str(value) for name, value in settings.items()})
    if jax is not None:
        for name, value in settings.items():
            jax.config.update(name, value)
    # A cache that cannot be read or written, or an entry that a kill left half-written, costs time alone.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")


def compiled_folder() -> Path:
    """The cache for processors like this one: code that was compiled for another might not run here."""
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "quell" / f"compiled-{_processor()}"


def _processor() -> str:
    said = platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        said += "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def is_ours(folder: Path) -> bool:
    """Whether the folder is there, or could be made, and is a folder of this user's that no other user can write to."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return all(_closed(part) for part in (folder, folder.parent))
    except OSError:  # no room, no permission, a file in its place
        return False


def _closed(folder: Path) -> bool:
    facts = folder.lstat()
    return not folder.is_symlink() and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def prune(folder: Path, largest: int = LARGEST) -> None:
    """Remove the oldest programs until they take no more than half of `largest`, once they take more than that."""
    with suppress(OSError):  # another process may be doing the same
        files = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
        size = sum(each for _, each, _ in files)
        if size <= largest:
            return
        for _, each, path in files:
            if size <= largest // 2:
                return
            os.unlink(path)
            size -= each
