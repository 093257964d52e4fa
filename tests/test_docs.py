"""The documentation says what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import quell.tasks
from quell.cli import COMMANDS

ROOT = Path(__file__).parent.parent


def test_metrics_page_is_current() -> None:
    page = runpy.run_path(str(ROOT / "docs/make_metrics.py"))["page"]()
    assert (ROOT / "docs/metrics.md").read_text() == page, "run: python docs/make_metrics.py"


def test_the_paper_map_names_things_that_exist() -> None:
    text = (ROOT / "docs/paper-map.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}" in tests, name
    for path in re.findall(r"`((?:estimate/|tasks/)?\w+\.py)`", text):
        assert (ROOT / "src/quell" / path).exists(), path
    for path in re.findall(r"`(tests/[\w./]+)`", text):
        assert (ROOT / path).exists(), path


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/**/*.md")]:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())  # formulas in code look like links: [a](b)
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_shows_commands_and_tasks_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    used = re.findall(r"^(?:\.venv/bin/)?quell (\w+)(?: ([a-z0-9-]+))?", text, re.MULTILINE)
    assert used
    for command, task in used:
        assert command in COMMANDS
        if command == "train":
            assert task in quell.tasks.names()
