"""The documentation site: complete, and built without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import quell

ROOT = Path(__file__).parent.parent


def test_every_page_is_in_the_menu() -> None:
    yaml = pytest.importorskip("yaml")
    menu = (ROOT / "mkdocs.yml").read_text()
    assert yaml.safe_load(menu)["theme"]["font"] is False, "fonts would be fetched"
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf": {re.escape(page.name)}$", menu, re.MULTILINE), f"add {page.name} to mkdocs.yml"


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs/api.md").read_text()
    for name in quell.__all__:
        assert re.search(rf"(^::: quell\.[\w.]*\b|`quell\.){name}\b", page, re.MULTILINE), f"add {name} to docs/api.md"


@pytest.mark.slow
def test_the_site_builds_and_asks_for_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert (tmp_path / "results/throughput/index.html") in pages, "what pages link to comes along"
    for page in pages:
        fetched = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?(https?://[^\" >]+)", page.read_text())
        assert not fetched, f"{page.name}: {fetched}"
    assert "fonts.googleapis" not in "".join(path.read_text() for path in tmp_path.rglob("*.css"))
