"""Nothing is lost or changes when workers die, hang, join or leave, messages vanish, or the driver is killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_runs import local, run, trainer

pytest.importorskip("ray")

import quell
from quell.errors import EngineFailure
from quell.rollout.cluster import Ray
from quell.rollout.cluster.fleet import Patience
from quell.rollout.cluster.session import LOCAL_ENVIRONMENT, _descendants
from quell.runs import Run, checkpoint
from quell.training.iteration import Trainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),  # Ray's test cluster adding a machine
]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster whose head offers no cores; machines (all on loopback) are added by the test."""
    for name, value in LOCAL_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def ready(made: Trainer) -> int:
    return made.engine.fleet.ready  # type: ignore[attr-defined]


def pids(made: Trainer) -> list[int]:
    return [m.process for m in made.engine.fleet.members if m.ready and m.alive]  # type: ignore[attr-defined]


def wait_for(made: Trainer, workers: int, seconds: float = 60.0) -> None:
    """Let the fleet look around until it has so many workers."""
    deadline = time.monotonic() + seconds
    fleet = made.engine.fleet  # type: ignore[attr-defined]
    while fleet.ready != workers:
        assert time.monotonic() < deadline, f"{fleet.ready} workers instead of {workers}"
        fleet._recruit()
        fleet._listen()
        fleet._lose_the_faulty()


def test_twenty_kills_of_workers() -> None:
    made, rng, killed = trainer(Ray(workers=3)), random.Random(0), [0]
    over = threading.Event()

    def killer() -> None:
        while killed[0] < 20 and not over.wait(rng.uniform(0.2, 3.0)):
            if found := pids(made):
                os.kill(rng.choice(found), signal.SIGKILL)
                killed[0] += 1

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        found, iterations = run(made, lambda _, done: killed[0] < 20 or done < 3, seconds=240)
    finally:
        over.set()
        thread.join()
    assert killed[0] == 20
    assert made.engine.metrics()["cluster/lost"] >= 15  # a worker may be hit twice before its death is noticed
    assert found == local(iterations)


def test_a_stopped_worker() -> None:
    stopped: list[int] = []

    def between(made: Trainer, done: int) -> bool:
        if done == 1:
            stopped.extend(pids(made)[:1])
            os.kill(stopped[0], signal.SIGSTOP)
        return done < 4

    made = trainer(Ray(workers=2), patience=Patience(silence=5.0))
    found, _ = run(made, between)
    assert made.engine.metrics()["cluster/lost"] == 1
    assert found == local(4)


def test_a_worker_stopped_between_episodes_and_contributions() -> None:
    """Its trajectories are gone, so its episodes are run again elsewhere, to the same bits."""
    made = trainer(Ray(workers=2))
    ask = made.engine.rollout
    hit: list[int] = []

    def rollout_then_kill(*args: Any) -> Any:
        found = ask(*args)
        if not hit:
            hit.extend(pids(made)[:1])
            os.kill(hit[0], signal.SIGKILL)
        return found

    made.engine.rollout = rollout_then_kill  # type: ignore[method-assign,assignment]
    found, _ = run(made, 2)
    assert made.engine.metrics()["cluster/reissued"] == 1
    assert found == local(2)


def test_two_machines_one_removed_and_added_again(machines: Any) -> None:
    machines.add_node(num_cpus=1)
    second = machines.add_node(num_cpus=1)
    made = trainer(Ray(address=machines.address))

    def between(made: Trainer, done: int) -> bool:
        nonlocal second
        if done == 2:
            machines.remove_node(second, allow_graceful=False)
        if done == 4:
            assert ready(made) == 1
            second = machines.add_node(num_cpus=1)
            wait_for(made, 2)
        return done < 6

    wait_for(made, 2)
    found, _ = run(made, between)
    assert found == local(6)


def test_one_worker_then_three_then_two(machines: Any) -> None:
    added = [machines.add_node(num_cpus=1)]
    made = trainer(Ray(address=machines.address))
    seen = []

    def between(made: Trainer, done: int) -> bool:
        if done == 2:
            added.extend(machines.add_node(num_cpus=1) for _ in range(2))
            wait_for(made, 3)
        if done == 4:
            machines.remove_node(added[0], allow_graceful=False)
        seen.append(ready(made))
        return done < 7

    found, _ = run(made, between)
    assert (seen[0], seen[3], seen[-1]) == (1, 3, 2)
    assert found == local(7)


