"""The device engine beside Brax's own ES and evosax, on an environment of Brax; one command on a machine with a GPU:

    python benchmarks/device_peers.py --json results/device/peers-NAME.json

Environment steps per second of whole iterations: perturb, play, estimate, update. All three train in this process and
take turns, and medians count; the first two turns do not, as the first compiles, and Brax's second once more.
Everything is by their own code: `es` on the device engine, `brax.training.agents.es`, and evosax's `Open_ES` with its
`BraxProblem` in one jitted function. The same for all three: environment and backend, members, episodes of `--horizon`
steps, hidden layers with tanh, sigma, Adam, and observations normalised by what was seen.

What counts as a step: one step of the environment (no action is repeated) in which a member's episode has not ended
before. Of Brax that is its own count of environment steps; of evosax it is counted from the ends that its episodes
report; of quell it is the length of episodes. Brax and evosax simulate to the horizon whatever happens, and quell until
no member is left; `rate_asked` divides members x horizon by the same time, as Brax's own `training/sps` does.

What differs: Brax's time is its own `training/walltime`, without its evaluation (of an environment in which nothing
happens) and what is printed; the others' is the whole turn, with all that the host does. Brax's network says a standard
deviation for each state, so that its last layer is twice as wide; evosax's acts without noise; and all of evosax's
members meet the same reset. quell's matrix products have full single precision, the others JAX's default, which is
shorter on a GPU (TF32).

It needs Brax and evosax; no figure of theirs is from a change to their code.
"""

from __future__ import annotations

import functools
import itertools
import json
import queue
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import jax
import jax.numpy as jnp
import tyro
from device import machine

from quell.rollout.device import Device
from quell.rollout.device import engine as device_engine
from quell.training.iteration import Trainer
from quell.training.methods import make_config

NEEDS = "this needs Brax and evosax: pip install brax==0.14.2 evosax==0.3.2"
SEED, SIGMA, RATE = 200, 0.02, 0.01
Turn = Callable[[], tuple[float, float]]
"""An iteration: (steps that count, seconds)."""


@dataclass
class Asked:
    """Environment steps per second of ES on three libraries."""

    envs: tuple[str, ...] = ("halfcheetah",)
    """Of Brax; ant and others end early, of halfcheetah every step counts."""
    backend: str = "spring"
    """What simulates: spring, positional, generalized or mjx."""
    members: tuple[int, ...] = (512, 8192, 32768)
    horizon: int = 200
    hidden: tuple[int, ...] = (32, 32)
    libraries: tuple[str, ...] = ("quell", "brax", "evosax")
    rounds: int = 3
    precision: Literal["default", "highest"] = "default"
    """Of the others' matrix products: JAX's default, which is TF32 on a GPU, or that of quell's."""
    json: Path | None = None


def main() -> None:
    asked = tyro.cli(Asked, description=__doc__)
    try:
        import brax.envs  # noqa: F401
        import evosax.problems  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"{NEEDS} ({error})") from None
    warnings.filterwarnings("ignore", message="Brax System")
    jax.config.update("jax_default_matmul_precision", asked.precision)
    print(f"{jax.devices()[0].device_kind}: environment steps per second that count, and of all that were asked for")
    rows = []
    for env, members in itertools.product(asked.envs, asked.members):
        for row in measured(asked, env, members):
            rows.append(row)
            beside = "" if row["quell_by_this"] is None else f"quell / it {row['quell_by_this']:.2f}"
            rates = f"{row['rate']:14,.0f}{row['rate_asked']:14,.0f}"
            facts = f"first two turns {row['compiling']:.0f} s"
            print(f"{env:14}{members:>7} {row['library']:8}{rates}  {facts}  {beside}", flush=True)
        if asked.json is not None:  # what there is so far
            told = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(asked).items()}
            asked.json.parent.mkdir(parents=True, exist_ok=True)
            asked.json.write_text(json.dumps({"asked": told, **machine(), **versions(), "rows": rows}, indent=1))


def versions() -> dict[str, Any]:
    from importlib.metadata import version

    return {"peers": {name: version(name) for name in ("brax", "evosax", "flax", "optax", "mujoco-mjx")}}


def measured(asked: Asked, env: str, members: int) -> list[dict[str, Any]]:
    """The rows of one environment and number of members."""
    turns: dict[str, Turn] = {name: LIBRARIES[name](asked, env, members) for name in asked.libraries}
    compiling = {}
    for name, turn in turns.items():
        started = time.perf_counter()
        for _ in range(2):  # Brax compiles twice: its first state is not laid out over devices, as the next ones are
            turn()
        compiling[name] = time.perf_counter() - started
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for number in range(asked.rounds):
        order = list(turns)[number % len(turns) :] + list(turns)[: number % len(turns)]
        for name in order:  # another one is first in every round
            found[name].append(turns[name]())
    device_engine.PROGRAMS.clear()
    rates = {name: [steps / seconds for steps, seconds in took] for name, took in found.items()}
    rows = []
    for name, took in found.items():
        beside = None
        if name != "quell" and "quell" in rates:
            beside = median(ours / theirs for ours, theirs in zip(rates["quell"], rates[name], strict=True))
        row = {"env": env, "backend": asked.backend, "members": members, "library": name, "compiling": compiling[name]}
        row |= {"rate": median(rates[name]), "rate_asked": median(members * asked.horizon / spent for _, spent in took)}
        rows.append(row | {"quell_by_this": beside, "turns": took})
    return rows


