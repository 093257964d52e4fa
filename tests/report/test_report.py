"""The report: one page that opens offline, shows what the data say, and trusts no name."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from browser import Browser
from made_up import made_up, small_group, write_group
from PIL import Image

import quell
import quell.errors
from quell.cli import main
from quell.figures.style import LOOKS
from quell.paper.published import ENTRIES, LABELS
from quell.paper.render import html_tables
from quell.report import content
from quell.report.build import build
from quell.report.series import all_series, told_apart
from quell.report.sources import gather
from quell.runs import Run
from quell.runs.find import run_folders, standing
from quell.runs.record import from_folder
from quell.training.methods import make_config

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
ROOT = Path(__file__).parents[2]


def data_of(page: str) -> Any:
    """What the page's script will draw."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_results_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_group(tmp_path / "results")
    page = tmp_path / "deep/report.html"
    assert main(["report", str(tmp_path / "results"), "--out", str(page)]) == 0
    text = page.read_text()
    assert "<strong>205 ± 7.1</strong><small>237 ± 33</small>" in text
    data = data_of(text)
    assert [method["name"] for method in data["methods"][0]] == ["es", "cv", "pg"]
    assert [task["title"] for task in data["tasks"]] == ["Swimmer", "HalfCheetah"]
    assert [run["seed"] for run in data["series"][0]["runs"]] == [0, 1]


def test_a_run_folder(tmp_path: Path) -> None:
    small: dict[str, Any] = {"horizon": 20, "pairs": 2, "batch_steps": 0, "steps": 240, "eval_episodes": 1}
    small["eval_every"] = 1
    run = quell.train("lqr-302", method="cv", workers=1, out=tmp_path, name="a", progress=False, **small)
    data = data_of(build([run.path], title="one run"))
    (series,) = data["series"]
    assert series["runs"][0]["steps"] == [80, 160, 240]
    assert series["runs"][0]["return"] == pytest.approx([row["return/mean"] for row in run.history], rel=1e-5)
    assert series["runs"][0]["evaluation"] == pytest.approx([row["eval/return"] for row in run.history], rel=1e-5)


def test_all_runs_of_a_folder_are_shown_and_the_newest_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for age, (name, lr, score) in enumerate([("b", 0.01, 3.0), ("a", 0.03, 25.0), ("c", 0.05, None)]):
        with Run.create(make_config("lqr-302", "es", overrides={"lr": lr, "steps": 100}), Path("runs"), name) as run:
            row = {"iteration": 1, "steps": 100, "eval/mean_action": score, "eval/return": score, "return/mean": 1.0}
            (run.path / "metrics.jsonl").write_text(json.dumps(row))
            for file in run.path.iterdir():
                os.utime(file, (1000 - age, 1000 - age))
    os.utime("runs/lqr-302/es/a/metrics.jsonl", (2000, 2000))
    assert main(["report"]) == 0
    assert capsys.readouterr().out.endswith("; the newest run: runs/lqr-302/es/a\n")
    page = Path("report.html").read_text()
    who = f"{LABELS.get('lqr-302', 'lqr-302')}, ES, seed 0"
    assert f"The newest: {who}: return 25 after 100 steps, finished (runs/lqr-302/es/a)" in page
    assert len(data_of(page)["series"]) == 3
    small_group(Path("runs/seeds"))
    assert main(["report"]) == 0
    data = data_of(Path("report.html").read_text())
    assert (data["groups"], data["start"]) == (["paper-0.002", "runs"], 1), "what is seen first has the newest"
    assert main(["report", "runs/lqr-302/es/c"]) == 0
    assert "not evaluated yet after 100 steps" in Path("report.html").read_text()


def test_everything_committed() -> None:
    data = data_of(build([ROOT / "results"], title="results"))
    assert data["variance"]
    assert {"es", "cv", "cv moments"} <= {method["name"] for group in data["methods"] for method in group}
    titles = [one["title"] for one in data["variance"]]
    assert len(set(titles)) == len(titles), "a card has a title of its own"
    assert data["groups"][:3] == ["benchmark", "paper-1", "paper-1000000"], "campaigns come first"


def test_methods_look_as_in_the_figures(tmp_path: Path) -> None:
    write_group(tmp_path, [made_up("swimmer", method, 0, 1.0) for method in ("es", "ortho", "cv", "det")])
    (tmp_path / "v.json").write_text(
        json.dumps({"task": "lqr", "at": "init", "rows": [{"name": "auto", "ratio": {"value": 0.5}}]})
    )
    data = data_of(build([tmp_path], title="looks"))
    colours = {method["name"]: (method["colour"], method["dash"]) for method in data["methods"][0]}
    for name in ("es", "cv", "ortho"):
        assert colours[name][0] == LOOKS[name].colour
    assert (colours["cv"][1], colours["ortho"][1]) == ("", "7 3")
    assert colours["det"][0] == "", "black is the page's own ink"
    assert data["variance"][0]["rows"][0]["colour"] == LOOKS["auto"].colour


