"""Columns of text: bold headings on a terminal, the same columns without them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table. A heading that starts with '<' stands over a column that is flush left; nothing is wrapped."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in head:
        justify = "left" if name.startswith("<") else "right"
        table.add_column(Text(name.removeprefix("<")), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))  # as Text: brackets are not markup
    console = Console(highlight=False)
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.width = max(console.width, needed)
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as text:
        console.print(table)
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)
