"""Environments that are not ours: any of Gymnasium's, of EnvPool's, or a user's own."""

from quell.tasks.foreign.base import ForeignTask, episode_seed

__all__ = ["ForeignTask", "episode_seed"]
