"""Checkpoints: exact, atomic, verified."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from quell.errors import UsageError
from quell.runs import checkpoint

RNG = np.random.default_rng(0)
ARRAYS = {
    "theta": RNG.standard_normal(100).astype(np.float32),
    "scalar": np.asarray(3.5),
    "count": np.asarray(7, np.int32),
    "wide": RNG.standard_normal((3, 4))[:, ::2],
}
STATE = {"iteration": 5, "seconds": 0.1 + 0.2}


def test_round_trip_is_exact(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 5, ARRAYS, STATE, keep=3)
    found = checkpoint.load_newest(tmp_path)
    assert found is not None
    arrays, state = found
    assert state == STATE
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        assert arrays[name].shape == value.shape
        assert (arrays[name] == value).all()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for iteration in (0, 10, 20, 30):
        checkpoint.save(tmp_path, iteration, ARRAYS, {"iteration": iteration}, keep=2)
    assert checkpoint.iterations(tmp_path) == [20, 30]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("seed", range(25))
def test_damage_anywhere_is_detected_and_the_previous_one_used(tmp_path: Path, seed: int) -> None:
    """A random file of the newest checkpoint, truncated, flipped in one bit, or removed."""
    rng = random.Random(seed)
    checkpoint.save(tmp_path, 1, ARRAYS, {"iteration": 1}, keep=3)
    newest = checkpoint.save(tmp_path, 2, ARRAYS, {"iteration": 2}, keep=3)
    victim = newest / rng.choice([checkpoint.ARRAYS, checkpoint.STATE, checkpoint.MANIFEST])
    data = bytearray(victim.read_bytes())
    how = rng.choice(["truncate", "flip", "remove"])
    if how == "remove":
        victim.unlink()
    elif how == "truncate":
        victim.write_bytes(data[: rng.randrange(len(data))])
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        victim.write_bytes(data)
    with pytest.warns(UserWarning, match="checkpoint skipped"):
        found = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert found[1]["iteration"] == 1


def test_nothing_intact(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, ARRAYS, STATE, keep=3)
    (path / checkpoint.MANIFEST).write_text(json.dumps([]))
    with pytest.raises(UsageError, match=r"no intact checkpoint; the newest: .* cannot be read"):
        checkpoint.load_newest(tmp_path)
    assert checkpoint.load_newest(tmp_path / "none") is None


def test_a_half_written_checkpoint_does_not_count(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, ARRAYS, {"iteration": 1}, keep=3)
    (tmp_path / ".00000002.tmp").mkdir()
    (tmp_path / ".00000002.tmp" / checkpoint.ARRAYS).write_bytes(b"half")
    found = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert found[1]["iteration"] == 1
    checkpoint.save(tmp_path, 2, ARRAYS, {"iteration": 2}, keep=3)
    assert checkpoint.iterations(tmp_path) == [1, 2]
