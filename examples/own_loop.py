"""The control-variate gradient inside one's own loop, with one's own data and optimiser. A few seconds.

The environment here is a dozen lines of NumPy: all that quell needs are the rewards, what the policy saw, and what it
did, for both members of every antithetic pair.
"""

import numpy as np
import optax

import quell
from quell.adapt import FixedGamma, MomentsEta
from quell.estimate import estimate
from quell.keys import Purpose, generator

HORIZON, PAIRS, SIGMA = 50, 8, 0.05
policy = quell.Policy(obs_size=2, action_size=1, hidden=(16,), init_std=0.3)
directions = quell.Directions("gaussian", seed=0, pairs=PAIRS, dim=policy.dim)
layers = tuple(where for where, _ in policy.layout.values())
estimator = quell.ControlVariate(policy, MomentsEta(policy.dim, layers), FixedGamma(1.0), baseline="leave-one-out")


def episodes(thetas, rng):
    """A point mass is pushed to the origin: all members at once, one row each."""
    act, count = policy.actor(thetas), len(thetas)
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


theta = policy.init(generator(0, Purpose.INIT))
optimiser = optax.adam(0.02)
optimiser_state, state, rng = optimiser.init(theta), estimator.init(), np.random.default_rng(0)
for iteration in range(60):
    pairs = [directions.pair(iteration, i) for i in range(PAIRS)]
    members = np.stack([theta + np.float32(SIGMA) * eps for pair in pairs for eps in pair])
    batch = quell.Batch(theta, SIGMA, iteration, directions, episodes(members, rng))
    found = estimate(estimator, batch, state)
    state = found.state
    update, optimiser_state = optimiser.update(-found.gradient, optimiser_state)
    theta = np.asarray(optax.apply_updates(theta, update))
    if iteration % 10 == 9:
        ratio = found.metrics["variance/ratio"]
        print(f"iteration {iteration + 1:3d}  return {batch.rollouts.returns.mean():8.2f}  variance x{ratio:.2f}")
