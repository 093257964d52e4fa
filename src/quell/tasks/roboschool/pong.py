"""Pong: hit the ball past an opponent that waits at a random spot; RoboschoolPong-v1 without Roboschool.

Observation 13: position / range and 0.5 * speed of the six joints (see pong_physics), then the clock, (timeout - 150) /
150. As in the original, the joints are those before a wall turns the ball around or a new serve moves it, and the first
observation of an episode is all zeros. Action 2, clipped to +-1: the paddle's target velocity over 3 m/s.

Reward: 0.01 |vx| when the player returns the ball, +1 when it then passes the opponent, -1 when it passes the
player. A ball that is out, or that no player has returned for 150 steps, is served anew towards the player.
"""

from typing import Any

import numpy as np

from quell.tasks.arrays import BLUE, ORANGE, ArrayTask, Shape
from quell.tasks.base import Array, Draws, State, within
from quell.tasks.roboschool.pong_physics import DT, ORIGINS, RANGE, SUBSTEPS, substep

TIMEOUT = 150
OUT = 1.65
WALL = 1.0
SHORTEST_RALLY = 20  # steps; a serve of at most 2.5 m/s needs more to reach a paddle


class RoboschoolPong(ArrayTask):
    name = "roboschool-pong"
    original = "roboschool:RoboschoolPong-v1"
    summary = "hit the ball past a waiting opponent (RoboschoolPong-v1 as arrays)"
    obs_size, action_size = 13, 2
    action_limit = 1.0
    view = (1.8, 1.25)
    steps_per_second = 1 / (SUBSTEPS * DT)

    def draw(self, rng: np.random.Generator) -> Draws:
        return (draw_serves(rng, self.horizon),)

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        return first_state(xp, draws[0]), xp.zeros((len(draws[0]), self.obs_size))

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        position, velocity = state["position"], state["velocity"]
        action = within(xp, action, -1, 1)
        for _ in range(SUBSTEPS):
            position, velocity = substep(xp, position, velocity, action, state["target"])
        following, reward = referee(xp, {**state, "position": position, "velocity": velocity})
        joints = xp.stack([position / RANGE, 0.5 * velocity], axis=2).reshape(-1, 12)
        clock = (following["timeout"][:, None] - TIMEOUT) / TIMEOUT
        return following, xp.concatenate([joints, clock], axis=1), reward

    def scene(self, state: State) -> list[Shape]:
        """Seen from above: the player on the left, the opponent on the right."""
        (x, y), (their_x, their_y), (ball_x, ball_y) = np.vstack([ORIGINS, [0, 0]]) + state["position"][0].reshape(3, 2)
        walls = [Shape(0, wall, OUT, 0.01) for wall in (1.15, -1.15)]
        paddles = [Shape(x, y, 0.03, 0.15, BLUE), Shape(their_x, their_y, 0.03, 0.15, ORANGE)]
        return [*walls, *paddles, Shape(ball_x, ball_y, 0.04, 0.04, round=True)]


def draw_serves(rng: np.random.Generator, horizon: int) -> Array:
    """Every serve an episode can need [n, 5]: ball vx, y, vy, and the opponent's spot x, y."""
    low, high = [-2.5, -0.9, -2.0, -0.9, -0.9], [-2.0, 0.9, 2.0, 0.9, 0.9]
    return rng.uniform(low, high, (horizon // SHORTEST_RALLY + 2, 5))


def first_state(xp: Any, serves: Any) -> dict[str, Any]:
    """Paddles at rest at their origins, and the first serve; `serves` is [m, n, 5]."""
    first, members = serves[:, 0], len(serves)
    at_rest = xp.zeros((members, 5))
    return {
        "position": xp.concatenate([at_rest, first[:, 1:2]], axis=1),
        "velocity": xp.concatenate([at_rest[:, :4], first[:, :1], first[:, 2:3]], axis=1),
        "target": first[:, 3:],
        "timeout": xp.full(members, TIMEOUT),
        "heading": xp.full(members, -1.0),  # the ball's sign of vx when last looked at
        "bounces": xp.zeros(members, int),  # reversals of the ball since the serve
        "serves": serves,
        "served": xp.ones(members, int),
    }


def referee(xp: Any, state: State) -> tuple[dict[str, Any], Any]:
    """Walls, score, clock and serves, given the joints after the physics: (state, rewards)."""
    position, velocity = state["position"], state["velocity"]
    x, y, vx, vy = position[:, 4], position[:, 5], velocity[:, 4], velocity[:, 5]
    vy = xp.where((xp.abs(y) > WALL) & (y * vy > 0), -vy, vy)

    reversed_ = state["heading"] * vx < 0
    bounces = state["bounces"] + reversed_
    timeout = xp.where(reversed_, TIMEOUT, state["timeout"] - 1)
    returned = xp.where(reversed_ & (vx > 0), 0.01 * xp.abs(vx), 0.0)
    reward = returned + ((x > OUT) & (bounces > 0)) - 1.0 * (x < -OUT)

    over = (xp.abs(x) > OUT) | (timeout <= 0)
    serve = xp.take_along_axis(state["serves"], state["served"][:, None, None], axis=1)[:, 0]
    ball = xp.stack([xp.where(over, 0.0, x), xp.where(over, serve[:, 1], y)], axis=1)
    speed = xp.stack([xp.where(over, serve[:, 0], vx), xp.where(over, serve[:, 2], vy)], axis=1)
    following = {
        "position": xp.concatenate([position[:, :4], ball], axis=1),
        "velocity": xp.concatenate([velocity[:, :4], speed], axis=1),
        "target": xp.where(over[:, None], serve[:, 3:], state["target"]),
        "timeout": xp.where(over, TIMEOUT, timeout),
        "heading": xp.where(over, -1.0, xp.where(reversed_, -state["heading"], state["heading"])),
        "bounces": xp.where(over, 0, bounces),
        "serves": state["serves"],
        "served": state["served"] + over,
    }
    return following, reward


TASKS = [RoboschoolPong]
