"""The only source of randomness: generators addressed by name, never by call order.

Every random number in a run is drawn from `generator(seed, purpose, *address)`, where the address is some of
(iteration, pair, sign). Two engines, any number of workers, and a run resumed after a kill therefore see the
same numbers, because nobody's position in a shared stream matters.
"""

from __future__ import annotations

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
    have unrelated streams.
    """
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=(int(purpose), *address))
    return np.random.Generator(np.random.SFC64(sequence))
