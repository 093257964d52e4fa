"""The control-variate gradient inside one's own loop, with one's own data and optimiser. A few seconds.

The environment here is a dozen lines of NumPy: all that quell needs are the rewards, what the policy saw, and what it
did, for both members of every antithetic pair. The five steps of an iteration are the five parts of the loop.
"""

import sys

import numpy as np
import optax

import quell
from quell.estimate import estimate
from quell.estimate.control_variate.coefficients import MomentsCoefficients
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.reduce import sum_by_loop
from quell.keys import Purpose, generator
from quell.perturb import draw_pair, perturbed
from quell.perturb.gaussian import Gaussian
from quell.policy.act import actor
from quell.runs.record import variance_ratio

HORIZON, PAIRS = 50, 8
policy = quell.Policy(obs_size=2, action_size=1, hidden=(16,), init_std=0.3)
directions = Gaussian(sigma=0.05)
problem = quell.Problem(policy, directions, seed=0)
columns = DiscountedColumns(baseline="leave-one-out", discount=FixedDiscounts(gammas=(1.0,)))
estimator = quell.ControlVariate(columns=columns, coefficients=MomentsCoefficients())


def play(thetas, rng):
    """A point mass is pushed to the origin: all members at once, one row each."""
    act, count = actor(policy, thetas), len(thetas)
    position, speed = np.repeat(rng.standard_normal(count // 2), 2), np.zeros(count)  # a pair shares its start
    obs, actions, rewards = [], [], []
    for _ in range(HORIZON):
        obs.append(np.stack([position, speed], axis=1).astype(np.float32))
        actions.append(act(obs[-1], rng.standard_normal((count, 1)).astype(np.float32)))
        speed = speed + 0.1 * actions[-1][:, 0]
        position = position + 0.1 * speed
        rewards.append(-(position**2) - 0.01 * actions[-1][:, 0] ** 2)
    paths = quell.Trajectories(np.stack(obs, axis=1), np.stack(actions, axis=1))
    steps, never = np.full(count, HORIZON), np.zeros(count, bool)
    return quell.Rollouts(np.stack(rewards, axis=1), steps, never, paths, obs_sums=np.zeros((count, 2, 2)))


def total(estimator, batch, rows, theta):
    """Who sums what the pairs add is up to you; here a plain loop. `quell.estimate.reduce` has others."""
    (sums,) = sum_by_loop(estimator, problem, batch, rows, theta).values()
    return sums


theta = policy.init(generator(0, Purpose.INIT))
optimiser = optax.adam(0.02)
optimiser_state, state, rng = optimiser.init(theta), estimator.init(problem), np.random.default_rng(0)
history = []
for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 60):
    draw = quell.Draw(seed=0, iteration=iteration, pairs=PAIRS, dim=policy.dim)
    eps = np.concatenate([draw_pair(directions, draw, pair) for pair in range(PAIRS)])  # 0 plus, 0 minus, 1 plus, ...
    rollouts = play(perturbed(theta, directions.sigma, eps), rng)
    batch = quell.Batch(theta, quell.Episodes.of_pairs(iteration, PAIRS), rollouts)
    estimated = estimate(estimator, problem, batch, state, total=total)
    state = estimated.state
    history.append(estimated.metrics)
    update, optimiser_state = optimiser.update(-estimated.gradient, optimiser_state)
    theta = np.asarray(optax.apply_updates(theta, update))
    if iteration % 10 == 9:
        said = f"iteration {iteration + 1:3d}  return {rollouts.returns.mean():8.2f}"
        print(f"{said}  gradient variance {variance_ratio(history[-10:]):.2f} of plain ES's")
