"""How long runs are and will take, and where each leaves what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from quell.config import Config, changed, from_dict, to_dict
from quell.errors import UsageError
from quell.registry import read_whole, whole
from quell.runs import archive
from quell.runs.files import as_facts
from quell.runs.folder import folder_name
from quell.runs.record import read
from quell.training.methods import find_task

STOPPED = 75  # exit code of a run's process that was asked to stop; the run can be continued
STEPS_PER_SECOND = {
    **{"lqr": 300_000, "lqr-302": 300_000, "swimmer": 19_000, "halfcheetah": 27_000, "walker2d": 9_000},
    **{"roboschool-pong": 23_000, "roboschool-halfcheetah": 6_000, "bipedalwalker": 9_000},
    **{"dm-cheetah-run": 65_000, "dm-pendulum-swingup": 200_000, "dm-cartpole-two-poles": 60_000},
    **{"dm-cartpole-swingup": 60_000, "dm-cartpole-balance": 60_000, "dm-hopper-hop": 21_000},
    **{"dm-hopper-stand": 21_000, "dm-quadruped-walk": 10_000, "dm-quadruped-escape": 2_200},
}
"""Training steps per second of plain ES on one core, roughly."""
OTHER_TASK = 5_000
GRADIENT_MICROSECONDS = {"cv": 6.0, "pg": 4.0, "trpo": 6.0, "ppo": 6.0}  # time per step that policy gradients add
MANY_UPDATES = 10
START = 4.0  # seconds a run takes to start and end


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
    def done(self) -> bool:
        return archive.exists(self.record)

    def check(self) -> None:
        """Complain if the record of a run with another config lies where this one's goes."""
        if self.done and (differing := changed(read(self.record).config, self.config)):
            made = f"{str(self.record)!r} was made with another {', '.join(differing)}"
            raise UsageError(f"{made}; remove it or choose another --out")

    @property
    def timings(self) -> Path:
        """Where the time it took is noted: beside the records, which must not depend on it."""
        return archive.place_of(self.record)[0] / "timings.jsonl"

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


def record_path(group: Path, config: Config) -> Path:
    return archive.loose(group, f"{folder_name(config.task)}-{config.method}-{config.seed}")


def seconds_of(job: Job, known: dict[tuple[str, str], float]) -> float:
    """Time one run takes on one core, with its evaluations."""
    task, method = job.config.task, job.config.method
    plain = STEPS_PER_SECOND.get(task, OTHER_TASK)
    extra = GRADIENT_MICROSECONDS.get(method.partition("+")[0], 0.0) * 1e-6
    speed = known.get((task, method)) or 1 / (1 / plain + extra * (MANY_UPDATES if method.endswith("+m") else 1))
    horizon = find_task(job.config).horizon
    evaluated = 3 * job.episodes * horizon / plain
    trained = max(job.config.steps, 2 * horizon)  # one pair at least
    return START + 1.1 * trained / speed + evaluated


def known_speeds(out: Path) -> dict[tuple[str, str], float]:
    """(task, method) -> median steps per second of the runs recorded under a results folder."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for path in sorted(out.glob("*/timings.jsonl")):
        for row in read_timings(path):
            spent = row.get("core_seconds", row["seconds"])  # others may have shared the processor
            if spent > 0:
                speeds.setdefault((row["task"], row["method"]), []).append(row["steps"] / spent)
    return {key: median(values) for key, values in speeds.items()}


def read_timings(path: Path) -> list[dict[str, Any]]:
    """Rows of a timings file; a half-written line is left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for line in lines if (row := as_facts(line))]


def makespan(seconds: Sequence[float], jobs: int) -> float:
    """When the last run ends, if each starts on the first free core."""
    ends = [0.0] * jobs
    for duration in seconds:
        ends.sort()
        ends[0] += duration
    return max(ends)
