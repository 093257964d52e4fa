"""One run: start, resume, load, evaluate. What begins runs from Python is `quell.front`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from quell import registry, tasks, zoo
from quell.config import STRATEGIES, Config, Preset, replace
from quell.errors import UsageError, is_users_own, resuming, shown
from quell.estimate import Problem
from quell.keys import Stream
from quell.keywords import Settings
from quell.perturb import Unperturbed
from quell.policy import PolicySettings
from quell.rollout import Compute, precision
from quell.runs.checkpoint import load_newest
from quell.runs.find import newest
from quell.runs.folder import Run, forbidden
from quell.runs.record import known, thin, variance_ratio
from quell.tasks.base import Task
from quell.tasks.foreign.base import ForeignTask
from quell.terminal.notebook import as_html
from quell.terminal.stopping import begun
from quell.training import settings_file
from quell.training.callbacks import Callback, Callbacks, Said, SavedAtExit
from quell.training.display import Display
from quell.training.loggers import find_loggers
from quell.training.loop import run_training
from quell.training.methods import (
    as_strategies,
    check_memory,
    make_config,
    make_policy,
    make_task,
    refuse_files,
)
from quell.training.state import learned
from quell.training.trained import TrainedPolicy
from quell.types import Array, Episodes, Rollouts
from quell.words import RESULT

Checkpoint = Literal["newest", "best"]


@dataclasses.dataclass(frozen=True)
class Result:
    """A run: where it is, what it was, what came out."""

    path: Path
    config: Config
    iteration: int
    steps: int
    policy: TrainedPolicy
    history: list[dict[str, Any]]
    """One dictionary of metrics per iteration; `quell.metrics.METRICS` defines each name."""
    checkpoint: Checkpoint = "newest"
    """Which policy this is: the newest, or the one with the best evaluation."""
    best: float = math.nan
    """Highest mean return with mean actions of all evaluations so far."""
    signal: int = 0
    """The number of the signal that stopped the run early, if one did."""

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            answer = f": {RESULT[name]}" if name in RESULT else ""
            raise AttributeError(f"a result has no {name!r}{answer}")

    @property
    def theta(self) -> Array:
        return self.policy.theta

    @property
    def task(self) -> Task:
        return self.policy.task

    @property
    def finished(self) -> bool:
        """Whether the step budget was spent, or the target reached."""
        return self.config.finished(self.steps, self.best)

    @property
    def variance_ratio(self) -> float:
        """Gradient variance over the run, plain ES on the same batches = 1; nan where that is not known."""
        ratio = variance_ratio(self.history)
        return math.nan if ratio is None else ratio

    def __repr__(self) -> str:
        """What was trained, what it reached, and where it is."""
        return "\n".join(self._lines)

    def _repr_html_(self) -> str:
        """The same in a notebook, with the curve."""
        return as_html(self._lines, thin(self.history))

    @property
    def _lines(self) -> tuple[str, str, str]:
        config, score, spread = self.config, self.last("eval/mean_action"), self.last("eval/mean_action_std")
        done = "" if self.finished else " (unfinished)"
        how = f"{self.steps:,} steps{done}, {self.iteration:,} iteration{'s' * (self.iteration != 1)}"
        reached = "not evaluated yet" if math.isnan(score) else f"return {score:.6g} ± {spread:.3g}, mean action"
        best = "" if math.isnan(self.best) else f"; best {self.best:.6g}"
        who = f"{config.task}  {config.combination}  seed {config.seed}: {how}"
        return who, f"{reached}{best}", f"run folder {shown(self.path)}"

    def last(self, metric: str) -> float:
        """The latest value of a metric that is not logged at every iteration, such as eval/return."""
        return float([math.nan, *known(self.history, metric)][-1])


def planned(
    task: str | Any, method: str | None, preset: Preset | None, file: Path | str | None, settings: Mapping[str, Any]
) -> tuple[Config, Task | None]:
    """The config that all of this comes to, and the task, where it is not one that its name stands for."""
    asked = {**settings}
    written = {} if file is None else settings_file.read(file, given=asked.get("task_settings") or ())
    task = written.pop("task", None) if task is None else task
    if task is None:
        raise UsageError("which task? quell.train('CartPole-v1'), or an environment, or a function that makes one")
    if method and any(name in written for name in STRATEGIES[1:]):
        raise UsageError(f"`config={str(file)!r}` says which strategies to use: leave out `method={method!r}`")
    method, preset = method or written.pop("method", None), preset or written.pop("preset", None) or "tuned"
    written = {name: value for name, value in written.items() if name not in settings_file.ALSO}
    asked = {**settings_file.without(written, asked), **asked}
    given = None if isinstance(task, str) else tasks.from_given(task, asked.get("horizon"))
    if isinstance(given, ForeignTask):
        asked["horizon"] = given.horizon  # so that resuming need not repeat it
    label = str(task) if given is None else given.name
    return make_config(label, method, preset, as_strategies(asked), given).validate(), given


def compute_for(engine: Compute | str | None, workers: int | None) -> Compute:
    """The engine asked for, as an object, by name, or as a number of workers; a UsageError if it cannot be had."""
    if engine is None or isinstance(engine, str):
        engine = engine_called(engine or "cpu", workers)
    elif workers is not None:
        raise UsageError("give workers=... or an engine object with its own, not both")
    if isinstance(engine, type) or not callable(getattr(engine, "make", None)):
        raise UsageError(f"`engine={engine!r:.80}` must be a name or an object, such as quell.Cpu(workers=2)")
    chosen: Compute = registry.tidy(engine)
    chosen.validate()
    return chosen


def engine_called(name: str, workers: int | None) -> Compute:
    """The engine of that name, with so many workers if that is said."""
    made = registry.make("engine", name)
    if workers is not None and "workers" not in registry.settings_of(made):
        raise UsageError(f"engine {name!r} reads no setting `workers`")
    return registry.replace(made, {} if workers is None else {"workers": workers})


def start(
    config: Config,
    *,
    compute: Compute,
    out: Path,
    name: str | None = None,
    task: Task | None = None,
    note: str | None = None,
    **looking: Any,
) -> Result:
    """Train as a config says; `looking` are `progress`, `callbacks` and `log`. `note` is said once it goes."""
    compute.validate()
    display, others = _onlookers(config, **looking)
    task = make_task(config, task)
    check_memory(config, task, make_policy(config, task))  # complain before a folder exists
    others += [Said(note)] if note else []
    with display, Run.create(config, out, name, precision(compute)) as run:
        try:
            return _go(config, run, compute, task, display, others)
        finally:
            run.remove_if_never_begun()


def resume(
    path: Result | Path | str,
    *,
    workers: int | None = None,
    engine: Compute | str | None = None,
    progress: bool = True,
    fork: bool = False,
    env: Any = None,
    trust_files: bool = False,
    callbacks: Callback | Callbacks | None = (),
    log: str | Sequence[str] | None = (),
    **settings: Unpack[Settings],
) -> Result:
    """Continue a run from its newest intact checkpoint, bit for bit as if it had never stopped.

    Settings may extend it (`steps`; a last batch that was cut to fit the old budget stays so) or change how often it
    evaluates and saves. Anything else needs `fork=True`, which copies the run into a new folder and continues there
    with the change. Your own strategies and environment have to be passed again (`env`, as it was given to `train`).
    If settings of its task name files, these are opened only with `trust_files=True`.
    """
    path = path.path if isinstance(path, Result) else path
    if str(path).startswith(zoo.PREFIX):
        raise UsageError(f"{path} is a policy without its training state: it can be played, not resumed")
    run, compute = _opened(path), compute_for(engine, workers)
    with run:
        run.lock()
        run.warn_of_versions(precision(compute))
        saved = load_newest(run.checkpoints)
        trained = run.config_of(saved[1]) if saved else run.config  # killed before its first checkpoint: begin again
        wanted = replace(trained, as_strategies(settings)).validate()
        differing = forbidden(trained, wanted)
        if differing and not fork:
            advice = "add `fork=True` to continue in a new folder with the change"
            raise UsageError(f"{differing} from what {str(path)!r} was trained with; {advice}")
        written = {name: text for name, text in trained.task_settings.items() if wanted.task_settings.get(name) == text}
        task = _task_of(wanted, env, {} if trust_files else written)
        display, others = _onlookers(wanted, progress, callbacks, log)
        done = saved[1].get("steps") if saved else 0
        nothing_left = wanted.steps < trained.steps and isinstance(done, int) and wanted.steps <= done
        if not differing and not nothing_left:
            run.update_config(wanted)
        with display, run.fork(wanted) if differing else run as going:
            return _go(wanted, going, compute, task, display, others)


def _onlookers(
    config: Config,
    progress: bool = True,
    callbacks: Callback | Callbacks | None = (),
    log: str | Sequence[str] | None = (),
) -> tuple[Callback, list[Any]]:
    """The display, which hears signals from before there is a folder, and the others: trackers' classes, callbacks."""
    looking = callbacks if isinstance(callbacks, Sequence) else [] if callbacks is None else [callbacks]
    for callback in looking:
        if not isinstance(callback, Callback):
            raise UsageError(f"callbacks are objects of classes derived from quell.Callback, not {callback!r:.80}")
    others = [*find_loggers([log] if isinstance(log, str) else log or ()), *looking]
    if not progress:
        return Callback(), others
    return Display(f"{config.task} {config.combination}", config.steps, cut=config.train_horizon), others


