"""How long runs are, and where each leaves what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quell import earlier
from quell.config import Config, changed, from_dict, to_dict
from quell.errors import UsageError
from quell.registry import read_whole, whole
from quell.runs import archive
from quell.runs.files import as_facts
from quell.runs.folder import SAVING, folder_name
from quell.runs.record import read

STOPPED = 75  # exit code of a run's process that was asked to stop; the run can be continued


@dataclass(frozen=True)
class Budget:
    """How long runs are: a share of a task's whole budget, or steps as given (some tasks may have their own)."""

    share: float = 1.0
    steps: Mapping[str, int] = field(default_factory=dict)  # by task; "" is every other one

    @staticmethod
    def parse(share: float, words: Sequence[str]) -> "Budget":
        """`--budget 0.05`, or `--steps 1000000 dm-quadruped-escape=100000`."""
        if not (0 < share <= 1):
            raise UsageError(f"--budget is a share of the whole steps, above 0 and up to 1; got {share}")
        steps = by_task("steps", words) if words else {}
        if words and share != 1:
            raise UsageError("give --budget or --steps, not both")
        return Budget(share, steps)

    def of(self, task: str, whole: int) -> int:
        """Steps of a run on a task whose whole budget is `whole`."""
        return self.steps.get(task) or self.steps.get("") or max(1, round(self.share * whole))

    @property
    def name(self) -> str:
        """'0.05' for a share, '1000000' for steps."""
        return str(self.steps[""]) if self.steps else f"{self.share:g}"


def by_task(option: str, words: Sequence[str]) -> dict[str, int]:
    """`1000000 dm-quadruped-escape=100000` -> task -> number; "" is every other task."""
    numbers = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            numbers[name] = whole(option, read_whole(number), least=1)
        except (ValueError, UsageError):
            raise UsageError(f"--{option} takes a whole number from 1 up, or TASK=number; got {word!r}") from None
    if "" not in numbers:
        raise UsageError(f"--{option} needs a number for all tasks before those of single ones")
    return numbers


MOST_RUNS = 10_000


def check_number(runs: int, option: str, value: int) -> None:
    """Complain of more runs than anybody waits for, before they are listed."""
    if runs > MOST_RUNS:
        raise UsageError(f"`{option}={value}` makes {runs:,} runs, and at most {MOST_RUNS:,} can be asked for at once")


@dataclass(frozen=True)
class Job:
    """One run, and where it leaves what."""

    config: Config
    runs: Path  # where run folders are made
    record: Path  # the small file a finished run leaves
    episodes: int  # episodes of the final evaluation
    label: str = ""  # distinguishes runs of one method with different settings
    engine: str = "cpu"  # by name: where its episodes run
    trust: str = ""  # module:function that makes the environment, if it is the user's own, as the user named it

    @property
    def title(self) -> str:
        """No two jobs of one budget have the same."""
        method = f"{self.config.method}-{self.label}" if self.label else self.config.method
        return f"{self.config.task} {method} {self.config.preset} seed {self.config.seed}"

    @property
    def folder(self) -> Path:
        """The run's."""
        return self.runs / folder_name(self.config.task) / self.config.method / f"seed{self.config.seed}"

    @property
    def done(self) -> bool:
        return archive.exists(self.record)

    def check(self) -> None:
        """Complain if the record of a run with another config lies where this one's goes."""
        if self.done and (differing := _differing(self.record, self.config)):
            made = f"{str(self.record)!r} was made with other settings ({', '.join(differing)})"
            raise UsageError(f"{made}; remove it or choose another --out")

    @property
    def timings(self) -> Path:
        """Where the time it took is noted: beside the records, which must not depend on it."""
        return archive.place_of(self.record)[0] / archive.TIMINGS

    def encode(self) -> str:
        """As the argument of the run's process."""
        return json.dumps({**vars(self), "config": to_dict(self.config)}, default=str)

    @staticmethod
    def decode(text: str) -> "Job":
        facts = json.loads(text)
        made = {
            "config": from_dict(facts["config"]),
            **{name: Path(facts[name]).absolute() for name in ("runs", "record")},
        }
        return Job(**(facts | made))


def record_path(group: Path, config: Config, column: str = "") -> Path:
    """Where a run's record goes; where the method had another name when it was made, the record that there is.

    `column` stands for the method's name where that does not say what differs.
    """
    if column:
        return archive.loose(group, f"{folder_name(config.task)}-{column}-{config.seed}")
    names = (config.method, *earlier.METHODS.get(config.method, ()))
    first, *others = (archive.loose(group, f"{folder_name(config.task)}-{name}-{config.seed}") for name in names)
    if archive.exists(first):
        return first
    return next((path for path in others if archive.exists(path) and _is_of(path, config)), first)


def _is_of(path: Path, config: Config) -> bool:
    """Whether a record was made with a config."""
    return not _differing(path, config)


def _differing(path: Path, config: Config) -> list[str]:
    """Settings that a record was made with other values of; how often it was looked at changes no run."""
    return [name for name in changed(read(path).config, config) if name not in SAVING]


def read_timings(path: Path) -> list[dict[str, Any]]:
    """Rows of a timings file; a half-written line is left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for line in lines if (row := as_facts(line))]
