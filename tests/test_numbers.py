"""Every measured number that README and the pages print, recomputed from its raw file.

Numbers of the benchmark and of docs/natural.md are compared in tests/campaign, those of the paper's tables in
tests/paper.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from statistics import median
from typing import Any

import numpy as np
import pytest
from printed import NUMBER, RESULTS, check, facts_of, page, records, rounded, rows, says
from scipy.special import ndtri

import quell
from quell.campaign.benchmark import median_seconds
from quell.paper.scores import aggregate, grid
from quell.perturb.qmc import halton
from quell.runs import archive
from quell.runs.record import Record, read_group
from quell.stats import mean_std
from quell.tasks.lqr import optimal_return
from quell.training.methods import make_config, make_policy, make_task


def whole(interval: dict[str, float]) -> list[float]:
    return [interval["value"], interval["low"], interval["high"]]


@cache
def measured(name: str) -> dict[str, Any]:
    return facts_of(f"variance/{name}")


def row_of(name: str, method: str) -> dict[str, Any]:
    (row,) = [row for row in measured(name)["rows"] if row["name"] == method]
    return dict(row)


def gain(name: str, method: str, step: str, what: str = "gain") -> dict[str, float]:
    kind, size = step.split()
    found = [g for g in measured(name)["gains"] if (g["name"], g["kind"], g["size"]) == (method, kind, float(size))]
    return dict(found[0][what])


def scores(pattern: str) -> list[float]:
    runs = records(pattern)
    assert runs, pattern
    return [run.return_sampled for run in runs]


def spread(pattern: str) -> list[float]:
    found = mean_std(scores(pattern))
    return [found.mean, found.std]


class TestVariance:
    """docs/variance.md"""

    def test_discounts_and_coefficients(self) -> None:
        left = {g: row_of("dm-cartpole-swingup-gamma", f"cv-moments gamma={g}") for g in ("0.9", "0.99", "0.997", "1")}
        text = page("docs/variance.md")
        found = re.search(
            rf"moments, ({NUMBER}) of ES's variance is left at 0.99, ({NUMBER}) at 0.997 and ({NUMBER}) at 1", text
        )
        assert found
        check(" ".join(found.groups()), [left[g]["ratio"]["value"] for g in ("0.99", "0.997", "1")])
        middle = {gamma: median(row["eta"].values()) for gamma, row in left.items()}
        assert "about -4 at 0.997, -19 at 0.99 and -2,300 at 0.9" in text
        assert [round(middle["0.997"]), round(middle["0.99"]), round(middle["0.9"], -2)] == [-4, -19, -2300]
        paper = row_of("dm-cartpole-swingup-gamma", "cv")
        assert "has reached -0.4 after 200 updates (`cv`, ratio 0.98)" in text
        assert round(median(paper["eta"].values()), 1) == -0.4
        assert round(paper["ratio"]["value"], 2) == 0.98
        ((_, *cells),) = rows("docs/variance.md", "| | w0 |")
        check(" ".join(cells), list(row_of("dm-cheetah-run-trained", "auto")["eta"].values()))

    def test_extremes(self) -> None:
        assert "CV's variance is 10^48 times that of ES. `auto` measures 1.00." in page(
            "results/variance/chosen-coefficients.md"
        )
        assert round(math.log10(row_of("lqr-init", "cv")["ratio"]["value"])) == 48
        assert rounded("1.00", row_of("lqr-init", "auto")["ratio"]["value"])
        assert "0.03 of the total variance of ES on a trained swimmer, and six times" in page(
            "results/variance/chosen-coefficients.md"
        )
        swimmer = row_of("swimmer-gain-policy", "auto")
        assert [round(swimmer["ratio"]["value"], 2), round(swimmer["fisher_ratio"]["value"])] == [0.03, 6]

    def test_gains(self) -> None:
        (untrained, trained), task = ("gain-1000", "gain-policy"), ""
        names = {untrained: ("es", "cv", "auto", "auto-policy"), trained: ("es", "auto", "auto-policy")}
        for file, head in (
            (untrained, "| change of return | step | ES | CV (paper)"),
            (trained, "| change of return | step | ES | auto |"),
        ):
            for first, step, *cells in rows("results/variance/chosen-coefficients.md", head):
                task = first or task
                for method, cell in zip(names[file], cells, strict=True):
                    check(cell, whole(gain(f"{task}-{file}", method, step)))

    def test_gains_over_es(self) -> None:
        def over(name: str, step: str) -> list[float]:
            return whole(gain(name, "cv", step, "over_es"))

        says("results/variance/chosen-coefficients.md", "(CV over ES by", over("walker2d-gain-1000", "sign 0.01"))
        says(
            "results/variance/chosen-coefficients.md",
            "on roboschool-halfcheetah at 0.03 (",
            over("roboschool-halfcheetah-gain-1000", "sign 0.03"),
        )

    def test_the_policys_metric(self) -> None:
        files = {
            "hopper, untrained, seed 0": "hopper-init-400",
            "walker2d, untrained, seed 0": "walker2d-init-400",
            "walker2d, untrained, seed 1": "walker2d-gain-1000",
            "dm-cheetah-run, trained": "dm-cheetah-run-gain-policy",
            "halfcheetah, trained": "halfcheetah-gain-policy",
            "swimmer, trained": "swimmer-gain-policy",
        }
        shown = {
            first: cells for first, *cells in rows("results/variance/chosen-coefficients.md", "| | auto: total, Fisher")
        }
        assert shown.keys() == files.keys()
        for first, cells in shown.items():
            for method, cell in zip(("auto", "auto-policy"), cells, strict=True):
                row = row_of(files[first], method)
                check(cell, [row["ratio"]["value"], row["fisher_ratio"]["value"]])

    def test_step_lengths_by_estimator(self) -> None:
        def bears(name: str, method: str) -> float:
            row = row_of(name, method)
            return math.sqrt(row["ratio"]["value"]) / float(row["fisher_ratio"]["value"])

        text = page("results/variance/chosen-coefficients.md")
        assert "on hopper `auto` (0.5 of ES's step) is best at 0.03 and the policy metric (twice it) at 0.1" in text
        assert [round(bears("hopper-gain-1000", m), 1) for m in ("auto", "auto-policy")] == [0.5, 2.0]
        assert "`auto` (0.09) is best at 0.01 or below, ES and the policy metric (1.2) at 0.03" in text
        assert [round(bears("walker2d-gain-1000", m), 2) for m in ("auto", "auto-policy")] == [0.09, 1.16]
        assert 1 / 45 < bears("swimmer-gain-policy", "auto") < 1 / 35, "a fortieth of the rate of ES"
        for facts in archive.read(RESULTS / "variance").values():
            for row in facts.get("rows", []):
                if row["name"] == "auto-policy":
                    assert row["fisher_ratio"]["value"] <= 1.0 + 1e-9, "at most that of ES at the policies measured"

    def test_training_at_two_rates(self) -> None:
        labels = ("es-lr0.01", "es-lr0.03", "cv-moments-lr0.01", "cv-moments-lr0.03", "cv-lr0.01", "cv-lr0.03")
        for task, *cells in rows("results/variance/chosen-coefficients.md", "| | ES 0.01 |"):
            for label, cell in zip(labels, cells, strict=True):
                check(cell, spread(f"step-size/{task}-tuned-{label}-300000-?"))

    def test_walker2d_over_five_seeds(self) -> None:
        def walker(label: str, steps: str = "300000") -> list[float]:
            return spread(f"step-size/walker2d/walker2d-tuned-{label}-{steps}-?")

        says("results/variance/chosen-coefficients.md", "one of five with ES (", walker("es-lr0.03", "1000000"))
        says("results/variance/chosen-coefficients.md", "with ever larger actions (", walker("cv-lr0.03", "1000000"))
        learned = [spread(f"learning/walker2d-tuned-{method}-1000000-?") for method in ("es", "cv")]
        says("results/variance/chosen-coefficients.md", "At 0.01 none does:", learned[0] + learned[1])
        says("results/variance/chosen-coefficients.md", "(3e5 steps at 0.03: ES", walker("es-clip-lr0.03"))
        says("results/variance/chosen-coefficients.md", "policy metric 421", [*walker("cv-clip-lr0.03")[1:]])
        at_001 = [walker(label) for label in ("es-lr0.01", "cv-lr0.01", "es-clip-lr0.01", "cv-clip-lr0.01")]
        text = page("results/variance/chosen-coefficients.md").partition("; at 0.01 476")[2]
        check(f"476{text[: text.index(' with it')]}".replace("without", ""), [x for one in at_001 for x in one])
        total = [run.variance for run in records("step-size/walker2d/*cv-lr0.03-1000000-?")]
        says(
            "results/variance/chosen-coefficients.md",
            "its total variance came to",
            [sum(x or 0 for x in total) / len(total)],
        )

    def test_settings_that_followed_from_the_measurements(self) -> None:
        swimmer = [
            spread(f"learning/swimmer-tuned-{label}-1000000-?")
            for label in ("cv", "es", "cv-moments", "cv-moments-linear")
        ]
        says("results/variance/chosen-coefficients.md", "it ends at 341", swimmer[0][1:])
        says("results/variance/chosen-coefficients.md", "(three seeds; ES", swimmer[1])
        says("results/variance/chosen-coefficients.md", "it falls back to", swimmer[2])
        says("results/variance/chosen-coefficients.md", "with `--schedule linear` it ends at", swimmer[3])
        lander = [spread(f"learning/gym-LunarLander-v3-tuned-{method}-500000-?") for method in ("cv", "es")]
        says("results/variance/chosen-coefficients.md", "on LunarLander at", lander[0])
        says("results/variance/chosen-coefficients.md", "(two seeds; ES", lander[1])


def test_normalisation() -> None:
    """docs/guarantees.md against its file."""
    facts = json.loads((RESULTS / "variance/normalisation.json").read_text())["rows"]
    five = [100 * row["off"] for row in facts if row["pairs"] == 5]
    says("docs/guarantees.md", "turns the expected direction by", [min(five), max(five)])


class TestSpeed:
    """results/throughput/README.md, and what docs/guarantees.md says of it."""

    def test_the_clock(self) -> None:
        facts = json.loads((RESULTS / "throughput/clock.json").read_text())["tasks"]
        default = {task: facts[task]["default"]["ratio"][0] for task in facts}
        says("docs/guarantees.md", "In batches of 4,000 steps the default takes", [default["halfcheetah"]])
        says("docs/guarantees.md", "of ES per step there,", [default["hopper"], default["inverted-pendulum"]])

    def test_whole_runs_on_the_clock(self) -> None:
        """Of the default beside ES, in the benchmark."""
        seconds = median_seconds(RESULTS / "benchmark")
        both = {task for task, method in seconds if method == "natural-cv" and (task, "es") in seconds}
        ratios = {task: seconds[task, "natural-cv"] / seconds[task, "es"] for task in both}
        ends, middle = [min(ratios.values()), max(ratios.values())], median(ratios.values())
        slow = {task for task, ratio in ratios.items() if round(ratio, 1) >= 1.7}
        assert slow == {
            *("inverted-pendulum", "gym:CartPole-v1", "dm-quadruped-walk", "roboschool-pong"),
            *("dm-cartpole-balance", "dm-cartpole-swingup", "dm-cartpole-two-poles"),
        }
        says("docs/guarantees.md", "it took", [*ends, len(ratios), middle, min(ratios[task] for task in slow)])
        assert "1.7 times or more on seven of them" in page("docs/guarantees.md")
        low = min(ratios[task] for task in slow)
        says("docs/benchmark.md", "`natural-cv` took", [*ends, middle, low, ends[1]])
        clock = json.loads((RESULTS / "throughput/clock.json").read_text())["tasks"]
        same = [facts["default"]["ratio"][0] for facts in clock.values()]
        says("docs/benchmark.md", "With the same batches and networks it is", [min(same), max(same)])

    def test_halfcheetah(self) -> None:
        facts = json.loads((RESULTS / "throughput/halfcheetah.json").read_text())
        says("docs/guarantees.md", "iteration on halfcheetah at", [facts["ratios"]["es / open loop"]])
        times = [
            1e3 * median(facts["seconds"][row])
            for row in ("open loop", "es", "cv", "cv+gamma", "natural-cv", "EnvPool")
        ]
        text = page("results/throughput/README.md")
        found = re.findall(r"(\d+) ms", text.partition("physics alone (the same")[2])[:6]
        check(" ".join(found), times)
        names = ("cv time / es time", "cv+gamma time / es time", "natural-cv time / es time")
        says("results/throughput/README.md", "times EnvPool, CV costs", [facts["ratios"][name] for name in names])

    def test_against_envpool(self) -> None:
        files = list(json.loads((RESULTS / "throughput/tasks.json").read_text()).values())
        ratios = []
        for task, *cells in rows("results/throughput/README.md", "| task | ours, steps/s"):
            first, again, longer = (file.get(task) for file in files)
            values = [first["ours"], first["envpool"], first["async"], first["ratio"], again["ratio"]]
            values += [longer["ratio"]] if longer else []
            check(" ".join(cells), [*values, *([first["physics"]] if first["physics"] else [])])
            ratios += [one["ratio"] for one in (first, again, longer) if one and task != "bipedalwalker"]
        says("docs/guarantees.md", "Episodes of the MuJoCo tasks run at", [min(ratios), max(ratios)])
        ours = {task: one["ours"] for task, one in files[0].items() if one["envpool"] and task != "bipedalwalker"}
        slowest, fastest = min(ours, key=ours.__getitem__), max(ours, key=ours.__getitem__)
        assert (slowest, fastest) == ("dm-quadruped-escape", "dm-pendulum-swingup")
        says("docs/faq.md", "MuJoCo tasks run at", [ours[slowest], ours[fastest]])


def test_the_optimum_of_lqr() -> None:
    """docs/tasks.md against the Riccati equation."""
    tasks = [quell.task(name) for name in ("lqr", "lqr-302")]
    for (where, printed), std in (
        (("beside the Riccati optimum:", 4), 0.0),
        (("(action noise of std 1 makes that", 2), 1.0),
    ):
        values = [optimal_return(task, std) for task in tasks]  # type: ignore[arg-type]
        says("docs/tasks.md", where, [values[0], 2000, values[1], 302] if printed == 4 else values)


def test_first_run_says_how_seeds_differ() -> None:
    runs = [run for run in read_group(RESULTS / "benchmark") if run.config.method == "es"]
    ends = sorted(sum(x) / len(x) for run in runs if run.config.task == "swimmer" for x in [run.final["mean_action"]])
    assert len(ends) == 5
    says("docs/first-run.md", "ES with its tuned settings ends at", [ends[0]])
    says("docs/first-run.md", "one of five seeds and at", [ends[1], ends[-1]])


@pytest.fixture(scope="module")
def runs() -> list[Record]:
    return read_group(RESULTS / "paper/paper-large-start-1000000")


class TestPaper:
    """What docs/results.md says of results/paper, results/learning and results/initial-policy."""

    def test_a_twentieth_of_the_steps(self, runs: list[Record]) -> None:
        found = aggregate(grid(runs), "cv")
        assert found is not None
        assert (found.tasks, len(runs)) == (16, 420)

    def test_remaining_variance_by_task(self, runs: list[Record]) -> None:
        """Medians over the points of a curve, from the lowest to the highest seed."""

        def left(row: list[Record]) -> list[float]:
            medians = [median([value for value in run.curve["ratio"] if value is not None]) for run in row]
            return [min(medians), max(medians)]

        where, found = "results/paper/README.md", {task: left(row["cv"]) for task, row in grid(runs).items()}
        high = [ends for ends in found.values() if ends[0] > 0.885 and ends[1] < 1.005]
        assert len(high) == 8
        says(where, "and on eight tasks", [min(ends[0] for ends in high), max(ends[1] for ends in high)])

    def test_halton_points_of_a_batch_are_nearly_one_direction(self) -> None:
        """Mean cosine over the 100 batches of a run on halfcheetah."""
        config = make_config("halfcheetah", "qmc", "paper", {})
        policy = make_policy(config, make_task(config))
        points = np.array([ndtri(halton(1 + point, policy.dim)) for point in range(500)])
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        batches = points.reshape(100, 5, -1)
        cosines = np.einsum("bid,bjd->bij", batches, batches)[:, *np.triu_indices(5, 1)]
        says("results/paper/README.md", "batch have a mean cosine of", [float(cosines.mean()), policy.dim])

    def test_how_a_policy_starts(self, runs: list[Record]) -> None:
        small = spread("initial-policy/halfcheetah-paper-es-small-1000000-?")
        usual = mean_std([run.return_sampled for run in grid(runs)["halfcheetah"]["es"]])
        says("docs/results.md", "as the paper probably had it, ES reaches", [small[0], usual.mean])

    def test_variance_removed_with_the_papers_settings(self) -> None:
        left = [run.variance or 0 for run in records("learning/*-paper-cv-1000000-?")]
        assert "the control variate removes 4% of the variance" in page("docs/results.md")
        assert round(100 * (1 - sum(left) / len(left))) == 4


class TestScale:
    """docs/scale.md against results/throughput/cluster.json (its columns under load have no file)."""

    facts = json.loads((RESULTS / "throughput/cluster.json").read_text())

    def test_ray_beside_the_local_engine(self) -> None:
        for name, local, ray, ratio, _ in rows("docs/scale.md", "| | local, steps/s"):
            one = self.facts[name.lower()]
            check(f"{local} {ray} {ratio}", [one["local"], one["ray"], one["ratio"]])

    def test_overhead(self) -> None:
        shown = list(rows("docs/scale.md", "| d | workers | idle"))
        for (dim, workers, idle, _, simulated, received), one in zip(shown, self.facts["overhead"], strict=True):
            names = ("dim", "workers", "milliseconds", "simulated", "bytes_in")
            check(f"{dim} {workers} {idle} {simulated} {received}", [one[name] for name in names])
            assert one["bytes_in"] == one["bytes_in_formula"]


@pytest.mark.parametrize(
    ("printed", "value", "right"),
    [
        ("0.83", 0.8349, True),
        ("0.83", 0.836, False),
        ("-951", -950.6, True),
        ("1,836", 1836, True),
        ("5e-06", 4.9e-6, True),
    ],
)
def test_rounding(printed: str, value: float, right: bool) -> None:
    assert rounded(printed, value) is right
