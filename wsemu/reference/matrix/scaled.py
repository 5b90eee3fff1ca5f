"""Products with scale factors of `mma.sync`, element by element (PTX ISA, "Block scaling for mma.sync")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.matrix import FORMATS
from wsemu.reference.matrix.tensor_sums import add_groups, add_products, float_value, scale_factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.model.matrix import Mma
    from wsemu.reference.matrix.tensor_sums import Number

_SPECIAL = {0: 1, 1: 2, 2: 0}
"""`infinite` of a format -> `special` of `float_value`"""


def _numbers(bits: Sequence[int], type_: str, width: int) -> list[Number]:
    found = FORMATS[type_]
    dropped = found.dropped - 8 + width  # elements of 4 bits have no bits below them
    return [
        float_value(one >> dropped, found.exponent, found.mantissa, found.bias, _SPECIAL[found.infinite])
        for one in bits
    ]  # fmt: skip


def scaled_elements(
    shape: Mma, rows: Sequence[Sequence[int]], b: Mapping[tuple[int, int], int], before: Mapping[tuple[int, int], int],
    factors: tuple[list[list[int]], list[list[int]]], *, fine: bool,
) -> dict[tuple[int, int], int]:  # fmt: skip
    """Return the bits of the elements of d.  `factors` has the bits for the rows of a, and for the columns of b."""
    left = [_numbers(row, shape.a, shape.width) for row in rows]
    right = [_numbers([b[k, j] for k in range(shape.k)], shape.b, shape.width) for j in range(shape.n)]
    of_a, of_b = ([[scale_factor(bits, fine=fine) for bits in some] for some in side] for side in factors)
    found = {}
    for (i, j), start in before.items():
        if shape.kind == "mxf4":
            repeat = 4 // len(of_a[i])
            first, second = ([one for one in some for _ in range(repeat)] for some in (of_a[i], of_b[j]))
            found[i, j] = add_groups(left[i], right[j], start, first, second)
        else:
            x, y = of_a[i][0], of_b[j][0]
            is_nan = bool(x.kind or y.kind)
            found[i, j] = add_products(left[i], right[j], start, "f32", x.exponent + y.exponent, is_nan=is_nan)
    return found
