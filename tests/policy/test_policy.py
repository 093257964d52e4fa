"""Policies: one layout, NumPy acting against JAX scoring."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import quell.tasks
from quell.errors import UsageError
from quell.policy import Policy
from quell.policy.act import actor, to_environment
from quell.policy.likelihood import fisher_product, kl, log_prob, mean_kl, outputs, policy_change, weighted_scores

POLICIES = [
    Policy(5, 3),
    Policy(5, 3, hidden=(8,), activation="tanh"),
    Policy(5, 3, learn_std=False, init_std=0.3),
    Policy(5, 3, hidden=()),
    Policy(5, 3, "deterministic"),
    Policy(5, 4, "categorical"),
    Policy(5, 7, "categorical", choices=(3, 2, 2)),
    Policy(5, 6, "categorical", choices=(2, 2, 2)),
]
RNG = np.random.default_rng(0)


def thetas(policy: Policy, count: int) -> np.ndarray:
    return np.stack([policy.init(RNG) + 0.1 * RNG.standard_normal(policy.dim).astype(np.float32) for _ in range(count)])


def test_layout_covers_theta_once() -> None:
    for policy in POLICIES:
        stops = [0]
        for where, shape in policy.layout.values():
            assert where.start == stops[-1]
            assert where.stop - where.start == np.prod(shape)
            stops.append(where.stop)
        assert stops[-1] == policy.dim
    assert Policy(17, 6).dim == 17 * 32 + 32 + 32 * 32 + 32 + 32 * 6 + 6 + 6  # the paper's policy on HalfCheetah


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.kind}-{p.hidden}-{p.activation}")
def test_numpy_and_jax_agree_on_the_network(policy: Policy) -> None:
    members = thetas(policy, 7)
    obs = RNG.standard_normal((7, 5)).astype(np.float32)
    mean = actor(policy, members, mean_action=True)(obs, np.zeros((7, 1), np.float32))
    exact = np.stack([outputs(policy, jnp.asarray(m), jnp.asarray(o)) for m, o in zip(members, obs, strict=True)])
    if policy.kind == "categorical":
        for choice, where in enumerate(policy.groups):
            assert (mean[:, choice] == exact[:, where].argmax(axis=1)).all()
    else:
        assert mean == pytest.approx(exact, abs=1e-5)


def test_a_members_action_does_not_depend_on_the_batch() -> None:
    """Bit for bit, for odd sizes and odd offsets in memory."""
    for policy in (Policy(17, 6), Policy(3, 3, hidden=(7, 5)), Policy(78, 12, activation="tanh")):
        members = thetas(policy, 9)
        obs = RNG.standard_normal((9, policy.obs_size)).astype(np.float32)
        noise = RNG.standard_normal((9, policy.action_size)).astype(np.float32)
        together = actor(policy, members)(obs, noise)
        for start, stop in ((0, 1), (1, 2), (2, 7), (7, 9)):
            apart = actor(policy, members[start:stop])(obs[start:stop], noise[start:stop])
            assert (apart == together[start:stop]).all()


def test_gaussian_log_prob_is_the_density_of_the_actions_drawn() -> None:
    policy = Policy(5, 3)
    theta = thetas(policy, 1)[0]
    obs = RNG.standard_normal((4, 5)).astype(np.float32)
    actions = RNG.standard_normal((4, 3)).astype(np.float32)
    mean = np.asarray(outputs(policy, jnp.asarray(theta), jnp.asarray(obs)))
    expected = stats.norm.logpdf(actions, mean, policy.std(theta)).sum(axis=1)
    assert np.asarray(log_prob(policy, jnp.asarray(theta), jnp.asarray(obs), jnp.asarray(actions))) == pytest.approx(
        expected, rel=1e-4
    )
    # and what `actor` draws has that mean and spread: 20,000 draws, 5 standard errors
    drawn = actor(policy, np.broadcast_to(theta, (20_000, policy.dim)))(
        np.broadcast_to(obs[0], (20_000, 5)), policy.draw_noise(np.random.default_rng(1), 20_000)
    )
    assert np.abs(drawn.mean(axis=0) - mean[0]).max() < 5 * policy.std(theta).max() / np.sqrt(20_000)
    assert drawn.std(axis=0) == pytest.approx(policy.std(theta), rel=5 / np.sqrt(2 * 20_000))


def test_categorical_choices_follow_the_softmax() -> None:
    policy = Policy(5, 4, "categorical")
    theta = thetas(policy, 1)[0]
    obs = RNG.standard_normal(5).astype(np.float32)
    n = 20_000
    drawn = actor(policy, np.broadcast_to(theta, (n, policy.dim)))(
        np.broadcast_to(obs, (n, 5)), policy.draw_noise(np.random.default_rng(1), n)
    )[:, 0]
    probability = np.asarray(jax.nn.softmax(outputs(policy, jnp.asarray(theta), jnp.asarray(obs))), float)
    counts = np.bincount(drawn.astype(int), minlength=4)
    assert stats.chisquare(counts, probability / probability.sum() * n).pvalue > 1e-4
    index = np.arange(4, dtype=np.float32)[:, None]
    log_p = log_prob(policy, jnp.asarray(theta), jnp.asarray(np.broadcast_to(obs, (4, 5))), jnp.asarray(index))
    assert np.exp(np.asarray(log_p)) == pytest.approx(probability, rel=1e-4)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.stochastic], ids=lambda p: f"{p.kind}-{p.hidden}")
def test_weighted_scores_against_finite_differences(policy: Policy) -> None:
    """In float64, so that differences of 1e-6 mean something."""
    theta = thetas(policy, 1)[0].astype(np.float64)
    obs = RNG.standard_normal((6, 5))
    choices = [RNG.integers(0, where.stop - where.start, 6).astype(float) for where in policy.groups]
    actions = np.stack(choices, axis=1) if policy.kind == "categorical" else RNG.standard_normal((6, 3))
    weights = RNG.standard_normal((2, 6))
    with jax.enable_x64(True):
        found = np.asarray(weighted_scores(policy)(theta[None], obs[None], actions[None], weights[None]))[0]
        basis = np.eye(policy.dim)[:: max(1, policy.dim // 40)] * 1e-6

        @jax.jit
        @jax.vmap
        def weighted(at: jax.Array) -> jax.Array:
            return jnp.asarray(weights) @ log_prob(policy, at, jnp.asarray(obs), jnp.asarray(actions))

        numeric = np.asarray(weighted(theta + basis) - weighted(theta - basis)).T / 2e-6
    assert found[:, :: max(1, policy.dim // 40)] == pytest.approx(numeric, abs=1e-6)


@pytest.mark.parametrize("choices", [(3, 2), (2, 2, 2)])
def test_several_choices_are_independent(choices: tuple[int, ...]) -> None:
    """log pi, KL and Fisher's quadratic form are sums over the choices, each by its closed form; samples follow."""
    policy = Policy(4, sum(choices), "categorical", hidden=(), choices=choices)
    theta, old = thetas(policy, 2)
    obs = RNG.standard_normal((6, 4)).astype(np.float32)
    logits, before = (np.asarray(outputs(policy, jnp.asarray(t), jnp.asarray(obs)), np.float64) for t in (theta, old))
    p, q = ([special.softmax(out[:, where], axis=1) for where in policy.groups] for out in (logits, before))
    actions = np.stack([RNG.integers(0, n, 6) for n in choices], axis=1)
    expected = sum(np.log(part[np.arange(6), actions[:, i]]) for i, part in enumerate(p))
    found = log_prob(policy, jnp.asarray(theta), jnp.asarray(obs), jnp.asarray(actions, jnp.float32))
    assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-5)
    divergence = sum((a * np.log(a / b)).sum(axis=1) for a, b in zip(p, q, strict=True))
    found = kl(policy, jnp.asarray(theta), jnp.asarray(old), jnp.asarray(obs))
    assert np.asarray(found) == pytest.approx(np.asarray(divergence), abs=1e-5)
    step = RNG.standard_normal(policy.dim).astype(np.float32)
    moved = obs.astype(float) @ step[: 4 * sum(choices)].reshape(4, -1) + step[4 * sum(choices) :]
    parts = [
        ((a * moved[:, w] ** 2).sum(1) - (a * moved[:, w]).sum(1) ** 2) for a, w in zip(p, policy.groups, strict=True)
    ]
    form = float(np.square(np.asarray(policy_change(policy)(theta, obs, step[None]))).sum())
    assert form == pytest.approx(float(np.sum(parts)) / 6, rel=1e-4)
    n = 20_000
    noise = policy.draw_noise(RNG, n)
    drawn = actor(policy, np.broadcast_to(theta, (n, policy.dim)))(np.broadcast_to(obs[0], (n, 4)), noise)
    for i, part in enumerate(p):
        counts = np.bincount(drawn[:, i].astype(int), minlength=choices[i])
        assert stats.chisquare(counts, part[0] / part[0].sum() * n).pvalue > 1e-4
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 4 / np.sqrt(n)


