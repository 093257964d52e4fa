"""CV: an ES gradient less the noise that policy gradients of the same objective show (eq. 8).

    g = 1/N sum_i (X_i + sum_k beta_k * Y_ik)

X_i is the pair's ES estimate and every column Y_k has mean zero, so g is unbiased for every beta that comes from
earlier batches only. The paper's control variate is the one with one column, Y = ES(gamma) - RE(gamma), and beta = eta.

columns       X and Y of a pair
coefficients  beta of one column: fixed, the paper's descent, running moments
choose        beta of several, by the variance they would have had, in a metric
discount      the gammas, given or learned
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from quell.errors import UsageError
from quell.estimate import Estimate, Needs, Problem, Rows, batch_variance, compared, fresh_variance
from quell.estimate.control_variate.choose import second_moment
from quell.estimate.control_variate.coefficients import Coefficients, Products, SgdCoefficients, Space, spread_of
from quell.estimate.control_variate.columns import packed, pair_columns, policy_products, unpacked, value_weights
from quell.estimate.control_variate.discount import Discount, LearnedDiscount
from quell.estimate.policy_gradient import advantages, by_pair, step_weights
from quell.estimate.returns import Shaping, discounts, less_other_pairs, shaped_fitness
from quell.estimate.value import Kind, ValueFunction
from quell.registry import SHARE, name_of
from quell.types import Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class ControlVariate:
    """ES with structured control variates, on top of any kind of directions."""

    name: ClassVar[str] = "control-variate"
    needs: ClassVar[Needs] = Needs(perturbed=True, trajectories=True)
    shaping: Shaping = "normalise"
    """What is done to the returns of a batch: (J - mean)/std, centred ranks, or nothing."""
    baseline: Literal["none", "leave-one-out", "linear", "network"] = "none"
    """Baseline of the reward-to-go: none, the mean over the other members at the same step, or a value function of
    state and time fitted on past batches (linear in features, or a network with a random first layer)."""
    values: tuple[Kind, ...] = ()
    """Value functions that get a column of their own, which exchanges the baseline for them as far as that pays."""
    value_decay: Annotated[float, SHARE] = 0.95
    """How much of the data behind a value function survives an iteration."""
    discount: Discount = field(default_factory=LearnedDiscount)
    """The control variates' discounts: fixed, or learned by ES on the squared norm of the estimate (the paper)."""
    coefficients: Coefficients = field(default_factory=SgdCoefficients)
    """How the coefficients eta come about: fixed, sgd (the paper), moments (closed form from past batches), or choose
    (several columns, by the variance each choice would have had so far, plain ES among them)."""

    def check(self) -> None:
        kinds = [*self._baseline_kind(), *self.values]
        if not set(kinds) <= {"linear", "network"} or len(set(kinds)) < len(kinds):
            raise UsageError(f"estimator.values takes linear and network, none that is the baseline, got {self.values}")
        columns, most = self.discount.columns + len(self.values), self.coefficients.columns
        if most is not None and columns > most:
            advice = "give one discount and no values, or use `estimator.coefficients='choose'`"
            raise UsageError(f"coefficients {name_of(self.coefficients)} weigh {most} column, not {columns}; {advice}")
        if not kinds and self.value_decay != ControlVariate.value_decay:
            raise UsageError("estimator.value_decay is read only where there is a value function (baseline or values)")

    def _baseline_kind(self) -> list[Kind]:
        return [self.baseline] if self.baseline in ("linear", "network") else []

    def value_functions(self, problem: Problem) -> list[ValueFunction]:
        """The baseline's, then those with a column of their own."""
        kinds, size = (*self._baseline_kind(), *self.values), problem.policy.obs_size
        return [ValueFunction(kind, size, decay=self.value_decay) for kind in kinds]

    def space(self, problem: Problem) -> Space:
        """What coefficients are for; to try: one discount, each value function with it, all discounts, and all."""
        count, total = self.discount.columns, self.discount.columns + len(self.values)
        subsets = [(0,), *((0, k) for k in range(count, total)), tuple(range(count)), tuple(range(total))]
        layers = tuple(where for where, _ in problem.policy.layout.values())
        return Space(problem.policy.dim, layers, total, tuple(dict.fromkeys(subsets)))

    def init(self, problem: Problem) -> State:
        state = {**self.coefficients.init(self.space(problem)), **self.discount.init(), **fresh_variance(problem, 2)}
        for value in self.value_functions(problem):
            state |= value.init()
        return state

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        iteration = batch.episodes.iteration
        gammas = self.discount.at(problem.seed, state, iteration)
        others = "none" if self._baseline_kind() else self.baseline
        to_go, values, sound = advantages(batch, gammas, others)  # type: ignore[arg-type]
        returns = np.where(np.repeat(sound, 2), batch.rollouts.returns, np.nan)
        fitness, scale, good = shaped_fitness(returns, self.shaping)
        centred = less_other_pairs(to_go[:, :, 0] * scale, int(good.sum()))
        weights = step_weights(values * scale, gammas)
        pairs = {"good": good, "fitness": fitness.reshape(-1, 2)}
        pairs |= {"returns": by_pair(centred), "weights": by_pair(weights)}
        shared = {"iteration": iteration, "gammas": list(gammas), "scale": scale}
        if functions := self.value_functions(problem):
            pairs["reward_to_go"] = by_pair(to_go[:1])[:, :, 0]
            shared["discounting"] = np.stack([discounts(gamma, to_go.shape[-1]) for gamma in gammas])
            shared |= {value.kind: value.weights(state) for value in functions}
        if self.values:
            pairs["baseline"] = by_pair(to_go[:1] - values[:1])[:, :, 0]
        return Rows(pairs, shared)

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        functions = self.value_functions(problem)
        baseline, exchanged = (functions[0], functions[1:]) if self._baseline_kind() else (None, functions)
        weights, learned = value_weights(xp, pair, row, baseline, exchanged)
        columns = pair_columns(xp, problem, pair, row, theta, weights, self.coefficients.precision)
        count, in_use = len(columns) - len(self.values), 1 + self.discount.columns  # between them: trial discounts
        used, trials = xp.concatenate([columns[:in_use], columns[count:]]), columns[in_use:count]
        terms = {"count": 1.0, "columns": used, "products": packed(used), **learned}
        if len(trials):
            terms["trials"] = trials
        if self.coefficients.metric == "policy":
            terms["gram"] = policy_products(xp, problem, self.space(problem), pair, theta, used)
        return terms

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count, columns, space = float(sums["count"]), sums["columns"], self.space(problem)
        products = unpacked(sums["products"], space.columns)
        sound = bool(np.isfinite(products).all() and np.isfinite(sums.get("gram", np.zeros(()))).all())
        usable = sound and count > 0
        beta, known = self.coefficients.coefficients(space, state)
        combined = columns[0] + (beta * columns[1:]).sum(axis=0) if usable else columns[0]
        squares = second_moment(products, beta) if usable else products[0, 0]
        (plain, own), learned = batch_variance(problem, state, [columns[0], combined], [products[0, 0], squares], count)
        metrics = {"gamma": float(rows.shared["gammas"][0]), "trouble/cv_dropped": float(not sound)}
        metrics |= compared(plain, own)
        gradient = (combined / max(count, 1)).astype(np.float32)
        if not usable:  # an overflowing policy gradient: this batch falls back to plain ES, and nothing is learned
            return Estimate(gradient, state | learned, metrics)
        metrics |= spread_of(beta[0])
        exchanged = [bool(np.any(rows.shared[kind])) for kind in self.values]
        ready = np.array([True] * self.discount.columns + exchanged)
        summed = Products(products, sums.get("gram"), count)
        following, guarded = self.coefficients.update(space, state, summed, ready)
        if "trials" in sums:
            trials = (columns[0] + beta[0] * sums["trials"]) / count
            following = self.discount.update(problem.seed, following, rows.shared["iteration"], trials)
        for value in self.value_functions(problem):
            following = value.update(following, sums)
        return Estimate(gradient, following | learned, metrics | known | guarded)


ESTIMATORS = [ControlVariate]
