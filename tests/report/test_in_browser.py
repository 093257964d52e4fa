"""The report in a browser: it opens from disk, answers mouse and keys, and trusts no name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from browser import Browser
from made_up import EVIL, made_up, small_group, write_group

from quell.paper.published import LABELS
from quell.paper.render import html_tables
from quell.report.build import build
from quell.runs import Run
from quell.runs.find import run_folders, standing
from quell.training.methods import make_config


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = browser.find()
    if program is None:
        pytest.skip(f"no browser to look with: none of {', '.join(browser.NAMES)} is installed")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(window: Browser, tmp_path: Path) -> Browser:
    """The report on a small group of runs, open."""
    small_group(tmp_path)
    (tmp_path / "report.html").write_text(build([tmp_path], title="tést"))
    window.messages.clear()
    window.requests.clear()
    window.resize(1280, 900)
    window.open(tmp_path / "report.html")
    return window


def plot(page: Browser, task: str) -> dict[str, float]:
    """Where a task's chart is, once it is in sight: the mouse reaches nothing below the window."""
    chart = f"document.querySelector('[data-task={task}] .plot')"
    page.run(f"{chart}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    return dict(json.loads(page.run(f"JSON.stringify({chart}.getBoundingClientRect())")))


def tip(page: Browser, task: str) -> tuple[float, dict[str, float]]:
    """The hovered step, and each method's value."""
    script = """(() => {
        const tip = document.querySelector('[data-task=TASK] .tip');
        const rows = [...tip.querySelectorAll('tr')].map(r => [r.dataset.method, Number(r.dataset.value)]);
        return JSON.stringify([tip.hidden, Number(tip.dataset.step), rows]);
    })()"""
    hidden, step, rows = json.loads(page.run(script.replace("TASK", task)))
    assert not hidden
    return step, dict(rows)


def lines(page: Browser, task: str) -> list[str]:
    script = f"[...document.querySelectorAll('[data-task={task}] polyline[data-method]')].map(l => l.dataset.method)"
    return list(page.run(script))


def test_the_page_loads_from_disk_alone(page: Browser) -> None:
    assert page.run("document.title") == "tést"
    assert page.run("document.querySelectorAll('.panel:not([hidden])').length") == 2
    assert {address.partition(":")[0] for address in page.requests} <= {"file", "data"}
    assert page.messages == []


def test_hovered_values_are_those_of_the_data(page: Browser) -> None:
    box = plot(page, "swimmer")
    page.mouse("mouseMoved", box["x"] + 0.6 * box["width"], box["y"] + 50)
    step, values = tip(page, "swimmer")
    assert 10_000 < step < 40_000
    at = [10_000, 20_000, 30_000, 40_000]
    for method, final in (("es", 105), ("cv", 205), ("pg", -5)):
        assert values[method] == pytest.approx(np.interp(step, at, [final * s for s in (0.25, 0.5, 0.75, 1)]))
    assert list(values) == ["cv", "es", "pg"], "highest first"
    assert page.messages == []


def test_methods_and_tasks_are_switched(page: Browser) -> None:
    assert lines(page, "swimmer") == ["es", "cv", "pg"]
    page.run("document.querySelector('#methods [data-name=cv]').click()")
    assert lines(page, "swimmer") == ["es", "pg"]
    assert page.run("document.querySelector('#methods [data-name=cv]').getAttribute('aria-pressed')") == "false"
    page.run("document.querySelector('#methods [data-name=cv]').click()")
    assert lines(page, "swimmer") == ["es", "cv", "pg"]
    page.run("document.querySelector('#tasks [data-name=swimmer]').click()")
    assert page.run("document.querySelectorAll('.panel:not([hidden])').length") == 1
    page.run("[...document.querySelectorAll('#methods button')].pop().click()")
    assert page.run("document.getElementById('nothing').hidden") is False
    assert page.messages == []


def test_zoom_with_mouse_and_keyboard(page: Browser) -> None:
    swimmer = "[...document.querySelectorAll('[data-task].panel')].findIndex(p => p.dataset.task === 'swimmer')"
    domain = f"JSON.stringify(panels[{swimmer}].domain)"
    box = plot(page, "swimmer")
    y = box["y"] + 60
    page.mouse("mousePressed", box["x"] + 120, y)
    page.mouse("mouseMoved", box["x"] + 240, y, pressed=True)
    page.mouse("mouseReleased", box["x"] + 240, y)
    low, high = json.loads(page.run(domain))
    assert 10_000 < low < high < 40_000
    page.run("document.querySelector('[data-task=swimmer]').focus()")
    page.key("0")
    assert page.run(domain) == "null"
    page.key("+")
    low, high = json.loads(page.run(domain))
    assert high - low == pytest.approx(15_000)
    page.key("Escape")
    page.key("Home")
    page.key("ArrowRight")
    assert tip(page, "swimmer")[0] == pytest.approx(10_600)
    assert page.messages == []


def test_light_dark_and_phone(page: Browser) -> None:
    def ground() -> Any:
        return page.run("getComputedStyle(document.body).backgroundColor")

    before = ground()
    page.run("document.getElementById('theme').click()")
    assert ground() != before
    page.resize(390, 844)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert page.messages == []


def test_every_axis_has_a_name_and_several_ticks(page: Browser) -> None:
    count = """[...document.querySelectorAll('.panel:not([hidden]) .plot')].map(plot => ['x', 'y'].map(axis => [
        plot.querySelector(`[data-axis=${axis}]`).textContent,
        plot.querySelectorAll(`[data-tick=${axis}]`).length]))"""
    for width in (1280, 390):
        page.resize(width, 844)
        for metric, name in (("return", "return while training"), ("ratio", "gradient variance, ES = 1")):
            change = f"byId('metric').value = '{metric}'; byId('metric').dispatchEvent(new Event('change'))"
            page.run(change)
            for (across, steps), (up, values) in page.run(count):
                assert (across, up) == ("environment steps", name)
                assert steps >= 3
                assert values >= 3, metric
    ends = "[[10080, 1000400], [0.98, 1.02], [-5, -4.9], [1, 4000]]"
    assert page.run(f"{ends}.every(([low, high]) => ticks(low, high, 3).length >= 3)")
    assert page.run(f"{ends}.slice(0, 2).every(([low, high]) => scale(low, high, 0, 1, 'log').ticks(4).length >= 3)")
    assert page.messages == []


def test_long_numbers_on_an_axis_are_not_cut_off(window: Browser, tmp_path: Path) -> None:
    write_group(tmp_path, [made_up("swimmer", "es", 0, -900_000.0)])
    (tmp_path / "report.html").write_text(build([tmp_path], title="deep"))
    window.resize(390, 844)
    window.open(tmp_path / "report.html")
    outside = """(() => { const plot = document.querySelector('.plot'), edge = plot.getBoundingClientRect().left;
        const ticks = [...plot.querySelectorAll('[data-tick=y]')];
        return [ticks.some(tick => tick.textContent.length >= 8),
                ticks.filter(tick => tick.getBoundingClientRect().left < edge).map(tick => tick.textContent)]; })()"""
    assert window.run(outside) == [True, []]


def test_a_run_is_not_cut_where_another_ends(window: Browser, tmp_path: Path) -> None:
    """Not by one with another budget, nor by a seed that is still running."""
    short = made_up("swimmer", "cv", 1, 200.0)
    for name, values in short.curve.items():
        short.curve[name] = values[:2]
    runs = [made_up("swimmer", "es", 0, 100.0), made_up("swimmer", "cv", 0, 100.0), short]
    long = made_up("swimmer", "es", 0, 100.0, steps=400_000)
    long.curve["steps"] = [100_000, 200_000, 300_000, 400_000]
    for number, run in enumerate([*runs, long]):
        run.write(tmp_path / f"{number}.json")
    (tmp_path / "report.html").write_text(build([tmp_path], title="ends"))
    window.resize(1280, 900)
    window.open(tmp_path / "report.html")
    ends = "Object.fromEntries(panels[0].lines.map(line => [line.method.name, line.xs[line.xs.length - 1]]))"
    assert window.run(ends) == {"es steps 4e4": 40_000, "es steps 4e5": 400_000, "cv": 40_000}
    assert window.run("document.querySelectorAll('.panel polyline[opacity]').length") == 1, "the rest of cv is faint"


def test_returns_can_be_read_on_a_phone(page: Browser) -> None:
    page.resize(390, 844)
    page.run("document.querySelector('#runs details').open = true")
    head, cell = (
        page.run(f"document.querySelectorAll('#runs {part}')[3].getBoundingClientRect().right") for part in ("th", "td")
    )
    assert page.run("document.querySelectorAll('#runs th')[3].textContent") == "return"
    assert max(head, cell) < 390
    inside = (
        "[...document.querySelectorAll('.scores *')].every(one => one.getBoundingClientRect().right <= innerWidth - 14)"
    )
    assert page.run(inside), "the headline stays in its cards"


def test_long_names_leave_room_on_a_phone(window: Browser, tmp_path: Path) -> None:
    for number, (lr, pairs) in enumerate([(0.01, 5), (0.03, 10)]):
        run = made_up("dm-cartpole-two-poles", "ppo-paper+s+a+m", 0, 1234.0, lr=lr, pairs=pairs)
        run.write(tmp_path / f"{number}.json")
    with Run.create(make_config("swimmer"), tmp_path, "a" * 60):
        (tmp_path / "report.html").write_text(build([tmp_path], title="long", newest=standing(*run_folders(tmp_path))))
    window.resize(390, 844)
    window.open(tmp_path / "report.html")
    assert "pairs 10, lr 0.03" in window.run("document.querySelector('#runs tbody').textContent")
    assert window.run("document.querySelectorAll('#runs td')[3].getBoundingClientRect().right") < 390
    assert window.run("document.documentElement.scrollWidth <= innerWidth")


def test_text_is_to_the_left_and_numbers_to_the_right(page: Browser) -> None:
    page.run("document.querySelector('#runs details').open = true")
    sides = "[...document.querySelectorAll('#runs tbody tr:first-child td')].map(c => getComputedStyle(c).textAlign)"
    assert page.run(sides) == ["left", "left", *["right"] * 6]


def test_a_group_shows_its_own(window: Browser, tmp_path: Path) -> None:
    made_up("swimmer", "es", 0, 1.0).write(tmp_path / "a/run.json")
    made_up("hopper", "cv", 0, 1.0).write(tmp_path / "b/run.json")
    (tmp_path / "report.html").write_text(build([tmp_path], title="groups"))
    window.open(tmp_path / "report.html")
    seen = """(() => { const shown = (what) => [...document.querySelectorAll(what)].filter(one => one.offsetParent);
        return [shown('.card h3'), shown('.panel h3'), shown('#methods .chip'), shown('#settings summary')]
            .map(several => several.map(one => one.textContent).join()); })()"""
    assert window.run(seen) == ["swimmer", "swimmer", "ES", "ES"]
    assert window.run("byId('group').value") == "0"
    window.run("byId('group').value = 1; byId('group').dispatchEvent(new Event('change'))")
    assert window.run(seen) == ["hopper", "hopper", "CV", "CV"]


def test_hostile_names_do_nothing_in_the_browser(window: Browser, tmp_path: Path) -> None:
    group = write_group(tmp_path, [made_up("swimmer", "es", 0, 1.0)])
    path = group / "records/swimmer-es-0.json"
    facts = json.loads(path.read_text())
    facts["config"]["task"] = EVIL
    path.write_text(json.dumps(facts))
    page = build([tmp_path], title=EVIL, order=tuple(LABELS), tables=html_tables)
    (tmp_path / "report.html").write_text(page)
    window.messages.clear()
    window.open(tmp_path / "report.html")
    assert window.run("document.querySelector('.panel h3').textContent") == EVIL
    assert window.run("document.querySelectorAll('img').length") == 0
    assert window.messages == []
