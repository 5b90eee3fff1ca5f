"""Library calls in a kernel: a `Call`, and a table from callables to handlers.

A handler takes the call and returns its value.  Handlers of `wsemu.cuda` and `wsemu.ptx` take their arguments in the
order of the marker's signature; None represents an omitted argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from wsemu.frontend.python.scalars import describe, literal, number, scalar_cast
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, Static, Value
from wsemu.language import promotion
from wsemu.language.numbers import NumberType
from wsemu.model.data import dataclass, field
from wsemu.model.errors import KernelError, UnsupportedError

if TYPE_CHECKING:
    from wsemu.frontend.python.builder import Builder
    from wsemu.language.markers import KernelFunction

NOTHING = Static(None)
"""result of a function that returns nothing"""


@dataclass(slots=True)
class Call:
    """One call of a library function: its arguments, the builder, and helpers."""

    b: Builder
    args: list[Value]
    kwargs: dict[str, Value] = field(default_factory=dict)
    walker: Any = None
    name: str = "function"

    def error(self, message: str, remedy: str = "") -> KernelError:
        """Return an error at this call, to be raised; the walk of the source adds the location."""
        return KernelError(message, remedy=remedy)

    def unsupported_error(self, message: str, remedy: str = "") -> UnsupportedError:
        """Return an error at this call for a feature of Numba-CUDA that wsemu lacks."""
        return UnsupportedError(message, remedy=remedy)


Handler = Callable[[Any], Value]
FUNCTIONS: dict[object, Handler] = {}
"""callable -> its handler in a kernel"""
ATTRIBUTES: dict[object, Callable[[Any], Value]] = {}
"""marker of a value, such as `cuda.threadIdx.x` -> function of the builder"""

H = TypeVar("H", bound=Callable[..., Value])


def handles(*functions: object) -> Callable[[H], H]:
    """Register the decorated function, which takes a `Call`, as the handler of `functions`."""

    def enter(handler: H) -> H:
        for function in functions:
            FUNCTIONS[function] = handler
        return handler

    return enter


def means(function: KernelFunction) -> Callable[[H], H]:
    """Register the decorated function, which takes a `Call` and the arguments in the order of its signature, as the
    handler of `function`."""

    def enter(handler: H) -> H:
        def sorted_call(call: Any) -> Value:
            return handler(call, *bind(call, function))

        FUNCTIONS[function] = sorted_call
        return handler

    return enter


def bind(call: Any, function: KernelFunction) -> list[Any]:
    """Return positional and named arguments in the order of the signature; None for a default."""
    parameters = function.parameters
    if parameters and parameters[-1].variadic:
        return list(call.args)
    values: dict[str, Value] = dict(zip((p.name for p in parameters), call.args, strict=False))
    for name, value in call.kwargs.items():
        if name in values or name not in {p.name for p in parameters}:
            raise call.error(
                f"`{function.name}` takes no argument `{name}`", f"its signature is `{function.signature}`"
            )
        values[name] = value
    missing = [p.name for p in parameters if not p.has_default and p.name not in values]
    if missing or len(call.args) > len(parameters):
        problem = f"lacks `{missing[0]}`" if missing else f"got {len(call.args)} arguments"
        raise call.error(f"`{function.name}` {problem}", f"its signature is `{function.signature}`")
    found = [values.get(p.name) for p in parameters]
    return [None if isinstance(value, Static) and value.object is None else value for value in found]


def positional(call: Any, name: str, *counts: int) -> list[Value]:
    """Return the arguments of a function that takes only positional arguments, one of `counts` many."""
    if call.kwargs or len(call.args) not in counts:
        problem = f"got `{next(iter(call.kwargs))}=`" if call.kwargs else f"got {len(call.args)} arguments"
        wanted = " or ".join(map(str, counts))
        raise call.error(f"`{name}` {problem}", f"give {wanted} argument{'s' * (counts != (1,))}, by position")
    return list(call.args)


# -- checked arguments -----------------------------------------------------------------------------------------------


def scalar(call: Any, x: Value, what: str) -> Scalar:
    """Return `x` as a real number."""
    value = number(x, what)
    if isinstance(value, ComplexValue):
        of_numpy = what.startswith("`np.")  # Numba's ufuncs accept complex numbers, its other functions do not
        raise (call.unsupported_error if of_numpy else call.error)(
            f"{what} needs a real number, not {value.type}", "use the .real and .imag parts"
        )
    return value


def integer(call: Any, x: Value, what: str, to: NumberType | None = None) -> Scalar:
    """Return `x` as an integer, converted to `to` if that is given."""
    value = scalar(call, x, what)
    if value.type.kind not in "iu":
        raise call.error(f"{what} needs an integer, not {value.type}", "convert it with `int(...)`")
    return value if to is None else scalar_cast(call.b, value, to)


def array(call: Any, x: Value, what: str) -> ArrayValue:
    """Return `x` as an array."""
    if not isinstance(x, ArrayValue):
        raise call.error(f"{what} needs an array, not {describe(x)}", "pass the array itself, not an element of it")
    return x


def known_integer(call: Any, x: Value, what: str) -> int:
    """Return `x` as an int known at compile time."""
    if isinstance(x, Scalar) and x.literal is not None and x.type.kind in "iu":
        return int(x.literal)
    raise call.error(f"{what} must be a constant integer", "write a literal, or a name defined outside the kernel")


def convert_arguments(
    call: Any, name: str, cases: tuple[promotion.Signature, ...], *values: Value
) -> tuple[promotion.Signature, list[Scalar]]:
    """Return the signature of `cases` that Numba selects for these arguments, and the arguments converted to it."""
    numbers = [scalar(call, x, f"`{name}`") for x in values]
    signature = promotion.select(cases, tuple(x.type for x in numbers))
    if signature is None:
        types = ", ".join(x.type.name for x in numbers)
        possible = "; ".join(dict.fromkeys(", ".join(t.name for t in case.operands) for case in cases))
        raise call.error(f"`{name}` is not defined for {types}", f"it takes {possible}")
    return signature, [scalar_cast(call.b, x, to) for x, to in zip(numbers, signature.operands, strict=True)]


def result(type_: NumberType, register: int) -> Scalar:
    """Return a number in a register."""
    return Scalar(type_, register)


def known_constant(value: Any) -> Value:
    """Return a number known at compile time that is not a literal of the source for Numba."""
    made = literal(value)
    return Scalar(made.type, None, made.literal) if isinstance(made, Scalar) else made
