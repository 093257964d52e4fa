"""What other libraries (Stable-Baselines3, RL Zoo, CleanRL, EvoTorch, evosax) call what is set here."""

from collections.abc import Callable, Collection

from quell.errors import as_flags

ELSEWHERE = {
    **{"algo": ("method",), "algorithm": ("method",), "env_kwargs": ("task_settings",), "optimizer": ("step",)},
    **dict.fromkeys(("total_timesteps", "n_timesteps", "timesteps", "num_timesteps", "n"), ("steps", "seconds")),
    **dict.fromkeys(("n_envs", "num_envs", "num_workers", "num_actors", "n_jobs", "num_threads"), ("workers", "jobs")),
    **dict.fromkeys(("save_path", "model_path", "f"), ("out",)),
    **dict.fromkeys(("learning_rate", "stepsize", "alpha", "center_learning_rate"), ("estimator.lr", "lr", "kl")),
    **dict.fromkeys(("popsize", "population_size", "n_delta"), ("pairs",)),
    **dict.fromkeys(("noise_std", "delta_std", "stdev", "stdev_init"), ("sigma",)),
    **dict.fromkeys(("n_steps", "num_steps"), ("batch_steps",)),
    **{"batch_size": ("minibatch", "batch_steps"), "n_epochs": ("epochs",), "update_epochs": ("epochs",)},
    **{"clip_range": ("clip",), "clip_coef": ("clip",), "target_kl": ("kl_stop", "kl"), "max_grad_norm": ("max_norm",)},
    **dict.fromkeys(("normalize", "obs_norm", "observation_normalization", "norm_obs"), ("normalise_obs",)),
    **{"callback": ("callbacks",), "gae_lambda": ("trace",), "net_arch": ("hidden",), "logger": ("log",)},
    **{"eval_freq": ("eval_every",), "n_eval_episodes": ("eval_episodes", "episodes")},
    **{"save_freq": ("checkpoint_every",), "max_episode_steps": ("horizon",), "log_dir": ("out",), "logdir": ("out",)},
    **{"n_trials": ("trials",), "n_seeds": ("seeds",)},
}
"""What a setting is called elsewhere -> what it may be called here, whichever of these the chosen strategies read."""

_CALLBACKS = ("`callbacks=[...]`", "callbacks are given in Python: quell.train(..., callbacks=[MyCallback()])")
_QUIET = ("`progress=False` hides the progress line", "the progress line goes to stderr: 2>/dev/null hides it")
_MEAN = (
    "training samples actions; `quell.evaluate` and `policy.predict(obs)` take the mean action",
    "training samples actions; `quell eval` and `quell play` take the mean action, or sample with --sample",
)
_TASK = (
    "the task comes first: quell.train('CartPole-v1', ...)",
    "the task comes first, without a flag: quell train CartPole-v1 --method ppo",
)
_CPU = (
    "`engine='device'` runs on accelerators, and `workers=4` sets the number of processes on a CPU",
    "--engine device runs on accelerators, and --workers 4 sets the number of processes on a CPU",
)
_TENSORBOARD = (
    "TensorBoard's files are always written, into the run's folder below `out`",
    "TensorBoard's files are always written, into the run's folder below --out",
)
_NETWORK = (
    "`hidden=[64, 64]` and `activation='tanh'` set the network",
    "--hidden 64 64 and --activation tanh set the network",
)
_RUN = ("a run records its method", "this takes the folder of a run, which records its method: quell eval runs")
_UNSEEN = ("nothing is rendered unless you make a film",) * 2
_RESUME = ("quell.resume(path) continues a run", "`quell resume RUN` continues a run")
_LIVE = ("`quell play RUN --live` shows a policy as it acts", "`quell play RUN --live` shows a policy as it acts")
_WANDB = ("`log='wandb'`", "--log wandb (needs the extra wandb)")
_TUNE = ("`quell tune TASK` searches for settings", "`quell tune TASK` searches for settings")
_FILE = (
    "`config='settings.toml'` reads settings from a file",
    "--config FILE reads settings, from TOML or config.json",
)
_ENTROPY = ("no method here has an entropy bonus; `init_std` sets how much actions vary at first",) * 2

REMARKS = {
    "pairs": ("a pair is two members of the population",) * 2,
    "kl": ("the divergence of a natural step",) * 2,
    **dict.fromkeys(("eval_every", "checkpoint_every"), ("counted in iterations",) * 2),
    "task_settings": ("task_settings={'is_slippery': False}", "--task-settings is_slippery false"),
}
"""What differs besides the name: in Python, and on the command line."""

