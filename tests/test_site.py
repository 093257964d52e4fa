"""The documentation site: complete, and built without a network."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import browser
import pytest
from browser import Browser

import quell

ROOT = Path(__file__).parent.parent
WORDS = (
    *("checkpoint", "hyperparameter", "early stopping", "save", "vectorised", "Windows", "Colab"),
    *("learning rate", "TensorBoard", "Stable", "GPU", "resume", "custom environment", "callback"),
)
"""What people search for who come from elsewhere."""


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_the_site_can_be_searched_from_disk(site: Path, tmp_path: Path) -> None:
    program = browser.find()
    if program is None:
        pytest.skip("no browser to look with")
    with Browser(program, tmp_path) as window:
        for word in WORDS:
            window.open(site / "index.html")
            window.run("document.querySelector('label[for=__search]').click()")
            window.run("document.querySelector('[data-md-component=search-query]').focus()")
            for letter in word:
                window.key(letter)
            until = time.monotonic() + 20
            while not window.run("document.querySelectorAll('.md-search-result__item').length"):
                assert time.monotonic() < until, f"nothing found for {word!r}"
                time.sleep(0.1)
        assert {address.partition(":")[0] for address in window.requests} <= {"file", "data"}
        assert window.messages == []


BROKEN = """[...document.querySelectorAll('article table')]
    .filter(table => table.querySelector('tr').children.length > 4)
    .flatMap(table => [...table.querySelectorAll('td')])
    .filter(cell => {
        const range = document.createRange()
        range.selectNodeContents(cell)
        const boxes = [...range.getClientRects()]
        return boxes.length && Math.max(...boxes.map(b => b.top)) > Math.min(...boxes.map(b => b.bottom))
    }).map(cell => cell.innerText)"""
"""Cells of tables of numbers that take more than one line."""
SIDEWAYS = """[...document.querySelectorAll('article .md-typeset__scrollwrap')]
    .filter(frame => frame.scrollWidth > frame.clientWidth).map(frame => frame.innerText.slice(0, 80))"""
"""Tables that are wider than the page, and are pushed sideways by whoever reads them."""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_no_number_is_broken_and_no_page_is_too_wide(site: Path, tmp_path: Path, width: int) -> None:
    program = browser.find()
    if program is None:
        pytest.skip("no browser to look with")
    with Browser(program, tmp_path, width=width) as window:
        for page in sorted((ROOT / "docs").glob("*.md")):
            window.open(site / f"{page.stem}.html")
            assert window.run(BROKEN) == [], page.name
            assert width < 1280 or window.run(SIDEWAYS) == [], page.name
            assert window.run("document.documentElement.scrollWidth") <= width, page.name


@pytest.mark.slow
def test_the_site_asks_for_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert (site / "results/throughput/index.html") in pages, "what pages link to comes along"
    for page in pages:
        fetched = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?(https?://[^\" >]+)", page.read_text())
        assert not fetched, f"{page.name}: {fetched}"
    assert "fonts.googleapis" not in "".join(path.read_text() for path in site.rglob("*.css"))
