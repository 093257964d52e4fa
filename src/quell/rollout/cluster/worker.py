"""What works on an actor: the episodes of a shard, and then the contributions of its pairs."""

from collections.abc import Callable
from dataclasses import dataclass

from quell.estimate import Estimator, Rows
from quell.estimate.reduce import Node, blocks
from quell.rollout.cpu.engine import CpuEngine
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, Sums


@dataclass(frozen=True)
class Request:
    """What is broadcast once per iteration: with the keys it determines every episode."""

    serial: int  # no two batches of a session share one
    theta: Array
    episodes: Episodes
    normaliser: ObsStats | None


class Worker:
    """One actor's. Arrays are addressed by the members' rows in the whole batch, of which it fills only its own."""

    def __init__(self, local: Callable[[], CpuEngine]) -> None:
        self._engine = local()
        self._serial = -1
        self._rows: set[int] = set()  # of the batch with this serial number, the members held here

    def rollout(self, request: Request, rows: range) -> Rollouts:
        """Run the episodes of some members and tell their scalars: trajectories stay here. Rewards are those up to the
        longest episode's end, or, where no estimator asks for more, returns [n, 1]."""
        self._run(request, rows)
        played, cut = self._engine.results(request.episodes), slice(rows.start, rows.stop)
        steps, states = played.steps[cut], None if played.states is None else played.states[cut]
        rewards = played.rewards[cut, : int(steps.max())] if request.episodes.record else played.returns[cut, None]
        return Rollouts(rewards, steps, played.terminated[cut], None, played.obs_sums[cut], states).copied()

    def contribute(
        self, request: Request, estimator: Estimator, leaves: range, rows: Rows, theta: Array | None
    ) -> dict[Node, Sums]:
        """Sums over the pairs of some blocks, at `theta` (the request's if None). Their episodes are run again, to the
        same bits, when it was another worker that ran them and is no more."""
        episodes, cut = request.episodes, blocks(request.episodes.pairs)
        members = range(2 * cut[leaves[0]].start, 2 * cut[leaves[-1]].stop)
        held = self._serial == request.serial and self._rows.issuperset(members)
        if estimator.needs.trajectories and not held:
            self._run(request, members)
        batch = Batch(request.theta, episodes, self._engine.results(episodes))
        return self._engine.part(estimator, batch, rows, request.theta if theta is None else theta, leaves)

    def _run(self, request: Request, rows: range) -> None:
        if self._serial != request.serial:
            self._serial, self._rows = request.serial, set()
        self._rows.difference_update(rows)  # half-written if this fails
        self._engine.rollout(request.theta, request.episodes, request.normaliser, rows)
        self._rows.update(rows)
