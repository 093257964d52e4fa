"""Pages with marks: what stands between two of them is made by a script, everything else is written by hand.

A part is named by words, the first of which is a function and the others what it is given:

    <!-- table of the benchmark: made by docs/make_numbers.py -->      a part on lines of its own
    ...
    <!-- end -->

    with probability <!--above natural-cv trpo-->0.51 [0.43, 0.59]<!--/--> over all tasks      a part of a sentence
"""

from __future__ import annotations

import re
from collections.abc import Callable

Make = Callable[[str], str]
"""A part's name -> its text."""
BLOCK = re.compile(r"(<!-- ([^>]+?): made by docs/(\w+\.py) -->\n)((?:(?!<!-- ).)*?)(<!-- end -->)", re.DOTALL)
"""What stands in it may be empty, as it is when a page is written, and holds no other block."""
SPAN = re.compile(r"(<!--(?! )([^>]+?)-->)([^<]*)(<!--/-->)")


def fill(text: str, make: Make, script: str) -> str:
    """The page with every part of this script made anew; parts of a sentence are all make_numbers.py's."""

    def block(found: re.Match[str]) -> str:
        return found[0] if found[3] != script else found[1] + make(found[2]).rstrip("\n") + "\n" + found[5]

    text = BLOCK.sub(block, text)
    if script != "make_numbers.py":
        return text
    return SPAN.sub(lambda found: found[1] + make(found[2]) + found[4], text)
