"""The device engine: perturb, rollout, estimate and update as one compiled program.

A program is compiled once for each number of members, and kept: in this process, and by JAX's persistent cache for the
next. What an estimator or a step cannot do inside a program (`Needs.traceable`, `Step.traceable`) is done here, with
episodes and sums on the device all the same.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from quell import keys
from quell.cache import keep_compiled
from quell.errors import EngineFailure, UsageError
from quell.estimate import Estimator, Problem, Rows
from quell.estimate.reduce import forms
from quell.keys import Purpose
from quell.perturb import draw_of
from quell.registry import name_of
from quell.rollout import Engine, Stages
from quell.rollout.device import Device, directions
from quell.rollout.device.arrays import (
    NO_SUMS,
    asked_together,
    batch_of,
    block_numbers,
    first_members,
    for_host,
    of_members,
    one_seed,
    played_of,
    request_of,
    single,
    spread_states,
    stacked,
    troubles,
    visited_states,
)
from quell.rollout.device.play import Asked, Setting, play_in_groups
from quell.rollout.device.sums import summed
from quell.rollout.device.worlds import make_world
from quell.tasks.base import Task
from quell.tasks.regimes import Regime
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, State, Sums, Trajectories

MEMBERS = "members"
"""The axis along which devices share the work."""
WHAT = {"iterate": "the iteration", "rollout": "episodes", "total": "the sums over pairs"}
PROGRAMS: dict[Any, Any] = {}
"""What this process has compiled, by all that it was compiled for: another run of the same kind does not compile."""
KEPT = 16  # of those
COMPILING = threading.RLock()
"""Held by the thread that does: another may want the same program."""
NO_ACCELERATOR = "no accelerator is found: the device engine runs on the CPU, where `engine=cpu` is mostly faster"


class DeviceEngine(Engine):
    """Runs episodes, sums and whole iterations on the devices that JAX finds."""

    def __init__(self, task: Task, problem: Problem, settings: Device) -> None:
        keep_compiled()
        self._task, self.problem, self._settings = task, problem, settings
        self.world = make_world(task, settings)
        found = jax.devices()[: settings.devices]
        self.mesh = Mesh(np.array(found), (MEMBERS,)) if len(found) > 1 else None
        self.devices = len(found)
        self._made_for = _address(task), problem.policy, problem.directions, settings
        self._noted = found[0].platform != "cpu"
        self._paths: dict[str, Any] = {}
        self._rollouts: Rollouts | None = None
        self._eps: Any = None
        self._trouble: dict[str, float] = {}
        self._roots: dict[int, Any] = {}

    # What other engines do too, for evaluations, measurements, and estimators that no program can hold.

    def rollout(
        self, theta: Array, episodes: Episodes, normaliser: ObsStats | None = None, rows: range | None = None
    ) -> Rollouts:
        """Run all members; trajectories stay on the device, for `total`. Where only some pairs of a plan are asked for,
        all are played at once, and the rest is there when it is asked for."""
        if rows is None or rows.start == 0 or self._rollouts is None:
            whole = episodes
            if episodes.paired and episodes.planned:
                whole = dataclasses.replace(Episodes.of_pairs(0, episodes.planned), **request_of(episodes))
            self._rollouts = self._played(theta, whole, normaliser)
        return first_members(self._rollouts, len(episodes.members))

    def _played(self, theta: Array, episodes: Episodes, normaliser: ObsStats | None) -> Rollouts:
        setting = self._setting(self.problem, episodes)
        asked = self._asked(theta, episodes, normaliser)
        asked = asked._replace(shape=one_seed(directions.packed(episodes.shape)))
        self._eps = None
        if setting.perturbed and not self.problem.directions.traceable:
            self._eps = jnp.asarray(directions.drawn_before(self.problem, episodes))
            asked = asked._replace(eps=of_members(self._eps)[None])
        pair, sign = (jnp.asarray(side, np.int32) for side in np.array(episodes.members).T)
        key = ("rollout", setting.perturbed, setting.record, setting.looks, setting.pairs)
        found = self._run(key, partial(self._play, setting), asked, pair, sign)
        self._paths = {name: found.pop(name)[0] for name in ("obs", "actions") if name in found}
        steps = np.asarray(found["steps"][0], np.int64)
        self._trouble = troubles(found)
        states = None
        if episodes.states:
            states = np.asarray(spread_states(self._paths["obs"], jnp.asarray(steps), episodes.states))
        rewards = np.asarray(found["rewards"][0], np.float64)
        ends, sums = np.asarray(found["terminated"][0]), np.asarray(found["sums"][0], np.float64)
        return Rollouts(rewards, steps, ends, None, sums, states)

    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        """The sum of the terms of all pairs of the batch just run, in single precision."""
        assert self._rollouts is not None
        if not (forms(estimator, self.problem) or hasattr(estimator, "weighted")):
            lacks = "has no `weighted`, which sums directions that are drawn on the device"
            raise UsageError(f"estimator {name_of(estimator)} {lacks}: take `engine=cpu`, or other directions")
        count, episodes = len(self._rollouts.steps) // 2, batch.episodes
        behind = count - batch.pairs
        if behind:
            episodes = dataclasses.replace(Episodes.of_pairs(0, count), **request_of(episodes))
        own = {
            name: single(np.pad(array, [(0, behind), *[(0, 0)] * (np.ndim(array) - 1)]))
            for name, array in rows.pairs.items()
        }
        told = {"pairs": own, "shared": jax.tree.map(single, rows.shared), "theta": jnp.asarray(theta, np.float32)}
        told |= {"iteration": jnp.int32(episodes.iteration), "root": self._root(self.problem.seed)}
        told |= {"shape": directions.packed(episodes.shape), "eps": self._eps, "paths": self._paths}
        told |= {"steps": jnp.asarray(self._rollouts.steps, np.int32), "block": block_numbers(episodes.block)}
        key = ("total", estimator, episodes.stream, len(episodes.block))
        found = self._run(key, partial(self._total, estimator, episodes), told)
        return {name: np.asarray(value, np.float64) for name, value in found.items()}

    def _total(self, estimator: Estimator, episodes: Episodes, told: dict[str, Any]) -> Sums:
        problem = dataclasses.replace(self.problem, seed=told["root"])
        shape = directions.unpacked(problem.policy, told["shape"])
        facts = {"iteration": told["iteration"], "block": tuple(told["block"]), "shape": shape, "planned": 0}
        episodes = dataclasses.replace(episodes, **facts)
        paths = Trajectories(told["paths"]["obs"], told["paths"]["actions"]) if "actions" in told["paths"] else None
        rollouts = Rollouts(told["steps"][:, None], told["steps"], told["steps"] > 0, paths, NO_SUMS)
        batch, rows = Batch(told["theta"], episodes, rollouts), Rows(told["pairs"], told["shared"], episodes)
        together = self._together
        return summed(
            estimator, problem, batch, rows, told["theta"], eps=told["eps"], together=together, devices=self.devices
        )

    def sized(self, pairs: int) -> int:
        """The next power of two: each number of pairs is a program of its own."""
        return 1 << (pairs - 1).bit_length()

    def metrics(self) -> dict[str, float]:
        return dict(self._trouble)

    def close(self) -> None:
        self._paths, self._rollouts, self._eps = {}, None, None

    # A whole iteration.

    def iterate(self, stages: Stages[Any], state: Any) -> tuple[Any, dict[str, float]]:
        if not can_be_traced(stages, state):
            return stages.in_turn(state)
        ((following, row),) = self.side_by_side([stages], [state])
        return following, row

    def side_by_side(self, stages: list[Stages[Any]], states: list[Any]) -> list[tuple[Any, dict[str, float]]]:
        """The next iterations of several runs that differ in their seeds alone, in one program."""
        started, first = time.perf_counter(), stages[0]
        config = first.config
        pairs = max(one.pairs(state) for one, state in zip(stages, states, strict=True))
        looks = {"record": config.estimator.needs.trajectories, "states": config.step.states}
        looks |= {"mean_action": config.mean_actions, "longest": config.train_horizon}
        shared = {"shared_reset": config.shared_reset, "shared_noise": config.shared_noise}
        episodes = Episodes.of_pairs(0, pairs, **looks, **shared)
        asked = [self._asked_for(one, state, episodes) for one, state in zip(stages, states, strict=True)]
        told = {name: stacked([getattr(state, name) for state in states]) for name in ("theta", "step", "estimator")}
        told["spent"] = jnp.asarray([state.steps for state in states], np.float32)
        left = [min(config.steps - state.steps, np.iinfo(np.int32).max) for state in states]
        told["left"] = jnp.asarray(left, np.int32)
        key = ("iterate", pairs, tuple(states[0].changes.items()), dataclasses.replace(config, seed=0))
        whole = partial(self._iterated, first, states[0], episodes)
        found = self._run(key, whole, asked_together(asked), told)
        facts = jax.device_get({name: found[name] for name in ("row", "returns", "steps", "terminated", "obs", "nats")})
        trouble = {name: np.asarray(value) for name, value in found.items() if name.startswith("trouble.")}
        self._trouble, after = {}, []
        for k, (one, state) in enumerate(zip(stages, states, strict=True)):
            own = jax.tree.map(
                lambda array, k=k: array[k], {name: found[name] for name in ("theta", "step", "estimator")}
            )
            moved = dataclasses.replace(state, **own)
            seen = jax.tree.map(lambda array, k=k: array[k], facts)
            row = seen["row"] | troubles({name: value[k] for name, value in trouble.items()})
            after.append(one.following(state, moved, row, played_of(state, seen, started)))
        return after

    def _iterated(self, stages: Stages[Any], state: Any, episodes: Episodes, asked: Asked, told: dict[str, Any]) -> Any:
        """The program: seeds in front of every array."""
        stages = copy.copy(stages)
        rule, policy, pairs = state.current(stages.config.step), self.problem.policy, episodes.pairs

        def own(told: dict[str, Any], root: Any) -> Any:
            """(this seed's stages, its state, the metric of its step)."""
            here = copy.copy(stages)
            here.problem = dataclasses.replace(self.problem, seed=root)
            changes = {"theta": told["theta"], "step": told["step"], "estimator": told["estimator"]}
            moved = dataclasses.replace(state, steps=told["spent"], **changes)
            return here, moved, rule.metric(policy, moved.step)

        def shape(told: dict[str, Any], root: Any) -> dict[str, Any]:
            here, moved, metric = own(told, root)
            return directions.packed(here.shape(moved, metric))

        asked = asked._replace(shape=jax.vmap(shape)(told, asked.root))
        setting = self._setting(self.problem, episodes)
        pair, sign = (jnp.asarray(side, np.int32) for side in np.array(episodes.members).T)
        found = self._play(setting, asked, pair, sign)

        def improved(told: dict[str, Any], root: Any, iteration: Any, shape: Any, eps: Any, found: Any) -> Any:
            here, moved, metric = own(told, root)
            facts = {"iteration": iteration, "shape": directions.unpacked(policy, shape)}
            batch, kept = batch_of(dataclasses.replace(episodes, **facts), moved.theta, metric, found, told["left"])
            counted = jnp.where(kept, found["steps"], 0)
            states = visited_states(found["obs"], counted, episodes.states) if episodes.states else None
            devices = self.devices
            eps = None if eps is None else eps.reshape(pairs, 2, -1)

            def total(estimator: Any, batch: Batch, rows: Rows, theta: Any) -> Sums:
                return summed(
                    estimator, here.problem, batch, rows, theta, eps=eps, together=self._together, devices=devices
                )

            moved, row = here.updated(moved, batch, states, total)
            unplayed = (~kept).sum() / 2
            row = {name: jnp.asarray(value, np.float32) for name, value in row.items()}
            row["trouble/bad_pairs"] -= unplayed
            learned = {"theta": moved.theta, "step": moved.step, "estimator": moved.estimator}
            return learned | {"row": row} | for_host(found, kept)

        after = jax.vmap(improved)(told, asked.root, asked.iteration, asked.shape, asked.eps, found)
        after["nats"] = asked.shape.get("nats", jnp.zeros(len(asked.theta)))
        return after | {name: value for name, value in found.items() if name.startswith("trouble.")}

    def _asked_for(self, stages: Stages[Any], state: Any, episodes: Episodes) -> Asked:
        """What one run asks of its next iteration."""
        episodes = dataclasses.replace(episodes, iteration=state.iteration)
        normaliser = state.obs if stages.config.normalise_obs else None
        asked = self._asked(state.theta, episodes, normaliser, stages.problem.seed)
        if self.problem.directions.sigma and not self.problem.directions.traceable:
            metric = state.current(stages.config.step).metric(self.problem.policy, state.step)
            shaped = dataclasses.replace(episodes, shape=stages.shape(state, metric))
            eps = directions.drawn_before(stages.problem, shaped)
            asked = asked._replace(eps=of_members(jnp.asarray(eps))[None])
        return asked

    # Inside and around programs.

    @property
    def _together(self) -> int | None:
        """Pairs of a group."""
        return None if self._settings.chunk is None else max(1, self._settings.chunk // 2)

    def _root(self, seed: int) -> Any:
        """The key of a seed."""
        if seed not in self._roots:
            self._roots[seed] = keys.root(seed)
        return self._roots[seed]

    def _setting(self, problem: Problem, episodes: Episodes) -> Setting:
        perturbed = any(sign for _, sign in episodes.members) and bool(problem.directions.sigma)
        draw = draw_of(problem.policy, problem.seed, episodes)
        looks = bool(episodes.states)
        return Setting(self.world, problem, perturbed, episodes.record, looks, draw.layout, draw.pairs)

    def _asked(self, theta: Array, episodes: Episodes, normaliser: ObsStats | None, seed: int | None = None) -> Asked:
        """What episodes of one seed are asked for, but for their directions."""
        size = self.problem.policy.obs_size
        centre, scale = normaliser.normaliser() if normaliser else (np.zeros(size), np.ones(size))
        environment, action, direction = episodes.stream.value
        purposes = [environment, action, direction or Purpose.DIRECTION]
        return Asked(
            theta=jnp.asarray(theta, np.float32)[None],
            root=self._root(self.problem.seed if seed is None else seed)[None],
            iteration=jnp.asarray([episodes.iteration], np.int32),
            centre=jnp.asarray(centre, np.float32)[None],
            scale=jnp.asarray(scale, np.float32)[None],
            shape={},
            eps=None,
            purposes=jnp.asarray(purposes, np.int32),
            block=block_numbers(episodes.block),
            noisy=jnp.float32(not episodes.mean_action),
            shared_reset=jnp.asarray(episodes.shared_reset),
            shared_noise=jnp.asarray(episodes.shared_noise),
            longest=jnp.int32(episodes.longest or self.world.horizon),
        )

    def _play(self, setting: Setting, asked: Asked, pair: Any, sign: Any) -> dict[str, Any]:
        """`play` on every device with its share of the members, in groups of `chunk`."""
        local = partial(play_in_groups, setting, self._settings.chunk)
        if self.mesh is None:
            return local(asked, pair, sign)
        count, unit = len(pair), 2 * self.devices  # pairs stay together
        behind = -count % unit
        pair, sign = (jnp.pad(side, (0, behind)) for side in (pair, sign))
        eps = None if asked.eps is None else jnp.pad(asked.eps, ((0, 0), (0, behind), (0, 0)))
        along = PartitionSpec(None, MEMBERS)
        specs = jax.tree.map(lambda _: PartitionSpec(), asked)._replace(eps=None if eps is None else along)
        shared = jax.shard_map(
            local,
            mesh=self.mesh,
            in_specs=(specs, PartitionSpec(MEMBERS), PartitionSpec(MEMBERS)),
            out_specs=along,
            check_vma=False,
        )
        found: dict[str, Any] = shared(asked._replace(eps=eps), pair, sign)
        return {name: array[:, :count] for name, array in found.items()} if behind else found

    def _run(self, key: Any, program: Callable[..., Any], *arguments: Any) -> Any:
        """The program's result; it is compiled the first time that it meets these shapes."""
        if self.mesh is not None:
            arguments = jax.device_put(arguments, NamedSharding(self.mesh, PartitionSpec()))
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
        address = Same((*key, *self._made_for, tree, shapes))
        with self._explained():
            with COMPILING:
                compiled = PROGRAMS.pop(address, None) or self._compile(key[0], program, arguments)
                PROGRAMS[address] = compiled  # the latest one is last
                while len(PROGRAMS) > KEPT:
                    del PROGRAMS[next(iter(PROGRAMS))]
            return jax.block_until_ready(compiled(*arguments))  # here, where a full device can be explained

    def _compile(self, name: str, program: Callable[..., Any], arguments: Any) -> Any:
        if not self._noted:
            self._noted = True
            self.tell(NO_ACCELERATOR)
        started, what = time.perf_counter(), WHAT[name]
        self.tell(f"compiling {what} (once; the first time on a machine takes longest)")
        with jax.default_matmul_precision("highest"):  # physics in tensor cores' 10 bits is another physics
            compiled = jax.jit(program).lower(*arguments).compile()
        self.tell(f"compiled {what} in {time.perf_counter() - started:.1f} s")
        return compiled

    @contextmanager
    def _explained(self) -> Any:
        """A device that is full is said to be, with what helps."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) and "out of memory" not in str(error).lower():
                raise
            now = self._settings.chunk
            fewer = f"`chunk={now // 2 or 1}`" if now else "`chunk=1024`, or half the members of a device,"
            raise EngineFailure(f"the device is out of memory: {fewer} has fewer members play at a time") from None


@dataclass(frozen=True)
class Same:
    """What a program was compiled for. Values of classes that know no hash are compared by equality alone."""

    parts: tuple[Any, ...]

    def __hash__(self) -> int:
        return hash(self.parts[0])


def _address(task: Task) -> Any:
    """What tells a task from others; it may have attributes that are no fields."""
    if isinstance(task, Regime):
        return Regime, task.delay, task.hide, task.obs_noise, _address(task.inner)
    return type(task), vars(task)


def can_be_traced(stages: Stages[Any], state: Any) -> bool:
    """Whether a run's whole iteration can be one program."""
    config = stages.config
    needs, rule = config.estimator.needs, state.current(config.step)
    return bool(needs.traceable and getattr(rule, "traceable", False))


__all__ = ["DeviceEngine", "State", "can_be_traced"]
