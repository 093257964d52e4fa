"""A table as Markdown, LaTeX and HTML."""

from html import escape

from quell.paper.tables import AGGREGATE_HEAD, AGGREGATE_NOTES, NOTES, Cell, Table, aggregate_cells
from quell.runs.record import NO_REWARD
from quell.terminal.numbers import steps


def markdown(table: Table, comment: str) -> str:
    """With the paper's numbers in smaller type under ours."""

    def cell(c: Cell) -> str:
        ours = f"**{c.text}**" if c.bold else c.text
        return f"{ours}<br><sub>{c.reference or '–'}</sub>"

    head = ["task", "steps", "seeds", *(method.upper() for method in table.methods)]
    lines = [f"# {table.title}", "", comment, "", _line(head), "|" + "---|" * len(head)]
    lines += [_line([row.label, steps(row.steps), _seeds(row.cells), *map(cell, row.cells)]) for row in table.rows]
    lines += ["", *(f"* {note}" for note in notes(table))]
    if table.aggregates:
        lines += ["", "## Over all tasks", "", _line(list(AGGREGATE_HEAD)), "|" + "---|" * len(AGGREGATE_HEAD)]
        lines += [_line(aggregate_cells(a)) for a in table.aggregates]
        lines += ["", *(f"* {note}" for note in AGGREGATE_NOTES)]
    return "\n".join(lines) + "\n"


def latex(table: Table, comment: str) -> str:
    r"""A tabular in booktabs style, two lines per task; needs \usepackage{booktabs}."""
    lines = [f"% {line}" for line in comment.splitlines()]
    lines += [rf"\begin{{tabular}}{{ll{'r' * len(table.methods)}}}", r"\toprule"]
    lines += [" & ".join(["task", "", *(_tex(method.upper()) for method in table.methods)]) + r" \\", r"\midrule"]
    for row in table.rows:
        ours = [rf"$\mathbf{{{_math(c.text)}}}$" if c.bold else f"${_math(c.text)}$" for c in row.cells]
        theirs = [rf"\scriptsize ${_math(c.reference)}$" if c.reference else "" for c in row.cells]
        lines.append(" & ".join([_tex(row.label), "ours", *ours]) + r" \\")
        lines.append(" & ".join(["", "paper", *theirs]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.aggregates:
        lines += ["", rf"\begin{{tabular}}{{l{'r' * (len(AGGREGATE_HEAD) - 1)}}}", r"\toprule"]
        lines += [" & ".join(map(_tex, AGGREGATE_HEAD)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_tex, aggregate_cells(a))) + r" \\" for a in table.aggregates]
        lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """Two plain tables, to be put into a page."""

    def cell(c: Cell) -> str:
        ours = f"<strong>{c.text}</strong>" if c.bold else c.text
        return f"<td>{ours}<small>{escape(c.reference) or '–'}</small></td>"

    head = ["task", "steps", "seeds", *(method.upper() for method in table.methods)]
    lines = ["<table>", f"<caption>{escape(table.title)}</caption>", _head(head), "<tbody>"]
    for row in table.rows:
        first = f'<th scope="row">{escape(row.label)}</th><td>{steps(row.steps)}</td><td>{_seeds(row.cells)}</td>'
        lines.append(f"<tr>{first}{''.join(map(cell, row.cells))}</tr>")
    lines += ["</tbody>", "</table>", *(f"<p>{escape(note)}</p>" for note in notes(table))]
    if table.aggregates:
        lines += ["<table>", "<caption>Over all tasks</caption>", _head(list(AGGREGATE_HEAD)), "<tbody>"]
        for a in table.aggregates:
            name, *values = map(escape, aggregate_cells(a))
            lines.append(f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{v}</td>" for v in values) + "</tr>")
        lines += ["</tbody>", "</table>", *(f"<p>{escape(note)}</p>" for note in AGGREGATE_NOTES)]
    return "\n".join(lines) + "\n"


def notes(table: Table) -> list[str]:
    missing = [f"No runs yet on {', '.join(table.missing)}."] if table.missing else []
    return [*NOTES, *missing]


def _seeds(cells: list[Cell]) -> str:
    """'5', or '3-5' where methods differ."""
    counts = sorted({c.seeds for c in cells if c.seeds})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _head(names: list[str]) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in names) + "</tr></thead>"


_TEX = {"\\": r"\textbackslash{}", **{c: f"\\{c}" for c in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\^{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text).replace("–", "--")


def _math(text: str) -> str:
    return text.replace("±", r"\pm").replace("–", r"\text{--}").replace(NO_REWARD, rf"\text{{{NO_REWARD}}}")
