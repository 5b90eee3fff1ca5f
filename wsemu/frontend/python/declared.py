"""Device functions with a signature: a call converts its arguments and its result to the declared types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.scalars import cast
from wsemu.frontend.python.values import ComplexValue, Scalar, TupleValue, Value
from wsemu.language import signatures
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.python.builder import Builder
    from wsemu.language.numbers import NumberType


def arguments(
    b: Builder, declared: Sequence[signatures.Declared], args: Sequence[Value], name: str
) -> tuple[list[Value], NumberType | None]:
    """Return the arguments converted for the best-matching signature, and the number type of the result if it declares
    one."""
    chosen = signatures.best(declared, [x.type if isinstance(x, (Scalar, ComplexValue)) else None for x in args])
    if chosen is None:
        counts = " or ".join(str(len(one.arguments)) for one in declared)
        raise KernelError(f"`{name}` is declared with {counts} arguments, and called with {len(args)}")
    return [_as(b, x, t) for x, t in zip(args, chosen.arguments, strict=True)], signatures.number(chosen.result)


def result(b: Builder, value: Value, type_: NumberType | None) -> Value:
    """Return a function's result as the declared type."""
    return value if type_ is None else cast(b, value, type_)


def _as(b: Builder, value: Value, type_: Any) -> Value:
    parts = signatures.items(type_)
    if parts is not None and isinstance(value, TupleValue) and len(parts) == len(value.items):
        return TupleValue(tuple(_as(b, item, part) for item, part in zip(value.items, parts, strict=True)), value.names)
    wanted = signatures.number(type_)
    return cast(b, value, wanted) if wanted is not None and isinstance(value, (Scalar, ComplexValue)) else value