def test_a_machine_with_another_quell_is_left_alone(machines: Any, tmp_path: Path) -> None:
    """It joins first, and would compute something else; the run goes on with the other, to the same bits."""
    copy = shutil.copytree(Path(quell.__file__).parent, tmp_path / "quell", ignore=shutil.ignore_patterns("zoo"))
    (copy / "__init__.py").write_text((copy / "__init__.py").read_text().replace("0.1.0", "0.2.0"))
    swimmer = copy / "rollout/simulate.py"
    swimmer.write_text(swimmer.read_text().replace("rewards", "awards"))  # would not even run
    machines.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    machines.add_node(num_cpus=1)
    number = re.escape(quell.__version__)
    line = rf"node \S+ \(127.0.0.1\) is not used: it has quell 0.2.0 \(source \w+\) \(here {number} \(source \w+\)\)"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        made = trainer(Ray(address=machines.address))
        wait_for(made, 1)
        found, _ = run(made, lambda made, done: done < 3 and ready(made) == 1)
    (said,) = [str(one.message) for one in told if issubclass(one.category, UserWarning)]
    assert re.fullmatch(line, said), said
    assert found == local(3)
    assert made.engine.metrics()["cluster/lost"] == 0


@pytest.mark.parametrize("victims", [["gcs_server"], ["gcs_server", "raylet"]], ids=["head", "head and raylet"])
def test_a_lost_head_ends_the_run_saved_and_says_how_to_go_on(
    victims: list[str], machines: Any, tmp_path: Path
) -> None:
    """The driver may be on the raylet that goes too: then Ray ends it, with luck after it has saved."""
    machines.add_node(num_cpus=1)
    settings = [*COMMAND, "--steps", "100000000", "--checkpoint-every", "1000000"]
    place, path = ["--out", str(tmp_path), "--name", "x"], tmp_path / "walker2d/cv/x"
    driver = command(*settings, *place, "--engine", "ray", "--address", machines.address)
    deadline = time.monotonic() + 120
    while len(list(Run(path).metrics())) < 3 and driver.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for victim in victims:
        for one in machines.head_node.all_processes[victim]:
            os.kill(one.process.pid, signal.SIGKILL)
    began = time.monotonic()
    errors = driver.communicate(timeout=90)[1].decode()
    took = time.monotonic() - began
    print(f"ended {took:.1f} s after its head")
    assert driver.returncode == 1
    assert f"quell resume {path}" in errors
    assert took < 45, "Ray itself would end the process after 60"
    if "raylet" in victims and "saved after iteration" not in errors:
        return
    done = list(Run(path).metrics())[-1]["iteration"]
    assert f"saved after iteration {done}: " in errors
    assert checkpoint.iterations(path / "checkpoints")[-1] == done
    if "raylet" not in victims:
        assert f"the Ray cluster's head ({machines.address}) has not answered for 15 s" in errors


def test_a_hung_simulation_is_replaced_after_the_timeout_given() -> None:
    """The process that simulates stands still, not the worker, which answers all the while."""
    stopped: list[int] = []

    def between(made: Trainer, done: int) -> bool:
        if done == 1:
            stopped.extend(_descendants(pids(made)[0]))
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
        return done < 3

    made = trainer(Ray(workers=1, worker_timeout=4.0))
    began = time.monotonic()
    found, _ = run(made, between, seconds=100)
    assert stopped
    assert time.monotonic() - began < 60, "120 s is what the engine of one machine would wait"
    assert made.engine.metrics()["cluster/lost"] == 0
    assert found == local(3)


def test_all_workers_lost_stops_the_run_with_a_checkpoint(machines: Any, tmp_path: Path) -> None:
    only = machines.add_node(num_cpus=1)
    settings: dict[str, Any] = {"horizon": 50, "pairs": 3, "steps": 10**6, "eval_every": 0, "eval_episodes": 1}
    compute = Ray(address=machines.address, worker_timeout=5.0)

    def remove() -> None:
        while not list(tmp_path.glob("lqr/es/run/metrics.jsonl")) or (
            len((tmp_path / "lqr/es/run/metrics.jsonl").read_text().splitlines()) < 5
        ):
            time.sleep(0.2)
        machines.remove_node(only, allow_graceful=False)

    thread = threading.Thread(target=remove)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quell.rollout.cluster.engine.Patience", lambda silence, stall: Patience(silence, 10.0))
        with pytest.raises(EngineFailure, match=r"no Ray worker for 10 s.*\n.*quell resume"):
            quell.train("lqr", method="es", engine=compute, out=tmp_path, name="run", progress=False, **settings)
    thread.join()
    rows = (tmp_path / "lqr/es/run/metrics.jsonl").read_text().splitlines()
    done = json.loads(rows[-1])["iteration"]
    assert checkpoint.iterations(tmp_path / "lqr/es/run/checkpoints")[-1] == done
    steps = (done + 2) * 300
    resumed = quell.resume(tmp_path / "lqr/es/run", progress=False, steps=steps, workers=1)
    settings["steps"] = steps
    whole = quell.train("lqr", method="es", workers=1, out=tmp_path, name="whole", progress=False, **settings)
    assert (resumed.theta == whole.theta).all()


