"""The scores the paper printed: facts, the reference for every reproduction."""

STEPS = 20_000_000
LQR_STEPS = 4_000_000

LABELS = {
    **{"lqr": "LQR", "swimmer": "Swimmer", "halfcheetah": "HalfCheetah", "walker2d": "Walker"},
    **{"roboschool-pong": "Pong(R)", "roboschool-halfcheetah": "HalfCheetah(R)", "bipedalwalker": "BipedalWalker"},
    **{"dm-cheetah-run": "Cheetah(DM)", "dm-pendulum-swingup": "Pendulum(DM)", "dm-cartpole-two-poles": "TwoPoles(DM)"},
    **{"dm-cartpole-swingup": "Swingup(DM)", "dm-cartpole-balance": "Balance(DM)"},
    **{"dm-hopper-hop": "HopperHop(DM)", "dm-hopper-stand": "Stand(DM)"},
    **{"dm-quadruped-walk": "AntWalk(DM)", "dm-quadruped-escape": "AntEscape(DM)"},
}
"""Our name of each of the 16 tasks -> the paper's, in the paper's order."""

_COLUMNS = ("es", "ortho", "gcmc", "qmc", "cv", "pg", "ppo", "trpo", "det")
_SCORES = """
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

ABLATION_TASKS = (
    *("swimmer", "halfcheetah", "dm-pendulum-swingup", "dm-cartpole-balance", "dm-hopper-hop", "dm-quadruped-walk"),
)
_ABLATION = """
ppo       11  -175 0.6 264 0.2  96
ppo+s     30  126  2   308 0.5  80
ppo+a     33  67   26  278 0.4  117
ppo+s+a   31  192  1   386 0.6  106
ppo+s+m   110 1579 36  652 0.3  180
ppo+a+m   51  2414 223 771 46   173
ppo+s+a+m 106 1528 17  750 46.4 144
"""


def paper_steps(task: str) -> int:
    """The paper's budget."""
    return LQR_STEPS if task.startswith("lqr") else STEPS


def label(task: str) -> str:
    """The paper's name of a task, else ours."""
    return LABELS.get(task, task)


def score(task: str, method: str) -> str | None:
    """'141±20' as printed, or the mean alone for PPO's variants; None where the paper has no number."""
    return SCORES.get((task, method))


def _read() -> dict[tuple[str, str], str]:
    scores: dict[tuple[str, str], str] = {}
    for line in _ABLATION.strip().splitlines():
        method, *words = line.split()
        scores |= {(task, method): word for task, word in zip(ABLATION_TASKS, words, strict=True)}
    for line in _SCORES.strip().splitlines():
        task, *words = line.split()
        scores |= {(task, method): word for method, word in zip(_COLUMNS, words, strict=True) if word != "-"}
    return scores


SCORES = _read()
"""(task, method) -> the printed score."""
