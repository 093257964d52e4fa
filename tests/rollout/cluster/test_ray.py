"""The Ray engine: the same bits as the local engine, the bytes the formula says, nothing open to the network."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_runs import is_loopback, listening, local, run, sha256, trainer
from small_point import SETTINGS

pytest.importorskip("ray")

import quell
from quell.cli import main
from quell.errors import UsageError
from quell.keys import Purpose, generator
from quell.rollout.cluster import Ray
from quell.rollout.cluster.host import versions
from quell.rollout.cluster.session import Session
from quell.rollout.cpu import Cpu
from quell.types import Episodes

ITERATIONS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[set[str]]:
    """A local cluster that the engines of this module share; what it listens on."""
    before = listening()
    session = Session(None, 3)
    try:
        yield listening() - before
    finally:
        session.close()


def test_nothing_listens_beyond_loopback(cluster: set[str]) -> None:
    made = trainer(Ray(workers=1))
    try:
        during = listening()
    finally:
        made.close()
    assert cluster, "a cluster listens somewhere"
    assert all(map(is_loopback, cluster))
    import ray

    ours = {node["NodeManagerAddress"] for node in ray.nodes()}
    assert ours == {"127.0.0.1"}
    assert not {a for a in during - listening() if not is_loopback(a)}


@pytest.fixture(scope="module")
def expected() -> str:
    return local(ITERATIONS)


@pytest.mark.parametrize("workers", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_same_theta_as_the_local_engine(workers: int, cluster: set[str], expected: str) -> None:
    assert run(trainer(Ray(workers=workers)), ITERATIONS)[0] == expected


@pytest.mark.parametrize(
    ("pairs", "horizon", "steps"),
    [(7, 60, 600), *(pytest.param(1500, 12, steps, marks=pytest.mark.slow) for steps in (25_000, 9_000))],
)
def test_the_last_batch_is_cut_to_the_same_pairs(pairs: int, horizon: int, steps: int, cluster: set[str]) -> None:
    """Also where a block has two pairs in the whole batch, and one in what is played of it."""
    settings: dict[str, Any] = {"estimator": "control-variate", "step": "adam"}
    ends = []
    for compute in (Cpu(workers=2), Ray(workers=3)):
        made = trainer(compute, pairs=pairs, horizon=horizon, steps=steps, **settings)
        try:
            state = made.initial_state()
            while state.steps < steps:
                state, _ = made.iterate(state)
        finally:
            made.close()
        ends.append((sha256(state), state.iteration, state.steps))
    assert ends[0] == ends[1]
    assert steps <= ends[0][2] < steps + 2 * horizon


def test_bytes_match_the_formula(cluster: set[str]) -> None:
    from scale_model import nodes_sent, sums_bytes

    made = trainer(Ray(workers=2), "es")
    pairs, policy = made.config.pairs, made.problem.policy
    dim = policy.dim
    try:
        _, row = made.iterate(made.initial_state())
    finally:
        made.close()
    members = 2 * pairs
    fitness = 8 * members + pairs  # shaped returns, and which pairs are good
    assert row["cluster/bytes_out"] == 4 * dim + fitness
    scalars = members * (8 + 8 + 1 + 16 * policy.obs_size)  # return, steps, terminated, observation sums
    sent = nodes_sent(pairs, 2)
    assert row["cluster/bytes_in"] == scalars + sum(sent) * (sums_bytes("es", dim) + 8)  # and a count with each


def test_without_ray_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("quell.errors.find_spec", lambda name: None if name == "ray" else object())
    assert main(["train", "lqr", "--engine", "ray"]) == 2
    assert capsys.readouterr().err == (
        "quell: error: engine 'ray' needs the optional dependency group 'ray': pip install 'quell[ray]'\n"
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1': Connection refused"),
        ("no-such-host.invalid:6379", "no Ray cluster at 'no-such-host.invalid:6379'"),
        ("somewhere", "is not of the form host:port"),
        ("ray://127.0.0.1:10001", "Ray Client"),
    ],
)
def test_an_unreachable_address_is_a_clear_error(address: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.rollout.cluster.session._imported_and_connected", lambda: False)
    started = time.monotonic()
    with pytest.raises(UsageError, match=message):
        Session(address, 1)
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_something_else_at_the_address_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.rollout.cluster.session._imported_and_connected", lambda: False)
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(UsageError, match="not a healthy Ray cluster"):
        Session(f"127.0.0.1:{server.getsockname()[1]}", 1)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("cores", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_worker_cores(cores: int, cluster: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of two cores is asked of Ray as such, has two processes of its own, and gives the same bits."""
    monkeypatch.setattr("quell.rollout.cluster.cores", lambda: 5)
    assert Ray(worker_cores=2).processes == 2
    assert Ray(worker_cores=9).processes == 1
    assert Ray(workers=7, worker_cores=2).processes == 7
    made = trainer(Ray(workers=1, worker_cores=cores))
    engine: Any = made.engine
    assert engine.fleet._cores == cores
    (member,) = engine.fleet.members
    assert len(children(member.process)) == cores
    assert run(made, 2)[0] == local(2)


def children(pid: int) -> list[str]:
    """The processes that simulate for a worker."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            line = (entry / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        if parent == pid and "quell.rollout.cpu.worker" in line:
            found.append(entry.name)
    return found


def test_a_machine_with_other_versions_is_refused(cluster: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names the node and both versions, before anything is computed."""
    real = versions(["numpy"])["numpy"]
    monkeypatch.setattr("quell.rollout.cluster.fleet.versions", lambda names: {**versions(names), "numpy": "0.1"})
    where = rf"{re.escape(socket.gethostname())} \(127\.0\.0\.1\)"
    with pytest.raises(UsageError, match=rf"^node {where} is not used: it has numpy {re.escape(real)} \(here 0\.1\)$"):
        trainer(Ray(workers=2))


def test_states_travel(cluster: set[str]) -> None:
    """A step that looks sees on Ray what it sees here."""
    made = trainer(Cpu(workers=1))
    made.close()
    seen = []
    for compute in (Cpu(workers=1), Ray(workers=2)):
        with compute.make(made.task, made.problem, members=8, states=3) as engine:
            theta = made.problem.policy.init(generator(0, Purpose.INIT))
            states = engine.rollout(theta, Episodes.of_pairs(0, 4, states=3)).states
            assert states is not None
            seen.append(states.copy())
    assert seen[0].shape == (8, 3, made.task.obs_size)
    assert (seen[0] == seen[1]).all()


def test_variances_are_the_same(cluster: set[str]) -> None:
    """The same numbers to the last bit: several estimators on one batch, whose trajectories stay with the workers, the
    states for the metrics, and the steps."""
    asked: dict[str, Any] = {"methods": "cv,cv-several", "pairs": 10, "warmup": 10, "settings": SETTINGS}
    asked |= {"gain": ["natural:0.01"], "gain_estimates": 2, "progress": False}
    remote, local = (quell.variance("lqr-302", engine=engine, **asked) for engine in (Ray(workers=2), Cpu(workers=1)))
    for a, b in zip(local.measurement.rows, remote.measurement.rows, strict=True):
        assert a.gradients.any()
        assert (a.gradients == b.gradients).all()
    assert [s.metrics for s in local.summaries] == [s.metrics for s in remote.summaries]
    assert local.gains == remote.gains


def test_ray_is_imported_only_when_asked_for() -> None:
    code = "import sys, quell.api, quell.commands.train, quell.training.loop; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
