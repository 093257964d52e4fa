"""The only source of randomness: generators addressed by name, never by call order.

Every random number in a run is drawn from `generator(seed, purpose, *address)`, where the address is some of
(iteration, pair, sign). Two engines, any number of workers, and a run resumed after a kill therefore see the
same numbers, because nobody's position in a shared stream matters.
"""

from __future__ import annotations

import functools
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream of random numbers is for; part of its address."""

    INIT = 0  # initial theta
    DIRECTION = 1  # perturbations
    ENVIRONMENT = 2  # resets and process noise while training
    ACTION = 3  # the policy's own noise while training
    EVAL_ENVIRONMENT = 4
    EVAL_ACTION = 5
    DISCOUNT = 6  # the gamma learner's perturbations
    FEATURES = 7  # a value function's random first layer


def generator(seed: int, purpose: Purpose, *address: int) -> np.random.Generator:
    """An independent generator for one address.

    The address goes through NumPy's SeedSequence hash, so neighbouring addresses (and neighbouring seeds)
    have unrelated streams. The words are those of `SeedSequence(seed, spawn_key=(purpose, *address))`, laid out here
    because NumPy takes half as long again over it, which shows when episodes are short.
    """
    words = np.array([*_words(seed), purpose, *address], np.uint32)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))


@functools.lru_cache(maxsize=8)
def _words(seed: int) -> tuple[int, ...]:
    """A seed as 32-bit words, lowest first, at least four of them: there the address begins."""
    if seed < 0:
        raise ValueError(f"a seed is 0 or more, got {seed}")
    count = max(4, -(-seed.bit_length() // 32))
    return tuple(seed >> 32 * k & 0xFFFFFFFF for k in range(count))
