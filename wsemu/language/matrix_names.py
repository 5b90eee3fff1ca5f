"""The matrix instructions of `wsemu.ptx`: multiplications of a warp, and moves of matrices between lanes."""

from __future__ import annotations

from typing import Final

from wsemu.language.markers import functions
from wsemu.model.matrix import MMA, Mma

_WARP = "All lanes of the warp execute it together."


def _name(shape: Mma) -> str:
    how = "" if shape.combine == "mul" else f"_{shape.combine}_popc"
    return f"mma_m{shape.m}n8k{shape.k}_{shape.d}_{shape.a}_{shape.b}_{shape.c}{how}"


def _text(shape: Mma, *, clamped: bool = False) -> str:
    """Return the instruction without operands."""
    how = "" if shape.combine == "mul" else f".{shape.combine}.popc"
    types = f"{shape.d}.{shape.a}.{shape.b}.{shape.c}"
    return f"mma.sync.aligned.m{shape.m}n8k{shape.k}.row.col{'.satfinite' * clamped}.{types}{how}"


MULTIPLICATIONS: Final = {
    f"{_name(shape)}{'_satfinite' * clamped}": (shape, clamped, _text(shape, clamped=clamped))
    for shape in MMA.values()
    if (shape.m == 16 or shape.a not in ("f16", "bf16")) and not (shape.sparse or shape.kind)
    for clamped in ((False, True) if shape.d == "s32" and shape.a != "b1" else (False,))
}
"""name -> (shape, whether sums are clamped, PTX)"""
REGISTER: Final = {"f32": "float32", "f16": "uint32", "s32": "int32", "f64": "float64"}
"""type of an accumulator -> number type of its registers"""


def operand_type(shape: Mma) -> str:
    """Return the type of a register of `a` and `b`."""
    return "float64" if shape.a == "f64" else "uint32"


def _doc(name: str) -> str:
    shape, clamped, text = MULTIPLICATIONS[name]
    _, of_a, of_b, of_c = shape.counts
    kind = operand_type(shape)
    sums = f"{of_c} {REGISTER[shape.c]}"
    more = ", clamped to the range of int32" if clamped else ""
    return (
        f"a b + c of the warp{more}: a tuple of {sums}, as `c` is; `a` has {of_a} {kind}, `b` {of_b}, the lane's "
        f"fragments as PTX has them.  {_WARP}  [PTX: {text}]"
    )


_SPACE = "An index of an array of 16-bit elements in shared memory names the first of 8, at a multiple of 16 bytes"
MOVES: Final = {
    f"ldmatrix_x{n}{'_trans' * trans}": (n, trans) for n in (1, 2, 4) for trans in (False, True)
}  # fmt: skip
STORES: Final = {f"stmatrix_x{n}{'_trans' * trans}": (n, trans) for n in (1, 2, 4) for trans in (False, True)}
"""name -> (matrices, whether transposed)"""


def _moving(n: int, trans: bool) -> str:
    transposed = ", transposed" if trans else ""
    return f"{'a matrix' if n == 1 else f'{n} matrices'} of 8 x 8 elements of 16 bits{transposed}"


FUNCTIONS: Final = functions(
    "ptx", "",
    {f"{name}(a, b, c)": _doc(name) for name in MULTIPLICATIONS}
    | {f"{name}(array, index)": (
        f"Loads {_moving(n, trans)}: {n} uint32 of the lane's fragments, as a tuple.  {_SPACE}: lane 8 m + r has row r "
        f"of matrix m.  {_WARP}  [PTX: ldmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16]"
    ) for name, (n, trans) in MOVES.items()}
    | {f"{name}(array, index, values)": (
        f"Stores {_moving(n, trans)}, of which `values` has the lane's fragments: a tuple of {n} uint32.  {_SPACE}: "
        f"lane 8 m + r has row r of matrix m.  {_WARP}  "
        f"[PTX: stmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16]"
    ) for name, (n, trans) in STORES.items()}
    | {"movmatrix_trans(a)": (
        "The lane's fragment of the transpose of a matrix of 8 x 8 elements of 16 bits, of which `a` is its fragment: "
        f"uint32.  {_WARP}  [PTX: movmatrix.sync.aligned.m8n8.trans.b16]"
    )},
)  # fmt: skip
"""kernel function of each name"""
