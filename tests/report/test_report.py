"""The report: one page that opens offline, shows what the data say, and trusts no name."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from made_up import EVIL, made_up, seeds_of, small_group, write_group
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
from quell.runs.record import from_folder
from quell.stats import POWER, UNRESOLVED
from quell.training.methods import make_config

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
    assert [task["title"] for task in data["tasks"]] == ["swimmer", "halfcheetah"], "as on the command line"
    assert [run["seed"] for run in data["series"][0]["runs"]] == [0, 1]


def test_a_run_folder(tmp_path: Path) -> None:
    small: dict[str, Any] = {"horizon": 20, "pairs": 2, "batch_steps": 0, "steps": 240, "eval_episodes": 1}
    small["eval_every"] = 1
    run = quell.train("lqr-302", method="cv", workers=1, out=tmp_path, name="a", progress=False, **small)
    data = data_of(build([run.path], title="one run"))
    (series,) = data["series"]
    assert series["runs"][0]["steps"] == [80, 160, 240]
    assert series["runs"][0]["return"] == pytest.approx([row["return/mean"] for row in run.history], rel=1e-5)
    for name, metric in (("evaluation", "eval/return"), ("mean_action", "eval/mean_action")):
        assert series["runs"][0][name] == pytest.approx([row[metric] for row in run.history], rel=1e-5)


def test_the_variance_is_the_one_that_the_run_said(tmp_path: Path) -> None:
    run = replace(made_up("swimmer", "cv", 0, 100.0), variance=3.8e-06)
    run.write(tmp_path / "a.json")
    made_up("swimmer", "cv", 1, 100.0).write(tmp_path / "b.json")
    sources = gather([tmp_path])
    cells = [row["cells"] for row in content.run_rows(sources, all_series(sources), Path("report.html"))]
    assert [row[-2] for row in cells] == ["3.8e-06", "–"]


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
    assert f"The newest: {who}: return 25 (mean action) after 100 steps, finished (runs/lqr-302/es/a)" in page
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
    assert {"es", "cv", "natural-cv"} <= {method["name"] for group in data["methods"] for method in group}
    titles = [one["title"] for one in data["variance"]]
    assert len(set(titles)) == len(titles), "a card has a title of its own"
    assert {"benchmark", "paper-large-start-1", "paper-large-start-1000000"} <= set(data["groups"])


def test_methods_look_as_in_the_figures(tmp_path: Path) -> None:
    write_group(tmp_path, [made_up("swimmer", method, 0, 1.0) for method in ("es", "ortho", "cv", "det")])
    (tmp_path / "v.json").write_text(
        json.dumps({"task": "lqr", "at": "init", "rows": [{"name": "cv-moments", "ratio": {"value": 0.5}}]})
    )
    data = data_of(build([tmp_path], title="looks"))
    colours = {method["name"]: (method["colour"], method["dash"]) for method in data["methods"][0]}
    for name in ("es", "cv", "ortho"):
        assert colours[name][0] == LOOKS[name].colour
    assert (colours["es"][1], colours["ortho"][1]) == ("", "7 3")
    assert colours["det"][0] == "", "black is the page's own ink"
    assert data["variance"][0]["rows"][0]["colour"] == LOOKS["cv-moments"].colour


def names(page: str) -> dict[str, list[int]]:
    """Series of a page -> the seeds in it."""
    return {one["method"]: [run["seed"] for run in one["runs"]] for one in data_of(page)["series"]}


def test_only_seeds_are_averaged(tmp_path: Path) -> None:
    """Two learning rates, two budgets and two seeds are four series, told apart by what differs."""
    for steps in (40_000, 80_000):
        for lr in (0.01, 0.03):
            runs = [made_up("swimmer", "cv", seed, 100 * lr, lr=lr, steps=steps) for seed in (0, 1)]
            write_group(tmp_path, runs, name=f"x{lr}-{steps}")
    for file in sorted(tmp_path.glob("x*/records/*.json")):  # all in one folder, as somebody may collect them
        file.rename(tmp_path / f"{file.parts[-3]}-{file.name}")
    series = names(build([tmp_path], title="two by two"))
    made = [f"cv steps {steps}, lr {lr}" for lr in ("0.01", "0.03") for steps in ("4e4", "8e4")]
    assert sorted(series) == sorted(made)
    assert all(seeds == [0, 1] for seeds in series.values())


def test_a_label_names_only_the_settings_that_differ() -> None:
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
    from_folder(Run.open(run.path)).write(tmp_path / "c/records/a.json")
    (group,) = gather([tmp_path]).groups.values()
    assert sorted(one.config.seed for one in group) == [0, 1]


def test_a_headline_has_intervals_and_verdicts(tmp_path: Path) -> None:
    scores = {"es": (100, 102, 104, 106), "cv": (200, 210, 220, 230), "ortho": (99, 103, 105, 110), "pg": (1, 2)}
    write_group(tmp_path, [made_up("swimmer", m, i, x) for m, row in scores.items() for i, x in enumerate(row)])
    (group,) = headline_of(tmp_path)
    (card,) = group["cards"]
    said = {row["name"]: (row["verdict"], row["interval"], row["runs"]) for row in card["rows"]}
    assert said["CV"] == ("above ES", "[194, 236]", "4 seeds, 4e4")
    assert said["ORTHO"][0] == UNRESOLVED
    assert said["PG"][0] == "too few seeds"
    assert said["ES"][0] == ""
    assert group["sentences"][0] == "CV against ES: above on 1 task."
    assert POWER in build([tmp_path], title="runs")


def test_no_verdict_between_budgets_or_before_the_end(tmp_path: Path) -> None:
    runs = [made_up("swimmer", "es", seed, 100.0 + seed, steps=80_000) for seed in range(5)]
    runs += [made_up("swimmer", "cv", seed, 200.0 + seed) for seed in range(5)]
    for run in runs:
        run.write(tmp_path / f"{run.name}-{run.config.seed}.json")
    (group,) = headline_of(tmp_path)
    rows = {row["name"]: row for row in group["cards"][0]["rows"]}
    assert rows["CV"]["verdict"] == "other budget"
    words = "swimmer: CV and ES were trained for different numbers of steps, so they are not compared."
    assert group["sentences"] == [words]
    assert rows["ES"]["runs"] == "5 seeds, 8e4, 5 ended early"


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([("cv", 3, 40_000)], "there is no run of ES to compare CV with (--method es trains one)."),
        ([("cv", 3, 40_000), ("es", 2, 40_000)], "CV and ES have too few seeds for a verdict; it takes"),
        ([("cv", 5, 80_000), ("es", 5, 80_000)], "CV or ES has not spent its budget of steps yet"),
        ([("cv", 5, 40_000), ("es", 5, 80_000)], "CV and ES were trained for different numbers of steps"),
    ],
)
def test_the_page_says_why_two_methods_are_not_compared(
    runs: list[tuple[str, int, int]], why: str, tmp_path: Path
) -> None:
    found = [made_up("swimmer", m, seed, 9.0 + seed, steps=steps) for m, count, steps in runs for seed in range(count)]
    for run in found:
        run.write(tmp_path / f"{run.name}-{run.config.seed}.json")
    (group,) = headline_of(tmp_path)
    assert len(group["sentences"]) == 1
    assert group["sentences"][0].startswith(f"swimmer: {why}")


def test_seeds_and_sweeps_are_listed(tmp_path: Path) -> None:
    seeds_of("es", POOR, tmp_path / "runs")
    for rate in (0.1, 0.3):
        for seed in (0, 7):
            run = replace(made_up("swimmer", "cv", seed, 1.0), label=f"step.lr={rate}")
            run.write(tmp_path / f"runs/sweeps/rates/records/{rate}-{seed}.json")
    listed = {group["name"]: group["contents"] for group in headline_of(tmp_path / "runs")}
    assert listed["runs"] == ["swimmer, ES: seeds 0 to 4, 4e4 steps"]
    assert [line.partition(":")[2] for line in listed["rates"]] == [" seeds 0, 7, 4e4 steps"] * 2


def test_a_run_leads_to_its_folder_and_film(tmp_path: Path) -> None:
    """From where the page lies; and nothing in a name makes another address of it."""
    small: dict[str, Any] = {"horizon": 10, "pairs": 1, "batch_steps": 0, "steps": 20, "eval_episodes": 1, "workers": 1}
    run = quell.train("lqr-302", method="es", out=tmp_path / 'javascript:a"b', name="a", progress=False, **small)
    (run.path / "film.gif").write_bytes(b"GIF89a")
    page = build([tmp_path], title="one", out=tmp_path / "pages/report.html")
    links = re.findall(r'<a href="([^"#]+)" title=', page)
    where = [(tmp_path / "pages" / unquote(link)).resolve() for link in links]
    assert where == [run.path.resolve(), run.path.resolve() / "film.gif"]
    assert all(link.startswith("../javascript%3Aa%22b/") for link in links)
    beside = build([tmp_path], title="one", out=tmp_path / "report.html")
    assert re.findall(r'<a href="([^"#]+)" title=', beside)[0].startswith("javascript%3Aa")


GOOD, POOR = (200.0, 210.0, 220.0, 230.0, 240.0), (100.0, 102.0, 104.0, 106.0, 108.0)


def rows_of(*folders: Path) -> dict[str, dict[str, Any]]:
    """The rows of the only card there is, by method."""
    (group,) = headline_of(*folders)
    (card,) = group["cards"]
    return {row["name"]: row for row in card["rows"]}


def test_seeds_of_two_methods_meet(tmp_path: Path) -> None:
    """`--seeds` makes a folder for each method; whoever trains two wants them compared."""
    for method, values in (("cv", GOOD), ("es", POOR)):
        seeds_of(method, values, tmp_path / "runs")
    for folder in ("runs", "runs/seeds"):
        rows = rows_of(tmp_path / folder)
        assert {name: row["verdict"] for name, row in rows.items()} == {"CV": "above ES", "ES": ""}
        assert rows["CV"]["runs"] == rows["ES"]["runs"] == "5 seeds, 4e4"
    alone = headline_of(tmp_path / "runs/seeds/swimmer-es")
    assert [group["name"] for group in alone] == ["runs"]


def test_results_that_compare_by_themselves_stay_a_group(tmp_path: Path) -> None:
    """A sweep, a benchmark, a table of the paper; two of one name are told apart."""
    seeds_of("cv", GOOD, tmp_path / "runs")
    for lr in (0.1, 0.2):
        run = replace(made_up("swimmer", "cv", 0, lr, lr=lr), label=f"lr={lr}")
        run.write(tmp_path / f"runs/sweeps/swimmer-cv/records/{lr}.json")
    write_group(tmp_path, [made_up("swimmer", "es", 0, 1.0), made_up("swimmer", "cv", 0, 1.0)], name="benchmark")
    write_group(tmp_path, [made_up("hopper", "es", 0, 1.0), made_up("hopper", "cv", 0, 1.0)], name="b/benchmark")
    groups = gather([tmp_path]).groups
    assert {name: len(runs) for name, runs in groups.items()} == {
        f"{tmp_path.name}/benchmark": 2,
        "b/benchmark": 2,
        "swimmer-cv": 2,
        "runs": 5,
    }


def test_the_rival_is_chosen_by_what_was_trained(tmp_path: Path) -> None:
    """Over ES, the paper's control variate, the default and a custom combination; plain ES asked for as cv is ES."""
    seeds_of("es", POOR, tmp_path / "a")
    seeds_of("cv", GOOD, tmp_path / "a")
    seeds_of("natural-cv", [500 + x for x in GOOD], tmp_path / "a")
    seeds_of("es", [1000 + x for x in GOOD], tmp_path / "b", estimator="actor-critic")
    verdicts = {name: row["verdict"] for name, row in rows_of(tmp_path).items()}
    assert verdicts == {
        "CV": "above ES",
        "natural CV": "above ES",
        "ES": "",
        "custom (actor-critic, adam)": "above ES",
    }
    (group,) = headline_of(tmp_path)
    assert "custom (actor-critic, adam) against ES: above on 1 task." in group["sentences"]
    seeds_of("cv", [2000 + x for x in POOR], tmp_path / "c", estimator="es")
    assert set(rows_of(tmp_path / "c")) == {"ES"}


