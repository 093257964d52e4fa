"""An environment of one's own, from the class to a policy that steers it. About fifteen seconds.

The environment stands in this script; worker processes get their own copies of it.
"""

import sys

import gymnasium
import numpy as np

import quell


class Dock(gymnasium.Env):
    """A boat has to come to rest at the pier: push left or right, against the wind of the day."""

    observation_space = gymnasium.spaces.Dict(
        {"boat": gymnasium.spaces.Box(-np.inf, np.inf, (2,)), "wind": gymnasium.spaces.Box(-1, 1, (1,))}
    )
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.speed, self.wind = self.np_random.normal(), 0.0, self.np_random.uniform(-0.5, 0.5)
        return self.seen(), {}

    def seen(self):
        return {"boat": np.array([self.position, self.speed]), "wind": np.array([self.wind])}

    def step(self, action):
        push = float(np.clip(action[0], -1, 1))
        self.speed = 0.95 * self.speed + 0.1 * (push + self.wind)
        self.position += 0.1 * self.speed
        return self.seen(), -abs(self.position) - 0.1 * abs(self.speed), False, False, {}


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    result = quell.train(Dock, horizon=100, steps=steps)
    env = Dock()
    seen, _ = env.reset(seed=1)
    for _ in range(100):
        seen, *_ = env.step(result.policy(seen))
    print(f"after 100 steps the boat is at {env.position:+.2f} with speed {env.speed:+.2f}, wind {env.wind:+.2f}")
