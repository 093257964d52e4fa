"""The values that flow between the steps of an iteration: perturb -> rollout -> estimate -> update."""

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quell.errors import QuellError
from quell.keys import Stream

Array = NDArray[Any]
State = dict[str, Array]
"""What a strategy remembers between iterations: named arrays, so that a checkpoint can hold them."""
Sums = dict[str, Array]
"""Named additive quantities: two of them add name by name."""
Metrics = dict[str, Any]
"""Numbers, by name; arrays without a dimension count as such."""


def namespace(array: Any) -> Any:
    """The library that an array is of, numpy or jax.numpy: what runs on both is written over it."""
    return array.__array_namespace__()


def either(condition: Any, changed: Callable[[], dict[str, Any]], otherwise: dict[str, Any]) -> dict[str, Any]:
    """`changed()` where the condition holds, else `otherwise`, name by name.

    NumPy computes only what is wanted. A compiled program computes both and chooses.
    """
    xp = namespace(condition)
    if xp is np:
        return changed() if condition else otherwise
    return {name: xp.where(condition, value, otherwise.get(name, xp.nan)) for name, value in changed().items()}


@dataclass(frozen=True)
class Caution:
    """How carefully a step should follow an estimate; set by an estimator that knows."""

    surrogate: Callable[[Array], Any] | None = None
    """theta -> what the batch says it would earn above the batch's own, in any unit: the step should gain by it."""
    share: Any = 1.0
    """Of its usual length, how much the step shall have: steps do not feel how long a gradient is."""
    es: Any = None
    """ES's weight in the estimate, where it is known and a policy gradient has the rest."""
    policy_gradient: Any = None
    """That policy gradient [d] by itself."""


NO_CAUTION = Caution()


@dataclass(frozen=True, eq=False)
class Shape:
    """What `Directions.prepare` made of the run so far, for one iteration's draws; it travels with the request."""

    sigma: float
    """Standard deviation of the perturbation, where it follows from a divergence."""
    metric: Any = None
    """The metric that the covariance follows (`quell.policy.fisher.Metric`), where it does."""
    nats: float = 0.0
    """The divergence that sigma follows from, where it does."""


class Factored(NamedTuple):
    """Parameters of m members that share theta: W + A B' for each weight matrix W, all else a member's own."""

    theta: Array  # [d] float32
    own: dict[str, Array]  # name -> [m, ...]: biases and log standard deviations
    factors: dict[str, tuple[Array, Array]]  # name -> A [m, inputs, rank], B' [m, rank, outputs]


@dataclass(frozen=True)
class Episodes:
    """What an engine is asked to run: one episode per (pair, sign).

    A member's parameters are theta + sigma * eps(iteration, pair, sign), or theta itself where sign is 0 or there are
    no directions. `shared_reset` gives both members of a pair the same environment randomness (reset, process noise),
    and `shared_noise` the same action noise (common random numbers).
    """

    iteration: int
    members: tuple[tuple[int, int], ...]
    stream: Stream = Stream.TRAIN
    block: tuple[int, ...] = ()
    """Told apart beyond the stream, such as several measurements at one point."""
    record: bool = False
    """Keep trajectories."""
    states: int = 0
    """Observations of each episode to bring back, evenly spread over it."""
    mean_action: bool = False
    shared_reset: bool = True
    shared_noise: bool = False
    longest: int = 0
    """Steps after which an episode is cut, if before the task's horizon (0: never)."""
    planned: int = 0
    """Pairs that directions are drawn for, where these are but the first of them (0: as many as there are)."""
    shape: Shape | None = None
    """What directions take from the run so far; None where their settings say all."""

    @staticmethod
    def of_pairs(iteration: int, pairs: int, **facts: Any) -> "Episodes":
        """Both members of every pair, plus first: the order every array over members has."""
        members = tuple((pair, sign) for pair in range(pairs) for sign in (1, -1))
        return Episodes(iteration, members, **facts)

    @staticmethod
    def unperturbed(iteration: int, episodes: int, stream: Stream, **facts: Any) -> "Episodes":
        """Episodes of theta itself."""
        return Episodes(iteration, tuple((episode, 0) for episode in range(episodes)), stream, **facts)

    def first(self, pairs: int) -> "Episodes":
        """The first of its pairs, each with the episodes and the direction that it has in the whole."""
        if pairs == self.pairs:
            return self
        return dataclasses.replace(self, members=self.members[: 2 * pairs], planned=self.planned or self.pairs)

    @property
    def pairs(self) -> int:
        return len(self.members) // 2

    @property
    def paired(self) -> bool:
        """Whether the members are the two of every pair, or episodes of theta itself."""
        return self.stream.value[2] is not None


