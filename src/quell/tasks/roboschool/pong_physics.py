"""The physics of RoboschoolPong-v1 as array functions: two paddles and a ball that slide in a plane.

Recovered from recordings of the original, which ran on Bullet: a sequential-impulse solver with five sweeps over joint
limits, motors and contacts. Those sweeps decide what a paddle pushed against its stop does, and how the ball leaves a
moving paddle, so they are repeated here for members at a stop or in contact. All others have a closed form.

Arrays carry members on the leading axis; the six joints are paddle 0 (x, y), paddle 1 (x, y), ball (x, y),
each relative to the body's own origin. `xp` is numpy or jax.numpy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from quell.tasks.base import within

SUBSTEPS = 4
DT = 0.0165 / SUBSTEPS
PADDLE_MASS = 1000 * np.pi * 0.03**2 * 0.3
BALL_MASS = 1000 * 4 / 3 * np.pi * 0.025**3
ORIGINS = np.array([[-1.3, 0.0], [1.3, 0.0]])  # of the two paddles
RANGE = np.array([0.3, 1.1, 0.3, 1.1, 2.0, 1.1])  # joints run from -RANGE to RANGE
DRAG = 0.04
MOTOR_LIMIT = np.array([7, 7, 4, 4]) * 0.0165 / PADDLE_MASS  # largest change of speed per substep

MARGIN = 0.003  # Bullet rounds the edges of a convex shape by this much
HALF = np.array([0.03, 0.15]) - MARGIN  # of the paddle's outline in the plane
REACH = 0.025 + MARGIN  # ball radius plus rounding
SLOP = 1e-5  # penetration that the contact solver ignores

SWEEPS = 5
STOP_ERP = 0.2  # share of the overshoot at a joint's stop that one substep takes back
CONTACT_ERP = 0.9  # the same for ball and paddle
RESTITUTION = 0.25
FRICTION = 1.0


def substep(xp: Any, position: Any, velocity: Any, action: Any, target: Any) -> tuple[Any, Any]:
    """Joints after DT. `action` [m, 2] lies in +-1; `target` [m, 2] is where the opponent wants to be."""
    bodies = velocity.reshape(-1, 3, 2)
    speed = xp.sqrt(bodies[..., :1] * bodies[..., :1] + bodies[..., 1:] * bodies[..., 1:])
    velocity = (bodies - DT * DRAG * (1 + speed) * bodies).reshape(-1, 6)
    paddles = velocity[:, :4]
    ours = 0.05 * (3 * action - paddles[:, :2])
    theirs = (0.02 / DT) * (target - position[:, 2:4]) - 0.02 * paddles[:, 2:]
    wish = xp.concatenate([ours, theirs], axis=1)  # the change of speed each motor asks for

    over = xp.abs(position[:, :4]) - RANGE[:4]
    joints = over, xp.sign(position[:, :4]), paddles, wish, xp.broadcast_to(MOTOR_LIMIT, wish.shape)
    change = _where(xp, over > 0, _solve_stops, within(xp, wish, -MOTOR_LIMIT, MOTOR_LIMIT), *joints)
    change = xp.concatenate([change, xp.zeros_like(velocity[:, 4:])], axis=1)
    if xp is not np or (np.abs(position[:, 4:5] - position[:, 0:4:2] - ORIGINS[:, 0]) < HALF[0] + REACH).any():
        touching = (_contact(xp, position)[0] < 0).any(axis=1)
        change = _where(xp, touching, _solve_contact, change, position, velocity, *joints)
    velocity = velocity + change
    return position + DT * velocity, velocity


def _where(xp: Any, mask: Any, solve: Callable[..., Any], otherwise: Any, *arrays: Any) -> Any:
    """solve(...) where the mask holds; numpy solves only those, so that no member depends on its company."""
    if xp is not np:
        solved = solve(xp, *arrays)
        return xp.where(mask if mask.ndim == solved.ndim else mask[:, None], solved, otherwise)
    if mask.any():
        otherwise[mask] = solve(xp, *(array[mask] for array in arrays))
    return otherwise


class _Joints:
    """Motors and stops of paddle joints, as rows of the sequential-impulse solver.

    `change` is that of joint speed so far. A row remembers what it added: motors keep a limit, stops push inward.
    """

    def __init__(self, xp: Any, over: Any, outward: Any, velocity: Any, wish: Any, limit: Any) -> None:
        self.xp, self.outward, self.wish, self.limit = xp, outward, wish, limit
        # the largest outward change that the stop allows; no stop is felt before it is passed
        self.bound = xp.where(over > 0, -STOP_ERP / DT * over - outward * velocity, xp.inf)
        self.change = self._motor = self._stop = xp.zeros_like(wish)

    def motors(self) -> None:
        total = within(self.xp, self._motor + (self.wish - self.change), -self.limit, self.limit)
        self.change, self._motor = self.change + (total - self._motor), total

    def stops(self) -> None:
        total = self.xp.maximum(self._stop + (self.outward * self.change - self.bound), 0)
        self.change, self._stop = self.change - self.outward * (total - self._stop), total


def _solve_stops(xp: Any, *rows: Any) -> Any:
    """Motors against stops, each joint on its own. Bullet turns the order of the rows around in every other sweep, and
    a row repeated at once changes nothing, so its five sweeps are these six rows."""
    joints = _Joints(xp, *rows)
    for _ in range(3):
        joints.stops()
        joints.motors()
    return joints.change


def _contact(xp: Any, position: Any) -> tuple[Any, Any]:
    """Gap from ball to each paddle [m, 2] (negative: overlap), and the normal towards the ball [m, 2, 2]."""
    offset = position[:, None, 4:] - position[:, :4].reshape(-1, 2, 2) - ORIGINS
    apart = offset - within(xp, offset, -HALF, HALF)
    distance = xp.sqrt(apart[..., 0] * apart[..., 0] + apart[..., 1] * apart[..., 1])
    inside = distance == 0  # a fast hit can carry the centre into the outline: then the nearest side counts
    depth = HALF - xp.abs(offset)
    sideways = depth[..., :1] < depth[..., 1:]
    axis = xp.concatenate([sideways, ~sideways], axis=-1)
    normal = xp.where(inside[..., None], xp.sign(offset) * axis, apart / xp.where(inside, 1.0, distance)[..., None])
    return xp.where(inside, -xp.min(depth, axis=-1), distance) - REACH + SLOP, normal


def _solve_contact(xp: Any, position: Any, velocity: Any, *rows: Any) -> Any:
    """Motors, stops, and the ball against the paddle it touches (normal impulse, then friction)."""
    joints = _Joints(xp, *rows)
    gap, normal = _contact(xp, position)
    touching = gap < 0
    tangent = xp.stack([-normal[..., 1], normal[..., 0]], axis=-1)
    relative = velocity[:, None, 4:] - velocity[:, :4].reshape(-1, 2, 2)
    approach = _dot(relative, normal)
    separate = xp.maximum(-RESTITUTION * approach, 0) - CONTACT_ERP / DT * gap - approach
    brake = -_dot(relative, tangent)
    ball = xp.zeros_like(velocity[:, 4:])
    pressed, rubbed = xp.zeros_like(gap), xp.zeros_like(gap)
    mobility = 1 / PADDLE_MASS + 1 / BALL_MASS

    def push(direction: Any, impulse: Any) -> None:
        nonlocal ball
        impulse = xp.where(touching, impulse, 0)[..., None] * direction
        ball = ball + impulse.sum(axis=1) / BALL_MASS
        joints.change = joints.change - impulse.reshape(-1, 4) / PADDLE_MASS

    def missing(direction: Any, wanted: Any) -> Any:
        """Impulse that would still have to be added for the wanted change of relative speed."""
        return (wanted - _dot(ball[:, None] - joints.change.reshape(-1, 2, 2), direction)) / mobility

    for number in range(SWEEPS):
        for row in (joints.stops, joints.motors) if number % 2 == 0 else (joints.motors, joints.stops):
            row()
        total = xp.maximum(pressed + missing(normal, separate), 0)
        push(normal, total - pressed)
        pressed = total
        total = within(xp, rubbed + missing(tangent, brake), -FRICTION * pressed, FRICTION * pressed)
        push(tangent, total - rubbed)
        rubbed = total
    return xp.concatenate([joints.change, ball], axis=1)


def _dot(left: Any, right: Any) -> Any:
    return left[..., 0] * right[..., 0] + left[..., 1] * right[..., 1]
