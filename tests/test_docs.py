"""The documentation says what the code does."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tyro
from pages import PAGES, ROOT, spans

import quell.tasks
from quell import cli, registry
from quell.commands.settings import ResumeFlags, TrainFlags
from quell.commands.sweep import SweepFlags
from quell.config import Config
from quell.training.methods import make_config

SOURCE = ROOT / "src/quell"
AXES = ("directions", "estimator", "step", "engine")
NOT_OURS = {"backend-store-uri", "num-cpus", "head", "port", "generate", "against", "help", "constraint"}
NOT_OURS |= {"no-deps", "no-build-isolation", "require-hashes", "requirement", "upgrade"}
"""Flags of Ray, pip, uv, MLflow and the benchmarks that pages mention."""


def test_metrics_page_is_current() -> None:
    page = runpy.run_path(str(ROOT / "docs/make_metrics.py"))["page"]()
    assert (ROOT / "docs/metrics.md").read_text() == page, "run: python docs/make_metrics.py"


def test_the_paper_map_names_things_that_exist() -> None:
    text = (ROOT / "docs/paper-map.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}" in tests, name
    for path, names in re.findall(r"`(?!tests/)([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", text):
        where = [SOURCE / path, SOURCE / "perturb" / path]
        found = next((place for place in where if place.exists()), None)
        assert found is not None, path
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(def|class) {name}\b", found.read_text(), re.MULTILINE), f"{path}: {name}"


def test_paths_in_pages_exist() -> None:
    for page in PAGES:
        for span in spans(page.read_text()):
            if re.fullmatch(r"(tests|benchmarks|examples|docs|results|src)/[\w./-]+", span) and "<" not in span:
                assert (ROOT / span).exists(), f"{page.name}: {span}"
            for script in re.findall(r"python ((?:benchmarks|examples|docs)/\w+\.py)", span):
                assert (ROOT / script).exists(), f"{page.name}: {span}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/**/*.md")]:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())  # formulas in code look like links: [a](b)
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def rooms() -> Iterator[str]:
    """The files and folders in the architecture page's tree, as paths within src/quell."""
    text = (ROOT / "docs/architecture.md").read_text()
    block = text.partition("    src/quell/\n")[2].partition("\n\n")[0]
    parent = ""
    for line in block.splitlines():
        name = line.split()[0].rstrip("/")
        parent = parent if line.startswith(" " * 8) else ""
        yield f"{parent}{name}"
        parent = parent or f"{name}/"


def test_the_architecture_page_shows_the_tree_as_it_is() -> None:
    listed = list(rooms())
    assert len(set(listed)) == len(listed)
    packages = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*/__init__.py")} - {"."}
    modules = {path.name for path in SOURCE.glob("*.py")}
    assert set(listed) == packages | modules | {"report/assets"}
    assert (SOURCE / "report/assets").is_dir()


@pytest.mark.parametrize("kind", AXES)
def test_the_architecture_page_names_every_strategy(kind: str) -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    (row,) = re.findall(rf"^\| {kind} \| `{kind}=.*\| ([^|]+) \|$", page, re.MULTILINE)
    assert set(row.split(", ")) == registry.table(kind).keys()


class Understood(Exception):
    """A command line was parsed, and its command would begin its work."""