def of_quell(asked: Asked, env: str, members: int) -> Turn:
    numbers: dict[str, Any] = {"pairs": members // 2, "batch_steps": 0, "steps": 10**12, "seed": SEED}
    numbers |= {"horizon": asked.horizon, "task_settings": {"backend": asked.backend}}
    numbers |= {"policy.hidden": asked.hidden, "policy.activation": "tanh"}
    numbers |= {"directions.sigma": SIGMA, "step.lr": RATE, "normalise_obs": True}
    trainer = Trainer(make_config(f"brax:{env}", "es", "tuned", numbers), Device())
    state = trainer.initial_state()

    def turn() -> tuple[float, float]:
        nonlocal state
        started = time.perf_counter()
        state, row = trainer.iterate(state)
        return row["episode_length"] * members, time.perf_counter() - started

    return turn


def of_brax(asked: Asked, env: str, members: int) -> Turn:
    """Its `train` runs in a thread, and waits after every iteration, where it would report an evaluation."""
    import brax.envs
    from brax.training.agents.es import networks, train

    environment = brax.envs.get_environment(env, backend=asked.backend)
    network = functools.partial(networks.make_es_networks, hidden_layer_sizes=asked.hidden, activation=jnp.tanh)
    go, told = queue.Queue[None](), queue.Queue[Any]()

    def reported(steps: int, metrics: Any) -> None:
        told.put((steps, metrics.get("training/walltime", 0.0)))
        go.get()

    def train_on() -> None:
        many = 2**40  # so many evaluations in as many steps: one after every iteration
        try:
            train.train(
                environment,
                num_timesteps=many,
                num_evals=many + 1,
                episode_length=asked.horizon,
                population_size=members // 2,  # of pairs
                learning_rate=RATE,
                perturbation_std=SIGMA,
                fitness_shaping=train.FitnessShaping.CENTERED_RANK,
                normalize_observations=True,
                network_factory=network,
                progress_fn=reported,
                eval_env=nothing_happens(environment),
                num_eval_envs=1,
                seed=SEED,
            )
        except BaseException as error:
            told.put(error)

    def answer() -> tuple[int, float]:
        found = told.get()
        if isinstance(found, BaseException):
            raise found
        steps, seconds = found
        return steps, seconds

    threading.Thread(target=train_on, daemon=True).start()
    before = answer()

    def turn() -> tuple[float, float]:
        nonlocal before
        go.put(None)
        after = answer()
        steps, seconds = after[0] - before[0], after[1] - before[1]
        before = after
        return float(steps), seconds

    return turn


def nothing_happens(environment: Any) -> Any:
    """An environment of the same sizes for Brax's evaluations, which its training cannot do without here."""
    import brax.envs

    class Nothing(brax.envs.Env):
        observation_size, action_size, backend = environment.observation_size, environment.action_size, ""

        def reset(self, rng: Any) -> Any:
            return brax.envs.State(None, jnp.zeros(self.observation_size), jnp.zeros(()), jnp.zeros(()))

        def step(self, state: Any, action: Any) -> Any:
            return state

    return Nothing()


@functools.cache
def problem_of_evosax(env: str, backend: str, horizon: int, hidden: tuple[int, ...]) -> Any:
    """One for all numbers of members: it is tried out, step by step, when it is made."""
    import brax.envs
    from evosax.problems import MLP, BraxProblem, tanh_output_fn

    actions = brax.envs.get_environment(env, backend=backend).action_size
    network = MLP(layer_sizes=(*hidden, actions), output_fn=tanh_output_fn)
    return BraxProblem(env, network, episode_length=horizon, env_kwargs={"backend": backend})


def of_their_types(state: Any) -> Any:
    """As arrays that do not take their types from Python's numbers: those would be compiled for once more."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), state)


def of_evosax(asked: Asked, env: str, members: int) -> Turn:
    import optax
    from evosax.algorithms import Open_ES

    problem = problem_of_evosax(env, asked.backend, asked.horizon, asked.hidden)
    keys = iter(jax.random.split(jax.random.key(SEED), 4096))
    start = problem.sample(next(keys))
    constant = optax.constant_schedule(SIGMA)
    es = Open_ES(members, start, optimizer=optax.adam(RATE), std_schedule=constant)
    params = es.default_params

    @jax.jit
    def iteration(key: Any, state: Any, seen: Any) -> Any:
        drawn, played, learned = jax.random.split(key, 3)
        population, state = es.ask(drawn, state, params)
        fitness, seen, facts = problem.eval(played, population, seen)
        state, metrics = es.tell(learned, population, -fitness, state, params)
        ended = jnp.cumsum(facts["env_states"].done, axis=-1)
        steps = (ended[..., :-1] == 0).sum() + ended[..., 0].size  # a step counts if none before ended the episode
        return of_their_types(state), of_their_types(seen), steps, metrics["best_fitness"]

    state, seen = (of_their_types(one) for one in (es.init(next(keys), start, params), problem.init(next(keys))))

    def turn() -> tuple[float, float]:
        nonlocal state, seen
        started = time.perf_counter()
        state, seen, steps, _ = jax.block_until_ready(iteration(next(keys), state, seen))
        return float(steps), time.perf_counter() - started

    return turn


LIBRARIES = {"quell": of_quell, "brax": of_brax, "evosax": of_evosax}

if __name__ == "__main__":
    main()
