"""What a worker says of itself, and whether the head is still there: without Ray."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pickle
import shutil
import socket
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import quell
from quell.rollout.cluster import Ray, engine, lookout
from quell.rollout.cluster.host import Host, versions


def test_versions_tell_checkouts_and_edits_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = versions(["numpy", "no-such-package"])
    assert here["numpy"] == importlib.metadata.version("numpy")
    assert here["quell"].startswith(f"{quell.__version__} (source ")
    assert here.keys() == {"numpy", "quell"}
    copy = shutil.copytree(Path(quell.__file__).parent, tmp_path / "quell", ignore=shutil.ignore_patterns("zoo"))
    found = SimpleNamespace(submodule_search_locations=[str(copy)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    (copy / "zoo").mkdir()
    shutil.copy(Path(quell.__file__).parent / "zoo/__init__.py", copy / "zoo")
    assert versions([]) == {"quell": here["quell"]}, "the same source elsewhere"
    (copy / "stats.py").write_text((copy / "stats.py").read_text() + "\nEDITED = True\n")
    assert versions([])["quell"] != here["quell"]
    (copy / "__init__.py").write_text('__version__ = "0.2.0"\n')
    assert versions([])["quell"].startswith("0.2.0 (source ")


class Adder:
    """Something a host may make."""

    made = 0

    def __init__(self, number: int) -> None:
        Adder.made += 1
        self.number, self.host = number, None

    def add(self, more: int) -> int:
        return self.number + more


def test_a_host_makes_its_worker_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_NPROC", "1")
    host = Host(pickle.dumps(partial(Adder, 2)), {"PJRT_NPROC": "3"})
    assert Adder.made == 0
    host.start()
    host.start()
    assert Adder.made == 1
    assert os.environ["PJRT_NPROC"] == "3", "XLA sums in the driver's way"
    assert host.call("add", 3) == 5
    assert not host.ping()
    with pytest.raises(AttributeError):
        host.call("nothing")
    assert not host.ping(), "it works on nothing after a failure either"


def test_a_look_needs_a_head_that_takes_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, asked = pytest.importorskip("ray"), [0]

    def nodes() -> list[dict[str, Any]]:
        asked[0] += 1
        return [{"Alive": True, "NodeID": "a"}, {"Alive": False, "NodeID": "b"}]

    monkeypatch.setattr(lookout, "LOOK", 0.01)
    monkeypatch.setattr(ray, "nodes", nodes)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
        looking = lookout.Lookout()
        until = time.monotonic() + 10
        while looking.looks < 5 and time.monotonic() < until:
            time.sleep(0.01)
        assert looking.looks >= 5
        assert [node["NodeID"] for node in looking.nodes] == ["a"]
    time.sleep(0.1)
    looks, asked[0] = looking.looks, 0
    time.sleep(0.2)
    looking.close()
    assert asked[0] == 0, "Ray is not asked for a head that is gone: the call would hang"
    assert looking.looks == looks


def test_the_timeout_reaches_the_processes_that_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    given: list[Any] = []
    monkeypatch.setattr(engine, "Session", lambda *_: SimpleNamespace(local=True))
    monkeypatch.setattr(engine, "Fleet", lambda *arguments: given.extend(arguments))
    task: Any = SimpleNamespace(horizon=10)
    engine.RayEngine(task, None, Ray(worker_cores=2, worker_timeout=7.0), members=4, states=0)  # type: ignore[arg-type]
    compute = given[0].args[2]
    assert (compute.workers, compute.worker_timeout) == (2, 7.0)
