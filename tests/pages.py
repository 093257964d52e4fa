"""The code on README and the pages of the documentation, as the tests carry it out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
"""Made from the notebook, which tests/test_tutorial.py carries out as a whole."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*ROOT.glob("docs/*.md")} - {TUTORIAL})]
PROGRAMS = ("pip", "make", "python")
"""What else than `quell` and `ray` a reader is told to run; tests/test_page_programs.py does."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of a page's fenced blocks."""
    yield from re.findall(r"^```+(\w*)\n(.*?)^```+$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def spans(text: str) -> list[str]:
    """What stands between single backticks, outside of blocks."""
    return [
        " ".join(span.split()) for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    ]


def lines(text: str, *, settings: bool = False) -> Iterator[list[str]]:
    """The words of every command in a bash block, without comments, and without settings of the environment or with."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        before = [word for word in words if re.match(r"[A-Z_]+=", word)]
        if words := words[len(before) :]:
            yield [*(before if settings else []), words[0].removeprefix(".venv/bin/"), *words[1:]]


def said(program: str) -> list[list[str]]:
    """What a reader is told to run with one of the PROGRAMS, in blocks and between backticks, each line once."""
    found: dict[tuple[str, ...], None] = {}
    for page in PAGES:
        texts = [text for language, text in blocks(page) if language == "bash"]
        texts += [span for span in spans(page.read_text()) if span.split()[0] in PROGRAMS and " " in span]
        for words in (words for text in texts for words in lines(text)):
            if words[0] == program:
                found[tuple(words[1:])] = None
    return [list(words) for words in found]
