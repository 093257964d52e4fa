"""A table as Markdown, LaTeX and HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from quell.paper import selection
from quell.paper.columns import heading
from quell.paper.published import ENTRIES, label
from quell.paper.tables import AGGREGATE_HEAD, AGGREGATE_NOTES, PAIRED_NOTES, Cell, Table, aggregate_cells
from quell.terminal.tables import markdown_lines


def markdown(table: Table, comment: str) -> str:
    """With the paper's numbers in smaller type under ours."""

    def cell(c: Cell) -> str:
        ours = f"**{c.text}**" if c.bold else c.text
        return f"{ours}<br><sub>{c.reference or '–'}</sub>"

    lines = [f"# {table.title}", "", comment, "", *markdown_lines(table.head, table.body(cell))]
    lines += ["", *(f"* {note}" for note in table.notes)]
    if table.sums:
        lines += ["", "## Seed by seed", ""]
        lines += markdown_lines(table.paired_head, table.paired_body)
        lines += ["", *(f"* {note}" for note in PAIRED_NOTES)]
    if table.aggregates:
        lines += ["", "## Over all tasks", ""]
        lines += markdown_lines(AGGREGATE_HEAD, map(aggregate_cells, table.aggregates))
        lines += ["", *(f"* {note}" for note in AGGREGATE_NOTES)]
    return "\n".join(lines) + "\n"


def latex(table: Table, comment: str) -> str:
    r"""A tabular in booktabs style, two lines per task; needs \usepackage{booktabs}."""
    rows = []
    for row in table.rows:
        ours = [rf"$\mathbf{{{_math(c.number)}}}$" if c.bold else f"${_math(c.number)}$" for c in row.cells]
        ours = [f"{number} {_tex(c.said)}".rstrip() for number, c in zip(ours, row.cells, strict=True)]
        theirs = [rf"\scriptsize ${_math(c.reference)}$" if c.reference else "" for c in row.cells]
        rows += [[_tex(row.label), "ours", *ours], ["", "paper", *theirs]]
    lines = [f"% {comment}", *_tabular("ll", ["task", "", *map(heading, table.methods)], rows)]
    if table.sums:
        lines += ["", *_tabular("l", table.paired_head, [map(_tex, row) for row in table.paired_body])]
    if table.aggregates:
        lines += ["", *_tabular("l", AGGREGATE_HEAD, [map(_tex, aggregate_cells(a)) for a in table.aggregates])]
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """Plain tables, to be put into a page."""

    def cell(c: Cell) -> str:
        ours = f"<strong>{c.text}</strong>" if c.bold else c.text
        return f"{ours}<small>{escape(c.reference) or '–'}</small>"

    lines = _table(table.title, table.head, table.body(cell), table.notes)
    if table.sums:
        lines += _table("Seed by seed", table.paired_head, table.paired_body, PAIRED_NOTES)
    if table.aggregates:
        lines += _table("Over all tasks", AGGREGATE_HEAD, map(aggregate_cells, table.aggregates), AGGREGATE_NOTES)
    return "\n".join(lines) + "\n"


def markdown_of_selection(found: Sequence[selection.Line], comment: str) -> str:
    """A line per task, then one per setting."""
    lines = [f"# {ENTRIES['selection'].title}", "", comment, ""]
    lines += markdown_lines(selection.HEAD, map(selection.cells, found))
    lines += ["", *(f"* {note}" for note in selection.NOTES), "", f"## {BY_SETTING}", ""]
    return "\n".join([*lines, *markdown_lines(_setting_head(found), selection.by_setting(found))]) + "\n"


def latex_of_selection(found: Sequence[selection.Line], comment: str) -> str:
    """The same two tables."""
    tasks = _tabular("l", selection.HEAD, [map(_tex, selection.cells(line)) for line in found])
    settings = _tabular("l", _setting_head(found), [map(_tex, row) for row in selection.by_setting(found)])
    return "\n".join([f"% {comment}", *tasks, "", *settings]) + "\n"


def html_of_selection(found: Sequence[selection.Line]) -> str:
    """The same two tables."""
    cells = [[escape(cell) for cell in selection.cells(line)] for line in found]
    lines = _table(ENTRIES["selection"].title, selection.HEAD, cells, selection.NOTES)
    return "\n".join([*lines, *_table(BY_SETTING, _setting_head(found), selection.by_setting(found), [])]) + "\n"


BY_SETTING = "CV - ES with the same seeds, setting by setting"


def _setting_head(found: Sequence[selection.Line]) -> list[str]:
    return ["setting", *(label(line.task) for line in found)]


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
    return text.replace("±", r"\pm").replace("–", r"\text{--}")
