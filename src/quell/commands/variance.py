"""quell variance TASK: gradient estimators side by side at a fixed policy."""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from quell.commands.arguments import UNSET, parse
from quell.commands.settings import own_strategy, own_task
from quell.config import Preset, check_file, parse_value
from quell.errors import UsageError
from quell.figures.style import check_picture
from quell.figures.variance import variance_figure
from quell.runs.files import write
from quell.terminal.streams import tell

DESCRIPTION = """Measure gradient estimators on TASK at a fixed policy: variance, bias and their sum for an estimate
from N pairs, relative to plain ES, in the metric of the parameters, of the policy (Fisher) and of a natural step;
cosine to the gradient, bias in standard errors, and optionally what a step along an estimate gains. Coefficients are
learned on a warm-up and measured on other episodes."""
SWEEPS = {"gamma": "gamma", "sigma": "directions.sigma", "std": "policy.init_std", "pairs": "pairs"}


@dataclass(frozen=True)
class Arguments:
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK"), UNSET] = ""
    """`quell list tasks` lists the names."""
    at: str = "init"
    """init, a run folder, or RUN@ITERATION."""
    methods: str = "es,ortho,gcmc,qmc,cv,cv-moments,natural-cv"
    """Estimators, separated by commas: any of `quell list methods`, re (the policy gradient of the perturbed members
    alone), actor-critic, and cv with other coefficients: cv-moments, cv-layer, cv-several. Each also with -ortho,
    -gcmc, -qmc (directions) or -crn (common action noise in a pair); alone these mean ES. my_module:MyEstimator is your
    own; directions of your own mean ES."""
    pairs: int = 400
    """Pairs to measure on, in iterations of N (the setting `pairs`, 5 in the paper)."""
    pairs_other: Annotated[int | None, UNSET] = None
    """Pairs for estimators with other directions or noise than plain ES, which need separate episodes (default: as
    many)."""
    warmup: int = 150
    """Pairs to learn coefficients and value functions on first."""
    preset: Preset = "paper"
    """Whose settings to use at init."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --settings sigma 0.05 policy.init_std 0.3"""
    reference: str = "es"
    """Estimator against whose mean biases are measured; cv-moments, unbiased and less noisy, shows smaller ones."""
    sweep: tuple[str, ...] = ()
    """A name (gamma, sigma, std: the action noise, pairs: N) and its values, e.g. --sweep gamma 0.9 0.99 1"""
    gain: tuple[str, ...] = ()
    """Steps whose gain to measure: raw:NORM, sign:RATE (Adam's first step), kl:DIVERGENCE or natural:DIVERGENCE."""
    gain_methods: str = "es,cv,natural-cv"
    """Estimators to step along."""
    gain_estimates: int = 40
    """Independent estimates to step along."""
    gain_episodes: int = 4
    """Episodes played before and after each step."""
    seed: int = 0
    """Random seed."""
    workers: Annotated[int | None, UNSET] = None
    """Workers, by default one per core. Results do not depend on it."""
    engine: Annotated[str | None, UNSET] = None
    """Where episodes run: cpu (the default), ray, or my_module:MyEngine."""
    trust_import: Annotated[str | None, UNSET] = None
    """module:function that makes the environment in place of TASK, if it is your own; the module is imported."""
    trust_files: bool = False
    """Open the files that settings of the run's task name: you know where the folder is from."""
    json: Annotated[Path | None, UNSET] = None
    """Write all numbers here."""
    figure: Annotated[Path | None, UNSET] = None
    """Draw them here (needs the extra plot)."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell variance", description=DESCRIPTION)
    if parsed.figure is not None:
        check_picture(parsed.figure)
    if parsed.json is not None:
        check_file(parsed.json, "json")
    if bool(parsed.task) == (parsed.trust_import is not None):
        raise UsageError("which task? `quell variance TASK`, or --trust-import my_module:make_env alone")
    values = []
    for changes, discounts, label in _sweep(parsed.sweep):
        report = _report(parsed, changes, discounts, label)
        tell(report)
        values.append(report.values())
    if parsed.json is not None:
        write(parsed.json, json.dumps(values[0] if len(values) == 1 else values, indent=1) + "\n")
    if parsed.figure is not None:
        variance_figure(values, parsed.figure)
    return 0


def _report(parsed: Arguments, changes: dict[str, Any], discounts: list[float], label: str) -> Any:
    """One point's report; `changes` and `discounts` come from the sweep."""
    from quell.measure import variance
    from quell.measure.rows import gamma_rows

    elsewhere = ("sweep", "json", "figure", "trust_import")
    given = {name: value for name, value in vars(parsed).items() if name not in elsewhere}
    own = [own_strategy(method.strip(), "methods") for method in parsed.methods.split(",")]
    given["methods"] = [*own, *gamma_rows(discounts)]
    given["engine"] = own_strategy(parsed.engine, "engine") if parsed.engine else None
    given["gain_methods"] = parsed.gain_methods.split(",")
    given["settings"] = {name: parse_value(text, name) for name, text in parsed.settings.items()} | changes
    given["task"] = own_task(parsed.trust_import, given["settings"].get("horizon")) or parsed.task
    return replace(variance(**given), label=label)


def _sweep(words: tuple[str, ...]) -> list[tuple[dict[str, Any], list[float], str]]:
    """(settings, discounts of additional control variates, label) of each measurement."""
    if not words:
        return [({}, [], "")]
    name, *texts = words
    if name not in SWEEPS or len(texts) < 2:
        raise UsageError(f"--sweep takes one of {', '.join(SWEEPS)} and at least two values, got {' '.join(words)!r}")
    try:
        values = [float(text) for text in texts]
    except ValueError:
        raise UsageError(f"--sweep needs numbers, got {' '.join(texts)!r}") from None
    most = 1.0 if name == "gamma" else sys.float_info.max
    if not all(0 < value <= most and (name != "pairs" or value.is_integer()) for value in values):
        raise UsageError(f"--sweep {name}: values out of range: {' '.join(texts)}")
    if name == "gamma":
        return [({}, values, "")]
    return [({SWEEPS[name]: int(v) if name == "pairs" else v}, [], f"{name}={v:g}") for v in values]
