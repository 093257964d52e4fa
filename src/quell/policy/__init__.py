"""Policies: what can be set about them, and the network behind."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

from quell.errors import UsageError
from quell.policy.network import Activation, Bounding, Policy
from quell.policy.toeplitz import ToeplitzNetwork
from quell.registry import COUNT, POSITIVE

__all__ = ["CategoricalPolicy", "DeterministicPolicy", "GaussianPolicy", "Policy", "PolicySettings"]

MOST_LAYERS = 100


class PolicySettings(Protocol):
    """What can be set about a policy: a frozen dataclass whose fields are its settings."""

    @property
    def discrete(self) -> bool:
        """Whether actions are choices."""

    @property
    def stochastic(self) -> bool:
        """Whether actions are drawn from a distribution."""

    def make(self, task: Any) -> Policy:
        """The policy for a task's observations and actions."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """What every policy's network has."""

    name: ClassVar[str]
    discrete: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    hidden: tuple[int, ...] = (32, 32)
    """Sizes of the hidden layers, or linear: none."""
    activation: Activation = "relu"
    """Between the layers."""
    output_scale: Annotated[float, COUNT] = 1.0
    """Factor on the last layer's initial weights."""

    def __post_init__(self) -> None:
        if self.hidden == "linear":  # type: ignore[comparison-overlap]
            object.__setattr__(self, "hidden", ())

    def make(self, task: Any) -> Policy:
        """The policy for a task's observations and actions."""
        choices = task.choices if self.discrete else ()
        return Policy(task.obs_size, task.action_size, self.name, choices=choices, **vars(self))  # type: ignore[arg-type]

    def check(self) -> None:
        if any(size < 1 for size in self.hidden) or len(self.hidden) > MOST_LAYERS:
            needed = f"needs layers of at least one unit, at most {MOST_LAYERS} of them"
            raise UsageError(f"`policy.hidden={str(self.hidden)[:80]}` {needed}")


@dataclass(frozen=True, kw_only=True)
class GaussianPolicy(NetworkSettings):
    """a ~ N(mu(s), diag(std^2)), std independent of the state."""

    name: ClassVar[str] = "gaussian"
    init_std: Annotated[float, POSITIVE] = 1.0
    """Initial standard deviation of the actions."""
    learn_std: bool = True
    """Whether the (log) standard deviation is part of theta."""
    actions: Bounding = "as-is"
    """On the way to the environment: as-is, clip (cut at its bounds), or scale (-1 to 1 becomes its whole range)."""


@dataclass(frozen=True, kw_only=True)
class ToeplitzPolicy(GaussianPolicy):
    """Gaussian, with Toeplitz matrices as weights: a few hundred parameters, as in the ES literature."""

    name: ClassVar[str] = "toeplitz"

    def make(self, task: Any) -> Policy:
        return ToeplitzNetwork(task.obs_size, task.action_size, "gaussian", **vars(self))


@dataclass(frozen=True, kw_only=True)
class DeterministicPolicy(NetworkSettings):
    """a = mu(s)."""

    name: ClassVar[str] = "deterministic"
    stochastic: ClassVar[bool] = False
    actions: Bounding = "as-is"
    """On the way to the environment: as-is, clip (cut at its bounds), or scale (-1 to 1 becomes its whole range)."""


@dataclass(frozen=True, kw_only=True)
class CategoricalPolicy(NetworkSettings):
    """One of several choices, by the softmax of the network's output, or several such choices independently."""

    name: ClassVar[str] = "categorical"
    discrete: ClassVar[bool] = True


POLICIES = [GaussianPolicy, ToeplitzPolicy, DeterministicPolicy, CategoricalPolicy]
