"""Which strategies fit together."""

from __future__ import annotations

from quell import registry
from quell.errors import UsageError
from quell.estimate import Estimator
from quell.perturb import Kind
from quell.policy import Policy, PolicySettings
from quell.update import Step
from quell.update.natural import Natural

MOST_WHOLE = 1000
"""Parameters of a network that is not quell's own, of which only the whole Fisher matrix is known."""


def check_fit(
    estimator: Estimator, directions: Kind, policy: PolicySettings | Policy, step: Step | None = None, *, who: str = ""
) -> None:
    """Raise UsageError for strategies that cannot be used with one another.

    `policy` is the network, or the settings that it will be made from; `who` is what the estimator is called.
    """
    if any(isinstance(part, registry.Elsewhere) for part in (estimator, directions, policy, step)):
        return  # a run is being loaded, not trained: what its strategies need is not known
    who, needs = who or f"estimator {registry.name_of(estimator)}", estimator.needs
    if needs.perturbed != (directions.sigma > 0):
        verb = "needs" if needs.perturbed else "does not take"
        raise UsageError(f"{who} {verb} perturbations (directions)")
    if needs.trajectories and not policy.stochastic:
        raise UsageError(f"{who} needs a stochastic policy: a deterministic one has no policy gradient")
    says_weight = hasattr(getattr(estimator, "coefficients", None), "weight_of_es")
    if getattr(directions, "least", None) is not None and not says_weight:
        why = "`directions.least` is not read: it needs the weight of ES in the estimate"
        raise UsageError(f"{why}, which only a control variate with `coefficients='mse'` gives")
    if step is not None:
        _check_step(estimator, directions, policy, step)


def _check_step(estimator: Estimator, directions: Kind, policy: PolicySettings | Policy, step: Step) -> None:
    if directions.needs_metric and getattr(type(step), "metric", Step.metric) is Step.metric:
        asked = f"{registry.name_of(directions)} with nats={directions.nats:g}"
        raise UsageError(f"directions {asked} need the metric of a step: take `step='natural'`")
    if getattr(estimator, "line_search", False) and not step.states:
        raise UsageError(f"`line_search=True` is not read with step {registry.name_of(step)}: take natural")
    if not isinstance(step, Natural):
        return
    if not policy.stochastic:
        why = "measures the divergence of action distributions, and a deterministic policy has none"
        raise UsageError(f"`step='natural'` {why}: take `step='adam'`, or `policy='gaussian'`")
    if isinstance(policy, Policy) and policy.own and policy.dim > MOST_WHOLE:
        most = f"the natural step stores d^2 numbers for a custom network, and takes at most {MOST_WHOLE:,} parameters"
        raise UsageError(f"{most}; this one has {policy.dim:,}: take `step='adam'` or another")
