"""Tables and numbers that scripts put into the pages: what is committed is what the records say."""

from __future__ import annotations

import re
from pathlib import Path

import make_numbers
import pytest
from marks import BLOCK, SPAN, fill

MARKED = [path for path in make_numbers.PAGES if BLOCK.search(path.read_text()) or SPAN.search(path.read_text())]


@pytest.mark.parametrize("path", MARKED, ids=lambda path: str(path.relative_to(make_numbers.ROOT)))
def test_numbers_are_those_of_the_records(path: Path) -> None:
    text = path.read_text()
    assert make_numbers.page(text) == text, "run: python docs/make_numbers.py"


def test_the_pages_with_most_numbers_are_among_them() -> None:
    names = {path.name for path in MARKED}
    assert names >= {"benchmark.md", "natural.md", "results.md", "variance.md", "scale.md", "choosing.md"}


def test_a_part_of_a_sentence_begins_no_line() -> None:
    """Markdown would end the paragraph there."""
    for path in make_numbers.PAGES:
        assert not re.search(r"^\s*<!--(?! )", path.read_text(), re.MULTILINE), path


def test_marks_are_closed_and_known() -> None:
    for path in make_numbers.PAGES:
        text = path.read_text()
        begun = re.findall("<!-- .*: made by docs/", text)
        assert len(begun) == len(BLOCK.findall(text)) == text.count("<!-- end -->"), path
        assert text.count("<!--/-->") == len(SPAN.findall(text)), path
        for name in [found[1] for found in SPAN.findall(text)]:
            assert name.split()[0] in make_numbers.PARTS, name


def test_only_what_is_marked_changes() -> None:
    text = "a <!--n 1-->old<!--/--> b\n<!-- t: made by docs/make_numbers.py -->\nold\n<!-- end -->\nold\n"
    text += "<!-- t: made by docs/other.py -->\nold\n<!-- end -->\n"
    new = fill(text, lambda name: f"[{name}]", "make_numbers.py")
    assert new == text.replace("-->old<", "-->[n 1]<").replace("numbers.py -->\nold", "numbers.py -->\n[t]")
    assert fill(text, lambda name: name, "none.py") == text


def test_an_empty_block_is_filled_and_leaves_the_next_one_alone() -> None:
    begin, end = "<!-- {}: made by docs/make_numbers.py -->\n", "<!-- end -->\n"
    text = begin.format("a") + end + "between\n" + begin.format("b") + "old\n" + end
    made = begin.format("a") + "[a]\n" + end + "between\n" + begin.format("b") + "[b]\n" + end
    assert fill(text, lambda name: f"[{name}]", "make_numbers.py") == made
    never_closed = begin.format("a") + "old\n" + begin.format("b") + "old\n" + end
    assert fill(never_closed, lambda name: f"[{name}]", "make_numbers.py").startswith(begin.format("a") + "old\n")
