"""BipedalWalker: walk over gently rough ground; BipedalWalker-v3 (Box2D) as EnvPool runs it.

Gymnasium's own runs the same model at three quarters of the speed or less (`gym:BipedalWalker-v3`); from a matched
start the two agree to 1e-3 in the observation over 50 steps. Terrain and the first push come from the episode's
seed, which is drawn from the member's generator.
"""

from __future__ import annotations

from dataclasses import dataclass

from quell.errors import require
from quell.tasks.base import Simulator, Task


@dataclass(frozen=True, kw_only=True)
class BipedalWalker(Task):
    horizon: int = 1600

    name = "bipedalwalker"
    original = "envpool:BipedalWalker-v3"
    summary = "two legs over rough ground (BipedalWalker-v3)"
    obs_size, action_size = 24, 4
    can_terminate = True
    engine = "envpool"
    extra = "envpool"

    def simulator(self, members: int) -> Simulator:
        require("envpool", f"task {self.name!r}")
        from quell.tasks.foreign.envpool import from_id

        return from_id("BipedalWalker-v3", self.horizon).simulator(members)


TASKS = [BipedalWalker]
