"""What a person sees: on a terminal, and where there is none."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import time

import pytest
import rich.console

import quell.training.display
from quell.terminal import campaign, numbers, progress, stopping, tables
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.progress import counter
from quell.terminal.streams import say
from quell.training.display import Display


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 160 columns that keeps what it shows."""
    text = io.StringIO()

    def console(stderr: bool = False, width: int = 160) -> rich.console.Console:
        return rich.console.Console(file=text, force_terminal=True, width=width)

    for module in (progress, tables):
        monkeypatch.setattr(module, "Console", console)
    return text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in clock[0]."""
    now = [1000.0]
    for module in (quell.training.display, campaign):
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def row(steps: float, **more: float) -> dict[str, float]:
    return {"steps": steps, "return/mean": 12.345678, "speed": 5000.0, "trouble/total": 0.0, **more}


# One run


def test_plain_lines_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Display("hopper cv", 1000, plain=True) as display:
        display.on_iteration(row(100))
        clock[0] += 5
        display.on_iteration(row(200, **{"eval/return": 20.0, "eval/mean_action": 30.0, "trouble/flat": 1.0}))
        clock[0] += 5
        variances = {"variance/es": 2.0, "variance/method": 1.0, "variance/ratio": 0.5}
        display.on_iteration(row(300, **variances, **{"trouble/total": 2.0}))
        display.on_iteration(row(1100, **{"trouble/flat": 1.0}))
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "hopper cv  10%  100 steps  return 12.35  5,000 steps/s"
    assert second == "hopper cv  30%  300 steps  ETA 0:00:35  return 12.35  eval 30  5,000 steps/s  trouble 2"
    assert last.startswith("hopper cv 100%  1,100 steps  ETA 0:00:00  return 12.35"), "the last row is always shown"
    assert last.endswith("5,000 steps/s  every episode the same")


def test_the_return_of_cut_episodes_says_how_long_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with Display("halfcheetah cv", 1000, cut=100, plain=True) as display:
        display.on_iteration(row(1000))
    assert "return 12.35 of 100 steps  5,000 steps/s" in capsys.readouterr().err


def test_the_time_left_does_not_count_compilation(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """The first two iterations compile: nothing is said until the third, and then by the speed since the second."""
    with Display("hopper cv", 1000, plain=True) as display:
        for steps, seconds in ((100, 60), (200, 30), (300, 10), (400, 10)):
            clock[0] += seconds
            display.on_iteration(row(steps, speed=1.0))
    lines = [line.partition("steps  ")[2] for line in capsys.readouterr().err.splitlines()]
    assert [line.partition("  return")[0] for line in lines] == ["return 12.35  1 steps/s"] * 2 + [
        "ETA 0:01:10",
        "ETA 0:01:00",
    ]


def test_a_resumed_run_is_not_credited_with_earlier_steps(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Display("hopper cv", 1000, plain=True) as display:
        for steps in (700, 800, 900):
            display.on_iteration(row(steps))
            clock[0] += 10
    assert "900 steps  ETA 0:00:10" in capsys.readouterr().err


def test_a_live_bar(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with Display("hopper [cv]", 1000, plain=False) as display:
        display.on_iteration(row(400, **{"eval/mean_action": 30.0}))
    shown = screen.getvalue()
    assert "hopper" in shown
    assert "400/1000" in shown
    assert "40%" in shown
    assert "eval 30" in shown
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("title", ["hopper cv", "dm-cartpole-swingup cv", "roboschool-halfcheetah ppo+s+a+m"])
def test_eighty_columns_show_steps_and_eta(
    title: str, screen: io.StringIO, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = rich.console.Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda stderr: narrow)
    with Display(title, 1_000_000, plain=False) as display:
        for steps in (404_000, 408_000, 412_000):
            display.on_iteration(row(steps, **{"eval/mean_action": 30.0}))
            clock[0] += 1
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue()).strip().splitlines()[-1]
    assert len(last) <= 80
    for shown in (title, "41%", "412000/1000000", "ETA 0:02:27"):
        assert shown in last


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Display("a", 10, plain=True) as display:
        assert not display.stop_requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert display.stop_requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_target_that_is_reached_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Display("hopper cv", 1000, plain=True) as display:
        display.on_iteration(row(100))
        display.on_iteration(row(200, **{"eval/return": 30.0, "eval/mean_action": 41.0, "eval/reached": 0.0}))
        display.on_iteration(row(300, **{"eval/return": 30.0, "eval/mean_action": 51.0, "eval/reached": 1.0}))
    first, last = capsys.readouterr().err.splitlines()
    assert "target" not in first
    assert "300 steps" in last
    assert "target reached with 51" in last


# Many runs


def test_a_line_per_finished_run(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with CampaignDisplay({"a": 30.0, "b": 10.0, "c": 20.0}, plain=True) as display:
        display.started("a")
        display.started("b")
        display.moved("a", 500, 1000)
        clock[0] += 10
        display.ended("b", "done")
        display.ended("a", "failed", "no [such] thing")
        display.ended("c", "stopped")
        display.say("stopping")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "1/3 b done  ETA 0:00:14",  # 15 + 10 of 60 expected seconds in 10
        "2/3 a FAILED: no [such] thing  ETA 0:00:05",
        "stopping",
    ]


def test_bars_for_the_runs_at_work(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with CampaignDisplay({"swimmer es": 30.0, "swimmer cv": 30.0}, plain=False) as display:
        display.started("swimmer es")
        display.started("swimmer cv")
        display.moved("swimmer es", 250, 1000)
        display.ended("swimmer cv", "failed", "no [such] thing")
        assert [task.description for task in display.tasks] == ["[bold]all runs", "swimmer es"]
        assert display.tasks[0].completed == pytest.approx(0.25 * 30 + 30)
        display.ended("swimmer es", "done")
    shown = screen.getvalue()
    assert "swimmer cv FAILED: no [such] thing" in shown
    assert "2/2 runs  ETA 0:00:00  1 failed" in shown
    assert capsys.readouterr().err == ""


# A line that counts, columns, numbers


def test_counter(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (False, True):
        with counter(shown=shown) as tell:
            tell("episodes", 3, 40)
            time.sleep(0.2 * shown)  # which the line takes to be drawn again
        assert ("episodes: 3 of 40" in screen.getvalue()) == shown
    assert capsys.readouterr() == ("", "")


def test_plain_tables(capsys: pytest.CaptureFixture[str]) -> None:
    long = "long " * 40
    tables.show(("<task", "steps", "<note"), [("lqr", "1,000", "[0.1, 2]"), ("swimmer", "2", long)])
    assert capsys.readouterr().out.splitlines() == [
        "task     steps  note",
        "lqr      1,000  [0.1, 2]",
        f"swimmer      2  {long.rstrip()}",
    ]


def test_tables_on_a_terminal(screen: io.StringIO) -> None:
    tables.show(("<task", "steps"), [("lqr" * 100, "1,000")])
    assert "\x1b[1mtask" in screen.getvalue()
    assert "lqr" * 100 + "  1,000" in screen.getvalue(), "nothing is cut off"


def test_numbers_as_printed() -> None:
    assert [numbers.score(x) for x in (141.4, -5.04, 19.96, -3.7e37)] == ["141", "-5.0", "20.0", "-3.7e37"]
    assert [numbers.steps(n) for n in (20_000_000, 1_000_000, 123_456)] == ["2e7", "1e6", "123,456"]
    assert [numbers.size(n) for n in (41_600, 999_400, 1_250_000)] == ["42 kB", "999 kB", "1.2 MB"]
    assert (numbers.clock(3723), numbers.clock(200_000)) == ("1:02:03", "2 d 7 h")


def test_two_signals_that_arrive_together_are_two() -> None:
    heard: list[tuple[str, int]] = []
    mouth, ears = socket.socketpair()
    listener = stopping.Listener()
    listener.first, listener.second = (lambda n: heard.append(("first", n))), (lambda n: heard.append(("second", n)))
    mouth.send(bytes([signal.SIGTERM, signal.SIGCHLD, signal.SIGTERM]))
    mouth.close()
    listener.listen(ears)
    ears.close()
    assert heard == [("first", signal.SIGTERM), ("second", signal.SIGTERM)]


def test_colours_of_a_message_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    say("\x1b[33mWARN: out of date\x1b[0m \x07")
    assert capsys.readouterr().err == "WARN: out of date ?\n"
