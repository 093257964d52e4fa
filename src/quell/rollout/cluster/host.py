"""What an actor is before anything of quell is loaded there: it can tell a machine's versions, whatever they are.

The class travels as code (see `fleet`), so nothing here may name anything but the standard library and Ray.
"""

import importlib.metadata
import importlib.util
import os
import pickle
import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any


class Host:
    """One actor: says where and what it is, then makes its worker and passes calls on to it."""

    def __init__(self, packed: bytes, environment: Mapping[str, str]) -> None:
        """`packed` makes the worker, with these variables set; it is unpacked once the versions are known to agree."""
        self._packed, self._environment = packed, environment
        self._worker: Any = None
        self._working = False

    def introduce(self, packages: Iterable[str]) -> dict[str, Any]:
        """Where this is, and the versions of what is installed here."""
        import ray

        node, address = ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()
        here = {"node": node, "host": socket.gethostname(), "address": address, "process": os.getpid()}
        return {**here, "versions": versions(packages)}

    def start(self) -> None:
        """Make the worker. Not done on construction, so that errors arrive as they are."""
        if self._worker is None:  # it is asked again where the answer was lost
            os.environ.update(self._environment)
            self._worker = pickle.loads(self._packed)()

    def ping(self) -> bool:
        """A sign of life, answered by a thread of its own: whether a call is being worked on."""
        return self._working

    def call(self, method: str, *arguments: Any) -> Any:
        """Have the worker do something."""
        self._working = True
        try:
            return getattr(self._worker, method)(*arguments)
        finally:
            self._working = False


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those that are installed. quell's own has a digest of its source: checkouts of different commits, and
    edited ones, have the same number."""
    found = {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    spec = importlib.util.find_spec("quell")
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        digest = sha256()
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
        number = re.search(r'^__version__ = "(.*)"', (folder / "__init__.py").read_text(), re.MULTILINE)
        found["quell"] = f"{number[1] if number else '?'} (source {digest.hexdigest()[:8]})"
    return found
