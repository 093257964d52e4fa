"""First-order steps, with optax's rules: theta <- theta + lr(steps) * transform(gradient)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.policy.network import Policy
from quell.registry import COUNT, NO_SETTING, POSITIVE, Range
from quell.types import Array, Metrics, namespace
from quell.update import Context, Schedule, Step, scheduled

DECAY = Range(low=0, below=1)


@dataclass(frozen=True, kw_only=True)
class FirstOrder(Step):
    """What the rules below share."""

    name: ClassVar[str]
    traceable: ClassVar[bool] = True
    rule: ClassVar[str]
    """What optax calls it; its arguments are the fields that are not shared."""
    lr: Annotated[float, COUNT] = 0.01
    """Learning rate."""
    schedule: Schedule = "constant"
    """How the learning rate falls over the step budget."""
    max_norm: Annotated[float, COUNT] = 0.0
    """A gradient longer than this is shortened to it (0: never)."""

    def transform(self) -> Any:
        """The optax.GradientTransformation, without its learning rate."""
        import optax

        own = [item.name for item in fields(self) if item not in fields(FirstOrder)]
        return getattr(optax, self.rule)(**{name: getattr(self, name) for name in own})

    def init(self, policy: Policy, theta: Array) -> Any:
        return self.transform().init(theta)

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        rate = scheduled(self.lr, self.schedule, context.steps, context.budget) * context.caution.share
        bare = replace(self, lr=0.0, schedule="constant", max_norm=0.0)  # what is compiled reads none of them
        direction, state = _compiled(bare)(shortened(gradient, self.max_norm), state)
        direction = np.asarray(direction) if namespace(theta) is np else direction
        return theta + namespace(theta).float32(rate) * direction, state, {"learning_rate": rate}


@dataclass(frozen=True, kw_only=True)
class Adam(FirstOrder):
    """Every coordinate divided by the root of its running second moment."""

    name: ClassVar[str] = "adam"
    rule: ClassVar[str] = "scale_by_adam"
    b1: Annotated[float, DECAY] = 0.9
    """Decay of the running mean."""
    b2: Annotated[float, DECAY] = 0.999
    """Decay of the running second moment."""
    eps: Annotated[float, POSITIVE] = 1e-8
    """Added to the root of the second moment."""


@dataclass(frozen=True, kw_only=True)
class Sgd(FirstOrder):
    """The gradient times the learning rate."""

    name: ClassVar[str] = "sgd"
    rule: ClassVar[str] = "identity"


@dataclass(frozen=True)
class OwnOptax(Step):
    """An optax.GradientTransformation of the user's, as `quell.train(..., step=optax.adam(0.01))` takes it. optax's
    optimisers descend: they are given the gradient's negative."""

    name: ClassVar[str] = "optax"
    given: Any = field(metadata=NO_SETTING)

    def transform(self) -> Any:
        return self.given

    def init(self, policy: Policy, theta: Array) -> Any:
        return self.given.init(theta)

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        update, state = _compiled(self)(-gradient, state, theta)
        return theta + np.float32(context.caution.share) * np.asarray(update), state, {}


def shortened(gradient: Array, longest: float) -> Array:
    """optax.clip_by_global_norm, but in double precision: in single, the square of a large gradient is infinite."""
    if not longest:
        return gradient
    xp = namespace(gradient)
    norm = xp.linalg.norm(gradient.astype(np.float64) if xp is np else gradient)
    return xp.where(norm <= longest, gradient, gradient * xp.asarray(longest / norm, dtype=gradient.dtype))


@functools.lru_cache(maxsize=16)
def _compiled(rule: FirstOrder | OwnOptax) -> Callable[..., Any]:
    import jax

    return jax.jit(rule.transform().update)


STEPS = [Adam, Sgd]
