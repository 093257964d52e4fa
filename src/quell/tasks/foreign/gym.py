"""Any Gymnasium environment as a task: `gym:ID`, or a user's own through `from_env` and `trusted`.

Every episode is seeded with `env.reset(seed=...)` by a number drawn from its member's generator, so results depend
on neither workers nor order as long as the environment draws all its randomness from that seed.
"""

import copy
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from quell.errors import EnvironmentFailure, MissingExtra, UsageError, did_you_mean, warn_once
from quell.registry import imported
from quell.tasks.base import Array
from quell.tasks.foreign.base import ForeignSimulator, ForeignTask, as_pairs, describe

DRAWN = {"render_mode": "rgb_array"}
CLOSE_UPS = {"BipedalWalker-v3": np.s_[150:330, :270]}  # the robot is 70 of 400 pixels tall, and always there
RESET, STEP = "(observation, info)", "(observation, reward, terminated, truncated, info)"


@dataclass(frozen=True, kw_only=True)
class Source:
    """How to make an environment, by one of `env_id`, `spec`, `factory` and `own`; it travels to worker processes."""

    env_id: str = ""  # a registered id, such as CartPole-v1
    registered: Any = field(default=None, compare=False, repr=False)
    """What stands for the id where it is not Gymnasium's own: a worker process has not registered it."""
    spec: str = ""  # a gymnasium EnvSpec as JSON, taken from an environment that was made with gymnasium.make
    factory: str = ""  # module:function that returns an environment
    own: Any = field(default=None, compare=False, repr=False)
    """A function that no other process can import: this one sends it to its workers, and nothing else holds it."""
    path: str = ""  # folder to look for the factory's module in, if it is not found otherwise
    kwargs: tuple[tuple[str, Any], ...] = ()  # arguments for making the environment, as (name, value) pairs
    drawn: bool = False  # whether its pictures are wanted (render_mode="rgb_array")

    def task(self, name: str, horizon: int) -> "GymTask":
        """A task on such environments; horizon 0 stands for their own time limit."""
        env = self.make()
        try:
            spaces = _spaces(env)
            return GymTask(name=name, horizon=horizon, spaces=spaces, time_limit=self._time_limit(env), source=self)
        finally:
            env.close()

    def make(self) -> Any:
        """A new environment, without the time limit that gymnasium.make would add: that is the engine's business."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)  # Box2D's bindings crash if these are errors
            env = self._make_own() if self.factory or self.own else self._make_registered()
        for warning in said:
            warn_once(str(warning.message), warning.category)
        return env

    def _make_own(self) -> Any:
        """What the user's function returns."""
        import gymnasium

        make, name = self.own or imported(self.factory, self.path), self.factory or _name(self.own)
        try:
            env = make(**dict(self.kwargs), **(DRAWN if self.drawn and _takes_render_mode(make) else {}))
        except Exception as error:
            raise EnvironmentFailure(f"{name} could not make an environment: {describe(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise UsageError(f"{name} returned {_named(env)}, not a gymnasium.Env")
        return env

    def _make_registered(self) -> Any:
        """What gymnasium.make returns."""
        import gymnasium

        what = gymnasium.envs.registration.EnvSpec.from_json(self.spec) if self.spec else self.registered or self.env_id
        try:
            given = dict(self.kwargs) | (DRAWN if self.drawn else {})
            return gymnasium.make(what, max_episode_steps=-1, disable_env_checker=True, **given)
        except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
            raise UsageError(f"Gymnasium has no environment {self.env_id!r}{_hint(self.env_id, error)}") from error
        except Exception as error:  # an environment may raise anything over arguments it does not like
            if isinstance(error, gymnasium.error.DependencyNotInstalled) and "box2d" in str(error):
                raise MissingExtra("box2d", f"gym:{self.env_id}") from error
            raise UsageError(f"gym:{self.env_id} cannot be made: {error}") from error

    def _time_limit(self, env: Any) -> int | None:
        """The time limit the environment was meant to have."""
        import gymnasium

        if self.env_id:
            return gymnasium.registry[self.env_id].max_episode_steps
        if env.has_wrapper_attr("_max_episode_steps") and (limit := env.get_wrapper_attr("_max_episode_steps")):
            return int(limit)  # of a TimeLimit wrapper
        if self.spec:
            return gymnasium.envs.registration.EnvSpec.from_json(self.spec).max_episode_steps
        return env.spec.max_episode_steps if env.spec is not None else None


@dataclass(frozen=True, kw_only=True)
class GymTask(ForeignTask):
    """A Gymnasium environment."""

    engine = "gymnasium"
    source: Source

    @property
    def original(self) -> str | None:
        return f"gymnasium:{self.source.env_id}" if self.source.env_id else None

    def simulator(self, members: int) -> "GymSimulator":
        return GymSimulator(self)

    def filmed(self) -> "GymTask":
        return replace(self, source=replace(self.source, drawn=True))

    def replay(self, seed: int) -> str:
        source = self.source
        given = "".join(f", {key}={value!r}" for key, value in source.kwargs)
        if source.factory or source.own:
            make = source.factory.replace(":", ".") or _name(source.own)
            return f"env = {make}({given[2:]}); env.reset(seed={seed})"
        env_id = source.env_id or self.name.removeprefix("gym:")
        return f"env = gymnasium.make({env_id!r}{given}); env.reset(seed={seed})"


class GymSimulator(ForeignSimulator):
    """One environment per member, made at the first reset that needs it."""

    def __init__(self, task: GymTask) -> None:
        self._make = task.source.make
        self._close_up = CLOSE_UPS.get(task.source.env_id)
        self._envs = [self._make()]
        super().__init__(task)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        while len(self._envs) < len(generators):
            self._envs.append(self._make())
        for member, seed in enumerate(self._begin(generators)):
            try:
                result = self._envs[member].reset(seed=seed)
                if not (isinstance(result, tuple | list) and len(result) == 2):
                    raise ValueError(f"reset returned {_form(result)}, {RESET} is expected")
                self._fill(self._observations[member], result[0])
            except Exception as error:
                raise self._failure(member, error) from error
        return self._checked()

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        running, given = self._running(actions, active)
        for member, action in zip(running, given, strict=True):
            try:
                result = self._envs[member].step(int(action) if np.ndim(action) == 0 else action)
                if not (isinstance(result, tuple | list) and len(result) == 5):
                    raise ValueError(f"step returned {_form(result)}, {STEP} is expected")
                self._record(member, *result[:4])
            except Exception as error:
                raise self._failure(member, error) from error
        return self._checked(), self._rewards, self._terminated

    @property
    def steps_per_second(self) -> float:
        """As the environment is meant to be shown."""
        return float(self._envs[0].metadata.get("render_fps") or 30)

    def picture(self, width: int, height: int) -> Array:
        """The first member as the environment draws it, in its own size (of BipedalWalker: a close-up)."""
        if self._envs[0].render_mode != "rgb_array":
            why = "its environment has no render_mode 'rgb_array', or the function that makes it takes no `render_mode`"
            raise UsageError(f"{self.task.name} is not drawn: {why}")
        picture = np.asarray(self._envs[0].render())
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UsageError(f"{self.task.name}: render() gave {picture.dtype} {picture.shape}, not RGB bytes")
        if self._close_up and picture.shape[:2] == (400, 600):
            picture = picture[self._close_up].repeat(2, axis=0).repeat(2, axis=1)
        return picture


def _spaces(env: Any) -> tuple[Any, Any]:
    """An environment's spaces, of observations and of actions."""
    from gymnasium.spaces import Space

    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), Space):
            advice = "an environment says what it takes and gives, as in gymnasium.spaces.Box(-1, 1, (3,))"
            raise UsageError(f"{type(env.unwrapped).__name__} has no {name} of Gymnasium's: {advice}")
    return env.observation_space, env.action_space


