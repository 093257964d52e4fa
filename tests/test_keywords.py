"""The settings of `quell.train` as a type checker sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import make_keywords
import pytest


def test_the_module_is_what_the_strategies_define() -> None:
    assert make_keywords.TARGET.read_text() == make_keywords.text(), "run: python docs/make_keywords.py"


@pytest.mark.slow
def test_a_type_checker_knows_the_settings(tmp_path: Path) -> None:
    """A misspelt one and one of another type are errors; whole numbers may be written 1e6."""
    (tmp_path / "fine.py").write_text(
        "import quell\n"
        "quell.train('swimmer', steps=1e6, lr=0.1, hidden=(64, 64), estimator=quell.Es(), step='adam')\n"
        "quell.train('swimmer', estimator={'name': 'es'}, policy={'hidden': [8]})\n"
    )
    for wrong in ("stepz=1000", "normalise_obs='yes'", "schedule='cubic'", "estimator=3", "coefficients=0.5"):
        (tmp_path / "wrong.py").write_text(f"import quell\nquell.train('swimmer', {wrong})\n")
        command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", str(tmp_path / "wrong.py")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert "wrong.py:2: error" in done.stdout, (wrong, done.stdout)
    command[-1] = str(tmp_path / "fine.py")
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert "fine.py" not in done.stdout
