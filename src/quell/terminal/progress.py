"""Bars and counters: what a person sees while a run, a campaign or a measurement goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.status import Status
from rich.table import Column

from quell.terminal.streams import printable, say

WIDE = 110  # columns from which on there is room for long bars


class Bars(Progress):
    """Live bars on stderr, so that stdout stays a program's (none if `plain`): title, share, given columns, and facts.

    On a narrow terminal bars are short and facts are cut off, never the rest.
    """

    def __init__(self, title: str, *columns: ProgressColumn, plain: bool) -> None:
        console = Console(stderr=True)
        share = BarColumn(bar_width=24 if console.width >= WIDE else 8), TextColumn("{task.percentage:>3.0f}%")
        facts = TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        super().__init__(TextColumn(title), *share, *columns, facts, console=console, expand=True, disable=plain)

    def say(self, text: str) -> None:
        """A line above them."""
        say(text) if self.disable else self.console.print(printable(text), markup=False, highlight=False)


@contextmanager
def counter(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """One line that counts: `with counter(shown=sys.stderr.isatty()) as tell: tell("episodes", 3, 40)`."""
    if not shown:
        yield lambda what, done, total: None
        return
    with Status("", console=Console(stderr=True)) as line:
        yield lambda what, done, total: line.update(f"{what}: {done} of {total}")