def test_kl_against_its_definition() -> None:
    """KL = E_p[log p - log q]: exact sum for choices, 200,000 samples for a Gaussian."""
    choices = Policy(5, 4, "categorical")
    a, b = (jnp.asarray(t) for t in thetas(choices, 2))
    obs = jnp.asarray(RNG.standard_normal((3, 5)), jnp.float32)
    every = [jnp.full((3, 1), i, jnp.float32) for i in range(4)]
    exact = sum(
        jnp.exp(log_prob(choices, a, obs, i)) * (log_prob(choices, a, obs, i) - log_prob(choices, b, obs, i))
        for i in every
    )
    assert np.asarray(kl(choices, a, b, obs)) == pytest.approx(np.asarray(exact), abs=1e-5)

    policy = Policy(2, 2, hidden=())
    a, b = (jnp.asarray(t) for t in thetas(policy, 2))
    one = jnp.asarray(RNG.standard_normal((1, 2)), jnp.float32)
    noise = RNG.standard_normal((200_000, 2)).astype(np.float32)
    drawn = jnp.asarray(np.asarray(outputs(policy, a, one)) + policy.std(np.asarray(a)) * noise)
    gap = np.asarray(log_prob(policy, a, one, drawn) - log_prob(policy, b, one, drawn), np.float64)
    assert float(kl(policy, a, b, one)[0]) == pytest.approx(gap.mean(), abs=5 * gap.std() / np.sqrt(len(gap)))