def names(page: str) -> dict[str, list[int]]:
    """Series of a page -> the seeds in it."""
    return {one["method"]: [run["seed"] for run in one["runs"]] for one in data_of(page)["series"]}


def test_only_seeds_are_averaged(tmp_path: Path) -> None:
    """Two learning rates, two budgets and two seeds are four series, told apart by what differs."""
    for steps in (40_000, 80_000):
        for lr in (0.01, 0.03):
            runs = [made_up("swimmer", "cv", seed, 100 * lr, lr=lr, steps=steps) for seed in (0, 1)]
            write_group(tmp_path, runs, name=f"x{lr}-{steps}")
    for file in sorted(tmp_path.glob("x*/summaries/*.json")):  # all in one folder, as somebody may collect them
        file.rename(tmp_path / f"{file.parts[-3]}-{file.name}")
    series = names(build([tmp_path], title="two by two"))
    made = [f"cv steps {steps}, lr {lr}" for lr in ("0.01", "0.03") for steps in ("4e4", "8e4")]
    assert sorted(series) == sorted(made)
    assert all(seeds == [0, 1] for seeds in series.values())


def test_a_label_names_no_more_than_what_differs() -> None:
    adam = {"pairs": 5, "step": "adam", "step.lr": 0.01}
    assert told_apart([adam]) == [""]
    assert told_apart([adam, {**adam, "step.lr": 0.1}]) == ["lr 0.01", "lr 0.1"]
    natural = {"pairs": 5, "step": "natural", "step.kl": 0.1}
    assert told_apart([adam, natural]) == ["step adam", "step natural"], "kl is natural's own"
    other = dict.fromkeys("abcdef", 1)
    assert told_apart([other, dict.fromkeys("abcdef", 2)])[1] == "a 2, b 2, c 2, +3 more"
    assert told_apart([other, {**other, "f": 2}, {**dict.fromkeys("abcdef", 2), "f": 2}])[1] != ""


def test_a_sweeps_settings_are_named_in_words(tmp_path: Path) -> None:
    for lr in (0.01, 0.03):
        run = made_up("swimmer", "es", 0, 100 * lr, lr=lr)
        replace(run, label=f"step.lr={lr},directions.sigma=0.1").write(tmp_path / f"{lr}.json")
    assert sorted(names(build([tmp_path], title="sweep"))) == ["es lr 0.01, sigma 0.1", "es lr 0.03, sigma 0.1"]


def test_the_same_seed_again_is_no_further_seed(tmp_path: Path) -> None:
    first, other = made_up("swimmer", "es", 0, 100.0), made_up("swimmer", "es", 0, 200.0)
    for name, run in (("a", first), ("copy", first), ("b", other)):
        run.write(tmp_path / f"{name}.json")
    assert names(build([tmp_path], title="again")) == {"es": [0], "es again 1": [0]}


def test_a_campaigns_folders_are_not_shown_beside_its_records(tmp_path: Path) -> None:
    small: dict[str, Any] = {"horizon": 5, "pairs": 2, "batch_steps": 0, "steps": 20, "eval_episodes": 1, "workers": 1}
    for seed in (0, 1):
        run = quell.train("lqr-302", method="es", seed=seed, out=tmp_path / "c/runs", progress=False, **small)
    from_folder(Run.open(run.path)).write(tmp_path / "c/summaries/a.json")
    assert {group: len(runs) for group, runs in gather([tmp_path]).groups.items()} == {"c": 1, "runs": 1}


def test_a_headline_has_intervals_and_verdicts(tmp_path: Path) -> None:
    scores = {"es": (100, 102, 104, 106), "cv": (200, 210, 220, 230), "ortho": (99, 103, 105, 110), "pg": (1, 2)}
    write_group(tmp_path, [made_up("swimmer", m, i, x) for m, row in scores.items() for i, x in enumerate(row)])
    (group,) = headline_of(tmp_path)
    (card,) = group["cards"]
    said = {row["name"]: (row["verdict"], row["interval"], row["runs"]) for row in card["rows"]}
    assert said["CV"] == ("above ES", "[194, 236]", "4 seeds, 4e4")
    assert said["ORTHO"][0] == "not resolved"
    assert said["PG"][0] == "too few seeds"
    assert said["ES"][0] == ""
    assert group["sentences"][0] == "CV against ES: above on 1 task."


def test_no_verdict_between_budgets_or_before_the_end(tmp_path: Path) -> None:
    runs = [made_up("swimmer", "es", seed, 100.0 + seed, steps=80_000) for seed in range(5)]
    runs += [made_up("swimmer", "cv", seed, 200.0 + seed) for seed in range(5)]
    for run in runs:
        run.write(tmp_path / f"{run.name}-{run.config.seed}.json")
    (group,) = headline_of(tmp_path)
    rows = {row["name"]: row for row in group["cards"][0]["rows"]}
    assert rows["CV"]["verdict"] == "other budget"
    assert rows["ES"]["runs"] == "5 seeds, 8e4, 5 ended early"


