"""Addresses of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from quell.keys import Purpose, generator


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**64 + 3, 2**128 + 5])
@pytest.mark.parametrize("address", [(), (0,), (3, 4, 1), (2**32 - 1, 7)])
def test_streams_are_those_of_numpys_spawn_keys(seed: int, address: tuple[int, ...]) -> None:
    sequence = np.random.SeedSequence(seed, spawn_key=(int(Purpose.ACTION), *address))
    expected = np.random.Generator(np.random.SFC64(sequence))
    assert (generator(seed, Purpose.ACTION, *address).random(8) == expected.random(8)).all()


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        generator(-1, Purpose.INIT)
