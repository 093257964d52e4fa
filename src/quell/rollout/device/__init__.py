"""One compiled program on an accelerator: the device engine's settings."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from quell.errors import UsageError
from quell.estimate import Problem
from quell.registry import COUNT, SIZE, check
from quell.rollout import Compute, Engine

Impl = Literal["auto", "jax", "warp"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """The accelerators that JAX finds, or this machine's CPU where there is none: whole iterations are one program."""

    name: ClassVar[str] = "device"
    exact: ClassVar[bool] = False
    chunk: Annotated[int | None, SIZE] = None
    """Members that play, and whose gradients are computed, at the same time on each device; by default all. Fewer take
    less memory."""
    devices: Annotated[int | None, SIZE] = None
    """How many devices share the members; by default all there are."""
    impl: Impl = "auto"
    """What simulates MuJoCo's models: jax, warp (warp-lang, from the extra mjx-warp), or auto: warp on CUDA where it is
    installed, else jax."""
    iterations: Annotated[int, COUNT] = 4
    """Most iterations of the solver with impl jax (0: as many as the model says)."""
    ls_iterations: Annotated[int, COUNT] = 8
    """Most iterations of its line search with impl jax (0: as many as the model says)."""
    contacts: Annotated[int, SIZE] = 32
    """Room for so many contacts of each member with impl warp; what finds none is counted as trouble/overflow."""

    def validate(self) -> None:
        check(self)
        if self.devices is not None and self.devices > len(found := devices_found()):
            raise UsageError(f"`devices={self.devices}` is more than JAX finds: {len(found)} ({found[0].device_kind})")

    def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> Engine:
        from quell.rollout.device.engine import DeviceEngine

        return DeviceEngine(task, problem, self)

    def together(self, runs: int) -> Compute:
        """What has so many runs that differ in their seeds alone go on side by side, each in a thread."""
        from quell.rollout.device.together import Table

        return Table(self, runs)


def devices_found() -> list[Any]:
    """JAX's devices."""
    import jax

    return list(jax.devices())


ENGINES = [Device]
