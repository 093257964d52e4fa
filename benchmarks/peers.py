"""Other libraries beside benchmarks/seconds.py: how fast they step, and what they earn after how many steps.

    python3.11 -m venv PEERS && PEERS/bin/pip install stable-baselines3 sb3-contrib "gymnasium[mujoco]"
    PEERS/bin/python benchmarks/peers.py --speed 60 [--tasks halfcheetah ...] [--methods sb3-ppo ...]
    PEERS/bin/python benchmarks/peers.py --curve [--minutes 30] [--seeds 1] [--tasks ...] [--methods ...]

The first runs each method for so many seconds, with nothing else on the machine, and counts steps, learning included,
evaluation not. The second trains until a policy has earned the task's highest target of benchmarks/seconds.py twice in
a row, or for `--steps` or `--minutes`, and plays 5 fresh episodes with mean actions every 20,000 steps, during which
its clock stands still. Seconds to a score are those of its clock, imports included, where other programs had no more
than `--idle` cores meanwhile; else measured steps / measured speed. Both add lines to `--out`; the command can be
stopped, and goes on with the next run that is missing.

Settings are RL Zoo's for MuJoCo tasks (sb3-ppo, sb3-trpo, sb3-sac, sb3-ars), or those of CleanRL's script
ppo_continuous_action.py, run by Stable-Baselines3's code (cleanrl-ppo).
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from seconds import FIRST_SEED, TARGETS, busy, own, reached

BEGAN = time.monotonic()
TASKS = {"halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5", "walker2d": "Walker2d-v5"}
METHODS = ("sb3-ppo", "sb3-trpo", "sb3-sac", "sb3-ars", "cleanrl-ppo")
OUT = Path(__file__).parent.parent / "results/seconds/peers.jsonl.gz"
WIDE = {"log_std_init": -2, "ortho_init": False, "net_arch": {"pi": [256, 256], "vf": [256, 256]}}  # with ReLU
TRPO = {"n_steps": 1024, "batch_size": 128, "gamma": 0.99, "gae_lambda": 0.95, "sub_sampling_factor": 1}
TRPO |= {"cg_max_steps": 25, "cg_damping": 0.1, "n_critic_updates": 20, "learning_rate": 1e-3}
CLEANRL = {"n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "clip_range": 0.2}
CLEANRL |= {"ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5}
EPISODES, EVERY = 5, 20_000
ZOO: dict[str, dict[str, dict[str, Any]]] = {
    "sb3-ppo": {
        "halfcheetah": {
            **{"batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096},
            "policy_kwargs": WIDE,
        },
        "hopper": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519},
            **{"clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671},
            "policy_kwargs": WIDE,
        },
        "walker2d": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.99, "learning_rate": 5.05041e-05, "ent_coef": 0.000585045},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.95, "max_grad_norm": 1, "vf_coef": 0.871923},
        },
    },
    "sb3-trpo": {"halfcheetah": TRPO | {"target_kl": 0.04}, "hopper": TRPO, "walker2d": TRPO},
    "sb3-sac": {task: {"learning_starts": 10_000} for task in TASKS},
    "sb3-ars": {
        "halfcheetah": {"learning_rate": 0.02, "delta_std": 0.03, "n_delta": 32, "n_top": 4, "alive_bonus_offset": 0},
        "hopper": {"learning_rate": 0.01, "delta_std": 0.025, "n_delta": 8, "n_top": 4, "alive_bonus_offset": -1},
        "walker2d": {"learning_rate": 0.03, "delta_std": 0.025, "n_delta": 40, "n_top": 30, "alive_bonus_offset": -1},
    },
    "cleanrl-ppo": dict.fromkeys(TASKS, CLEANRL),
}


class EnoughError(Exception):
    """Ends a run: ARS does not heed what a callback returns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", type=float, help="seconds")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="of training, for a curve")
    parser.add_argument("--idle", type=float, default=0.15, help="cores that others may use, where a curve is timed")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--one", help="be the run of this case")
    given = parser.parse_args()
    if given.one:
        case = json.loads(given.one)
        one = curve(given, **case) if given.curve else {"kind": "speed", **speed(**case, seconds=given.speed)}
        with gzip.open(given.out, "at") as out:
            out.write(json.dumps({**case, **one}) + "\n")
        print({**case, **one}, flush=True)
        return
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for seed, task, method in itertools.product(seeds, given.tasks, given.methods):
        case = {"task": task, "method": method, "seed": seed}
        wanted = case | {"kind": "curve" if given.curve else "speed"}
        if not any(wanted.items() <= row.items() for row in read(given.out)):  # each in a process of its own
            subprocess.run([sys.executable, *sys.argv, "--one", json.dumps(case)], check=True)