def test_initial_standard_deviation() -> None:
    for policy in (Policy(3, 2, init_std=0.3), Policy(3, 2, init_std=0.3, learn_std=False)):
        assert policy.std(policy.init(RNG)) == pytest.approx(np.full(2, 0.3))
    deterministic = Policy(3, 2, "deterministic")
    assert (deterministic.std(deterministic.init(RNG)) == 0).all()


def test_actions_on_their_way_to_the_environment() -> None:
    bounds = (np.array([-2.0, 0.0]), np.array([2.0, 10.0]))
    actions = np.array([[-3.0, 0.5], [0.5, -1.0]])
    assert to_environment(Policy(1, 2), bounds) is None
    clip, scale = (to_environment(Policy(1, 2, actions=how), bounds) for how in ("clip", "scale"))  # type: ignore[arg-type]
    assert clip is not None
    assert scale is not None
    assert clip(actions) == pytest.approx(np.array([[-2, 0.5], [0.5, 0]]))
    assert scale(actions) == pytest.approx(np.array([[-2, 7.5], [1, 0]]))
    assert to_environment(Policy(1, 2, "categorical", actions="scale"), None) is None
    for impossible in (None, (np.array([-np.inf]), np.array([1.0]))):
        with pytest.raises(UsageError, match="needs a task whose actions have bounds"):
            to_environment(Policy(1, 1, actions="scale"), impossible)


@pytest.mark.parametrize("name", ["halfcheetah", "gym:Pendulum-v1", "roboschool-pong"])
def test_tasks_know_their_bounds(name: str) -> None:
    limit = {"gym:Pendulum-v1": 2.0}.get(name, 1.0)
    low, high = quell.tasks.get(name).simulator(1).bounds  # type: ignore[attr-defined]
    assert (low == -limit).all()
    assert (high == limit).all()


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.stochastic], ids=lambda p: f"{p.kind}-{p.hidden}")
def test_fisher_products_are_the_curvature_of_the_kl(policy: Policy) -> None:
    """KL(theta + h v, theta) = h^2 v'Fv / 2 for small h, and |A v|^2 = v'Fv: three ways to one number, to 2%."""
    theta = thetas(policy, 1)[0]
    obs = RNG.standard_normal((16, 5)).astype(np.float32)
    vector = RNG.standard_normal(policy.dim).astype(np.float32)
    vector /= np.linalg.norm(vector)
    quadratic = float(vector @ np.asarray(fisher_product(policy)(theta, obs, vector)))
    moved = np.asarray(policy_change(policy)(theta, obs, vector[None]))[0]
    assert float(moved @ moved) == pytest.approx(quadratic, rel=0.02)
    apart = float(mean_kl(policy)(theta + np.float32(0.05) * vector, theta, obs))
    assert 2 * apart / 0.05**2 == pytest.approx(quadratic, rel=0.15)
