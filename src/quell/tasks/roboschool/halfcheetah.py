"""RoboschoolHalfCheetah: a heavy planar cheetah, run forward; RoboschoolHalfCheetah-v1 on today's PyBullet.

The model file that ships with PyBullet is the original's. What its Gymnasium port changed is put back: restitution
0.5 on robot and floor at any impact speed (newer Bullets stop bouncing below 0.2 m/s), the floor left out of the
mean position, the cost of joints at their limits, the cost of parts touching each other, and the torso's velocity,
which the original reported with the back thigh's speed mixed in (see `observe`).

Observation 26, clipped to +-5: torso height minus its first, sine and cosine of the angle to the target, 0.3 times
the velocity (x, y, z), roll, pitch; position within its range and 0.1 times the speed of six joints; floor contact
of six parts, one step old. Action 6: motor torques over the motors' power.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from quell.errors import require
from quell.tasks.base import FLOOR, SKY, Array, State, Task, within

DT = 0.0165
JOINTS = [4, 6, 8, 10, 12, 14]  # bthigh bshin bfoot fthigh fshin ffoot
TORQUES = 0.9 * np.array([120.0, 90, 60, 140, 60, 30])
TORSO = 3
COLOUR, HEIGHT, DISTANCE = (
    [0.8, 0.55, 0.3, 1],
    0.6,
    2.2,
)  # of a film: the cheetah's, and where the camera looks and stands
LIMBS = [5, 7, 9, 11, 13, 15]  # the links that the joints move
TRACKED = [15, 13, 11, 9, 7, 5]  # ffoot fshin fthigh bfoot bshin bthigh: contacts, in the observation's order
LEGS = [1, 2, 4, 5]  # of those, the shins and thighs, which must not touch the floor
STATE = {"joint": 6, "speed": 6, "torso": 3, "angles": 3, "velocity": 3, "x": 0, "floor": 6, "clash": 0}


class RoboschoolHalfCheetah(Task):
    name = "roboschool-halfcheetah"
    original = "roboschool:RoboschoolHalfCheetah-v1"
    summary = "heavy planar cheetah, run forward (RoboschoolHalfCheetah-v1 on PyBullet)"
    obs_size, action_size = 26, 6
    can_terminate = True
    engine, extra = "pybullet", "robo"

    def simulator(self, members: int) -> "CheetahSimulator":
        require("robo", f"task {self.name!r}")
        return CheetahSimulator(members)


class CheetahSimulator:
    """One PyBullet world per member; observation and reward are computed for all members at once."""

    bounds = (-np.ones(6, np.float32), np.ones(6, np.float32))
    steps_per_second = 1 / DT

    def __init__(self, members: int) -> None:
        self._worlds = [World() for _ in range(members)]
        self._limits = self._worlds[0].limits

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        count = len(generators)
        self.state = {name: np.zeros((count, size) if size else count) for name, size in STATE.items()}
        for member, rng in enumerate(generators):
            self._worlds[member].reset(rng.uniform(-0.1, 0.1, 6))
            self._worlds[member].read(self.state, member)
        self._height = self.state["torso"][:, 2].copy()
        self.state["floor"][:] = self.state["clash"][:] = 0  # the original looks at contacts after steps only
        return observe(np, self.state, self._height, self._limits)

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        before = {"x": self.state["x"].copy(), "floor": self.state["floor"].copy()}
        torques = np.nan_to_num(TORQUES * within(np, actions, -1, 1))  # NaN shows in the reward, not in the world
        for member in np.flatnonzero(active).tolist():
            self._worlds[member].advance(torques[member].tolist())
            self._worlds[member].read(self.state, member)
        terms = reward_terms(np, before, actions, self.state, self._limits)
        observation = observe(np, {**self.state, "floor": before["floor"]}, self._height, self._limits)
        return observation, terms.sum(axis=1), terms[:, 0] < 0

    def picture(self, width: int, height: int) -> Array:
        """What the first member looks like now."""
        return self._worlds[0].picture(self.state["torso"][0].tolist(), width, height)

    def mask(self, width: int, height: int) -> Array:
        """Where it is in that picture."""
        return self._worlds[0].mask(self.state["torso"][0].tolist(), width, height)


def relative(joint: Any, limits: Array) -> Any:
    """Joint position within its range, -1 to 1."""
    low, high = limits
    return 2 * (joint - low) / (high - low) - 1


def observe(xp: Any, state: State, height: Any, limits: Array) -> Any:
    """The original's observation; `height` is the torso's at the start of the episode."""
    roll, pitch, yaw = state["angles"].T
    vx, vy, vz = state["velocity"].T
    back_thigh = state["speed"][:, 0]
    # The original's torso velocity slips: it carries the back thigh's speed, as at an arm of one metre.
    vx, vz = vx + back_thigh * xp.cos(pitch), vz - back_thigh * xp.sin(pitch)
    vx, vy = vx * xp.cos(yaw) + vy * xp.sin(yaw), vy * xp.cos(yaw) - vx * xp.sin(yaw)
    # The target is a kilometre straight ahead, so that the angle to it is -yaw, and progress is that of x.
    body = [state["torso"][:, 2] - height, xp.sin(-yaw), xp.cos(-yaw), 0.3 * vx, 0.3 * vy, 0.3 * vz, roll, pitch]
    joints = xp.stack([relative(state["joint"], limits), 0.1 * state["speed"]], axis=2).reshape(-1, 12)
    return within(xp, xp.concatenate([xp.stack(body, axis=1), joints, state["floor"]], axis=1), -5, 5)


def reward_terms(xp: Any, before: State, action: Any, after: State, limits: Array) -> Any:
    """Alive, progress, electricity, joints at their limits, parts in touch [m, 5]; the reward is their sum. Alive looks
    at the floor contacts of the previous step, as the observation does, and is -1 at the end."""
    fallen = (xp.abs(after["angles"][:, 1]) >= 1) | (before["floor"][:, LEGS] > 0).any(axis=1)
    terms = [
        xp.where(fallen, -1.0, 1.0),
        (after["x"] - before["x"]) / DT,
        -2 * xp.abs(0.1 * action * after["speed"]).mean(axis=1) - 0.1 * xp.square(action).mean(axis=1),
        -0.2 * (xp.abs(relative(after["joint"], limits)) > 0.99).sum(axis=1),
        -after["clash"],
    ]
    return xp.stack(terms, axis=1)


class World:
    """A cheetah on the floor, in a PyBullet client of its own."""

    def __init__(self) -> None:
        with _no_banner():
            import pybullet
            import pybullet_data

        self._p = p = pybullet
        self._id = p.connect(p.DIRECT)
        data, here = Path(pybullet_data.getDataPath()), {"physicsClientId": self._id}
        p.setGravity(0, 0, -9.8, self._id)
        p.setDefaultContactERP(0.9, self._id)
        p.setPhysicsEngineParameter(fixedTimeStep=DT, numSubSteps=4, numSolverIterations=5, **here)
        p.setPhysicsEngineParameter(restitutionVelocityThreshold=0.0, deterministicOverlappingPairs=1, **here)
        (self._floor,) = p.loadSDF(str(data / "plane_stadium.sdf"), **here)
        flags = p.URDF_USE_SELF_COLLISION | p.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        (self._body,) = p.loadMJCF(str(data / "mjcf" / "half_cheetah.xml"), flags=flags, **here)
        p.changeDynamics(self._floor, -1, lateralFriction=0.8, restitution=0.5, **here)
        for link in range(-1, 16):
            p.changeDynamics(self._body, link, restitution=0.5, **here)
        for joint in range(16):  # switch off the motors that PyBullet adds to hold joints still
            p.setJointMotorControl2(self._body, joint, p.VELOCITY_CONTROL, force=0, **here)
        self._painted = False
        self._start = p.saveState(self._id)
        self.limits = np.array([p.getJointInfo(self._body, joint, self._id)[8:10] for joint in JOINTS]).T  # [2, 6]

    def __del__(self) -> None:
        if hasattr(self, "_id") and self._p.isConnected(self._id):
            self._p.disconnect(self._id)

    def reset(self, joints: Array) -> None:
        self._p.restoreState(self._start, physicsClientId=self._id)
        for joint, position in zip(JOINTS, joints.tolist(), strict=True):
            self._p.resetJointState(self._body, joint, position, 0.0, self._id)

    def advance(self, torques: list[float]) -> None:
        p = self._p
        p.setJointMotorControlArray(self._body, JOINTS, p.TORQUE_CONTROL, forces=torques, physicsClientId=self._id)
        p.stepSimulation(self._id)

    def read(self, state: dict[str, Array], member: int) -> None:
        """Write what observation and reward need into the member's rows."""
        p, body, client = self._p, self._body, self._id
        joints = p.getJointStates(body, JOINTS, client)
        state["joint"][member] = [joint[0] for joint in joints]
        state["speed"][member] = [joint[1] for joint in joints]
        torso, *limbs = p.getLinkStates(body, [TORSO, *LIMBS], computeLinkVelocity=1, physicsClientId=client)
        state["torso"][member], state["velocity"][member] = torso[0], torso[6]
        state["angles"][member] = p.getEulerFromQuaternion(torso[1])
        # The mean over the model's 16 links: the torso's place counts four times, each limb's twice.
        state["x"][member] = (4 * torso[0][0] + 2 * sum(limb[0][0] for limb in limbs)) / 16
        on_floor, clashing = set(), set()
        for contact in p.getContactPoints(body, physicsClientId=client):
            first, second, first_link, second_link = contact[1:5]
            if first == second:
                clashing |= {first_link, second_link}
            else:
                on_floor.add(first_link if first == body else second_link)
        state["floor"][member] = [link in on_floor for link in TRACKED]
        state["clash"][member] = len(clashing.intersection(TRACKED))

    def picture(self, target: list[float], width: int, height: int) -> Array:
        """Seen from the side, drawn by PyBullet's own renderer, which needs no display; the floor in calm colours."""
        image, shown = self._shot(target, width, height)
        ground = (FLOOR + (image - image[shown == self._floor].mean(axis=0)) / 8).clip(0, 255)
        image = np.where((shown == self._floor)[:, :, None], ground, image)
        image[shown < 0] = SKY
        return image.astype(np.uint8)

    def mask(self, target: list[float], width: int, height: int) -> Array:
        """Where the cheetah is in the picture."""
        return self._shot(target, width, height)[1] == self._body

    def _shot(self, target: list[float], width: int, height: int) -> tuple[Array, Array]:
        """(picture, whose pixel it is)."""
        p, here = self._p, {"physicsClientId": self._id}
        if not self._painted:  # shapes that are drawn, which an episode does without
            for link in range(-1, p.getNumJoints(self._body, **here)):
                p.changeVisualShape(self._body, link, rgbaColor=COLOUR, **here)
            self._painted = True
        at = [target[0], target[1], HEIGHT]
        view = p.computeViewMatrixFromYawPitchRoll(at, distance=DISTANCE, yaw=0, pitch=-10, roll=0, upAxisIndex=2)
        lens = p.computeProjectionMatrixFOV(40, width / height, 0.1, 100)
        light = {"lightDirection": [-1, -2, 3], "shadow": 1, "lightAmbientCoeff": 0.6, "lightDiffuseCoeff": 0.5}
        shot = p.getCameraImage(width, height, view, lens, renderer=p.ER_TINY_RENDERER, **light, **here)
        return np.reshape(shot[2], (height, width, 4))[:, :, :3].astype(float), np.reshape(shot[4], (height, width))


@contextmanager
def _no_banner() -> Iterator[None]:
    """PyBullet prints its build time to stderr when first imported."""
    with open(os.devnull, "wb") as nowhere, os.fdopen(os.dup(2), "wb") as kept:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept.fileno(), 2)


TASKS = [RoboschoolHalfCheetah]
