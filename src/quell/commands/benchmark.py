"""quell benchmark: methods side by side on many tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from quell.commands.arguments import UNSET, parse
from quell.config import check_out
from quell.errors import UsageError, require
from quell.registry import SIZE
from quell.runs.files import write
from quell.terminal.streams import say, tell
from quell.threads import cores

DESCRIPTION = """Train methods with their tuned settings on several tasks and seeds, and write a table (scores of mean
actions, comparisons, time, published scores) and a figure to OUT. Finished runs are not repeated: the same
command continues where it stopped."""
TASKS = (
    *("halfcheetah", "hopper", "walker2d", "swimmer", "ant", "humanoid"),
    *("inverted-pendulum", "inverted-double-pendulum", "lqr", "lqr-302", "bipedalwalker"),
    *("dm-cheetah-run", "dm-cartpole-swingup", "dm-cartpole-two-poles", "dm-cartpole-balance", "dm-pendulum-swingup"),
    *("dm-hopper-stand", "dm-hopper-hop", "dm-quadruped-walk", "dm-quadruped-escape"),
    *("roboschool-pong", "roboschool-halfcheetah", "gym:CartPole-v1", "gym:LunarLander-v3"),
)
SEEDS = (
    *("5", "inverted-pendulum=10", "gym:CartPole-v1=10"),
    *("humanoid=3", "roboschool-halfcheetah=4"),
)
"""More where a run is short, fewer where it is slow."""
STEPS = ("1e6", "dm-quadruped-escape=3e5", "humanoid=3e5")
EPISODES = ("20", "dm-quadruped-walk=100")
"""All final policies begin in the same positions, which more seeds do not average out; a quadruped that lands on its
feet may earn six times what it does on its back."""
EVALUATED = 25
"""Iterations between the evaluations of a run whose training episodes are cut."""
PEERS = {
    "RL Zoo PPO, 1e6": {"halfcheetah": "5819", "hopper": "2410", "walker2d": "3479", "swimmer": "282", "ant": "1327"},
    "RL Zoo ARS, 2e6 to 7.5e7": {
        **{"halfcheetah": "4815", "hopper": "3344", "walker2d": "2994", "swimmer": "355", "ant": "2334"},
    },
}
"""What others published (mean actions, one agent each): RL Zoo's benchmark page."""


@dataclass(frozen=True)
class Arguments:
    tasks: tuple[str, ...] = TASKS
    """`quell list tasks` lists them."""
    methods: tuple[str, ...] = ("natural-cv", "es", "ars", "ppo", "trpo")
    """The first is compared with each of the others."""
    seeds: tuple[str, ...] = SEEDS
    """Seeds of every method, from 0 up; other numbers for single tasks follow: 5 humanoid=3"""
    steps: tuple[str, ...] = STEPS
    """Environment steps of each run; other numbers for single tasks follow: 1e6 humanoid=3e5"""
    episodes: tuple[str, ...] = EPISODES
    """Episodes of each final evaluation; other numbers for single tasks follow: 20 dm-quadruped-walk=100"""
    jobs: Annotated[int | None, SIZE, UNSET] = None
    """Runs at a time, one process each; by default one per core."""
    out: Path = Path("results/benchmark")
    """Where records, table and figure go."""
    runs: Path = Path("runs/benchmark")
    """Where run folders with their checkpoints go."""
    render: bool = False
    """Only make table and figure from the existing records."""


def main(arguments: list[str]) -> int:
    from quell.presets import method_name

    parsed = parse(Arguments, arguments, prog="quell benchmark", description=DESCRIPTION)
    if not (parsed.tasks and parsed.methods):
        raise UsageError("--tasks and --methods need at least one name each")
    parsed = replace(parsed, methods=tuple(dict.fromkeys(map(method_name, parsed.methods))))
    require("plot", "the benchmark's figure")
    code = 0 if parsed.render else _train(parsed)
    if code > 128:
        say("stopped; the same command continues, and with --render shows the results so far")
        return code
    tell(render(parsed.out, parsed.methods))
    return code


def _train(parsed: Arguments) -> int:
    """Run what is missing; the exit code."""
    from quell.campaign.plan import Budget, Job, by_task, check_number, record_path
    from quell.campaign.runner import Runner
    from quell.terminal.campaign import CampaignDisplay
    from quell.training.methods import make_config

    jobs, budget, episodes = [], Budget.parse(1.0, parsed.steps), by_task("episodes", parsed.episodes)
    seeds = by_task("seeds", parsed.seeds)
    check_number(max(seeds.values()) * len(parsed.tasks) * len(parsed.methods), "seeds", max(seeds.values()))
    for seed in range(max(seeds.values())):
        for task in (task for task in parsed.tasks if seed < seeds.get(task, seeds[""])):
            for method in _of_task(task, parsed.methods):
                config = make_config(
                    task, method, "tuned", {"seed": seed, "steps": budget.of(task, 0), "eval_every": 0}
                )
                if config.train_horizon:  # what its training episodes earn is no curve beside the others'
                    config = replace(config, eval_every=EVALUATED)
                record, shown = record_path(parsed.out, config), episodes.get(task, episodes[""])
                jobs.append(Job(config.validate(), parsed.runs, record, shown))
    for job in jobs:
        job.check()
    due = [job for job in jobs if not job.done]
    runner = Runner(parsed.jobs or cores(), CampaignDisplay({job.title: 1.0 for job in due}))
    check_out(parsed.out)
    check_out(parsed.runs, "runs")
    outcomes = runner.run(due)
    for outcome in outcomes:
        if outcome.status == "failed":
            say(f"FAILED  {outcome.job.title}: {outcome.message}; the same command tries again")
    return runner.exit_code(outcomes)


def _of_task(task: str, methods: tuple[str, ...]) -> list[str]:
    """The default is left out on a task that has another (no natural step), if that one is compared anyway."""
    from quell.presets import DEFAULT, default_method

    own = default_method(task)
    return [method for method in methods if method != DEFAULT or own == DEFAULT or own not in methods]


def render(out: Path, methods: tuple[str, ...]) -> str:
    """table.md and the curves, against steps and against seconds, from the records in a folder; the table."""
    from quell.campaign.benchmark import grid, median_seconds, table
    from quell.figures.runs import curve_panels
    from quell.paper.published import SCORES
    from quell.runs.record import read_group

    found = grid(read_group(out))
    if not found:
        raise UsageError(f"{str(out)!r} holds no records of runs; `quell benchmark` makes some")
    # The paper's scores of LQR stand for lqr-302 too: over the 2,000 steps it prints they would beat the optimum.
    paper = {task: text for task in found if (text := SCORES.get((task.removesuffix("-302"), "cv")))}
    published = {"the paper's CV, 2e7": paper, **PEERS}
    seconds = median_seconds(out)
    text = table(found, methods, seconds=seconds, published=published)
    write(out / "table.md", text)
    panels = {task: {name: row[name] for name in methods if name in row} for task, row in found.items()}
    curve_panels(panels, out / "curves.png", upper=True)
    curve_panels(panels, out / "seconds.png", upper=True, seconds=seconds)
    return text
