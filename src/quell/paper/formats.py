"""A table as Markdown, LaTeX and HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from quell.paper.tables import AGGREGATE_HEAD, AGGREGATE_NOTES, Cell, Table, aggregate_cells
from quell.presets import title
from quell.runs.record import NO_REWARD
from quell.terminal.tables import markdown_lines


def markdown(table: Table, comment: str) -> str:
    """With the paper's numbers in smaller type under ours."""

    def cell(c: Cell) -> str:
        ours = f"**{c.text}**" if c.bold else c.text
        return f"{ours}<br><sub>{c.reference or '–'}</sub>"

    lines = [f"# {table.title}", "", comment, "", *markdown_lines(table.head, table.body(cell))]
    lines += ["", *(f"* {note}" for note in table.notes)]
    if table.aggregates:
        lines += ["", "## Over all tasks", ""]
        lines += markdown_lines(AGGREGATE_HEAD, map(aggregate_cells, table.aggregates))
        lines += ["", *(f"* {note}" for note in AGGREGATE_NOTES)]
    return "\n".join(lines) + "\n"


def latex(table: Table, comment: str) -> str:
    r"""A tabular in booktabs style, two lines per task; needs \usepackage{booktabs}."""
    rows = []
    for row in table.rows:
        ours = [rf"$\mathbf{{{_math(c.text)}}}$" if c.bold else f"${_math(c.text)}$" for c in row.cells]
        theirs = [rf"\scriptsize ${_math(c.reference)}$" if c.reference else "" for c in row.cells]
        rows += [[_tex(row.label), "ours", *ours], ["", "paper", *theirs]]
    lines = [f"% {comment}", *_tabular("ll", ["task", "", *map(title, table.methods)], rows)]
    if table.aggregates:
        lines += ["", *_tabular("l", AGGREGATE_HEAD, [map(_tex, aggregate_cells(a)) for a in table.aggregates])]
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """Two plain tables, to be put into a page."""

    def cell(c: Cell) -> str:
        ours = f"<strong>{c.text}</strong>" if c.bold else c.text
        return f"{ours}<small>{escape(c.reference) or '–'}</small>"

    lines = _table(table.title, table.head, table.body(cell), table.notes)
    if table.aggregates:
        lines += _table("Over all tasks", AGGREGATE_HEAD, map(aggregate_cells, table.aggregates), AGGREGATE_NOTES)
    return "\n".join(lines) + "\n"


def _table(caption: str, head: Iterable[str], rows: Iterable[list[str]], notes: Iterable[str]) -> list[str]:
    """Rows are names and then HTML."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = ["<table>", f"<caption>{escape(caption)}</caption>", f"<thead><tr>{heads}</tr></thead>", "<tbody>"]
    for name, *cells in rows:
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{c}</td>" for c in cells)}</tr>')
    return [*lines, "</tbody>", "</table>", *(f"<p>{escape(note)}</p>" for note in notes)]


def _tabular(columns: str, head: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """`columns` that are flush left, then numbers; rows are LaTeX."""
    first, *rest = (" & ".join(cells) + r" \\" for cells in (map(_tex, head), *rows))
    begin = rf"\begin{{tabular}}{{{columns:r<{len(head)}}}}"
    return [begin, r"\toprule", first, r"\midrule", *rest, r"\bottomrule", r"\end{tabular}"]


_TEX = {"\\": r"\textbackslash{}", **{c: f"\\{c}" for c in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\^{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text).replace("–", "--")


def _math(text: str) -> str:
    return text.replace("±", r"\pm").replace("–", r"\text{--}").replace(NO_REWARD, rf"\text{{{NO_REWARD}}}")
