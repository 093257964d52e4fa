"""The building: who may import whom, and how long a function may be."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/quell"
FILES = {
    ".".join(("quell", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules of quell that import statements name."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in FILES else node.module


def test_modules_import_each_other_in_one_direction() -> None:
    """Statements at the top of a module, which run when it is imported."""
    graph = {name: set(imported(ast.parse(path.read_text()).body)) for name, path in FILES.items()}
    assert list(TopologicalSorter(graph).static_order()), "raises CycleError, which names the cycle"


def rooms() -> dict[str, set[str]]:
    """Package or module right below quell -> those that it imports anywhere: in functions and for types, too."""
    graph: dict[str, set[str]] = {}
    for name, path in FILES.items():
        room = name.split(".")[1:2]
        for other in imported(ast.walk(ast.parse(path.read_text()))):
            if room and other != "quell" and other.split(".")[1:2] != room:
                graph.setdefault(room[0], set()).add(other.split(".")[1])
    return graph


def test_rooms_import_each_other_in_one_direction() -> None:
    """What is lower can be read, tested and moved without what is built on it."""
    assert list(TopologicalSorter(rooms()).static_order()), "raises CycleError, which names the cycle"


def test_rooms_keep_to_themselves() -> None:
    """Anywhere in a module: what shows results knows no paper, what runs campaigns neither, and drawing is no one's."""
    refused = {
        "report": ("paper", "campaign"),
        "figures": ("paper", "report", "campaign"),
        "terminal": ("paper", "report", "campaign", "runs", "figures"),
        "campaign": ("paper", "report", "figures"),
        "runs": ("paper", "report", "figures", "campaign", "api"),
    }
    for name, path in FILES.items():
        room = name.split(".")[1] if "." in name else ""
        for other in imported(ast.walk(ast.parse(path.read_text()))):
            assert other.split(".")[1:2] not in [[one] for one in refused.get(room, ())], f"{name} imports {other}"


def test_matplotlib_is_imported_in_figures_alone() -> None:
    for path in FILES.values():
        if path.parent.name != "figures":
            assert not re.search(r"^\s*(import|from) matplotlib", path.read_text(), re.MULTILINE), path


def test_no_function_is_longer_than_sixty_lines() -> None:
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{name}.{node.name}"


def test_a_cycle_would_be_found() -> None:
    graph = {name: set(imported(ast.parse(path.read_text()).body)) for name, path in FILES.items()}
    assert graph["quell.config"] >= {"quell.registry", "quell.errors"}, "the graph is not what it should be"
    graph["quell.errors"].add("quell.api")
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph).static_order())
    between = rooms()
    assert between["api"] >= {"runs", "training"}, "the graph is not what it should be"
    between["runs"].add("training")
    with pytest.raises(CycleError):
        list(TopologicalSorter(between).static_order())


def test_commands_print_through_what_is_printable() -> None:
    """`tell` and `say` leave out what could steer a terminal; `print` does not."""
    for path in (SOURCE / "commands").rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert "print" not in [call.id for call in calls if isinstance(call, ast.Name)], path.name


def test_no_two_files_of_tests_have_the_same_name() -> None:
    """pytest imports them by their names alone, and could not collect the second."""
    seen = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert max(seen.values()) == 1, seen.most_common(3)
