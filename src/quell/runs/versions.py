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
    machine = {"python": platform.python_version(), "platform": platform.platform()}
    return {**machine, "commit": _commit(), "packages": packages()}


def _commit() -> str | None:
    git = ["git", "-C", str(Path(__file__).parent)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], **options)  # is quell itself in the checkout?
        described = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], **options)
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(described.stdout).strip()
