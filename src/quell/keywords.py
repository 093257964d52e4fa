"""The settings that `quell.train` and `quell.resume` take, for type checkers and editors.

Made from the strategies' fields by `python docs/make_keywords.py`. A setting is called by its last name here (`lr`,
`sigma`); nested ones are mappings, or have their dots: `**{"estimator.coefficients.decay": 0.9}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from quell.estimate import Estimator
from quell.estimate.control_variate.coefficients import Coefficients
from quell.estimate.control_variate.columns import Columns
from quell.estimate.control_variate.discount import Discount
from quell.estimate.critic import Critic
from quell.perturb import Kind
from quell.policy import PolicySettings


class Settings(TypedDict, total=False):
    """What a run is trained with; `quell train TASK --show` has what each means and its value."""

    actions: Literal["as-is", "clip", "scale"]
    activation: Literal["relu", "tanh"]
    allow: float
    b1: float
    b2: float
    baseline: Literal["none", "leave-one-out"]
    batch_steps: float
    checkpoint_every: float
    clip: float
    coefficients: Coefficients | Mapping[str, Any] | str
    columns: Columns | Mapping[str, Any] | str
    critic: Critic | Mapping[str, Any] | str
    damping: float
    decay: float
    delay: float
    directions: Kind | Mapping[str, Any] | str
    discount: Discount | Mapping[str, Any] | str
    doubt: float
    epochs: float
    eps: float
    estimator: Estimator | Mapping[str, Any] | str
    eval_episodes: float
    eval_every: float
    floor: float
    frame_skip: float
    gamma: float
    gammas: Sequence[float] | float | str
    hidden: Sequence[float] | float | str
    hide: Sequence[float] | float | str
    horizon: float | None
    init_std: float
    keep_checkpoints: float
    kept: float
    kl: float
    kl_penalty: float
    kl_stop: float
    lean: float
    learn_std: bool
    least: float | None
    line_search: bool
    longest: float
    lr: float
    max_norm: float
    max_trouble: float
    mean_actions: bool
    memory: float
    metric: Literal["parameters", "step"]
    minibatch: float
    nats: float | float | None
    normalise_advantages: bool
    normalise_obs: bool
    obs_noise: float
    output_scale: float
    pairs: float
    per: Literal["layer", "whole"]
    per_step: float
    policy: PolicySettings | Mapping[str, Any] | str
    quiet: float
    rank: float
    rate: float
    schedule: Literal["constant", "linear"]
    seed: float
    shaping: (
        Literal["normalise", "none"]
        | Literal["normalise", "ranks", "none", "past"]
        | Literal["normalise", "ranks", "none"]
    )
    shared_noise: bool
    shared_reset: bool
    shift: bool
    shrinkage: float
    sigma: float
    start: float
    step: Any
    steps: float
    strict: float
    target: float | None
    task_settings: Mapping[str, Any]
    top: float
    trace: float
    train_horizon: float
    updates: float
    value: float
