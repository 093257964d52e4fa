"""The only source of randomness: generators addressed by name, never by call order.

Every random number in a run is drawn from `generator(seed, purpose, *address)`, where the address is some of
(iteration, pair, sign). Two engines, any number of workers, and a run resumed after a kill therefore see the
same numbers, because no position in a shared stream matters.
"""

import functools
from enum import Enum, IntEnum
from typing import Any

import numpy as np


class Purpose(IntEnum):
    """What a stream of random numbers is for; part of its address."""

    INIT = 0  # initial theta
    DIRECTION = 1  # perturbations
    ENVIRONMENT = 2  # resets and process noise while training
    ACTION = 3  # the policy's own noise while training
    EVAL_ENVIRONMENT = 4  # evaluations during a run
    EVAL_ACTION = 5
    DISCOUNT = 6  # the gamma learner's perturbations
    FEATURES = 7  # a value function's random first layer
    FRESH_ENVIRONMENT = 8  # evaluations after a run
    FRESH_ACTION = 9
    MEASURE_DIRECTION = 10  # iterations repeated at a fixed policy
    MEASURE_ENVIRONMENT = 11
    MEASURE_ACTION = 12
    GAIN_ENVIRONMENT = 13  # episodes before and after a step
    GAIN_ACTION = 14
    STATES_ENVIRONMENT = 15  # episodes whose states stand for those the policy visits
    STATES_ACTION = 16
    CRITIC_INIT = 17  # a value network's initial weights
    CRITIC = 18  # the order it sees its data in
    EPOCHS = 19  # the order in which a batch is gone through several times
    TRACE = 20  # noise on rewards that are all the same
    OBSERVATION = 21  # noise on what is seen, inside a compiled program


class Stream(Enum):
    """Which randomness episodes meet: (environment, action noise, directions)."""

    TRAIN = (Purpose.ENVIRONMENT, Purpose.ACTION, Purpose.DIRECTION)
    EVALUATE = (Purpose.EVAL_ENVIRONMENT, Purpose.EVAL_ACTION, None)
    FRESH = (Purpose.FRESH_ENVIRONMENT, Purpose.FRESH_ACTION, None)
    MEASURE = (Purpose.MEASURE_ENVIRONMENT, Purpose.MEASURE_ACTION, Purpose.MEASURE_DIRECTION)
    GAIN = (Purpose.GAIN_ENVIRONMENT, Purpose.GAIN_ACTION, None)
    STATES = (Purpose.STATES_ENVIRONMENT, Purpose.STATES_ACTION, None)


def generator(seed: Any, purpose: Purpose, *address: int) -> np.random.Generator:
    """An independent generator for one address. Inside a compiled program, where the seed is a `root`, a `Traced`.

    The address goes through NumPy's SeedSequence hash, so neighbouring addresses (and neighbouring seeds)
    have unrelated streams. The words are those of `SeedSequence(seed, spawn_key=(purpose, *address))`, laid out here
    because NumPy takes half as long again over it, which shows when episodes are short.
    """
    if not isinstance(seed, int):
        return Traced(at(seed, purpose, *address))  # type: ignore[return-value]
    words = np.array([*_words(seed), purpose, *address], np.uint32)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))


class Traced:
    """What stands for a numpy.random.Generator inside a compiled program: other numbers of the same distributions."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def _next(self) -> Any:
        import jax

        self._key, key = jax.random.split(self._key)
        return key

    def standard_normal(self, size: Any = None, dtype: Any = None) -> Any:
        import jax

        return jax.random.normal(self._next(), _shape(size))

    def standard_exponential(self, size: Any = None, dtype: Any = None) -> Any:
        import jax

        return jax.random.exponential(self._next(), _shape(size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        import jax

        low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
        shape = np.broadcast_shapes(low.shape, high.shape) if size is None else _shape(size)
        return low + (high - low) * jax.random.uniform(self._next(), shape)


def root(seed: int) -> Any:
    """The JAX key that stands for a seed inside a compiled program: an argument of it, so that seeds share one."""
    import jax

    return functools.reduce(jax.random.fold_in, _words(seed), jax.random.key(0))


def traced_key(seed: Any, purpose: Purpose, iteration: Any) -> Any:
    """What stands for `generator(seed, purpose, iteration)` inside a compiled program: a JAX key, other numbers."""
    return at(root(seed) if isinstance(seed, int) else seed, purpose, iteration)


def at(key: Any, purpose: Any, *address: Any) -> Any:
    """The JAX key of an address."""
    import jax

    return functools.reduce(jax.random.fold_in, (purpose, *address), key)


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (size,) if np.ndim(size) == 0 else tuple(size)


@functools.lru_cache(maxsize=8)
def _words(seed: int) -> tuple[int, ...]:
    """A seed as 32-bit words, lowest first, at least four of them: there the address begins."""
    if seed < 0:
        raise ValueError(f"a seed is 0 or more, got {seed}")
    count = max(4, -(-seed.bit_length() // 32))
    return tuple(seed >> 32 * k & 0xFFFFFFFF for k in range(count))