def _task_of(config: Config, env: Any, untrusted: Mapping[str, Any]) -> Task:
    """The environment that was passed, or the task that a run folder names, unless untrusted settings name files."""
    if env is not None:
        return make_task(config, tasks.from_given(env, config.horizon))
    refuse_files(untrusted, config.task)
    return make_task(config)


def _go(config: Config, run: Run, compute: Compute, task: Task, display: Callback, others: list[Any]) -> Result:
    """Train; the display has been entered, the others are made and entered here."""
    begun(resuming(run.path, config.task))
    with SavedAtExit() as saved_at_exit:
        with ExitStack() as stack:
            made = (other(run.path, config) if isinstance(other, type) else other for other in others)
            looking = [stack.enter_context(callback) for callback in made]
            run_training(config, run, compute=compute, callbacks=[display, saved_at_exit, *looking], task=task)
        return dataclasses.replace(_loaded(run, config.policy, task), signal=getattr(display, "signal", 0))


def load(
    path: Result | Path | str,
    *,
    at: int | None = None,
    checkpoint: Checkpoint = "newest",
    env: Any = None,
    policy: PolicySettings | None = None,
    trust_files: bool = False,
) -> Result:
    """A run's policy and history, from its newest intact checkpoint (or the newest up to iteration `at`).

    `path` is a run folder, a folder with runs (then the newest, which `result.path` names), a result, whose run is read
    again, or `zoo:NAME`, a policy that comes with quell. `checkpoint="best"` loads the policy with the best evaluation
    up to then. Pass your own `env` and `policy` as they were given to `train`. If settings of the task name files,
    these are opened only with `trust_files=True`, because a folder may come from anywhere.
    """
    if checkpoint not in get_args(Checkpoint):
        raise UsageError(f"`checkpoint={checkpoint!r}` must be newest or best")
    run = _opened(path)
    run.warn_of_versions()
    return _loaded(run, policy, env, at, checkpoint, trust_files=trust_files)


