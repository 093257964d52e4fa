"""Films: of every kind of task, in both formats, of the episode that `quell eval` plays first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
import quell.errors
from quell.errors import UsageError
from quell.tasks.foreign.gym import from_env
from quell.video import film

pytestmark = pytest.mark.usefixtures("in_process")


def frames(path: Path) -> list[Any]:
    from PIL import Image, ImageSequence

    with Image.open(path) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


def trained(task: Any, out: Path, **settings: Any) -> quell.Result:
    small: dict[str, Any] = {"pairs": 1, "batch_steps": 0, "steps": 1, "eval_episodes": 1, "workers": 1, "method": "es"}
    return quell.train(task, out=out, progress=False, **small, **settings)


@pytest.mark.parametrize("task", ["lqr-302", "roboschool-pong", "roboschool-halfcheetah", "gym:CartPole-v1"])
@pytest.mark.parametrize("sample", [False, True])
def test_a_film_is_the_first_episode_of_an_evaluation(task: str, sample: bool, tmp_path: Path) -> None:
    result = trained(task, tmp_path, horizon=60)
    total = film(result, tmp_path / "film.gif", seed=3, sample=sample, seconds=1, size=(64, 48))
    played = quell.evaluate(result, episodes=1, seed=3, mean_action=not sample, workers=1)
    assert total == pytest.approx(played.returns[0])
    shown = frames(tmp_path / "film.gif")
    assert len(shown) > 3
    assert not np.array_equal(shown[0], shown[-1]), "something moves"


def draws(render_mode: str | None = None) -> Any:
    """An environment of one's own that takes a render_mode."""
    import gymnasium

    return gymnasium.make("CartPole-v1", render_mode=render_mode)


def draws_nothing() -> Any:
    return draws()


def test_environments_of_ones_own(tmp_path: Path) -> None:
    """The function that makes it is asked for pictures, if it can be; else the message says what is missing."""
    task = from_env(draws)
    film(trained(task, tmp_path), tmp_path / "film.gif", seconds=0.2)
    assert frames(tmp_path / "film.gif")[0].shape == (400, 600, 3), "in its own size"
    silent = from_env(draws_nothing)
    with pytest.raises(UsageError, match="takes no `render_mode`"):
        film(trained(silent, tmp_path), tmp_path / "film.gif")


@pytest.mark.filterwarnings("ignore")  # of JAX, about the fork that starts ffmpeg
def test_gif_needs_no_ffmpeg_and_mp4_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = trained("lqr-302", tmp_path, horizon=10)
    film(result, tmp_path / "film.mp4", size=(32, 32))
    assert (tmp_path / "film.mp4").stat().st_size > 500
    monkeypatch.setitem(quell.errors.EXTRAS, "video", "no_such_module")
    film(result, tmp_path / "film.gif", size=(32, 32))
    assert len(frames(tmp_path / "film.gif")) > 2
    with pytest.raises(UsageError, match=r"a .gif needs Pillow alone.*pip install 'quell\[video\]'"):
        film(result, tmp_path / "film.mp4")


def test_what_has_no_pictures_says_so(tmp_path: Path) -> None:
    from linear_gaussian import LinearGaussian

    task = LinearGaussian()
    with pytest.raises(UsageError, match="has nothing to show"):
        film(trained(task, tmp_path), tmp_path / "film.gif")


def in_a_process_of_its_own(*words: str) -> subprocess.CompletedProcess[str]:
    """Python with these words, where no renderer has been chosen yet; skips if there is none."""
    environment = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=120)
    if "no off-screen renderer works" in done.stderr and "drawing failed" not in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done


def test_mujoco_in_a_process_of_its_own(tmp_path: Path) -> None:
    """As `quell play` does it: the renderer is chosen before MuJoCo is imported."""
    result = trained("swimmer", tmp_path, horizon=20)
    words = ["play", str(result.path.parent), "--video", str(tmp_path / "film.gif"), "--seconds", "0.4"]
    done = in_a_process_of_its_own("-m", "quell", *words, "--size", "64", "48")
    assert f"the newest of 1 run in {result.path.parent}: {result.path}" in done.stderr
    assert frames(tmp_path / "film.gif")[0].shape == (48, 64, 3)


TRAIN_AND_FILM = """
import sys
from pathlib import Path
import quell
from quell.video import film
out = Path(sys.argv[1])
settings = dict(pairs=1, batch_steps=0, steps=1, eval_episodes=1, workers=1, method="es", horizon=20)
result = quell.train("swimmer", out=out, progress=False, **settings)
assert "mujoco" not in sys.modules, "physics is the workers' business"
import mujoco  # as a program may that does more than train; without a screen its default is no renderer
film(result, out / "film.gif", seconds=0.4, size=(64, 48))
"""


def test_a_film_after_training_in_the_same_process(tmp_path: Path) -> None:
    """MuJoCo learns how to draw when it is imported: looking for tasks and engines, and training, must not do that."""
    in_a_process_of_its_own("-c", TRAIN_AND_FILM, str(tmp_path))
    assert frames(tmp_path / "film.gif")[0].shape == (48, 64, 3)