def made(task: str, method: str, seed: int) -> tuple[Any, Any]:
    """(model, its environment, normalised where the settings say so)."""
    import gymnasium
    import torch
    from sb3_contrib import ARS, TRPO
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    name, settings = TASKS[task], dict(ZOO[method][task])
    if "policy_kwargs" in settings:
        settings["policy_kwargs"] = settings["policy_kwargs"] | {"activation_fn": torch.nn.ReLU}
    if method == "cleanrl-ppo":
        settings |= {"learning_rate": lambda left: 3e-4 * left, "policy_kwargs": {"net_arch": [64, 64]}}
    env: Any = DummyVecEnv([lambda: gymnasium.make(name)] * (2 if method == "sb3-trpo" else 1))
    if method != "sb3-sac":
        env = VecNormalize(env, norm_reward=method != "sb3-ars", gamma=settings.get("gamma", 0.99))
    kind = {"sb3-trpo": TRPO, "sb3-sac": SAC, "sb3-ars": ARS}.get(method, PPO)
    policy = "LinearPolicy" if method == "sb3-ars" else "MlpPolicy"
    return kind(policy, env, seed=seed, device="cpu", **settings), env


def speed(task: str, method: str, seed: int, seconds: float) -> dict[str, Any]:
    """Steps per second; SAC is timed once it learns."""
    from stable_baselines3.common.callbacks import BaseCallback

    model, _ = made(task, method, seed)
    model.learning_starts = min(getattr(model, "learning_starts", 0), 100)
    marks: list[tuple[float, int]] = []

    class Clock(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 200:
                marks.append((time.perf_counter(), self.num_timesteps))
                if marks[-1][0] - marks[0][0] >= seconds and marks[-1][1] > marks[0][1]:
                    raise EnoughError
            return True

    with suppress(EnoughError):
        model.learn(1_000_000, callback=Clock())
    (began, first), (ended, last) = marks[0], marks[-1]
    return {"steps_per_second": round((last - first) / (ended - began), 1), "seconds": round(ended - began, 1)}


def curve(given: argparse.Namespace, task: str, method: str, seed: int) -> dict[str, Any]:
    """[seconds, steps, mean of 5 fresh episodes with mean actions]."""
    import gymnasium
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback

    before = busy() - own()
    (model, env), fresh, found = made(task, method, seed), gymnasium.make(TASKS[task]), list[list[Any]]()

    class Looks(BaseCallback):
        due, outside = EVERY, 0.0

        def _on_step(self) -> bool:
            if self.num_timesteps < self.due:
                return True
            seconds, began = time.monotonic() - BEGAN - self.outside, time.monotonic()
            self.due += EVERY
            score = float(np.mean([self.episode(k) for k in range(EPISODES)]))
            found.append([round(seconds, 1), self.num_timesteps, round(score, 1)])
            self.outside += time.monotonic() - began
            if reached(found, max(TARGETS[task])) is not None or seconds >= 60 * given.minutes:
                raise EnoughError
            return True

        def episode(self, number: int) -> float:
            obs, _ = fresh.reset(seed=10_000 * seed + self.num_timesteps + number)
            total, over = 0.0, False
            while not over:
                seen = env.normalize_obs(obs) if hasattr(env, "normalize_obs") else obs
                obs, reward, terminated, truncated, _ = fresh.step(model.predict(seen, deterministic=True)[0])
                total, over = total + float(reward), terminated or truncated
            return total

    with suppress(EnoughError):
        model.learn(given.steps, callback=Looks())
    others = (busy() - own() - before) / (time.monotonic() - BEGAN)
    facts = {"kind": "curve", "steps": found[-1][1] if found else 0, "others": round(others, 2)}
    return {**facts, "timed": others <= given.idle, "curve": found}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.open(path, "rt")] if path.exists() else []


def curves(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[list[tuple[float, int, float]]]]:
    """(task, method) -> of every seed (seconds, steps, score): as measured, or at the speed that was measured."""
    speeds = {(row["task"], row["method"]): row["steps_per_second"] for row in rows if row["kind"] == "speed"}
    found: dict[tuple[str, str], list[list[tuple[float, int, float]]]] = {}
    for row in rows:
        case = row["task"], row["method"]
        if row["kind"] == "curve" and (row["timed"] or case in speeds):
            points = [(s if row["timed"] else n / speeds[case], n, score) for s, n, score in row["curve"]]
            found.setdefault(case, []).append(points)
    return found


if __name__ == "__main__":
    main()
