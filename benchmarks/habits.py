"""What somebody types who comes from Stable-Baselines3, RL Zoo, CleanRL or EvoTorch, and what quell makes of it.

    pip install '.[tune,video]' stable-baselines3       # in an environment of its own
    python benchmarks/habits.py                         # writes results/habits/habits.json
    python docs/make_numbers.py                         # makes the table from it

Every line of Python is a script of its own; words after `quell` are a command. Everything happens in a folder that is
removed. A habit "works", or it is "answered": refused in one line that says what to write instead.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "habits" / "habits.json"
BEGIN = """
import gymnasium, numpy as np, quell
env = gymnasium.make("CartPole-v1")
def show(value):
    print(value)
def show_score(told):
    print("%.1f ± %.1f" % told)
"""
EVALUATE = "from stable_baselines3.common.evaluation import evaluate_policy; "
VECTOR = "from stable_baselines3.common.env_util import make_vec_env; "
PYTHON = {
    "sb3: evaluate_policy(policy, env)": (
        EVALUATE + "policy = quell.load('zoo:gym:CartPole-v1').policy; show_score(evaluate_policy(policy, env, 20))"
    ),
    "sb3: evaluate_policy on a VecEnv of 4": (
        EVALUATE
        + VECTOR
        + "show_score(evaluate_policy(quell.load('zoo:gym:CartPole-v1').policy, make_vec_env('CartPole-v1', 4), 20))"
    ),
    "sb3: evaluate_policy(deterministic=False)": (
        EVALUATE + "show_score(evaluate_policy(quell.load('zoo:gym:CartPole-v1').policy, env, 20, deterministic=False))"
    ),
    "sb3: evaluate_policy on HalfCheetah-v5": (
        EVALUATE
        + VECTOR
        + "show_score(evaluate_policy(quell.load('zoo:halfcheetah').policy, make_vec_env('HalfCheetah-v5', 2), 4))"
    ),
    "sb3: PPO('MlpPolicy', env)": "quell.PPO('MlpPolicy', env)",
    "sb3: train with total_timesteps": "quell.train(env, total_timesteps=1000)",
    "sb3: learning_rate": "quell.train(env, method='ppo', learning_rate=3e-4)",
    "sb3: policy='MlpPolicy'": "quell.train(env, policy='MlpPolicy')",
    "sb3: policy_kwargs": "quell.train(env, policy_kwargs={'net_arch': [64, 64]})",
    "sb3: verbose=1": "quell.train(env, verbose=1)",
    "sb3: device='cuda'": "quell.train(env, device='cuda')",
    "sb3: make_vec_env": VECTOR + "quell.train(make_vec_env('CartPole-v1', 4))",
    "Gymnasium: make_vec": "quell.train(gymnasium.make_vec('CartPole-v1', num_envs=4))",
    "sb3: model.predict(obs)": (
        "obs, _ = env.reset(seed=0); show(quell.load('zoo:gym:CartPole-v1').policy.predict(obs, deterministic=True))"
    ),
    "sb3: result.predict(obs)": "quell.load('zoo:gym:CartPole-v1').predict(np.zeros(4))",
    "sb3: model.save('x')": "quell.load('zoo:gym:CartPole-v1').save('x')",
    "sb3: callback=": "quell.train(env, callback=print)",
    "sb3: resume by learn()": "quell.load('zoo:gym:CartPole-v1').learn(1000)",
    "EvoTorch: popsize=200": "quell.train(env, method='es', popsize=200)",
    "EvoTorch: PGPE": "quell.train(env, method='pgpe')",
    "evosax: CMA-ES": "quell.train(env, method='cma-es')",
    "pandas: DataFrame(history)": (
        "history = quell.train(env, method='es', steps=2000, progress=False).history; "
        "show(f'{len(history)} rows, {len(history[0])} columns')"
    ),
}
COMMANDS = {
    "Zoo: train --algo --env -n": "train --algo ppo --env CartPole-v1 -n 50000",
    "Zoo: --n-timesteps": "train CartPole-v1 --n-timesteps 50000",
    "Zoo: --env-kwargs": "train FrozenLake-v1 --env-kwargs is_slippery:False",
    "Zoo: --eval-freq": "train CartPole-v1 --eval-freq 1000",
    "Zoo: --optimize": "train CartPole-v1 --optimize --n-trials 10",
    "Zoo: --conf-file": "train CartPole-v1 --conf-file ppo.yml",
    "Zoo: enjoy": "enjoy --algo ppo --env CartPole-v1",
    "CleanRL: --track": "train CartPole-v1 --track",
    "CleanRL: --num-envs 8": "train CartPole-v1 --num-envs 8",
    "plain id, 20k steps of PPO": "train CartPole-v1 --method ppo --steps 20k --name habit",
    "then evaluate it": "eval runs/gym-CartPole-v1 --episodes 10",
    "then go on": "resume runs/gym-CartPole-v1 --steps 25k",
    "then film it": "play runs/gym-CartPole-v1 --video pole.gif --seconds 1",
    "then export it": "export runs/gym-CartPole-v1 --out policy",
    "Zoo: optimise with TPE": "tune CartPole-v1 --method es --trials 2 --steps 3000 --sampler tpe",
}


def tried(words: list[str], folder: str) -> dict[str, str]:
    """What came of it: works or answered, and the line that says so."""
    hush = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=hush, timeout=300)
    said = [
        line.strip() for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()
    ]
    last = said[-1] if said else ""
    if done.returncode and "-c" not in words:
        last = next((line for line in said if line.startswith("quell: error")), last)
    if done.returncode == 0:
        last = next((line for line in said if line.startswith("return ")), last)
    ours = done.returncode and (last.startswith(("quell: error", "quell.", "AttributeError")))
    outcome = "works" if done.returncode == 0 else "answered" if ours else "FAILS"
    return {"outcome": outcome, "said": re.sub(r"^[\w.]*(?:Error|Unread): |^quell: error: ", "", last)}


def main() -> int:
    found, quell = {}, str(Path(sys.executable).parent / "quell")
    with tempfile.TemporaryDirectory() as folder:
        for habit, code in PYTHON.items():
            found[habit] = tried([sys.executable, "-c", BEGIN + code.replace("; ", "\n")], folder)
            print(habit, found[habit], flush=True)
        for habit, words in COMMANDS.items():
            found[habit] = tried([quell, *words.split()], folder)
            print(habit, found[habit], flush=True)
    versions = {name: version(name) for name in ("stable-baselines3", "torch", "gymnasium", "optuna", "quell")}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"versions": versions, "habits": found}, indent=1) + "\n")
    return int(any(one["outcome"] == "FAILS" for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