@dataclass(frozen=True)
class Trajectories:
    """Recorded episodes, padded with zeros after their last step; what the policy saw and did."""

    obs: Array  # [n, t, o] float32, as the policy saw them (normalised if it normalises)
    actions: Array  # [n, t, a] float32, before any clipping by the environment


@dataclass(frozen=True)
class Rollouts:
    """Results of n episodes. Entries after an episode's last step are zero and count for nothing."""

    rewards: Array  # [n, t] float64
    steps: NDArray[np.int64]  # [n] real environment steps
    terminated: NDArray[np.bool_]  # [n] ended by the environment, as opposed to cut off at the horizon
    trajectories: Trajectories | None
    obs_sums: Array  # [n, 2, o] float64: sum and sum of squares of raw observations
    states: Array | None = None  # [n, states, o] float32, as the policy saw them, where they were asked for

    def copied(self) -> "Rollouts":
        """The same results in memory of their own: an engine reuses its arrays."""
        return copy.deepcopy(self)

    @property
    def returns(self) -> Array:
        """Undiscounted returns J_i, [n]."""
        return self.rewards.sum(axis=1)


@dataclass(frozen=True)
class ObsStats:
    """Count, sum and sum of squares of every observation of real steps so far (float64), to normalise them by."""

    count: float
    total: Array
    squares: Array

    @staticmethod
    def empty(size: int) -> "ObsStats":
        return ObsStats(0.0, np.zeros(size), np.zeros(size))

    def add(self, obs_sums: Array, steps: Array) -> "ObsStats":
        """Include episodes given by their sums [n, 2, o], added in member order; non-finite ones are left out."""
        good = np.isfinite(obs_sums).all(axis=(1, 2))
        summed = obs_sums[good].sum(axis=0)
        return ObsStats(self.count + float(steps[good].sum()), self.total + summed[0], self.squares + summed[1])

    def normaliser(self) -> tuple[Array, Array]:
        """(mean, 1/std), float32: what the policy applies; the identity until there is data."""
        if self.count < 2:
            return np.zeros(len(self.total), np.float32), np.ones(len(self.total), np.float32)
        mean = self.total / self.count
        variance = np.maximum(self.squares / self.count - mean**2, 0.0)
        return mean.astype(np.float32), (1 / np.sqrt(variance + 1e-6)).astype(np.float32)


@dataclass(frozen=True)
class Batch:
    """One iteration's episodes, and where they were played from; members are ordered pair 0 +, 0 -, 1 +, 1 -, ..."""

    theta: Array  # [d] float32, where the directions are centred
    episodes: Episodes
    rollouts: Rollouts
    metric: Any = None
    """The metric of the step that will be taken, as known from earlier batches (`quell.policy.fisher.Metric`)."""

    @property
    def pairs(self) -> int:
        return self.episodes.pairs


@dataclass(frozen=True)
class Pair:
    """One pair as an estimator's `terms` sees it, both members in front; trajectories where they were recorded."""

    eps: Any  # [2, d] float32
    steps: Any  # [2]
    obs: Any = None  # [2, t, o] float32
    actions: Any = None  # [2, t, a] float32
    scored: Any = None  # [2, d] float32, the directions times their inverse covariance, where that is not 1
    sigma: Any = None  # of this batch, where it is not the directions' own


def restored(
    what: str, stored: Array | None, fresh: Any, *, exactly: bool = True, either_precision: bool = False
) -> Array:
    """An array of a checkpoint that can stand for a fresh one; QuellError unless it has its shape, type, numbers.

    The type counts if `exactly`; with `either_precision`, single stands for double, as an accelerator computes. Where
    the fresh one has NaN or infinities itself, as what nothing was measured of yet, so may the other.
    """
    wanted = np.asarray(fresh)
    of_accelerator = either_precision and stored is not None and {stored.dtype, wanted.dtype} <= PRECISIONS
    if stored is None or (wrong := _misfit(stored, wanted, exactly=exactly and not of_accelerator)):
        wrong = "it is missing" if stored is None else wrong
        raise QuellError(f"the checkpoint's {what:.80} does not fit this configuration: {wrong}")
    return stored.astype(wanted.dtype, copy=False) if exactly else stored


PRECISIONS = {np.dtype(np.float32), np.dtype(np.float64)}


def _misfit(stored: Array, wanted: Array, *, exactly: bool) -> str | None:
    if stored.shape != wanted.shape or (exactly and stored.dtype != wanted.dtype):
        return f"{stored.dtype} {stored.shape}, not {wanted.dtype} {wanted.shape}"
    if np.isfinite(wanted).all() and not np.isfinite(stored).all():
        return "NaN or infinite"
    return None
