"""Columns of text: bold headings on a terminal, the same columns without them elsewhere.

A heading that starts with '<' stands over a column that is flush left. Nothing is wrapped.
"""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quell.terminal.streams import printable

WIDE = 10_000


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in head:
        left = name.startswith("<")
        table.add_column(Text(name.removeprefix("<")), justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell, breaks="")) for cell in row))  # as Text: brackets are not markup
    console = Console(width=WIDE)  # a narrow terminal wraps lines by itself, and cuts nothing off
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as text:
        console.print(table)
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as Markdown."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