COMMAND = ["train", "walker2d", "--horizon", "60", "--pairs", "4", "--eval-every", "0", "--eval-episodes", "1"]
COMMAND += ["--batch-steps", "0"]


def command(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "quell", *arguments]
    return subprocess.Popen(line, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def finish(*processes: subprocess.Popen[bytes], seconds: float = 240.0) -> None:
    try:
        for process in processes:
            _, err = process.communicate(timeout=seconds)
            assert process.returncode == 0, err.decode()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def saved_sha256(path: Path) -> str:
    newest = checkpoint.load_newest(path / "checkpoints")
    assert newest is not None
    return hashlib.sha256(newest[0]["theta"].tobytes()).hexdigest()


def test_a_quarter_of_all_messages_lost(tmp_path: Path) -> None:
    chaos = {"*": {"num_failures": -1, "req_failure_prob": 13, "resp_failure_prob": 12}}
    settings = [*COMMAND, "--steps", "1500", "--out", str(tmp_path), "--name"]
    on_ray = ["--engine", "ray", "--workers", "2", "--worker-timeout", "6"]
    lossy = command(*settings, "lossy", *on_ray, env={"RAY_testing_rpc_failure": json.dumps(chaos)})
    plain = command(*settings, "plain", "--workers", "1")
    finish(plain, lossy)
    assert saved_sha256(tmp_path / "walker2d/cv/lossy") == saved_sha256(tmp_path / "walker2d/cv/plain")


def test_driver_killed_and_resumed(tmp_path: Path) -> None:
    settings = [*COMMAND, "--steps", "12000", "--checkpoint-every", "3", "--out", str(tmp_path), "--name"]
    killed = command(*settings, "killed", "--engine", "ray", "--workers", "2")
    path = tmp_path / "walker2d/cv/killed"
    deadline = time.monotonic() + 90
    while len(checkpoint.iterations(path / "checkpoints")) < 3 and killed.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    resumed = command("resume", str(path), "--engine", "ray", "--workers", "2")
    plain = command(*settings, "plain", "--workers", "1")
    finish(plain, resumed)
    assert saved_sha256(path) == saved_sha256(tmp_path / "walker2d/cv/plain")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def raylet_of(processes: list[int]) -> int:
    (found,) = [pid for pid in processes if b"raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


@pytest.mark.parametrize("victim", ["driver", "raylet"])
def test_nothing_of_ray_outlives_a_kill(victim: str, tmp_path: Path) -> None:
    """Ray ends a driver whose raylet is gone; what it had not saved is repeated, to the same bits."""
    settings = [*COMMAND, "--steps", "1000000", "--checkpoint-every", "3", "--out", str(tmp_path), "--name", "x"]
    driver, path = command(*settings, "--engine", "ray", "--workers", "2"), tmp_path / "walker2d/cv/x"
    deadline = time.monotonic() + 240
    while len(checkpoint.iterations(path / "checkpoints")) < 2 and driver.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    processes = _descendants(driver.pid)
    os.kill(driver.pid if victim == "driver" else raylet_of(processes), signal.SIGKILL)
    driver.wait(timeout=60)
    ended = time.monotonic()
    while any(map(is_running, processes)) and time.monotonic() < ended + 20:
        time.sleep(0.05)
    assert time.monotonic() - ended < 10
    assert f"quell resume {path}".encode() in driver.communicate()[1]
    assert driver.returncode == (-signal.SIGKILL if victim == "driver" else 1)
    steps = str(json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])["steps"] + 500)
    plain = command(*COMMAND, "--steps", steps, "--out", str(tmp_path), "--name", "plain", "--workers", "1")
    finish(plain, command("resume", str(path), "--steps", steps, "--workers", "1"))
    rows = [(tmp_path / "walker2d/cv" / name / "metrics.jsonl").read_text().splitlines() for name in ("plain", "x")]
    assert len(rows[0]) == len(rows[1])


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    for module in ("mujoco", "evil", "quell"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    settings = ["lqr", "--method", "es", "--horizon", "20", "--steps", "400", "--engine", "ray", "--workers", "1"]
    line = [sys.executable, "-P", "-m", "quell", "train", *settings]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
