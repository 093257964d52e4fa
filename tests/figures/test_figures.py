"""Figures: what is drawn, in whose colours, and the same file every time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_up import made_up
from printed import facts_of

import quell
import quell.errors
from quell import theory
from quell.errors import MissingExtra
from quell.figures.runs import curve_panels, curves, improvement_bars, score_against_seconds
from quell.figures.style import LOOKS, looks, new_figure, on_common_steps, save
from quell.figures.theory import SAMPLES, variance_against_rho
from quell.figures.variance import variance_figure
from quell.measure.rows import BASES
from quell.paper.published import PPO_METHODS
from quell.presets import METHODS
from quell.stats import MeanStd

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every figure that is saved, to be looked at."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    original = Figure.savefig

    def savefig(self: Any, *words: Any, **more: Any) -> None:
        figures.append(self)
        original(self, *words, **more)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return figures


def colours(axes: Any) -> dict[str, str]:
    """Label -> colour of the lines that have one."""
    return {line.get_label(): line.get_color() for line in axes.lines if not line.get_label().startswith("_")}


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# Style


def test_importing_figures_does_not_import_matplotlib() -> None:
    code = (
        "import sys, quell.figures.runs, quell.figures.theory, quell.figures.variance;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "plot", "no_such_module")
    with pytest.raises(MissingExtra, match=r"quell\[plot\]"):
        variance_against_rho(tmp_path / "theory.png")
    assert not list(tmp_path.iterdir())


def test_methods_and_estimators_have_looks_of_their_own() -> None:
    assert {*("es", "cv", "ortho", "gcmc", "qmc", "pg", "det", "ppo", "trpo"), *BASES} <= LOOKS.keys()
    for name, look in looks(["something", "es", "cv-ortho", "cv gamma=0.9", "ppo-paper+s"]).items():
        assert look == looks([name])[name] or name == "ppo-paper+s", "a known name looks the same in any company"
    assert looks(["cv-ortho"])["cv-ortho"] == replace(LOOKS["cv"], line=LOOKS["ortho"].line)
    assert looks(["cv gamma=0.9"])["cv gamma=0.9"] == LOOKS["cv"]
    paper = [LOOKS[name] for name in ("es", "ortho", "gcmc", "qmc", "cv", "pg")]
    assert len({look.colour for look in paper}) == len(paper)


def test_no_two_methods_of_the_paper_look_the_same() -> None:
    ablation = (*PPO_METHODS, "cv")
    assert set(ablation) <= METHODS.keys()
    assert len(set(looks(ablation).values())) == len(ablation)


def test_common_steps_by_hand() -> None:
    steps, values = on_common_steps([([0, 10], [0, 10]), ([5, 20], [0, 30]), ([], [])], points=2)
    assert steps.tolist() == [5, 10]
    assert values.tolist() == [[5, 10], [0, 10]]
    assert on_common_steps([])[1].shape == (0, 0)


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        figure = new_figure(2, 2)
        figure.subplots().plot([1, 2])
        save(figure, tmp_path / name / "x.svg", tmp_path / name / "x.png")
    for ending in ("svg", "png"):
        assert (tmp_path / f"a/x.{ending}").read_bytes() == (tmp_path / f"b/x.{ending}").read_bytes()


# Runs


def run(slope: float, ratio: float) -> Any:
    rows = [
        {"steps": 100.0 * i, "return/mean": slope * i, "variance/es": 2.0, "variance/method": 2 * ratio}
        for i in range(1, 11)
    ]
    return SimpleNamespace(history=rows)


def test_curves_are_public() -> None:
    assert quell.figures.curves is curves


def test_curves(tmp_path: Path, drawn: list[Any]) -> None:
    groups = {"es": [run(1, 1), run(3, 1)], "cv": [run(2, 0.25)], "mine": [run(0, 1)]}
    curves(groups, tmp_path / "deep/c.png", title="hopper")
    left, right = drawn[0].axes
    assert drawn[0].get_suptitle() == "hopper"
    assert colours(left) == {name: look.colour for name, look in looks(groups).items()}
    assert colours(left)["es"] == LOOKS["es"].colour
    assert left.lines[0].get_ydata()[[0, -1]] == pytest.approx([2, 20]), "the mean over runs"
    assert right.lines[1].get_ydata() == pytest.approx(np.full(10, 0.25))
    assert right.get_yscale() == "log"
    assert (left.get_xlabel(), left.get_ylabel()) == ("environment steps", "return while training")
    assert (tmp_path / "deep/c.png").read_bytes().startswith(b"\x89PNG")


def test_curves_of_variance_are_ratios_of_sums_in_one_metric(tmp_path: Path, drawn: list[Any]) -> None:
    """Of all runs together, without the rows before there is a metric and without flat ones; where ES's is not known,
    nothing."""
    runs = [run(1, 0.5), run(1, 0.1)]
    for one in runs:
        for number, row in enumerate(one.history):
            row["variance/in_step_metric"] = float(number > 0)
        one.history[0] |= {"variance/es": 1e6, "variance/method": 1e6}
        one.history[4] |= {"trouble/flat": 1.0, "variance/es": 0.0, "variance/method": 1e6}
        one.history[5] |= {"variance/es": None, "variance/method": float("nan")}
    unknown = run(1, 1.0)
    for row in unknown.history:
        row["variance/es"] = None
    curves({"cv": runs, "qmc": [unknown]}, tmp_path / "c.png")
    (line,) = drawn[0].axes[1].lines
    assert line.get_ydata().min() == pytest.approx(0.1)
    assert line.get_ydata().max() == pytest.approx(0.5)
    assert (line.get_xdata().min(), line.get_xdata().max()) == (200, 1000)
    many = [run(1, ratio) for ratio in (0.5, 0.1, 0.3, 0.3)]
    curves({"cv": many}, tmp_path / "d.png")
    assert drawn[1].axes[1].lines[0].get_ydata() == pytest.approx(np.full(20, 0.3)), "stretches of all runs' rows"


def test_panels(tmp_path: Path, drawn: list[Any]) -> None:
    panels = {
        "Swimmer": {"es": [made_up("swimmer", "es", s, 100 + s) for s in (0, 2)]},
        "LQR": {m: [made_up("lqr", m, 0, -1e30, -2e30)] for m in ("es", "cv")},
    }
    curve_panels(panels, tmp_path / "p.svg", tmp_path / "p.png", upper=True)
    swimmer, lqr = drawn[0].axes
    assert [axes.get_title() for axes in (swimmer, lqr)] == ["Swimmer", "LQR: median, range"]
    assert [axes.get_yscale() for axes in (swimmer, lqr)] == ["linear", "symlog"]
    assert swimmer.lines[0].get_ydata()[-1] == pytest.approx(101)
    assert [line.get_color() for line in lqr.lines] == [LOOKS["es"].colour, LOOKS["cv"].colour]
    assert legend(drawn[0]) == ["ES", "CV"]
    assert ">Swimmer</text>" in (tmp_path / "p.svg").read_text()


def test_against_seconds_only_what_was_timed_has_a_panel(drawn: list[Any], tmp_path: Path) -> None:
    panels = {task: {"es": [made_up(task, "es", 0, 5.0)]} for task in ("swimmer", "hopper")}
    for seconds, titles in (({("hopper", "es"): 3.0}, ["hopper"]), ({}, ["swimmer", "hopper"])):
        curve_panels(panels, tmp_path / "a.png", seconds=seconds)
        assert [axes.get_title() for axes in drawn[-1].axes if axes.get_visible()] == titles


def test_a_panel_says_whose_episodes_were_cut(tmp_path: Path, drawn: list[Any]) -> None:
    """Where some methods' were and some were not, whose returns cannot be compared."""
    plain, cut = made_up("swimmer", "es", 0, 100), made_up("swimmer", "cv", 0, 25, train_horizon=250)
    cut = replace(cut, curve={**cut.curve, "evaluation": [None, None, None, 30.0]})  # the final one is always there
    curve_panels({"a": {"es": [plain], "cv": [cut]}, "b": {"es": [plain]}, "c": {"cv": [cut]}}, tmp_path / "a.png")
    said = [[text.get_text() for text in axes.texts] for axes in drawn[0].axes[:3]]
    assert said == [["episodes cut after\nCV 250"], [], []]


