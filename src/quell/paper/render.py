"""All tables and figures of a results folder, from its records alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from quell.errors import UsageError, require
from quell.figures.runs import curve_panels, improvement_bars
from quell.paper import formats, selection
from quell.paper.published import ENTRIES, Entry, is_group, label
from quell.paper.scores import Grid, grid, improvements
from quell.paper.tables import build
from quell.runs import archive
from quell.runs.files import write
from quell.runs.record import Record, read_group

SELECTED = ENTRIES["selection"]


def render_all(out: Path) -> list[Path]:
    """Every table and figure of every group: folders that hold records, or the results folder itself."""
    folders = [group for group in (out, *sorted(out.glob("*/"))) if archive.holds_records(group)]
    if not folders:
        raise UsageError(f"{str(out)!r} holds no records of runs; `quell paper table-es` makes some")
    require("plot", "figures")
    return [path for group in folders for path in render_group(group)]


def render_group(group: Path) -> list[Path]:
    """Every table and figure for which the group has runs."""
    records = read_group(group)
    if selection.holds(records):
        return _selection(group, selection.lines(records))
    written = []
    for name, entry in ENTRIES.items():
        if not (runs_by_task := runs_of(entry, records)):
            continue
        paths = [group / f"{name}.{ending}" for ending in ("svg", "png")]
        methods = [method for method in entry.methods if any(method in row for row in runs_by_task.values())]
        if name.startswith("table"):
            paths = _table(group, name, entry, runs_by_task)
        elif name == "fig-curves":
            panels = {label(t): {m: row[m] for m in methods if m in row} for t, row in runs_by_task.items()}
            curve_panels(panels, *paths, upper=True)
        else:
            tasks = {label(task): improvements(row) for task, row in runs_by_task.items() if "es" in row}
            improvement_bars(tasks, methods, *paths)
        written += paths
    return written


def html_tables(groups: Mapping[Path, Sequence[Record]]) -> list[tuple[str, str]]:
    """(title, HTML) of every table for which a results folder of `quell paper` has runs."""
    blocks = []
    for group, records in groups.items():
        if not is_group(group.name):
            continue
        if selection.holds(records):
            blocks.append((f"{group.name}: {SELECTED.title}", formats.html_of_selection(selection.lines(records))))
            continue
        for name, entry in ENTRIES.items():
            runs_by_task = runs_of(entry, records)
            if name.startswith("table") and runs_by_task:
                blocks.append((f"{group.name}: {entry.title}", formats.html(build(entry, runs_by_task))))
    return blocks


def runs_of(entry: Entry, records: Iterable[Record]) -> Grid:
    """An entry's runs, on tasks that have more than the methods it shares with other entries."""
    return {task: row for task, row in grid(records, methods=entry.methods).items() if row.keys() - entry.shared}


def _table(group: Path, name: str, entry: Entry, runs_by_task: Grid) -> list[Path]:
    table, made = build(entry, runs_by_task), _comment(group)
    return _written(group / name, md=formats.markdown(table, made), tex=formats.latex(table, made))


def _selection(group: Path, found: Sequence[selection.Line]) -> list[Path]:
    made = _comment(group)
    pages = {"md": formats.markdown_of_selection(found, made), "tex": formats.latex_of_selection(found, made)}
    return _written(group / "selection", **pages) if found else []


def _comment(group: Path) -> str:
    return f"Made by `quell paper render` from the runs in `{group.name}/{archive.PACKED}`."


def _written(path: Path, **pages: str) -> list[Path]:
    """The pages, by their ending."""
    paths = [path.with_name(f"{path.name}.{ending}") for ending in pages]
    for one, text in zip(paths, pages.values(), strict=True):
        write(one, text)
    return paths
