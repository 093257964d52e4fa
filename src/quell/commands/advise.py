"""quell advise TASK: whether ES or the policy gradient suits it, in plain words."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.arguments import UNSET, parse
from quell.commands.settings import own_task
from quell.config import check_file, parse_value
from quell.errors import UsageError
from quell.registry import POSITIVE
from quell.runs.files import write
from quell.terminal.streams import tell

DESCRIPTION = """Measure, at one policy and in seconds, how noisy ES and the policy gradient are on TASK, and
print which of the two would have more weight in the estimate, why, and which settings follow. The page "ES or policy
gradient?" explains it."""


@dataclass(frozen=True)
class Arguments:
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK"), UNSET] = ""
    """`quell list tasks` lists the names."""
    at: str = "init"
    """init (the default's untrained policy), a run folder, or RUN@ITERATION."""
    steps: int = 100_000
    """Environment steps to use, about; more give narrower intervals."""
    pairs: int = 120
    """Most pairs on which each of the two is measured."""
    warmup: int = 40
    """Most pairs that the critic learns on first."""
    nats: Annotated[float, POSITIVE] = 1.0
    """Mean KL divergence of a perturbation."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --settings delay 1000 policy.hidden [] policy.init_std 0.15"""
    seed: int = 0
    """Seed for all random numbers."""
    workers: Annotated[int | None, UNSET] = None
    """Workers, by default one per core. Results do not depend on it."""
    engine: Annotated[str | None, UNSET] = None
    """Where episodes run: cpu (the default) or ray."""
    trust_import: Annotated[str | None, UNSET] = None
    """module:function that makes the environment in place of TASK, if it is your own; the module is imported."""
    trust_files: bool = False
    """Open the files that settings of the run's task name: you know where the folder is from."""
    json: Annotated[Path | None, UNSET] = None
    """Write all numbers here."""


def main(arguments: list[str]) -> int:
    from quell.measure.advice import advise

    parsed = parse(Arguments, arguments, prog="quell advise", description=DESCRIPTION)
    if parsed.json is not None:
        check_file(parsed.json, "json")
    if bool(parsed.task) == (parsed.trust_import is not None):
        raise UsageError("which task? `quell advise TASK`, or --trust-import my_module:make_env alone")
    given = {name: value for name, value in vars(parsed).items() if name not in ("json", "trust_import")}
    given["settings"] = {name: parse_value(text, name) for name, text in parsed.settings.items()}
    given["task"] = own_task(parsed.trust_import, given["settings"].get("horizon")) or parsed.task
    found = advise(**given)
    tell(found)
    if parsed.json is not None:
        facts = {**dataclasses.asdict(found), "share": found.best.share, "verdict": found.verdict}
        write(parsed.json, json.dumps(facts, indent=1) + "\n")
    return 0
