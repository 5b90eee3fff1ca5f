"""The multiplications of `tcgen05.mma` in the format of the compiled code, and the buffers for operands."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine.matrix.shapes import NUMBERS_ALONE, SIZE_B
from wsemu.machine.state import MULTIPLIES_FLOATS, MULTIPLIES_INTEGERS, SHAPE
from wsemu.model.isa import ROW
from wsemu.model.tensor_memory import FLOATS, INTEGERS

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCKS = 32
"""number of blocks of 8 columns in the widest product"""
ROWS_WRITTEN = BLOCKS * 4 * ROW
"""offset, after the registers of all columns of b, of a byte for each row of a"""
COLUMNS_WRITTEN = ROWS_WRITTEN + 128
"""offset of a byte for each column of b"""
FACTORS = COLUMNS_WRITTEN + 256
"""offset of the buffers for factors and sums"""
UNPACKED = FACTORS + 4096
"""offset of all columns of b, unpacked by blocks"""
FLAGS = UNPACKED + BLOCKS * SIZE_B
"""offset of the flags of each block"""
SPANS = FLAGS + BLOCKS
"""offset of the bits that the elements of each block have, as fixed-point numbers"""
SCRATCH_BYTES = SPANS + 8 * BLOCKS
OF_INTEGERS = 2 * len(FLOATS) ** 2
"""first row of integers; a row of floats is found by the types of a, b, and the sum"""
OF_SPARSE = OF_INTEGERS + len(INTEGERS) ** 2
"""first row of sparse products, whose b has twice the k"""


@functools.cache
def tensor_shapes() -> npt.NDArray[Any]:
    """Return a SHAPE for each pair of types, and type of a sum."""
    table = np.zeros(OF_SPARSE, SHAPE)
    table["halves"] = table["groups"] = 2
    for number, row in enumerate(table[:OF_INTEGERS]):
        of_a, of_b = (FLOATS[number // 2 // size % len(FLOATS)] for size in (len(FLOATS), 1))
        row["what"], row["bytes"] = MULTIPLIES_FLOATS, 4 if number & 1 else 2
        row["width"], row["parts"] = of_a.container, 32 // of_a.container
        row["byte"] = of_a.container == 8
        for name, element in (("a", of_a), ("b", of_b)):
            row[f"{name}_mantissa"], row[f"{name}_bias"] = element.mantissa, element.bias
            row[f"{name}_exponents"], row[f"{name}_dropped"] = (1 << element.exponent) - 1, element.dropped
            row[f"{name}_infinite"] = {0: NUMBERS_ALONE, 1: 0, 2: 1}[element.special]
    for number, row in enumerate(table[OF_INTEGERS:]):
        row["what"], row["bytes"], row["width"], row["parts"] = MULTIPLIES_INTEGERS, 4, 8, 4
        row["a_signed"], row["b_signed"] = number >> 1, number & 1
    sparse = table.copy()
    sparse["groups"] = 4
    return np.concatenate([table, sparse])