def test_a_single_run_does_not_take_the_rivals_place(tmp_path: Path) -> None:
    """Nor one that was broken off: the rival is the plain ES with most seeds that spent its budget."""
    seeds_of("es", POOR, tmp_path)
    seeds_of("cv", GOOD, tmp_path)
    made_up("swimmer", "es", 7, 9000.0, lr=0.5).write(tmp_path / "lucky.json")
    short = made_up("swimmer", "es", 8, 9000.0, lr=0.6)
    for name, values in short.curve.items():
        short.curve[name] = values[:2]
    short.write(tmp_path / "short.json")
    found = gather([tmp_path])
    found.groups = {"all": [run for _, run in found.runs]}
    (group,) = content.headline(found, all_series(found), ())
    assert {row["name"]: row["verdict"] for row in group["cards"][0]["rows"]}["CV"] == "above ES"


def test_the_papers_tables_are_for_the_papers_runs(tmp_path: Path) -> None:
    """Beside the paper's numbers stand those of `quell paper`, not anybody's seeds."""
    seeds_of("es", POOR, tmp_path / "runs")
    page = build([tmp_path / "runs"], title="mine", order=tuple(LABELS), tables=html_tables)
    assert "Compared with the paper" not in page
    assert "No runs yet on" not in page
    small_group(tmp_path / "results")
    assert "Compared with the paper" in build(
        [tmp_path / "results"], title="paper", order=tuple(LABELS), tables=html_tables
    )


