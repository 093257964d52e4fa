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
from quell.cli import main
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


def test_envpools_episodes_are_drawn_by_gymnasium(tmp_path: Path) -> None:
    """A close-up: the walker, in shades of purple, is at least a third of it tall, and within it."""
    film(trained("bipedalwalker", tmp_path, horizon=10), tmp_path / "film.gif", seconds=0.2)
    frame = frames(tmp_path / "film.gif")[0].astype(int)
    assert frame.shape == (360, 540, 3)
    rows = np.flatnonzero(((frame[..., 0] > frame[..., 1] + 30) & (frame[..., 2] > frame[..., 1] + 30)).sum(axis=1) > 4)
    assert 120 < np.ptp(rows) < 300


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


def test_an_environment_that_needs_pygame_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's own advice is for its own extra; the renderer of MuJoCo has nothing to do with it."""
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UsageError, match=r"drawing this environment needs .* pip install 'quell\[video\]'"):
        film(quell.load("zoo:gym:CartPole-v1"), tmp_path / "film.gif", seconds=0.1)


def test_a_task_without_pictures_is_refused(tmp_path: Path) -> None:
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


FILLED = """
import sys
import quell
from films import masks, share
for name in sys.argv[1:]:
    print(name, min(map(share, masks(quell.load(f"zoo:{name}"), 3.0, 0.5, (160, 120)))))
"""


def filled(names: list[str]) -> None:
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    done = in_a_process_of_its_own("-c", f"import sys; sys.path.append({str(benchmarks)!r}){FILLED}", *names)
    shares = {name: float(share) for name, share in (line.split() for line in done.stdout.splitlines())}
    assert list(shares) == names
    assert min(shares.values()) > 1 / 3, shares


def test_the_robot_fills_a_third_of_the_picture() -> None:
    """Of its width or height, always: of a planar robot that runs, and of a pole that needs room to swing."""
    filled(["hopper", "dm-cartpole-swingup"])


@pytest.mark.slow
def test_every_robot_that_comes_with_quell_fills_a_third() -> None:
    import films

    from quell import zoo

    filled([name for name in zoo.names() if films.measured(name)])


DRESSED = """
import numpy as np
import quell
from quell.video import choose_renderer
choose_renderer(quell.task("halfcheetah"))
from quell.tasks.studio import dressed
for name in ("halfcheetah", "dm-quadruped-walk"):
    simulator = quell.task(name, horizon=5).simulator(1)
    simulator.reset([np.random.default_rng(0)])
    model = simulator.models[0]
    before, poses = model_bytes(model), [simulator.pose()] * 2
    for _ in simulator.pictures(poses, 20, 64, 48):
        pass
    assert model_bytes(model) == before, name
    assert model_bytes(dressed(model, 64, 48)) != before, name
"""
MODEL_BYTES = """
import mujoco
def model_bytes(model):
    buffer = __import__("numpy").zeros(mujoco.mj_sizeModel(model), "uint8")
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()
"""


def test_the_camera_and_the_floor_leave_the_physics_alone() -> None:
    """What a film changes about a model, it changes in a copy."""
    in_a_process_of_its_own("-c", MODEL_BYTES + DRESSED)


def test_pictures_come_evenly_whatever_the_length_of_a_step() -> None:
    """20 a second; a step of 0.03 s has its pictures interpolated, quaternions along the arc."""
    import mujoco

    from quell.tasks.studio import between

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    here, there = np.array([0, 0, 0, 1.0, 0, 0, 0]), np.array([2.0, 0, 0, np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    middle = between(model, here, there, 0.5)
    assert middle == pytest.approx([1, 0, 0, np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)])


def test_a_gif_has_one_palette_and_plays_at_the_speed_of_the_world(tmp_path: Path) -> None:
    result = trained("roboschool-pong", tmp_path, horizon=60)
    film(result, tmp_path / "film.gif", seconds=1, size=(64, 48))
    from PIL import Image

    with Image.open(tmp_path / "film.gif") as image:
        durations = []
        for number in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(number)
            durations.append(image.info["duration"])
    assert sum(durations) / 1000 == pytest.approx(1, abs=0.1)
    assert own_tables((tmp_path / "film.gif").read_bytes()) == 0, "a frame with colours of its own"


def own_tables(gif: bytes) -> int:
    """How many pictures of a GIF bring a table of colours: of its blocks, what starts with a comma is a picture."""
    at, count = 13 + (3 * (2 << (gif[10] & 7)) if gif[10] & 128 else 0), 0
    while gif[at] != ord(";"):
        if gif[at] == ord(","):
            flags = gif[at + 9]
            count += flags >> 7
            at += 11 + (3 * (2 << (flags & 7)) if flags & 128 else 0)
        else:
            at += 2
        while gif[at]:
            at += gif[at] + 1
        at += 1
    return count


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """SDL's dummy screen, and what is shown on it; the window is closed after some pictures."""
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shown: list[Any] = []
    flip = pygame.display.flip

    def seen() -> None:
        surface = pygame.display.get_surface()
        shown.append((pygame.display.get_caption()[0], pygame.surfarray.array3d(surface).swapaxes(0, 1)))
        if len(shown) == 12:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_q))
        flip()

    monkeypatch.setattr(pygame.display, "flip", seen)
    return shown


@pytest.mark.filterwarnings("ignore")  # of pygame's own imports
@pytest.mark.parametrize("task", ["lqr-302", "gym:CartPole-v1", "halfcheetah"])
def test_a_window_shows_what_a_film_has(
    task: str, screen: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Episode after episode, until it is closed."""
    result = trained(task, tmp_path, horizon=20)
    words = ["play", str(result.path), "--live", "--seconds", "0.3", "--size", "64", "48"]
    assert main(words) == 0
    assert f"{task} es: episode 1, return" in screen[0][0]
    assert "episode 2" in screen[-1][0]
    assert len(screen) == 12
    assert any(not np.array_equal(screen[0][1], picture) for _, picture in screen[1:6]), "something moves"
    assert all(picture.std() > 1 for _, picture in screen), "and is not one colour"
    out = capsys.readouterr().out
    assert "episodes shown (mean action)" in out
    assert "pygame" not in out
    assert not list(tmp_path.glob("*.mp4"))


def test_without_a_screen_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert main(["play", "zoo:swimmer", "--live"]) == 2
    said = capsys.readouterr().err
    assert "there is no screen here to open a window on (DISPLAY is not set): without --live" in said
    assert said.count("\n") == 1
    monkeypatch.setenv("DISPLAY", ":77")  # where nobody listens
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    assert main(["play", "zoo:swimmer", "--live"]) == 2
    assert "no window can be opened here" in capsys.readouterr().err


SKIES = """
import numpy as np
import quell
from quell.tasks.base import SKY
from quell.video import choose_renderer
choose_renderer(quell.task("halfcheetah"))
for name in ("halfcheetah", "inverted-pendulum"):
    simulator = quell.task(name, horizon=5).simulator(1)
    simulator.reset([np.random.default_rng(0)])
    (picture,) = simulator.pictures([simulator.pose()], 20, 64, 48)
    assert np.abs(picture[2, 2] - np.array(SKY)).max() < 20, (name, picture[2, 2])
"""


def test_behind_every_robot_is_a_sky() -> None:
    """Also where the model has none, which MuJoCo would draw black."""
    in_a_process_of_its_own("-c", SKIES)
