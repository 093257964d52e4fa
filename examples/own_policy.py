"""A policy of one's own: a linear map with a small correction, and nothing else of quell's network.

`shapes` names the parts of theta, and `output` computes from them, with NumPy to play and with JAX to differentiate.
A natural step holds d^2 numbers of such a network, for up to 1,000 parameters; Adam takes any number. Ten seconds:
python examples/own_policy.py
"""

import sys
from dataclasses import dataclass

import quell


class Corrected(quell.Policy):
    @property
    def shapes(self):
        o, a = self.obs_size, self.action_size
        return {"inner": (o, 8), "outer": (8, a), "gain": (o, a)}

    def output(self, xp, parts, obs):
        return obs @ parts["gain"] + xp.tanh(obs @ parts["inner"]) @ parts["outer"]


@dataclass(frozen=True, kw_only=True)
class CorrectedPolicy(quell.GaussianPolicy):
    """a ~ N(K s + B tanh(A s), diag(std^2))."""

    name = "corrected"

    def make(self, task):
        settings = {"init_std": self.init_std, "actions": self.actions, "output_scale": self.output_scale}
        return Corrected(task.obs_size, task.action_size, **settings)


if __name__ == "__main__":
    result = quell.train(
        "swimmer",
        method="natural-cv",
        estimator="control-variate",
        step="adam",
        policy=CorrectedPolicy(init_std=0.5),
        steps=int(sys.argv[1]) if len(sys.argv) > 1 else 100_000,
    )
    again = quell.load(result.path, policy=CorrectedPolicy(init_std=0.5))
    print(f"{again.policy.policy.dim} parameters, mean action {result.last('eval/mean_action'):.1f}")
