"""Walker2d: a planar biped, walk forward without falling; Gymnasium's Walker2d.

v5 gives both feet the same friction; v4's right foot has less than half of the left one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quell.tasks.base import State
from quell.tasks.gymnasium.base import by_version
from quell.tasks.gymnasium.hopper import Hopper


class Walker2d(Hopper):
    """Observed and rewarded as the hopper is."""

    name = "walker2d"
    summary = "planar biped, walk forward (Gymnasium)"
    obs_size, action_size = 17, 6
    asset = by_version(v5="walker2d_v5.xml", v4="walker2d.xml")
    tuned: Mapping[str, Any] = {"lr": 0.01}  # at 0.03, four runs of ten lost their gait for good

    def terminated(self, xp: Any, state: State) -> Any:
        height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
        return ~((height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0))


TASKS = [Walker2d]
