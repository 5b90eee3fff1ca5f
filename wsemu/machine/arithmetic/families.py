"""Families of arithmetic operations, which are compiled together.

`CORE` has the operations that nearly every kernel uses: it is part of the scheduler's switch. Any other family is
compiled when a program first uses one of its operations, and called by address.
"""

from __future__ import annotations

from functools import cache

from wsemu.model.isa import BINARY_FUNCTIONS, DIRECTIONS, OPERATIONS, UNARY_FUNCTIONS

CORE = "core"
FAMILIES = ("narrow", "bits", "single", "double", "division", "directed", "library")
_DIVISION = {"div", "rem", "floordiv", "floormod", "sqrt", "rcp"}
_BITS = {"popc", "clz", "ffs", "brev", "bfi", "bfe", "prmt", "mulhi", "abs"}
_SINGLE = {"cvt", "copysign", "ftz", "abs"}


def family_of(name: str) -> str:
    """Return the family of an arithmetic operation: CORE, or one of FAMILIES."""
    operation = OPERATIONS[name]
    types = {operation.result, *operation.operands}
    what, *modifiers = name.split(".")
    if what in UNARY_FUNCTIONS or what in BINARY_FUNCTIONS:
        return "library"
    if what in ("fma", "div", "sqrt") and modifiers[0] in DIRECTIONS:
        return "directed"
    if types & {"b8", "b16", "f16"}:
        return "narrow"
    if what in _DIVISION:
        return "division"
    if "f64" in types:
        return "double"
    if "f32" in types:
        unordered = what == "setp" and modifiers[0].endswith("u")
        return "single" if what in _SINGLE or unordered else CORE
    return "bits" if what in _BITS else CORE


@cache
def members(family: str) -> tuple[str, ...]:
    """Return the operations of CORE or of another family."""
    alu = (name for name, operation in OPERATIONS.items() if operation.kind == "alu")
    return tuple(name for name in alu if family_of(name) == family)
