"""Numbers as README and the pages print them, beside what they should be.

A printed number is right if it is the true one rounded to the digits that are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from quell.runs import archive
from quell.runs.record import Record, from_facts

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"


def facts_of(name: str) -> dict[str, Any]:
    """What the campaign in a folder of results has under a name: `benchmark/ant-cv-0`."""
    folder, _, stem = name.rpartition("/")
    return archive.read(RESULTS / folder)[stem]


def record(name: str) -> Record:
    """The record of that name."""
    return from_facts(facts_of(name))


def records(pattern: str) -> list[Record]:
    """All records whose names are like this: `learning/*-cv-1000000-?`."""
    folder, _, names = pattern.rpartition("/")
    found = {name: facts for name, facts in archive.read(RESULTS / folder).items() if fnmatchcase(name, names)}
    return [from_facts(facts) for facts in found.values()]


def page(name: str) -> str:
    """A page with its line breaks, emphasis and marks taken out, so that sentences can be looked for."""
    return re.sub(r"\s+", " ", re.sub(r"<!--.*?-->", "", (ROOT / name).read_text()).replace("**", ""))


def rounded(printed: str, value: float) -> bool:
    """Whether a printed number is `value`, to its last digit."""
    text = printed.replace(",", "").lstrip("+")
    mantissa, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(text) - value) <= 0.5001 * unit


def check(printed: str, values: Sequence[float]) -> None:
    found = re.findall(NUMBER, printed)
    assert len(found) == len(values), (printed, values)
    for text, value in zip(found, values, strict=True):
        assert rounded(text, value), f"{printed}: {text} is not {value:.6g}"


def says(name: str, before: str, values: Sequence[float]) -> None:
    """The numbers that follow these words on a page."""
    text = page(name)
    assert text.count(before) == 1, f"{name} has {text.count(before)} times: {before}"
    found = re.findall(NUMBER, text.partition(before)[2][:400])[: len(values)]
    check(" ".join(found), values)


def rows(name: str, head: str) -> Iterator[list[str]]:
    """The cells of the table whose heading begins so."""
    lines = (ROOT / name).read_text().replace("**", "").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(head)]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip().strip("|").split("|")]
