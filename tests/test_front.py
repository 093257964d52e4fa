"""README: its numbers are those of the records, and it stays short."""

from __future__ import annotations

import make_front
from pages import ROOT

README = (ROOT / "README.md").read_text()


def test_its_numbers_are_made_from_the_records() -> None:
    """`python docs/make_front.py` would change nothing."""
    assert make_front.page(README) == README


def test_it_is_short_and_its_pictures_are_there() -> None:
    assert len(README.split()) < 950
    for picture in ("docs/films/halfcheetah.gif", "docs/figures/score-seconds.png"):
        assert picture in README
        assert (ROOT / picture).stat().st_size < 2e6


def test_pip_and_a_film_come_before_make() -> None:
    assert README.index(".gif") < README.index("pip install") < README.index("make run")
