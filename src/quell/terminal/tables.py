"""Columns of text: bold headings on a terminal, the same columns without them elsewhere.

A heading that starts with '<' stands over a column that is flush left. Nothing is wrapped.
"""

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10_000


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    console = Console(width=WIDE)  # a narrow terminal wraps lines by itself, and cuts nothing off
    if console.is_terminal:
        console.print(_table(head, rows))
    else:
        print("\n".join(lines(head, rows)), flush=True)


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as plain text."""
    text = StringIO()
    Console(file=text, width=WIDE).print(_table(head, rows))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as Markdown."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in head:
        left = name.startswith("<")
        table.add_column(Text(name.removeprefix("<")), justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))  # as Text: brackets are not markup
    return table