def headline_of(folder: Path) -> list[dict[str, Any]]:
    sources = gather([folder])
    return content.headline(sources, all_series(sources), {})


def test_films_have_a_poster(tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    small_group(tmp_path)
    white = ["-f", "lavfi", "-i", "color=white:s=64x64:d=1", "-vf", "fade=in:0:3"]  # its first frame is black
    subprocess.run([ffmpeg, "-loglevel", "error", *white, tmp_path / "a.mp4"], check=True)
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    page = build([tmp_path], title="films", videos=[tmp_path / "a.mp4", tmp_path / "broken.mp4"])
    (poster,) = re.findall(r'poster="data:image/jpeg;base64,([^"]+)"', page)
    assert np.asarray(Image.open(io.BytesIO(base64.b64decode(poster)))).mean() > 200, "not its first frame"


def test_the_report_knows_nothing_of_the_paper() -> None:
    code = "import sys, quell.report.build; sys.exit('quell.paper' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_name_becomes_code(tmp_path: Path) -> None:
    run = made_up("swimmer", "es", 0, 1.0)
    group = write_group(tmp_path, [run], name="a<b>&")
    film = tmp_path / "<i>film.gif"
    film.write_bytes(b"GIF89a")
    facts = json.loads((group / "summaries/swimmer-es-0.json").read_text())
    facts["config"]["task"] = EVIL
    (group / "summaries/evil.json").write_text(json.dumps(facts))
    measured = {"task": EVIL, "at": EVIL, "label": EVIL, "rows": [{"name": EVIL, "ratio": {"value": 1}}]}
    (tmp_path / "measured.json").write_text(json.dumps(measured))
    page = build([tmp_path], title=EVIL, videos=[film], labels=LABELS, tables=html_tables)
    assert "<img src=x" not in page
    assert "alert(1)</script>" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(page)["tasks"][-1]["name"] == EVIL
    assert "<i>film" not in page


def test_the_whole_suite_stays_below_ten_megabytes(tmp_path: Path) -> None:
    entry, rng = ENTRIES["table-es"], np.random.default_rng(0)
    steps: list[float | None] = [200_000 * i for i in range(1, 101)]
    for task in entry.tasks:
        runs = [made_up(task, method, seed, rng.normal()) for method in entry.methods for seed in range(5)]
        for run in runs:
            values: list[float | None] = [float(f"{x:.6g}") for x in rng.normal(0, 1000, 100)]
            run.curve.update({"steps": steps, "return": values, "ratio": values, "evaluation": values})
        write_group(tmp_path, runs)
    page = build([tmp_path], title="all")
    assert len(data_of(page)["series"]) == 16 * 6
    assert len(page.encode()) < 10e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "does not exist"),
        ([".", "--video", "x.avi"], "--video takes .mp4"),
        ([".", "--video", "x.mp4"], "does not exist"),
        (["."], "no run, record or measurement"),
    ],
    ids=" ".join,
)
def test_bad_input(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_the_missing_extra_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "report", "no_such_module")
    assert main(["report", str(tmp_path)]) == 2
    assert "pip install 'quell[report]'" in capsys.readouterr().err


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"config": {"task": "swimmer", "pairs": "many"}, "final": {}, "curve": {}}')
    with pytest.raises(quell.UsageError, match=r"x\.json"):
        gather([tmp_path])


# In a browser


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
    """Where a task's chart is."""
    where = f"document.querySelector('[data-task={task}] .plot').getBoundingClientRect()"
    return dict(json.loads(page.run(f"JSON.stringify({where})")))


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
        run = made_up("dm-cartpole-two-poles", "ppo+s+a+m", 0, 1234.0, lr=lr, pairs=pairs)
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
    assert page.run(sides) == ["left", "left", *["right"] * 5]


def test_a_group_shows_its_own(window: Browser, tmp_path: Path) -> None:
    write_group(tmp_path, [made_up("swimmer", "es", 0, 1.0)], name="a")
    write_group(tmp_path, [made_up("hopper", "cv", 0, 1.0)], name="b")
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
    path = group / "summaries/swimmer-es-0.json"
    facts = json.loads(path.read_text())
    facts["config"]["task"] = EVIL
    path.write_text(json.dumps(facts))
    page = build([tmp_path], title=EVIL, labels=LABELS, tables=html_tables)
    (tmp_path / "report.html").write_text(page)
    window.messages.clear()
    window.open(tmp_path / "report.html")
    assert window.run("document.querySelector('.panel h3').textContent") == EVIL
    assert window.run("document.querySelectorAll('img').length") == 0
    assert window.messages == []