def _form(result: Any) -> str:
    """What an environment returned, in words."""
    return f"{len(result)} values" if isinstance(result, tuple | list) else f"one {type(result).__name__}"


def _takes_render_mode(make: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return False
    return any(one.name == "render_mode" or one.kind is one.VAR_KEYWORD for one in parameters)


def from_id(env_id: str, horizon: int = 0, **kwargs: Any) -> GymTask:
    """The task `gym:ID`; other keywords go to gymnasium.make."""
    if ":" in env_id:
        refused = f"gym:{env_id} would import {env_id.split(':')[0]!r}, and a task name must not run code"
        advice = "Write a function that makes the environment and pass it with --trust-import module:function"
        raise UsageError(f"{refused}. {advice}")
    import gymnasium

    env_id = with_version(env_id)
    spec = gymnasium.registry.get(env_id)
    own = spec if spec is not None and not str(spec.entry_point).startswith("gymnasium.") else None
    return Source(env_id=env_id, registered=own, kwargs=as_pairs(kwargs)).task(f"gym:{env_id}", horizon)


def with_version(env_id: str) -> str:
    """A registered id, or what an id without its version stands for: the newest."""
    import gymnasium

    of_that_name = [spec for spec in gymnasium.registry.values() if spec.id == f"{env_id}-v{spec.version}"]
    if env_id in gymnasium.registry or not of_that_name:
        return env_id
    newest = max(of_that_name, key=lambda spec: spec.version).id
    warn_once(f"gym:{env_id} has no version; the newest is used: gym:{newest}")
    return newest


def _hint(env_id: str, error: Exception) -> str:
    """What to write instead of an id that Gymnasium does not have."""
    import gymnasium

    advice = "Write a function that imports it and makes the environment, and pass --trust-import module:function"
    if isinstance(error, gymnasium.error.NamespaceNotFound):
        theirs = f"those of {env_id.partition('/')[0]}/ are in a separate package, which a task name does not import"
        return f": {theirs}. {advice}"
    if isinstance(error, gymnasium.error.DeprecatedEnv | gymnasium.error.VersionNotFound):
        known = ", ".join(
            f"gym:{one}" for one in gymnasium.registry if one.rpartition("-")[0] == env_id.rpartition("-")[0]
        )
        return f"; there are: {known}"
    newest = {
        (spec.namespace, spec.name): spec.id
        for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
    }
    close = did_you_mean(env_id, newest.values())
    return close or f"; the package that registers it must be imported first. {advice}"


def from_env(env: Any, *, name: str = "", horizon: int = 0, **kwargs: Any) -> GymTask:
    """A task from a user's environment, or from a function or class that makes one, which keywords go to.

    Worker processes make their own: from the spec, if it was made by gymnasium.make, by importing the function, or,
    where neither can be had (a script's or notebook's own, a lambda), from what cloudpickle sends them.
    """
    import gymnasium

    given, own = as_pairs(kwargs), env
    if isinstance(env, gymnasium.Env):
        if kwargs:
            raise UsageError("keywords are for a function that makes the environment, but this one is already made")
        name = name or (f"gym:{env.spec.id}" if _is_registered(env.spec) else f"own:{type(env.unwrapped).__name__}")
        with suppress(Exception):  # a wrapper that cannot be made again
            return Source(spec=env.spec.to_json()).task(name, horizon)
        own = functools.partial(copy.deepcopy, env)
    elif not callable(env):
        raise UsageError(f"expected an environment or a function that makes one, got {_named(env)}")
    elif factory := _importable(env):
        return Source(factory=factory, path=_folder(env.__module__), kwargs=given).task(name or factory, horizon)
    try:
        cloudpickle.dumps(own)
    except Exception as error:
        refused = f"{type(env).__name__} cannot be sent to worker processes ({error})"
        raise UsageError(f"{refused}: pass a function that makes it") from error
    return Source(own=own, kwargs=given).task(name or f"own:{_name(env)}", horizon)


def _named(env: Any) -> str:
    """What an object that is no environment is called, and what to do about several in one."""
    several = isinstance(env, list | tuple) or hasattr(env, "num_envs")
    return type(env).__name__ + (
        " (one is enough: quell makes as many copies as it needs, and workers=8 sets the number of processes)"
        if several
        else ""
    )


def _is_registered(spec: Any) -> bool:
    """Whether gymnasium.make(id) alone makes the environment again."""
    import gymnasium

    known = gymnasium.registry.get(spec.id) if spec is not None else None
    own = {key: value for key, value in spec.kwargs.items() if key != "render_mode"} if known else {}
    return known is not None and not spec.additional_wrappers and own == known.kwargs


def _importable(function: Any) -> str:
    """module:function, if a worker process finds the same function there; else nothing."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not qualname or "<" in qualname:
        return ""
    try:
        found = imported(f"{module}:{qualname}", _folder(module))
    except UsageError:
        return ""
    return f"{module}:{qualname}" if found is function else ""


def _name(function: Any) -> str:
    """What a function is called, without the functions around it."""
    return getattr(function, "__qualname__", type(function).__name__).rpartition(".")[2].strip("<>")


def trusted(module_factory: str, *, horizon: int = 0, **kwargs: Any) -> GymTask:
    """A task from `module:function` text, as in `--trust-import my_envs:make`. Imports, and so runs, that module."""
    module, _, function = module_factory.partition(":")
    if not module or not function:
        raise UsageError(f"--trust-import takes module:function, got {module_factory!r}")
    return Source(factory=module_factory, path=os.getcwd(), kwargs=as_pairs(kwargs)).task(module_factory, horizon)


def _folder(module: str) -> str:
    """The folder that must be on sys.path for `module` to be found."""
    file = getattr(sys.modules[module], "__file__", None)
    depth = module.count(".") + (Path(file or "").name == "__init__.py")
    return str(Path(file).resolve().parents[depth]) if file else ""
