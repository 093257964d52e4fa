"""How a rate falls over the step budget."""

from __future__ import annotations

from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def scheduled(rate: float, schedule: Schedule, steps: int, budget: int) -> float:
    """The rate after `steps` of `budget` environment steps (optax's schedules)."""
    import optax

    make = {
        "constant": lambda: optax.constant_schedule(rate),
        "linear": lambda: optax.linear_schedule(rate, 0.0, budget),
        "cosine": lambda: optax.cosine_decay_schedule(rate, budget),
    }[schedule]
    return float(make()(steps))
