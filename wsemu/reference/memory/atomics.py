"""Result of each atomic operation in memory, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

from wsemu.model.isa import ATOMICS, FLUSHING_ADD, HALVES, SIZE
from wsemu.reference.agents.reductions import combine_elements
from wsemu.reference.arithmetic import Bits, Meaning, semantics, to_float


def _float_min_max(what: str, type_: str) -> Meaning:
    """Return an atomic min or max.  A variant with `nan` in its name also replaces a nan in memory; no variant stores a
    nan."""
    replaces_nan = what.startswith("nan")

    def meaning(old: Bits, operand: Bits) -> Bits:
        x, y = to_float(old, type_), to_float(operand, type_)
        if math.isnan(x):
            return operand if replaces_nan and not math.isnan(y) else old
        return operand if (y < x if what.endswith("min") else y > x) else old

    return meaning


def _atomic(what: str, type_: str) -> Callable[[Bits, Bits, Bits], Bits]:
    """Return the function (old, operand, new value of cas) -> value written back."""
    n = 8 * SIZE[type_]
    base, _, kind = what.partition(".")
    if base in ("min", "max") and kind != "f":
        operation = semantics[f"{base}.{kind}{n}"]
    elif what in ("add", "and", "or", "xor"):
        operation = semantics[f"{what}.b{n}"]
    elif kind == "f":
        operation = semantics[f"add.{type_}"] if base == "add" else _float_min_max(base, type_)
    else:
        operations: dict[str, Meaning] = {
            "exch": lambda old, operand: operand,
            "inc": lambda old, operand: 0 if old >= operand else old + 1,
            "dec": lambda old, operand: operand if old == 0 or old > operand else old - 1,
        }
        if what == "cas":
            return lambda old, operand, new: new if old == operand else old
        operation = operations[what]
    return lambda old, operand, new: operation(old, operand)


def _half_operation(name: str) -> Callable[[Bits, Bits, Bits], Bits]:
    """Return the operation on f16, bf16 or pairs of them, with the semantics of bulk reductions."""
    what, size = ATOMICS[name][0].removesuffix(".f"), SIZE[ATOMICS[name][1]]

    def meaning(old: Bits, operand: Bits, new: Bits) -> Bits:
        both = combine_elements(what, HALVES[name], old.to_bytes(size, "little"), operand.to_bytes(size, "little"))
        return int.from_bytes(both, "little")

    return meaning


def _flushing_sum(old: Bits, operand: Bits, new: Bits) -> Bits:
    flush = semantics["ftz.f32"]
    total = flush(semantics["add.f32"](flush(old), flush(operand)))
    return 0x7FFFFFFF if total & 0x7FFFFFFF > 0x7F800000 else total


atomics: dict[str, Callable[[Bits, Bits, Bits], Bits]] = {
    name: _half_operation(name) if name in HALVES else _atomic(what, type_) for name, (what, type_) in ATOMICS.items()
}
atomics[FLUSHING_ADD] = _flushing_sum
"""atomic -> (old, operand, new value of cas) -> what is written back"""
