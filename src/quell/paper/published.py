"""What the paper printed: its tables and figures, the runs each needs, and the scores, facts to compare with; and the
tables that ask why ours differ."""

import re
from dataclasses import dataclass

from quell.paper.columns import RUNAWAY, SELECTION, SHAPED

LABELS = {
    **{"lqr": "LQR", "swimmer": "Swimmer", "halfcheetah": "HalfCheetah", "walker2d": "Walker"},
    **{"roboschool-pong": "Pong(R)", "roboschool-halfcheetah": "HalfCheetah(R)", "bipedalwalker": "BipedalWalker"},
    **{"dm-cheetah-run": "Cheetah(DM)", "dm-pendulum-swingup": "Pendulum(DM)", "dm-cartpole-two-poles": "TwoPoles(DM)"},
    **{"dm-cartpole-swingup": "Swingup(DM)", "dm-cartpole-balance": "Balance(DM)"},
    **{"dm-hopper-hop": "HopperHop(DM)", "dm-hopper-stand": "Stand(DM)"},
    **{"dm-quadruped-walk": "AntWalk(DM)", "dm-quadruped-escape": "AntEscape(DM)"},
}
"""Our name of each of the 16 tasks -> the paper's, in the paper's order."""

_SCORES = """
task                   es       ortho     gcmc      qmc        cv       pg        ppo-paper trpo-paper det
lqr                    -176±12  -1337±573 -1246±502 -5634±1059 -143±4   -7243±275 -         -         -
swimmer                141±20   171±47    94±19     16±2       237±33   -132±5    11±7      11±7      191±100
halfcheetah            1339±178 1185±76   1375±58   -3466±338  1897±232 -180±4    -175±20   -174±16   1645±1298
walker2d               1155±34  1087±1    360±4     6±0        1476±112 282±25    657±291   657±292   1588±744
roboschool-pong        -5.0±0.8 -5.5±0.3  -10.6±0.4 -15.6±0.3  -3.0±0.3 -17±0.2   -17.1±0.4 -15.0±2.6 -10.4±5.4
roboschool-halfcheetah 595±42   685±34    68±8      11±2       709±16   12±0      14±2      13±3      502±199
bipedalwalker          25±9     107±31    -19±5     -70±3      105±40   -82±12    -66±39    -66±38    1±2
dm-cheetah-run         281±15   217±15    129±4     18±5       296±15   25±6      20±20     36±32     241±47
dm-pendulum-swingup    20±3     54±17     25±8      11±2       43±1     3±1       0.6±0.5   7.5±4.8   40±16
dm-cartpole-two-poles  159±13   158±2     196±12    62±12      245±29   14±1      264±46    42±52     190±58
dm-cartpole-swingup    394±15   369±22    414±31    67±14      406±26   55±10     -         -         -
dm-cartpole-balance    692±57   771±41    995±1     223±32     847±71   401±12    264±46    515±42    692±250
dm-hopper-hop          5.7±2.1  6.8±0.7   0.3±0.1   0.0±0.0    6.5±1.5  0.1±0.0   0.2±0.2   0.0±0.0   4.6±6.2
dm-hopper-stand        21±5     36±10     54±4      1.0±0.2    60±11    0.5±0.1   -         -         -
dm-quadruped-walk      200±19   234±10    82±11     133±9      239±10   100±11    96±36     180±41    192±20
dm-quadruped-escape    47±3     52±3      8±2       10±1       51±2     6±1       6±3       10±1      13±8
"""

_ABLATION = """
task                ppo-paper+s ppo-paper+a ppo-paper+s+a ppo-paper+s+m ppo-paper+a+m ppo-paper+s+a+m
swimmer             30    33    31      110     51      106
halfcheetah         126   67    192     1579    2414    1528
dm-pendulum-swingup 2     26    1       36      223     17
dm-cartpole-balance 308   278   386     652     771     750
dm-hopper-hop       0.5   0.4   0.6     0.3     46      46.4
dm-quadruped-walk   80    117   106     180     173     144
"""


def _read(table: str) -> dict[tuple[str, str], str]:
    (_, *methods), *lines = (line.split() for line in table.strip().splitlines())
    cells = ((task, method, word) for task, *words in lines for method, word in zip(methods, words, strict=True))
    return {(task, method): word for task, method, word in cells if word != "-"}


SCORES = _read(_SCORES) | _read(_ABLATION)
"""(task, method) -> '141±20' as printed, or the mean alone for PPO's variants."""
ABLATION_TASKS = tuple(dict.fromkeys(task for task, _ in _read(_ABLATION)))
PPO_METHODS = ("ppo-paper", *(f"ppo-paper+{switches}" for switches in ("s", "a", "s+a", "s+m", "a+m", "s+a+m")))
ES_METHODS = ("es", "ortho", "gcmc", "qmc", "cv")

SIX = (
    *("swimmer", "halfcheetah", "dm-cheetah-run", "dm-pendulum-swingup", "dm-cartpole-swingup"),
    "dm-cartpole-balance",
)
"""Of what the paper has no table of: tasks that take least time, gains of CV in the paper among them."""


@dataclass(frozen=True)
class Entry:
    """A table or figure."""

    title: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    """Columns: methods, and those of `columns.COLUMNS`."""
    shared: frozenset[str] = frozenset({"cv", "pg"})
    """Columns that other entries have too: alone they make no table of this one."""


ENTRIES = {
    "table-es": Entry("Final return: ES and its variants", tuple(LABELS), (*ES_METHODS, "pg")),
    "table-pg": Entry("Final return: policy gradients", tuple(LABELS), ("ppo-paper", "trpo-paper", "det", "cv", "pg")),
    "table-ppo": Entry(
        "Final return: what PPO owes to its extras",
        ABLATION_TASKS,
        (*PPO_METHODS, "cv"),
        frozenset({"cv", "ppo-paper"}),
    ),
    "table-cv": Entry(
        "Final return: CV with better coefficients and directions",
        SIX,
        ("es", "cv", *SHAPED),
        frozenset({"es", "cv"}),
    ),
    "table-runaway": Entry("Final return: why PG runs away", ("halfcheetah",), ("pg", *RUNAWAY), frozenset({"pg"})),
    "selection": Entry("How much is selection?", SIX, ("es", *SELECTION), frozenset({"es"})),
    "fig-curves": Entry("Learning curves", tuple(LABELS), ES_METHODS),
    "fig-improvement": Entry("Improvement over the untrained policy, ES = 1", tuple(LABELS), ES_METHODS),
}


def group_name(preset: str, label: str, budget: str) -> str:
    """The results folder of runs that belong together in `quell paper`: paper-1, paper-large-start-1000000."""
    return "-".join(filter(None, (preset, label, budget)))


def is_group(folder: str) -> bool:
    """Whether a results folder is named so."""
    return re.fullmatch(r"(paper|tuned)-.*[0-9.]", folder) is not None


def paper_steps(task: str) -> int:
    """The paper's budget."""
    return 4_000_000 if task.startswith("lqr") else 20_000_000


def label(task: str) -> str:
    """The paper's name of a task, else ours."""
    return LABELS.get(task, task)