def test_a_panel_draws_the_evaluations_of_runs_whose_episodes_were_cut(tmp_path: Path, drawn: list[Any]) -> None:
    plain, cut = made_up("swimmer", "es", 0, 100), made_up("swimmer", "cv", 0, 25, train_horizon=250)
    cut = replace(cut, curve={**cut.curve, "evaluation": [None, 95.0, None, 95.0]})
    curve_panels({"a": {"es": [plain], "cv": [cut]}}, tmp_path / "a.png")
    (axes,) = [axes for axes in drawn[0].axes if axes.get_visible()]
    assert [line.get_ydata()[-1] for line in axes.lines] == pytest.approx([100, 95])
    assert [text.get_text() for text in axes.texts] == []


def test_curves_far_below_their_start_leave_the_panel(tmp_path: Path, drawn: list[Any]) -> None:
    panel = {"es": [made_up("swimmer", "es", 0, 100, 0)], "cv": [made_up("swimmer", "cv", 0, -5000, 100)]}
    for within_reach in (False, True):
        curve_panels({"a": panel}, tmp_path / "a.png", within_reach=within_reach)
    (free, *_), (held, *_) = (figure.axes for figure in drawn)
    assert free.get_ylim()[0] < -4000
    assert -2000 < held.get_ylim()[0] < held.get_ylim()[1] < 300


