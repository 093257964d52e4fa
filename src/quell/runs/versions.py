"""What a run was made with."""

import importlib.metadata
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

RECORDED_PACKAGES = (
    *("quell", "jax", "jaxlib", "optax", "numpy", "scipy", "mujoco", "gymnasium"),
    *("dm_control", "envpool", "pybullet", "Box2D", "ray"),
)


def packages() -> dict[str, str]:
    """Versions of what is installed."""
    found = {}
    for package in RECORDED_PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def versions() -> dict[str, Any]:
    """Python, platform, package versions and, in a checkout, the commit."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": _commit(),
        "packages": packages(),
    }


def _commit() -> str | None:
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        tracked = subprocess.run(["git", "-C", str(here), "ls-files", "--error-unmatch", __file__], capture_output=True)
        if tracked.returncode:
            return None
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
