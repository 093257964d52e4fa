"""A critic that is an MLP: V(s, t), trained by Adam on the last few batches.

Inputs are the (clipped) observation and the share of the horizon that is past; the output is in units of the targets'
spread. Pairs hand over some of their steps, evenly spread, of which the last batches' are kept: a fixed number, so that
a checkpoint holds them and a run goes on exactly.
"""

import functools
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.errors import UsageError
from quell.estimate import Problem
from quell.keys import Purpose, generator, traced_key
from quell.policy.network import Policy
from quell.registry import POSITIVE, SIZE
from quell.types import Array, State, Sums, either, namespace

ROWS = 4096  # of each batch


def clipped(xp: Any, obs: Any) -> Any:
    """Observations as a critic sees them: no further out than 10, so that a wild member cannot rule the fit."""
    cut = xp.clip(obs, -10.0, 10.0)
    return xp.where(xp.isnan(cut), 0.0, cut)  # nan_to_num takes forty times as long


@dataclass(frozen=True, kw_only=True)
class NetworkCritic:
    """A network of tanh units, trained after each batch."""

    name: ClassVar[str] = "network"
    together: ClassVar[bool] = True
    traceable: ClassVar[bool] = True
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers."""
    lr: Annotated[float, POSITIVE] = 1e-3
    """Adam's learning rate."""
    updates: Annotated[int, SIZE] = 100
    """Minibatches after each batch."""
    minibatch: Annotated[int, SIZE] = 256
    """Rows in each."""
    kept: Annotated[int, SIZE] = 3
    """How many of the last batches it is trained on."""

    def check(self) -> None:
        if any(size < 1 for size in self.hidden):
            raise UsageError(f"`critic.hidden={self.hidden}` needs layers of at least one unit")

    def sizes(self, policy: Policy) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        return list(itertools.pairwise([policy.obs_size + 1, *self.hidden, 1]))

    def memory(self, policy: Policy, horizon: int) -> int:
        """Bytes, at least: weights with Adam's moments, before and after, and a layer's output for a pair."""
        weights = sum(inputs * outputs for inputs, outputs in self.sizes(policy))
        return 32 * weights + 8 * horizon * max(self.hidden, default=0)

    def init(self, problem: Problem) -> State:
        rng = generator(problem.seed, Purpose.CRITIC_INIT)
        state: State = {}
        for layer, (inputs, outputs) in enumerate(self.sizes(problem.policy)):
            scale = 0.01 if outputs == 1 and layer == len(self.hidden) else 1.0
            state[f"critic.w{layer}"] = (scale * rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype("f4")
            state[f"critic.b{layer}"] = np.zeros(outputs, np.float32)
        moments = {f"{name}.{kind}": np.zeros_like(a) for name, a in state.items() for kind in ("mean", "square")}
        return {**state, **moments} | {
            "critic.time": np.zeros(()),  # Adam's steps so far
            "critic.centre": np.zeros(()),
            "critic.spread": np.zeros(()),
            "critic.seen": np.zeros((self.kept, ROWS, problem.policy.obs_size + 1), np.float32),
            "critic.target": np.zeros((self.kept, ROWS)),
            "critic.batches": np.zeros((), np.int64),
        }

    def shared(self, state: State, pairs: int) -> dict[str, Any]:
        rows = np.zeros(max(2, 2 * (ROWS // (2 * pairs))))  # its length is what is asked for
        scale = {name: state[f"critic.{name}"] for name in ("centre", "spread")}
        return {name: state[name] for name in self._weights} | scale | {"rows": rows}

    @property
    def _weights(self) -> list[str]:
        return [f"critic.{kind}{layer}" for layer in range(len(self.hidden) + 1) for kind in "wb"]

    def predict(self, xp: Any, row: dict[str, Any], obs: Any, time: Any) -> Any:
        out = self._forward(xp, row, self._inputs(xp, obs, time))[..., 0]
        return out * row["spread"] + row["centre"]

    def _inputs(self, xp: Any, obs: Any, time: Any) -> Any:
        past = xp.broadcast_to(xp.asarray(time, xp.float32)[..., None], (*obs.shape[:-1], 1))
        return xp.concatenate([xp.asarray(clipped(xp, obs), xp.float32), past], axis=-1)

    def _forward(self, xp: Any, weights: dict[str, Any], h: Any) -> Any:
        for layer in range(len(self.hidden) + 1):
            h = h @ weights[f"critic.w{layer}"] + weights[f"critic.b{layer}"]
            if layer < len(self.hidden):
                h = xp.tanh(h)
        return h

    def terms(self, xp: Any, row: dict[str, Any], obs: Any, time: Any, target: Any, steps: Any) -> dict[str, Any]:
        each = len(row["rows"]) // 2
        chosen = (xp.asarray(steps)[..., None] - 1) * xp.arange(each) // max(each - 1, 1)  # [..., 2, each]
        # Whole rows are taken, for which take_along_axis would look up number by number.
        row_of = (*(xp.asarray(axis[..., None]) for axis in np.ogrid[tuple(map(slice, chosen.shape[:-1]))]), chosen)
        seen = self._inputs(xp, obs[row_of], time[chosen])
        targets = xp.take_along_axis(target, chosen, axis=-1)
        front = chosen.shape[:-2]  # several pairs
        return {"collected.seen": seen.reshape(*front, 2 * each, -1), "collected.target": targets.reshape(*front, -1)}

    def update(self, problem: Problem, state: State, sums: Sums, iteration: Any) -> State:
        xp, sound = namespace(sums["collected.target"]), namespace(sums["collected.target"]).isfinite
        usable = sound(sums["collected.target"]).any()
        found = either(usable, lambda: self._with_rows(xp, state, sums), state)
        # Targets too large to square are nothing to learn from.
        learnable = usable & sound(found["critic.spread"])
        return either(learnable, lambda: self._trained(xp, problem, found, iteration), state)

    def _with_rows(self, xp: Any, state: State, sums: Sums) -> State:
        """The state with a batch's rows kept, and the oldest batch's gone."""
        seen, target = sums["collected.seen"], sums["collected.target"]
        sound = xp.isfinite(target)
        found = xp.flatnonzero(sound, **({} if xp is np else {"size": len(sound)}))
        rows = found[xp.arange(ROWS) % xp.maximum(sound.sum(), 1)]
        kept_target = xp.concatenate([target[rows][None], state["critic.target"][:-1]])
        batches = xp.minimum(state["critic.batches"] + 1, self.kept)
        among = {} if xp is np else {"where": (xp.arange(self.kept) < batches)[:, None]}
        known = kept_target[: int(batches)] if xp is np else kept_target
        return {
            **state,
            "critic.centre": xp.asarray(xp.mean(known, **among)),
            "critic.spread": xp.asarray(xp.std(known, **among) + 1e-8),
            "critic.seen": xp.concatenate([seen[rows][None].astype(np.float32), state["critic.seen"][:-1]]),
            "critic.target": kept_target,
            "critic.batches": xp.asarray(batches),
        }

    def _trained(self, xp: Any, problem: Problem, state: State, iteration: Any) -> State:
        """The state after some minibatches of the rows kept."""
        most, size = state["critic.batches"] * ROWS, (self.updates, self.minibatch)
        if xp is np:
            rng = generator(problem.seed, Purpose.CRITIC, int(iteration))
            chosen: Any = rng.integers(int(most), size=size, dtype=np.int32)
        else:
            import jax

            chosen = jax.random.randint(traced_key(problem.seed, Purpose.CRITIC, iteration), size, 0, most)
        trained = {name + kind: state[name + kind] for name in self._weights for kind in ("", ".mean", ".square")}
        targets = (state["critic.target"].reshape(-1) - state["critic.centre"]) / state["critic.spread"]
        inputs = state["critic.seen"].reshape(-1, state["critic.seen"].shape[-1])
        data = trained, state["critic.time"].astype(np.float32), inputs, targets.astype(np.float32), chosen
        # Not waited for: it goes on during the step and while the next episodes are played. JAX runs the programs of
        # one thread in turn: the step's would wait for this one, did it not come from another thread.
        moved = _aside().submit(_compiled_train(self), *data).result() if xp is np else _train(self)(*data)
        return {**state, **moved, "critic.time": xp.asarray(state["critic.time"] + self.updates)}


@functools.lru_cache(maxsize=1)
def _aside() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="quell-critic")


@functools.lru_cache(maxsize=8)
def _compiled_train(critic: NetworkCritic) -> Callable[..., Any]:
    """The same as a program of its own, on one thread: XLA would hand parts of each minibatch to another, which takes
    half as much processor time again and no less on the clock, and the workers need the cores."""
    import jax

    return jax.jit(_train(critic), compiler_options={"xla_disable_hlo_passes": "cpu-parallel-task-assigner"})


def _train(critic: NetworkCritic) -> Callable[..., Any]:
    """Adam over minibatches of (inputs, targets), given the weights with their moments."""
    import jax
    import jax.numpy as jnp

    def loss(weights: dict[str, Any], inputs: Any, targets: Any) -> Any:
        return jnp.square(critic._forward(jnp, weights, inputs)[:, 0] - targets).mean()

    def train(state: dict[str, Any], time: Any, inputs: Any, targets: Any, chosen: Array) -> dict[str, Any]:
        names = [name for name in state if not name.endswith((".mean", ".square"))]

        def one(carried: Any, rows: Any) -> tuple[Any, None]:
            state, time = carried
            slope = jax.grad(loss)({name: state[name] for name in names}, inputs[rows], targets[rows])
            time, following = time + 1, dict(state)
            for name in names:
                mean = 0.9 * state[f"{name}.mean"] + 0.1 * slope[name]
                square = 0.999 * state[f"{name}.square"] + 0.001 * jnp.square(slope[name])
                size = jnp.sqrt(square / (1 - 0.999**time)) + 1e-8
                following[name] = state[name] - critic.lr * mean / (1 - 0.9**time) / size
                following[f"{name}.mean"], following[f"{name}.square"] = mean, square
            return (following, time), None

        return jax.lax.scan(one, (state, time), chosen)[0][0]

    return train


CRITICS = [NetworkCritic]