SENTENCES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("callback", "callbacks"), _CALLBACKS),
    **dict.fromkeys(("verbose", "quiet", "progress_bar", "progress"), _QUIET),
    **dict.fromkeys(("deterministic", "stochastic"), _MEAN),
    **dict.fromkeys(("env", "env_id", "environment", "task"), _TASK),
    **dict.fromkeys(("algo", "algorithm"), _RUN),
    **dict.fromkeys(("no_render", "headless"), _UNSEEN),
    **dict.fromkeys(("device", "cuda", "gpu", "num_gpus"), _CPU),
    **dict.fromkeys(("tensorboard_log", "tensorboard"), _TENSORBOARD),
    **dict.fromkeys(("policy_kwargs",), _NETWORK),
    **dict.fromkeys(("trained_agent", "load", "load_path"), _RESUME),
    **dict.fromkeys(("render", "render_mode", "visualize"), _LIVE),
    **dict.fromkeys(("wandb", "track"), _WANDB),
    **dict.fromkeys(("optimize", "optimize_hyperparameters"), _TUNE),
    **dict.fromkeys(("conf_file", "hyperparams", "config_file"), _FILE),
    **dict.fromkeys(("ent_coef", "entropy_coef"), _ENTROPY),
}
"""Words without a setting of their own here -> what to do instead: in Python, and on the command line."""


POLICIES = dict.fromkeys(
    ("MlpPolicy", "MultiInputPolicy", "CnnPolicy", "MlpLstmPolicy"),
    "it follows from the environment's actions: leave it out (`hidden=[64, 64]` sets its network)",
)
"""What other libraries call a policy -> what to write."""

COMMANDS = {
    **dict.fromkeys(("enjoy", "watch", "render", "record"), "play"),
    **dict.fromkeys(("evaluate", "test"), "eval"),
    **dict.fromkeys(("plot", "plot_train", "plot-train", "logs", "tensorboard", "compare"), "report"),
    **dict.fromkeys(("optimize", "hyperopt", "optimise"), "tune"),
    **dict.fromkeys(("continue", "load"), "resume"),
    **{"learn": "train", "fit": "train", "run": "train", "save": "export", "info": "doctor", "check": "doctor"},
}
"""What other libraries call a command -> what it is called here."""

_OFF = "there are no methods with a replay buffer here; `ppo`, `trpo` and the default learn from new episodes"
_ES = "the evolution strategies here are `es`, `ars` and the default, natural-cv"
METHODS = {
    **dict.fromkeys(("sac", "td3", "ddpg", "dqn", "qrdqn", "tqc", "crossq"), _OFF),
    **dict.fromkeys(("pgpe", "snes", "xnes", "cem", "cma", "cmaes", "cma-es", "cosyne"), _ES),
    **dict.fromkeys(("a2c", "a3c", "acktr"), "its successor here is `ppo`"),
    "adam-cv": "it is now `mixed-cv`, with a different step",
    **dict.fromkeys(("openes", "open-es", "openai-es", "openaies"), "it is `es` here"),
}
"""Methods of other libraries -> what to use here."""

RESULT = {
    "predict": "result.policy.predict(obs), or result.policy(obs)",
    "learn": "quell.resume(result.path, steps=2_000_000) trains on",
    "save": "a run is saved during training, in result.path; quell.load(result.path) loads it",
    "get_env": "result.task is what it was trained on",
    "set_env": "quell.evaluate(result, env=...) plays elsewhere, and result.policy.on(env) acts there",
    "get_parameters": "result.theta",
    "policy_class": "result.config.policy",
    "logger": "result.history has every iteration's metrics",
    "num_timesteps": "result.steps",
}
"""What other libraries' models have -> where it is here."""


def called_here(name: str, known: Collection[str], shown: Callable[[str], str], *, flags: bool) -> str | None:
    """A sentence on what another library's word stands for here; None if it is unknown."""
    if there := [one for one in ELSEWHERE.get(name, ()) if one in known]:
        remark = REMARKS.get(there[0])
        return f"it is called {shown(there[0])} here{f' ({remark[flags]})' if remark else ''}"
    if name not in SENTENCES:
        return None
    return as_flags(SENTENCES[name][1]) if flags else SENTENCES[name][0]
