"""All tables and figures of a results folder, from its summaries alone."""

from __future__ import annotations

from pathlib import Path

from quell.errors import UsageError, require
from quell.paper import figures, formats
from quell.paper.plan import ENTRIES, Entry
from quell.paper.scores import Grid, grid
from quell.paper.summary import Summary, read_group
from quell.paper.tables import build

HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; overflow-x: auto }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0 }}
th, td {{ padding: .25rem .7rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap }}
th:first-child {{ text-align: left }}
small {{ display: block; opacity: .65 }}
</style>
{body}</html>
"""


def groups(out: Path) -> list[Path]:
    """The folders under a results folder that hold summaries; the folder itself may be one."""
    if (out / "summaries").is_dir():
        return [out]
    return sorted(path.parent for path in out.glob("*/summaries"))


def render_all(out: Path) -> list[Path]:
    """Every table and figure of every group."""
    found = groups(out)
    if not found:
        raise UsageError(f"{str(out)!r} holds no summaries of runs; `quell paper table-es` makes some")
    require("plot", "figures")
    return [path for group in found for path in render_group(group)]


def render_group(group: Path) -> list[Path]:
    """Every table and figure for which the group has runs."""
    summaries = read_group(group)
    written = []
    for name, entry in ENTRIES.items():
        found = runs_of(entry, summaries)
        if not found or not entry.methods:
            continue
        if name.startswith("table"):
            written += _table(group, name, entry, found)
        else:
            draw = figures.curves if name == "fig-curves" else figures.bars
            draw(entry, found, group / name)
            written += [group / f"{name}.{ending}" for ending in figures.FORMATS]
    return written


def runs_of(entry: Entry, summaries: list[Summary]) -> Grid:
    """An entry's runs, on tasks that have more than the methods it shares with other entries."""
    shared = {"cv", "pg"} | ({"ppo"} if "ppo+s" in entry.methods else set())
    found = grid(summaries, methods=entry.methods)
    return {task: row for task, row in found.items() if row.keys() - shared}


def _table(group: Path, name: str, entry: Entry, found: Grid) -> list[Path]:
    table = build(entry, found)
    comment = f"Made by `quell paper render` from the runs in `{group.name}/summaries`."
    contents = {
        "md": formats.markdown(table, comment),
        "tex": formats.latex(table, comment),
        "html": HTML.format(title=entry.title, body=formats.html(table)),
    }
    for ending, text in contents.items():
        (group / f"{name}.{ending}").write_text(text)
    return [group / f"{name}.{ending}" for ending in contents]
