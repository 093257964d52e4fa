"""The page on reliability: tests it names exist, and numbers it prints are those of their file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import soak

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text()


def test_every_row_names_a_test_that_exists() -> None:
    defined = {
        name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    files = {path.name for path in (ROOT / "tests").rglob("*.py")}
    table = PAGE.partition("|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(table) > 31
    for row in table:
        shown = row.rpartition(" | ")[2]
        names = re.findall(r"test_\w+(?:\.py)?…?", shown)
        assert names, row
        for name in names:
            if name.endswith(".py"):
                assert name in files, name
            elif name.endswith("…"):
                assert any(one.startswith(name[:-1]) for one in defined), name
            else:
                assert name in defined, name


def test_the_soak_is_as_its_file_has_it() -> None:
    facts = json.loads((ROOT / "results/soak/lqr-cv.json").read_text())
    assert facts["summary"] == soak.summary(facts["samples"])
    assert f"for {facts['iterations']:,} iterations" in PAGE
    assert f"{facts['seconds']:,} s)" in PAGE
    for title, name in {
        "driver, MB": "driver_mb",
        "workers, MB": "workers_mb",
        "processes": "processes",
        "threads of the driver": "threads",
        "descriptors": "descriptors",
    }.items():
        values = facts["summary"][name]
        assert f"| {title} | {values['early']} | {values['late']} | {values['most']} |" in PAGE