def _opened(path: Result | Path | str) -> Run:
    """The run that a path means: the folder itself, the newest run below it, or `zoo:NAME`; a result's own."""
    path = path.path if isinstance(path, Result) else path
    return Run.open(newest(zoo.located(registry.as_path("run", path)))[0])


def policy_of(given: "Result | TrainedPolicy | Path | str", env: Any = None) -> TrainedPolicy:
    """The policy of a result or of a run (a folder, `zoo:NAME`), or the one that was given; on `env`, if that is."""
    if isinstance(given, TrainedPolicy):
        found = given
    elif isinstance(given, Result):
        found = given.policy
    else:
        found = _opened_policy(given, env)
    return found if env is None else found.on(env)


def _opened_policy(path: Path | str, env: Any) -> TrainedPolicy:
    """A run's policy; where its environment was its user's own, `env` stands for it."""
    own = env is not None and is_users_own(_opened(path).config.task)
    return load(path, env=env if own else None).policy


def _loaded(
    run: Run,
    own: Any,
    env: Any,
    at: int | None = None,
    checkpoint: Checkpoint = "newest",
    *,
    trust_files: bool = False,
) -> Result:
    saved = load_newest(run.checkpoints, at_most=at)
    if saved is None:
        upto = "" if at is None else f" up to iteration {at}"
        raise UsageError(f"{shown(run.path)!r} has no intact checkpoint{upto}")
    config = replace(run.config_of(saved[1]), {"policy": own} if own else {})
    task = _task_of(config, env, {} if trust_files else config.task_settings)
    policy = make_policy(config, task)
    newest, best = learned(policy, saved)
    chosen = best if checkpoint == "best" else newest
    if chosen is None:
        raise UsageError(f"{shown(run.path)!r} has no best policy: it was not evaluated")
    history = [row for row in run.metrics() if row["iteration"] <= chosen.iteration]
    trained = TrainedPolicy(policy, chosen.theta, chosen.obs if config.normalise_obs else None, task)
    score = best.score if best else math.nan
    return Result(run.path, config, chosen.iteration, chosen.steps, trained, history, checkpoint, score)


def evaluate(
    run: Result | TrainedPolicy | Path | str,
    env: Any = None,
    *,
    episodes: int = 100,
    mean_action: bool = True,
    seed: int = 0,
    workers: int | None = None,
    engine: Compute | str | None = None,
) -> Rollouts:
    """Play new episodes with a policy; their random numbers come from `seed`, and training used none of them.

    `run` is what `train` or `load` returned, its policy, or what `load` takes: a folder, or `zoo:NAME`. `env` is the
    environment to play in, if not the one of training: a task's name, an environment, or a function that makes one.
    Actions are the mean (most likely) ones, as in every score that quell shows, or sampled (`mean_action=False`).
    """
    episodes, seed = registry.whole("episodes", episodes, least=1), registry.whole("seed", seed)
    trained = policy_of(run, env)
    problem = Problem(trained.policy, Unperturbed(), seed)
    with compute_for(engine, workers).make(trained.task, problem, members=episodes) as running:
        request = Episodes.unperturbed(0, episodes, Stream.FRESH, mean_action=mean_action)
        return running.rollout(trained.theta, request, trained.obs_stats).copied()
