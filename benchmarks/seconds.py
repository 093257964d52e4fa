"""Wall seconds from the start of a process until its policy earns a score, and keeps earning it.

    python benchmarks/seconds.py [--tasks halfcheetah=3000 ...] [--methods natural-cv trpo ppo es ars] [--seeds 10]

Every run is a process of its own (start-up, imports and compilation count). About every 10,000 steps it plays 20 fresh
episodes with mean actions, whose time does not count. The score is reached at the first of two evaluations in a row
that are at or above the target; a run ends there, or after `--steps`. Methods and seeds take turns, so that whatever
else the machine does meets all of them. A run that ends adds a line to `--out` and is not repeated, so the command can
be stopped and started again; `--table` prints what is there.

A peer is measured with the Python of an environment that has it: `--methods sb3-ppo --peer-python PATH` runs
Stable-Baselines3's PPO with RL Zoo's settings for MuJoCo tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TASKS = {
    **{"halfcheetah": 3000, "hopper": 3000, "walker2d": 3000, "swimmer": 300, "ant": 2000},
    **{"dm-cheetah-run": 400, "dm-cartpole-swingup": 800, "gym:CartPole-v1": 500, "gym:LunarLander-v3": 200},
}
METHODS = ("natural-cv", "trpo", "ppo", "es", "ars")
FIRST_SEED, EPISODES, EVERY = 200, 20, 10_000  # seeds that decided nothing; episodes and steps of an evaluation
OUT = Path(__file__).parent.parent / "results/seconds/runs.jsonl"
PEERS = {"halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5", "walker2d": "Walker2d-v5"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=[f"{task}={target}" for task, target in TASKS.items()])
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--runs", type=Path, default=Path("runs/seconds"))
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    given = parser.parse_args()
    if not given.table:
        campaign(given)
    print(table(read(given.out)))


def campaign(given: argparse.Namespace) -> None:
    """The runs whose line is not there yet, seed by seed."""
    given.out.parent.mkdir(parents=True, exist_ok=True)
    targets = [(task, float(target)) for task, _, target in (word.rpartition("=") for word in given.tasks)]
    cases = [
        {"task": task, "method": method, "seed": seed, "target": target, "steps": given.steps}
        for seed in range(FIRST_SEED, FIRST_SEED + given.seeds)
        for task, target in targets
        for method in given.methods
    ]
    for case in cases:
        if any(case.items() <= row.items() for row in read(given.out)):
            continue
        peer = case["method"].startswith("sb3")
        command = [given.peer_python if peer else sys.executable]
        told = json.dumps({**case, "began": time.monotonic(), "runs": str(given.runs), "child": True})
        load = os.getloadavg()[0]
        done = subprocess.run([*command, __file__, told], stdout=subprocess.PIPE, text=True, check=True)
        row = {**case, **json.loads(done.stdout.splitlines()[-1]), "load": round(load, 2)}
        with given.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print({name: row[name] for name in ("task", "method", "seed", "reached", "first", "spent", "load")}, flush=True)


class Watch:
    """The clock of one run, stopped while it is evaluated, and whether it has reached its target for good."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.evaluating = case, 0.0
        self.curve: list[Any] = []
        self.first: float | None = None
        self.steps = 0

    @property
    def now(self) -> float:
        return float(time.monotonic() - self.case["began"] - self.evaluating)

    def judged(self, steps: int, score: float, seconds: float) -> bool:
        """Whether this evaluation and the one before are at or above the target."""
        self.curve.append((round(seconds, 2), steps, round(score, 1)))
        last = [point[2] for point in self.curve[-2:]]
        return len(last) == 2 and min(last) >= self.case["target"]

    def told(self) -> str:
        kept = [a for a, b in zip(self.curve, self.curve[1:], strict=False) if min(a[2], b[2]) >= self.case["target"]]
        facts = {"reached": kept[0][0] if kept else None, "reached_steps": kept[0][1] if kept else None}
        return json.dumps({**facts, "first": self.first, "spent": round(self.now, 2), "curve": self.curve})


def child(case: dict[str, Any]) -> None:
    watch = Watch(case)
    (peer if case["method"].startswith("sb3") else ours)(case, watch)
    print(watch.told())


