"""README: its numbers are those of the records, and it stays short."""

from __future__ import annotations

import json
import re

import make_front
from pages import ROOT
from printed import page

from quell import zoo
from quell.presets import METHODS

README = (ROOT / "README.md").read_text()


def test_its_numbers_are_made_from_the_records() -> None:
    """`python docs/make_front.py` would change nothing."""
    assert make_front.page(README) == README


def test_it_is_short_and_its_pictures_are_there() -> None:
    assert len(README.split()) < 840
    assert "Twelve trained policies" in README
    assert len(zoo.names()) == 12
    for picture in ("docs/films/halfcheetah.gif", "docs/figures/score-seconds.png"):
        assert picture in README
        assert (ROOT / picture).stat().st_size < 2e6


def test_pip_and_a_film_come_before_make() -> None:
    assert README.index(".gif") < README.index("pip install") < README.index("make run")


def test_the_first_minutes_are_as_they_were_timed() -> None:
    """docs/install.md, from what benchmarks/first_minutes.py printed."""
    facts = json.loads((ROOT / "results/throughput/first-minutes.json").read_text())
    assert round(sum(facts["seconds"].values()), 1) == facts["total"] < 180
    assert f"took {facts['total']:.0f} seconds on {facts['cores']} cores, with empty caches" in page("docs/install.md")
    assert f"in {round(facts['compare']['processor'], -1):.0f} seconds of processor time" in README


def test_every_policy_that_comes_along_has_a_film() -> None:
    """Small ones: all of them are fetched with the start page."""
    films = {path.stem: path.stat().st_size for path in (ROOT / "docs/films").glob("*.gif")}
    assert films.keys() == set(zoo.names())
    assert max(films.values()) < 1.2e6
    assert sum(films.values()) < 12e6
    assert all(f"films/{name}.gif" in (ROOT / "docs/index.md").read_text() for name in films)


def test_every_method_has_its_pseudocode() -> None:
    text = (ROOT / "docs/algorithms.md").read_text()
    headings = " ".join(line for line in text.splitlines() if line.startswith("## "))
    for name in METHODS:
        assert re.search(rf"[ ,]{name.partition('+')[0]}\b", headings), name