# The paper's bars


def test_bars(tmp_path: Path, drawn: list[Any]) -> None:
    tasks = {
        "Swimmer": {"es": MeanStd(1.0, 0.2), "cv": MeanStd(7.0, 1.0), "qmc": MeanStd(-2.0, 1.0)},
        "Pong": None,
        "LQR": {"es": MeanStd(1.0, float("nan"))},
    }
    improvement_bars(tasks, ["es", "qmc", "cv"], tmp_path / "b.png")
    (axes,) = drawn[0].axes
    heights = [(bar.get_height(), matplotlib.colors.to_hex(bar.get_facecolor()).upper()) for bar in axes.patches]
    assert heights == [
        (1.0, LOOKS["es"].colour),
        (-1.0, LOOKS["qmc"].colour),
        (3.0, LOOKS["cv"].colour),
        (1.0, LOOKS["es"].colour),
    ]
    assert [bar.get_hatch() or "" for bar in axes.patches[:3]] == ["", LOOKS["qmc"].hatch, ""]
    assert [text.get_text() for text in axes.texts] == ["-2", "7", "no scale"], "out of range, in words"
    assert [label.get_text() for label in axes.get_xticklabels()] == list(tasks)
    assert legend(drawn[0]) == ["ES", "QMC", "CV"]


# Theorem 1


def test_theory(tmp_path: Path, drawn: list[Any]) -> None:
    variance_against_rho(tmp_path / "t.png")
    left, right = drawn[0].axes
    cv, ortho = left.lines[0], left.lines[1]
    assert (cv.get_color(), cv.get_linestyle()) == (LOOKS["cv"].colour, "-")
    assert ortho.get_linestyle() == LOOKS["ortho"].line
    assert LOOKS["ortho"].colour in SAMPLES.values()
    rho = cv.get_xdata()[200]
    assert cv.get_ydata()[200] == pytest.approx(theory.variance_cv(100) / theory.variance_es(100, rho))
    assert ortho.get_ydata()[200] == pytest.approx(theory.variance_ortho(100, 5, rho) / theory.variance_es(100, rho))
    assert right.lines[1].get_ydata()[200] == pytest.approx(
        theory.variance_ortho_cv(100, 5, rho) / theory.variance_es(100, rho)
    )
    dots = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([theory.threshold(100, n) for n in SAMPLES])
    assert left.get_ylabel() == "variance relative to ES"
    assert (tmp_path / "t.png").stat().st_size > 20_000


