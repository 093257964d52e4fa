"""A measurement as a table, and as plain values for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from quell.lab.gain import Gain
from quell.lab.measure import Measurement
from quell.lab.summary import Summary
from quell.stats import Interval
from quell.terminal import tables


@dataclass(frozen=True)
class Report:
    """What is known of one point, ready to be shown."""

    measurement: Measurement
    summaries: list[Summary]
    gains: list[Gain]
    label: str = ""

    def values(self) -> dict[str, Any]:
        """Plain values; NaN becomes None."""
        m = self.measurement
        config = m.point.config
        facts = {
            "task": config.task,
            "at": m.point.where,
            "label": self.label,
            "preset": config.preset,
            "seed": config.seed,
            "pairs_per_iteration": config.pairs,
            "iterations": len(m.rows[0].gradients),
            "sigma": config.sigma,
            "action_std": float(m.point.policy.std(m.point.theta).mean()),
            "parameters": len(m.point.theta),
            "horizon": m.point.task.horizon,
            "mean_return": m.mean_return,
            "return_std": m.return_std,
            "steps": m.steps,
            "rollout_seconds": m.rollout_seconds,
        }
        rows, gains = [asdict(s) | {"step": s.step} for s in self.summaries], [asdict(g) for g in self.gains]
        return dict(_plain({**facts, "rows": rows, "gains": gains}))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def lines(report: Report) -> list[str]:
    """The table as text."""
    m, config = report.measurement, report.measurement.point.config
    std = float(m.point.policy.std(m.point.theta).mean())
    title = f"{config.task} at {m.point.where}" + (f", {report.label}" if report.label else "")
    text = [
        f"{title}: return {m.mean_return:.4g} ± {m.return_std:.3g}, action std {std:.3g}, sigma {config.sigma:g}, "
        f"d = {len(m.point.theta):,}",
        f"{len(m.rows[0].gradients)} iterations of {config.pairs} pairs; 95% intervals; ratios relative to ES",
        *tables.lines(HEAD, map(_row, report.summaries)),
    ]
    text += [
        f"eta of {s.name:<12} " + "  ".join(f"{layer} {value:.2f}" for layer, value in s.eta.items())
        for s in report.summaries
        if s.eta
    ]
    text.append(
        "max z: along the gradient or its part in one layer; step: how long a step it bears, relative to ES; "
        "cost: ratio x time of an iteration"
    )
    if report.gains:
        rows = [(g.name, g.kind, f"{g.size:g}", _gain(g.gain), _gain(g.over_es)) for g in report.gains]
        text += ["", *tables.lines(("<gain of one step", "<", "<", "<return", "<less that of ES"), rows)]
    return text


HEAD = ("<", "V[g]", "<ratio", "<Fisher ratio", "cosine", "bias z", "max z", "step", "cost", "<")


def _row(s: Summary) -> tuple[str, ...]:
    ratios = _interval(s.ratio), _interval(s.fisher_ratio)
    worth = f"{s.bias.along:.1f}", f"{s.bias.worst:.1f}", f"{s.step:.2g}", f"{s.cost:.2g}"
    doubt = "biased?" if s.bias.p < 1e-4 or abs(s.bias.worst) > 4 else ""
    return s.name, f"{s.variance.value:.3g}", *ratios, f"{s.cosine.value:.3f}", *worth, doubt


def _interval(x: Interval) -> str:
    return f"{x.value:.3g} [{x.low:.3g}, {x.high:.3g}]"


def _gain(x: Interval) -> str:
    return f"{x.value:+.3g} [{x.low:+.3g}, {x.high:+.3g}]"