def commands(page: Path) -> Iterator[str]:
    """Every `quell ...` command line of a page: in blocks of code and between backticks."""
    text = page.read_text().replace("\\\n", " ")
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    for line in [*lines, *spans(page.read_text())]:
        words = re.sub(r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?", "", line)
        if re.match(r"quell [a-z]+( |$)", words) and words.split()[1] in cli.COMMANDS:
            yield re.sub(r"^quell ", "", re.sub(r"\s+", " ", words))


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands stop once they have understood what they are asked for."""

    def understood(*_: Any, **__: Any) -> Any:
        raise Understood

    def parsed_only(*arguments: Any, **keywords: Any) -> Any:
        known = tyro_cli(*arguments, **keywords)
        if keywords["prog"].split()[1] in ("train", "resume", "sweep"):
            return known
        raise Understood

    @dataclasses.dataclass
    class SomeRun:
        config: Config = dataclasses.field(default_factory=lambda: make_config("halfcheetah"))
        path: Path = Path("run")

    tyro_cli = tyro.cli
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setattr("tyro.cli", parsed_only)
    monkeypatch.setattr("quell.commands.train.start", understood)
    monkeypatch.setattr("quell.commands.train.read", lambda file, given: {"task": "swimmer"})
    monkeypatch.setattr("quell.commands.resume.resume", understood)
    monkeypatch.setattr("quell.campaign.runner.Runner.run", understood)
    monkeypatch.setattr("quell.campaign.here.check_out", lambda folder: folder)
    monkeypatch.setattr("quell.commands.resume.find_run", Path)
    monkeypatch.setattr("quell.commands.resume.Run.open", lambda path: SomeRun())
    monkeypatch.setattr("quell.tasks.trusted", lambda name, horizon: quell.tasks.get("swimmer"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_understood(page: Path, nothing_runs: None, capsys: pytest.CaptureFixture[str]) -> None:
    used = list(commands(page))
    assert used or page.name not in ("README.md", "variance.md", "scale.md", "paper-results.md")
    for command in used:
        words = shlex.split(command.replace(" TASK", " swimmer"))
        if words == words[:1] or {"--help", "RUN"} & set(words[:3]):  # only spoken of
            words = [words[0], "--help"]
        try:
            code: Any = cli.main(words)
        except Understood:
            continue
        except SystemExit as stop:
            code = stop.code
        assert code == 0, f"{page.name}: quell {command}\n{capsys.readouterr().err}"
        assert {"--help", "--show"} & set(words), f"{page.name}: quell {command} was carried out"


def known_flags() -> set[str]:
    """Every flag there is, in full and shortened from the front."""
    names: set[str] = {"trust-import", "config"} | {item.name for item in dataclasses.fields(Config)}
    for command in cli.COMMANDS:
        arguments = getattr(importlib.import_module(f"quell.commands.{command}"), "Arguments", TrainFlags)
        names |= {item.name for item in dataclasses.fields(arguments)}
    names |= {item.name for flags in (ResumeFlags, SweepFlags) for item in dataclasses.fields(flags)}
    inside = {"coefficients": "estimator.", "discount": "estimator.", "critic": "estimator."}
    for kind in registry.KINDS:
        where = "" if kind == "engine" else f"{inside.get(kind, '')}{kind}."
        for strategy in registry.table(kind).values():
            names |= {where + item.name for item in dataclasses.fields(strategy)} | {where.rstrip(".") or kind}
    parts = [name.replace("_", "-").split(".") for name in names]
    return {".".join(part[i:]) for part in parts for i in range(len(part))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_flags_that_pages_mention_exist(page: Path) -> None:
    known = known_flags()
    for span in spans(page.read_text()):
        if not span.startswith("python "):
            for flag in re.findall(r"(?:^| )--([a-z][\w.-]*)", span):
                assert {flag, flag.replace("no-", "")} & known or flag in NOT_OURS, f"{page.name}: {span}"


def resolve(dotted: str) -> Any:
    """What a dotted name in a text stands for."""
    first, *rest = dotted.split(".")
    thing, path = importlib.import_module(first), first
    for name in rest:
        path = f"{path}.{name}"
        try:
            thing = getattr(thing, name)
        except AttributeError:
            thing = importlib.import_module(path)
    return thing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_that_pages_use_exist(page: Path) -> None:
    text = page.read_text()
    for span in spans(text):
        for name in re.findall(r"(?<![\w./-])quell(?!\.py\b)(?:\.[A-Za-z_]\w*)+", span):
            resolve(name)
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module not in ("my_module", "own_estimator"):
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("quell."):
                resolve(ast.unparse(node))
