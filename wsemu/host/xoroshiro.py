"""`cuda.random`: the generators of Numba-CUDA, one state for each thread, with the same numbers for the same seed.

Algorithms: xoroshiro128+ and splitmix64, D. Blackman and S. Vigna, public domain (prng.di.unimi.it); the constants 55,
14, 36 of 2016.  State n + 1 starts 2**64 numbers after state n.  The functions that kernels call are plain Python of
the kernel dialect.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wsemu.model.device_array import DeviceArray

    States = npt.NDArray[Any]

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
_JUMP = 0xD86B048B86AA9922BEAC0467EBA5FACB
"""the polynomial that represents 2**64 steps"""
_TWO_PI_32, _TWO_PI_64 = np.float32(2 * math.pi), np.float64(2 * math.pi)

# -- in kernels ------------------------------------------------------------------------------------------------------


def _rotate_left(x: Any, bits: Any) -> Any:
    return (x << bits) | (x >> (64 - bits))


def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Return the next uint64 of a generator."""
    s0 = states[index]["s0"]
    s1 = states[index]["s1"]
    mixed = s0 ^ s1
    states[index]["s0"] = _rotate_left(s0, 55) ^ mixed ^ (mixed << 14)
    states[index]["s1"] = _rotate_left(mixed, 36)
    return s0 + s1


def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Return a float64 from 0 (inclusive) to 1 (exclusive)."""
    return (xoroshiro128p_next(states, index) >> 11) * (1.0 / 9007199254740992.0)


def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Return a float32 from 0 to 1 (inclusive): a float64, rounded."""
    return np.float32(xoroshiro128p_uniform_float64(states, index))


def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Return a normally distributed float64, by Box and Muller; this uses two numbers of the generator."""
    radius = xoroshiro128p_uniform_float32(states, index)  # float32, as in Numba-CUDA
    angle = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(-2.0 * math.log(radius)) * math.cos(_TWO_PI_64 * angle)


def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Return a normally distributed float32, by Box and Muller; this uses two numbers of the generator."""
    radius = xoroshiro128p_uniform_float32(states, index)
    angle = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(np.float32(-2.0) * math.log(radius)) * math.cos(_TWO_PI_32 * angle)


# -- on the host -----------------------------------------------------------------------------------------------------

Words = npt.NDArray[np.uint64]
"""states, one per row: s0, s1.  A jump is a linear map of the bits; row b of its matrix is the image of bit b"""


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: object = 0) -> DeviceArray:
    """Return a device array with the states of `n` generators."""
    from wsemu.model.device_array import device_array

    states = device_array(n, xoroshiro128p_dtype)
    init_xoroshiro128p_states(states, seed, subsequence_start)
    return states


def init_xoroshiro128p_states(states: States, seed: int, subsequence_start: int = 0, stream: object = 0) -> None:
    """Set the states of all generators; the first one starts after `subsequence_start` times 2**64 numbers."""
    if states.size == 0:
        return
    first = _splitmix_step(int(seed))
    jump = _jump_matrix()
    words = np.array([[first, first]], np.uint64)
    power, start = jump, int(subsequence_start)
    while start:
        words = _apply_matrix(power, words) if start & 1 else words
        power, start = _apply_matrix(power, power), start >> 1
    # double the states: each copy is ahead of its original by the number of states so far
    while len(words) < states.size:
        words, jump = np.concatenate([words, _apply_matrix(jump, words)]), _apply_matrix(jump, jump)
    states["s0"], states["s1"] = words[: states.size, 0], words[: states.size, 1]


def _splitmix_step(seed: int) -> int:
    """Return the next number of splitmix64."""
    mask = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


def _apply_matrix(matrix: Words, words: Words) -> Words:
    """Return the states after a linear map of their bits."""
    result = np.zeros_like(words)
    for bit in range(128):
        chosen = (words[:, bit // 64] >> np.uint64(bit % 64)) & np.uint64(1)
        result ^= chosen[:, None] * matrix[bit]
    return result


def _jump_matrix() -> Words:
    """Return the matrix of a jump of 2**64 numbers."""
    bits = np.zeros((128, 2), np.uint64)
    for bit in range(128):
        bits[bit, bit // 64] = np.uint64(1) << np.uint64(bit % 64)
    result = np.zeros_like(bits)
    for step in range(128):
        if _JUMP >> step & 1:
            result ^= bits
        s0, mixed = bits[:, 0], bits[:, 0] ^ bits[:, 1]
        left = (s0 << np.uint64(55)) | (s0 >> np.uint64(9))
        right = (mixed << np.uint64(36)) | (mixed >> np.uint64(28))
        bits = np.stack([left ^ mixed ^ (mixed << np.uint64(14)), right], axis=1)
    return result
