"""What a report can be made of: run folders, records of finished runs, measurements of `quell variance`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quell.errors import UsageError
from quell.runs import Run, archive, files
from quell.runs.record import Record, from_facts, from_folder, is_record

OWN = "runs"
"""The group of everybody's own runs: run folders, and what `quell train --seeds` leaves."""


@dataclass
class Sources:
    """Everything in the files that were given."""

    groups: dict[str, list[Record]] = field(default_factory=dict)  # what belongs together -> its runs
    campaigns: dict[Path, list[Record]] = field(default_factory=dict)
    """Results folder of a campaign -> its records, which are in the groups too."""
    measurements: list[dict[str, Any]] = field(default_factory=list)
    folders: dict[int, Path] = field(default_factory=dict)
    """id() of a run of the groups -> the folder that it left behind, where that is among what was given."""

    @property
    def runs(self) -> Iterator[tuple[str, Record]]:
        """(group, run) of every run."""
        return ((group, run) for group, runs in self.groups.items() for run in runs)


def gather(paths: Iterable[Path]) -> Sources:
    """All runs and measurements in the given folders and files, however deep."""
    sources = Sources()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{str(path)!r} does not exist")
        for file in [path] if path.is_file() else sorted([*path.rglob("*.json"), *path.rglob(archive.PACKED)]):
            if "checkpoints" not in file.parts:
                _take_file(file, sources)
    _arrange(sources)
    if not (sources.groups or sources.measurements):
        given = ", ".join(map(str, paths))
        raise UsageError(f"no run, record or measurement in {given}; give run folders or a results folder")
    for runs in sources.groups.values():
        runs.sort(key=lambda run: (run.config.task, run.name, run.config.seed))
    return sources


def _arrange(sources: Sources) -> None:
    """Every results folder is a group. But one that has a single method on a single task, as `--seeds` makes for every
    method, has nothing to be compared with in itself: those are one group, with the run folders."""
    own = []
    for run in sources.groups.pop(OWN, []):
        told = (one for runs in sources.campaigns.values() for one in runs if one.config == run.config)
        if record := next(told, None):  # it holds what the record says
            sources.folders.setdefault(id(record), sources.folders[id(run)])
        else:
            own.append(run)
    several, others = {}, sources.groups
    for folder, runs in sources.campaigns.items():
        if len({(run.config.task, run.name) for run in runs}) > 1:
            several[folder] = runs
        else:
            own += runs
    names = Counter(folder.name for folder in several)
    sources.groups = {}
    for folder in sorted(several, key=lambda folder: (folder.name, folder)):
        name = folder.name if names[folder.name] == 1 else f"{folder.parent.name}/{folder.name}"
        sources.groups.setdefault(name, []).extend(several[folder])
    for name, runs in sorted({**others, OWN: own}.items()):
        if runs:
            sources.groups.setdefault(name, []).extend(runs)


def _take_file(file: Path, sources: Sources) -> None:
    """Add what a file holds, if it is something we know."""
    try:
        if file.name == "config.json":
            run = from_folder(Run.open(file.parent))
            sources.groups.setdefault(OWN, []).append(run)
            sources.folders[id(run)] = file.parent
        elif file.name == archive.PACKED:
            for name, facts in archive.read_packed(file):
                _take(name, facts, file.parent, file.parent, sources)
        elif isinstance(facts := files.read_json(file, archive.LARGEST), dict):
            campaign = file.parent.parent if file.parent.name == archive.LOOSE else None
            _take(file.stem, facts, file.parent, campaign, sources)
    except files.MALFORMED as error:
        raise UsageError(f"{str(file)!r} cannot be read: {error}") from None


def _take(name: str, facts: dict[str, Any], folder: Path, campaign: Path | None, sources: Sources) -> None:
    """Add a run's record, or a measurement."""
    if is_record(facts):
        run = from_facts(facts)
        if campaign is None:
            sources.groups.setdefault(f"{folder.name}, {run.config.preset}", []).append(run)
        else:
            sources.campaigns.setdefault(campaign.resolve(), []).append(run)
    elif {"task", "at", "rows"} <= facts.keys():
        sources.measurements.append({**_measurement(facts), "file": name})


def _measurement(facts: dict[str, Any]) -> dict[str, Any]:
    """What `quell variance` wrote; a ValueError if it did not."""
    texts = [facts["task"], facts["at"], facts.get("label", ""), *(row["name"] for row in facts["rows"])]
    counts = [facts.get(name, 0) for name in ("iterations", "pairs_per_iteration")]
    ratios = [value for row in facts["rows"] for value in row["ratio"].values() if value is not None]
    if not all(isinstance(text, str) for text in texts) or not all(map(files.is_number, [*counts, *ratios])):
        raise ValueError("it looks like a measurement, but its names or numbers are none")
    return facts