@pytest.mark.usefixtures("jobs_in_process")
def test_the_page_agrees_with_the_table_of_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the two commands to the verdict; the same runs have the same score on the screen and on the page."""
    printed = {}
    for method in ("es", "pg"):
        words = ["--method", method, "--horizon", "10", "--pairs", "1", "--steps", "60", "--eval-episodes", "1"]
        command = ["train", "lqr-302", *words, "--batch-steps", "0", "--eval-every", "0", "--seeds", "4"]
        assert main([*command, "--out", str(tmp_path / "runs")]) == 0
        printed[method] = capsys.readouterr().out.splitlines()[1].split()[0]
    rows = rows_of(tmp_path / "runs")
    assert {name: row["value"] for name, row in rows.items()} == {m.upper(): value for m, value in printed.items()}
    assert rows["PG"]["verdict"] in ("above ES", "below ES", UNRESOLVED)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "a.html")]) == 0
    assert re.search(r"a\.html \(\d+ kB\)", capsys.readouterr().out), "not 0.0 MB"


def headline_of(*folders: Path) -> list[dict[str, Any]]:
    sources = gather(folders)
    return content.headline(sources, all_series(sources), ())


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
    facts = json.loads((group / "records/swimmer-es-0.json").read_text())
    facts["config"]["task"] = EVIL
    (group / "records/evil.json").write_text(json.dumps(facts))
    measured = {"task": EVIL, "at": EVIL, "label": EVIL, "rows": [{"name": EVIL, "ratio": {"value": 1}}]}
    (tmp_path / "measured.json").write_text(json.dumps(measured))
    page = build([tmp_path], title=EVIL, videos=[film], order=tuple(LABELS), tables=html_tables)
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
            names = ("return", "ratio", "evaluation", "mean_action")
            run.curve.update({"steps": steps, **dict.fromkeys(names, values)})
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