# Variance


def measured(name: str) -> Any:
    return facts_of(f"variance/{name}")


def test_a_measurement(tmp_path: Path, drawn: list[Any]) -> None:
    values = measured("hopper-gain-1000")
    variance_figure([values], tmp_path / "v.png")
    ratios, shares, gains = drawn[0].axes
    names = [row["name"] for row in values["rows"]]
    assert [label.get_text() for label in ratios.get_yticklabels()] == names
    dots = [line for line in ratios.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == [row["ratio"]["value"] for row in values["rows"]]
    assert [dot.get_color() for dot in dots] == [LOOKS[name].colour for name in names]
    assert sum(bar.get_width() for bar in shares.patches) == pytest.approx(len(names), rel=1e-4)
    assert colours(gains) == {name: LOOKS[name].colour for name in ("es", "cv", "auto", "auto-policy")}
    assert "hopper, init: return" in drawn[0].get_suptitle()


def test_unknown_ratios_are_left_out(tmp_path: Path, drawn: list[Any]) -> None:
    values = measured("walker2d-init")
    values["rows"][1]["ratio"] = {"value": None, "low": None, "high": None}
    values["rows"][1]["share"] = dict.fromkeys(values["rows"][1]["share"])
    variance_figure([values], tmp_path / "v.png")
    dots = [line for line in drawn[0].axes[0].lines if line.get_marker() == "o"]
    assert len(dots) == len(values["rows"]) - 1
    assert len(drawn[0].axes) == 2, "no gains, no panel of them"


def test_a_sweep(tmp_path: Path, drawn: list[Any]) -> None:
    values = measured("dm-cartpole-swingup-std")["points"]
    variance_figure(values, tmp_path / "s.png")
    (axes,) = drawn[0].axes
    assert colours(axes) == {name: LOOKS[name].colour for name in ("es", "cv", "cv-moments", "auto")}
    assert axes.lines[0].get_xdata().tolist() == [0.03, 0.1, 0.3, 1]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "action std"


def test_score_against_seconds_shows_median_and_range(tmp_path: Path, drawn: list[Any]) -> None:
    """Where all runs are known, on a logarithmic axis; a single run is dotted."""
    runs = [[(1.0, 10, 0.0), (2.0, 20, None), (10.0, 100, 10.0 * k), (20.0, 200, 10.0 * k)] for k in (1, 2, 6)]
    single = [[(1.0, 10, 0.0), (100.0, 1000, 4.0)]]
    score_against_seconds({"a": {"natural-cv": runs, "es": single}}, {"a": (5.0,)}, tmp_path / "a.png")
    axes = drawn[0].axes[0]
    middle, alone, target = axes.lines
    assert axes.get_xscale() == "log"
    assert (middle.get_xdata()[0], middle.get_xdata()[-1]) == pytest.approx((1.0, 20.0))
    assert middle.get_ydata()[-1] == 20.0
    assert axes.collections[0].get_datalim(axes.transData).ymax == pytest.approx(60.0)
    assert np.interp(np.sqrt(10), middle.get_xdata(), middle.get_ydata()) == pytest.approx(10.0, rel=0.02)
    assert (middle.get_linestyle(), alone.get_linestyle(), target.get_ydata()[0]) == ("-", ":", 5.0)
    assert legend(drawn[0]) == ["natural CV", "ES"]
