"""The tutorial runs as it stands, cell after cell, and the site shows the same text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import make_tutorial
import pytest
from pages import ROOT

RUNNER = """
import ast, pathlib, sys, types
import matplotlib
matplotlib.use("agg")
sys.modules["IPython.display"] = types.ModuleType("IPython.display")
sys.modules["IPython.display"].Image = pathlib.Path
sys.path.append(sys.argv[1])
import make_tutorial
for kind, text in make_tutorial.cells():
    if kind == "code":
        tree = ast.parse(text)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), globals())
        value = last and eval(compile(ast.Expression(last.value), "cell", "eval"), globals())
        if value is not None:
            print("shown:", value)
"""
"""What a notebook does: all cells in one space of names, which is no file's; the last line of a cell is shown."""


def test_the_page_is_made_from_the_notebook() -> None:
    """`python docs/make_tutorial.py` would change nothing."""
    assert make_tutorial.page() == (ROOT / "docs" / "tutorial.md").read_text()


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(ROOT / "docs")], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    shown = [line.removeprefix("shown: ") for line in done.stdout.splitlines() if line.startswith("shown: ")]
    *_, total, same, film, seeds = shown
    assert float(total) == 500
    assert same == "True"
    assert (tmp_path / film).stat().st_size > 1000
    assert len(seeds.split(",")) == 3
    assert "500 ± 0" in done.stdout
