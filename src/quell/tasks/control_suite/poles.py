"""Poles to balance or swing up: dm-pendulum-swingup, and dm-cartpole-* with its smooth reward; the Control Suite's."""

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask, bell, dome

UPRIGHT_COSINE = float(np.cos(np.deg2rad(8)))


class PendulumSwingup(ControlSuiteTask):
    name = "dm-pendulum-swingup"
    summary = "swing a pendulum up and hold it, sparse reward (Control Suite)"
    obs_size, action_size = 3, 1
    domain, frame_skip = "pendulum", 1

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        return (rng.uniform(-np.pi, np.pi, 1),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        return draws[0], xp.zeros(1)

    def observe(self, xp: Any, state: State) -> Any:
        angle = state["qpos"]
        return xp.concatenate([xp.cos(angle), xp.sin(angle), state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        return xp.where(xp.cos(after["qpos"][:, 0]) >= UPRIGHT_COSINE, 1.0, 0.0)


class Cartpole(ControlSuiteTask):
    """The poles form a chain of hinges about one axis: a pole's angle is the sum of the hinges up to it."""

    action_size = 1
    domain, frame_skip = "cartpole", 1

    def observe(self, xp: Any, state: State) -> Any:
        angles = _pole_angles(xp, state)
        directions = [xp.cos(angles), xp.sin(angles)]
        if angles.shape[1] > 1:
            directions = [xp.stack(directions, axis=2).reshape(angles.shape[0], -1)]
        return xp.concatenate([state["qpos"][:, :1], *directions, state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        upright = (xp.cos(_pole_angles(xp, after)).mean(axis=1) + 1) / 2
        centred = (1 + bell(xp, after["qpos"][:, 0], margin=2)) / 2
        small_control = (4 + dome(xp, action[:, 0])) / 5
        small_velocity = (1 + bell(xp, after["qvel"][:, 1:], margin=5).min(axis=1)) / 2
        return upright * small_control * small_velocity * centred


class CartpoleBalance(Cartpole):
    name = "dm-cartpole-balance"
    summary = "keep a pole upright on a cart (Control Suite)"
    obs_size = 5

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        cart, poles = rng.uniform(-0.1, 0.1, 1), rng.uniform(-0.034, 0.034, model.nv - 1)
        return cart, poles, rng.standard_normal(model.nv)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        cart, poles, velocities = draws
        return xp.concatenate([cart, poles]), 0.01 * velocities


class CartpoleSwingup(Cartpole):
    name = "dm-cartpole-swingup"
    summary = "swing a pole up on a cart and hold it (Control Suite)"
    obs_size = 5

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        return rng.standard_normal(model.nq), rng.standard_normal(model.nv)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        """The first pole hangs, to within std 0.01; those on top of it are straight to within 0.1."""
        positions, velocities = draws
        cart, hinge, others = 0.01 * positions[:1], np.pi + 0.01 * positions[1:2], 0.1 * positions[2:]
        return xp.concatenate([cart, hinge, others]), 0.01 * velocities


class CartpoleTwoPoles(CartpoleSwingup):
    name = "dm-cartpole-two-poles"
    summary = "swing up two poles, one on top of the other (Control Suite)"
    obs_size = 8

    def adapt(self, mjcf: Any) -> None:
        world = mjcf.find("worldbody")
        second = ET.SubElement(world.find("body/body"), "body", name="pole_2", pos="0 0 1", childclass="pole")
        ET.SubElement(second, "joint", name="hinge_2")
        ET.SubElement(second, "geom", name="pole_2")
        world.find("geom").set("pos", "0 0 -1.05")  # the floor stays below the lower pole's reach
        for camera, position in zip(world.iter("camera"), ("0 -5 1", "0 -4 2"), strict=True):
            camera.set("pos", position)


def _pole_angles(xp: Any, state: State) -> Any:
    hinges = state["qpos"][:, 1:]
    return hinges if hinges.shape[1] == 1 else xp.cumsum(hinges, axis=1)


TASKS = [PendulumSwingup, CartpoleBalance, CartpoleSwingup, CartpoleTwoPoles]
