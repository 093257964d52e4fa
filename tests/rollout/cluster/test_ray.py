"""The Ray engine: the same bits as the local engine, the bytes the formula says, nothing open to the network."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from ray_runs import is_loopback, listening, local, run, trainer

pytest.importorskip("ray")

from conftest import tree_sum
from scale_model import nodes_sent, sums_bytes

from quell.cli import main
from quell.compute import Compute
from quell.errors import UsageError
from quell.reduce import Tree, shards
from quell.rollout.cluster.session import Session

ITERATIONS = 3


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
    made = trainer(Compute(1, "ray"))
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


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_same_theta_as_the_local_engine(workers: int, cluster: set[str], expected: str) -> None:
    assert run(trainer(Compute(workers, "ray")), ITERATIONS)[0] == expected


def test_bytes_match_the_formula(cluster: set[str]) -> None:
    made = trainer(Compute(2, "ray"), "es")
    pairs, dim = made.config.pairs, made.policy.dim
    try:
        _, row = made.iterate(made.initial_state())
    finally:
        made.close()
    members = 2 * pairs
    fitness = 8 * members + pairs  # shaped returns, and which pairs are good
    assert row["cluster/bytes_out"] == 4 * dim + fitness
    scalars = members * (8 + 8 + 1 + 16 * made.policy.obs_size)  # return, steps, terminated, observation sums
    sent = nodes_sent(pairs, 2)
    assert row["cluster/bytes_in"] == scalars + sum(sent) * (sums_bytes("es", dim) + 8)  # and a count with each


def test_any_split_of_the_tree_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    for leaves, workers in itertools.product((1, 2, 5, 7, 64, 100), (1, 2, 3, 8)):
        parts = [{"x": rng.standard_normal(3) * 10.0 ** rng.integers(-8, 8)} for _ in range(leaves)]
        whole = Tree(leaves)
        for shard in reversed(shards(leaves, workers)):
            held = Tree(leaves)
            for leaf in shard:
                held.add((0, leaf), parts[leaf])
            assert len(held.nodes) <= max(1, 2 * np.log2(leaves))
            for node, sums in held.nodes.items():
                whole.add(node, sums)
        assert (whole.total["x"] == tree_sum(parts)["x"]).all()


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


def test_an_address_needs_the_ray_engine() -> None:
    with pytest.raises(UsageError, match="--engine ray"):
        Compute(address="127.0.0.1:6379").validate()


def test_ray_is_imported_only_when_asked_for() -> None:
    code = "import sys, quell.api, quell.commands.train, quell.trainer; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