def ours(case: dict[str, Any], watch: Watch) -> None:
    import quell
    from quell.training.iteration import Trainer

    evaluate = Trainer.evaluate

    def timed(trainer: Trainer, state: Any) -> Any:
        started = time.monotonic()
        try:
            return evaluate(trainer, state)
        finally:
            watch.evaluating += time.monotonic() - started

    Trainer.evaluate = timed  # type: ignore[assignment, method-assign]

    class Looks(quell.Callback):
        def on_iteration(self, row: Any) -> None:
            watch.first = watch.first or round(watch.now, 2)

        def on_evaluation(self, row: Any) -> None:
            self.stop_requested |= watch.judged(int(row["steps"]), row["eval/mean_action"], watch.now)

    task, method = case["task"], case["method"]
    config = quell.training.methods.make_config(task, method)
    horizon = quell.training.methods.make_task(config).horizon
    batch = config.batch_steps or 2 * config.pairs * min(horizon, config.train_horizon or horizon)
    settings: dict[str, Any] = {"seed": case["seed"], "steps": case["steps"], "eval_episodes": EPISODES}
    settings |= {"out": Path(case["runs"]), "progress": False, "callbacks": Looks()}
    name = f"{case['seed']}-{time.time_ns()}"
    every = max(1, round(EVERY / batch))
    quell.train(task, method=method, eval_every=every, name=name, **settings)


def peer(case: dict[str, Any], watch: Watch) -> None:
    """Stable-Baselines3's PPO as RL Zoo sets it for MuJoCo: one environment, normalised, a million steps."""
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    zoo: dict[str, Any] = {
        "halfcheetah": {
            **{"batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096},
            "policy_kwargs": {
                **{"log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU},
                "net_arch": {"pi": [256, 256], "vf": [256, 256]},
            },
        },
        "hopper": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519},
            **{"clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671},
            "policy_kwargs": {
                **{"log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU},
                "net_arch": {"pi": [256, 256], "vf": [256, 256]},
            },
        },
        "walker2d": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.99, "learning_rate": 5.05041e-05, "ent_coef": 0.000585045},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.95, "max_grad_norm": 1, "vf_coef": 0.871923},
        },
    }
    name = PEERS[case["task"]]
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(name)]))
    model = PPO("MlpPolicy", env, seed=case["seed"], device="cpu", **zoo[case["task"]])
    fresh = gymnasium.make(name)

    class Looks(BaseCallback):
        due = EVERY

        def _on_step(self) -> bool:
            watch.first = watch.first or round(watch.now, 2)
            if self.num_timesteps < self.due:
                return True
            self.due += EVERY
            seconds, started = watch.now, time.monotonic()
            score = float(np.mean([self.episode(k) for k in range(EPISODES)]))
            watch.evaluating += time.monotonic() - started
            return not watch.judged(self.num_timesteps, score, seconds)

        def episode(self, number: int) -> float:
            obs, _ = fresh.reset(seed=10_000 * case["seed"] + self.num_timesteps + number)
            total = 0.0
            while True:
                action, _ = model.predict(env.normalize_obs(obs), deterministic=True)
                obs, reward, terminated, truncated, _ = fresh.step(action)
                total += float(reward)
                if terminated or truncated:
                    return total

    model.learn(case["steps"], callback=Looks())


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Median, range and how many seeds got there, of each task and method; the fewest seconds last."""
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["target"], row["method"]), []).append(row)
    lines = [
        "| task | score | method | seconds (median) | range | reached | steps (median) | to first iteration |",
        "|---" * 8 + "|",
    ]
    for (task, target, method), runs in groups.items():
        # A run that did not get there counts as longer than any that did.
        seconds = sorted(run["reached"] or float("inf") for run in runs)
        there = [run for run in runs if run["reached"] is not None]
        middle = statistics.median(seconds)
        ends = f"{seconds[0]:.1f} to {there and max(run['reached'] for run in there):.1f}" if there else ""
        steps = f"{statistics.median(run['reached_steps'] for run in there):,.0f}" if there else ""
        took = f"{middle:.1f}" if middle < float("inf") else f"not within {runs[0]['steps']:,} steps"
        first = statistics.median(run["first"] for run in runs)
        counted = f"{len(there)} of {len(runs)}"
        lines.append(f"| {task} | {target:g} | {method} | {took} | {ends} | {counted} | {steps} | {first:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    told = json.loads(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].startswith("{") else None
    child(told) if told else main()
