"""Who is there: the cluster's nodes, looked at from a thread of its own.

Where the head is lost, Ray's own calls hang, and after a minute it ends the process on the spot, unsaved. Nothing else
asks the head, and here it is asked only once it takes connections.
"""

import socket
import threading
from contextlib import suppress
from typing import Any

LOOK = 2.0  # seconds between looks
CONNECT = 5.0  # for a connection to the head


class Lookout:
    """The nodes as last seen, and how often that was."""

    def __init__(self) -> None:
        import ray

        self._ray, self._over = ray, threading.Event()
        self.head: str = ray.get_runtime_context().gcs_address
        self.nodes, self.looks = self._living(), 1
        threading.Thread(target=self._watch, name="quell-lookout", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        host, _, port = self.head.rpartition(":")
        while not self._over.wait(LOOK):
            with suppress(Exception):  # whatever went wrong, it was no look
                socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
                self.nodes = self._living()
                self.looks += 1

    def _living(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]
