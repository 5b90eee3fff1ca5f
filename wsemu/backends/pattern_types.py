"""Pattern objects for Numba-CUDA: a type for each class, whose methods are the same functions that the emulator runs.

A field is part of the type, as a literal, if it is known when the kernel is compiled (a field of an object that the
kernel refers to by name).  Other fields are values.  So `2 * self.dma_id + 1` folds to a constant for a global object,
and is computed for an object that is created in a kernel or passed to it.  Only `numba_cuda` imports this module, and
only if Numba-CUDA is installed.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from numba import types
from numba.cuda import cgutils
from numba.cuda.core.errors import TypingError
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudaimpl import registry as lowering_registry
from numba.cuda.extending import models, overload_method, register_model, typeof_impl
from numba.cuda.typing.templates import AttributeTemplate, CallableTemplate
from numba.cuda.typing.typeof import Purpose, typeof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Rebind = Callable[[FunctionType], FunctionType]


class PatternType(types.Type):  # type: ignore[misc]
    """The type of a pattern object; `members` are its fields' types, as literals if they are known."""

    cls: type
    properties: dict[str, Any]
    """device function of each property"""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members
        super().__init__(name=f"{self.cls.__qualname__}({', '.join(map(str, members))})")

    @property
    def key(self) -> tuple[Any, ...]:
        return self.members

    @property
    def fields(self) -> dict[str, Any]:
        names = (part.name for part in dataclasses.fields(self.cls))
        return dict(zip(names, self.members, strict=True))

    @property
    def values(self) -> list[tuple[str, Any]]:
        """Return (name, type) of the fields that are not literals."""
        return [(name, type_) for name, type_ in self.fields.items() if not isinstance(type_, types.Literal)]

    @property
    def is_known(self) -> bool:
        """Return whether every field is known at compile time."""
        return all(isinstance(type_, PatternType) and type_.is_known for _, type_ in self.values)

    def host_object(self) -> Any:
        """Return a host object with the known fields, for properties that need no other fields."""
        made: Any = object.__new__(self.cls)
        for name, type_ in self.fields.items():
            if isinstance(type_, types.Literal):
                object.__setattr__(made, name, type_.literal_value)
            elif isinstance(type_, PatternType):
                object.__setattr__(made, name, type_.host_object())
        return made

    def known_attribute(self, name: str) -> Any:
        """Return the literal type of a property that follows from known fields, else None."""
        try:
            return types.literal(getattr(self.host_object(), name))
        except Exception:  # a field is unknown, or the value is not a literal
            return None


TYPES: dict[type, type[PatternType]] = {}
"""pattern class -> its Numba type"""


def member(field: Any, value: Any, context: Any) -> Any:
    """Return the type of a field of a host object; for an argument, positional fields are values of the launch."""
    if isinstance(value, (bool, int, str)) and (field.kw_only or context.purpose is not Purpose.argument):
        return types.literal(value)
    return typeof_impl(value, context)


def bridge(cls: type, rebind: Rebind, device: Callable[[FunctionType], Any]) -> type[PatternType]:
    """Register a pattern class with Numba, once; `rebind` converts its methods into functions that Numba can compile,
    `device` makes them device functions."""
    known = TYPES.get(cls)
    if known is not None:
        return known
    made: type[PatternType] = type(f"{cls.__name__}Type", (PatternType,), {"cls": cls, "properties": {}})
    TYPES[cls] = made
    _enter_values(cls, made)
    _enter_construction(cls, made)
    for name in dict.fromkeys(name for base in cls.__mro__ for name in vars(base)):
        item = inspect.getattr_static(cls, name)
        if isinstance(item, property) and isinstance(item.fget, FunctionType):
            made.properties[name] = device(item.fget)
        elif isinstance(item, FunctionType) and not name.startswith("_"):
            overload_method(made, name)(_constant_overload(rebind(item)))
    return made


def _call(context: Any, function: Any, type_: Any) -> tuple[Any, Any]:
    """Return the function type of a device function, and its signature for an object of this type."""
    kind = context.resolve_value_type(function)
    return kind, kind.get_call_type(context, (type_,), {})


def _enter_values(cls: type, made: type[PatternType]) -> None:
    """Register how an object is stored, and how its fields are read."""

    @register_model(made)
    class Model(models.StructModel):  # type: ignore[misc]
        def __init__(self, manager: Any, type_: Any) -> None:
            super().__init__(manager, type_, type_.values)

    @typeof_impl.register(cls)
    def infer_type(value: Any, context: Any) -> Any:
        parts = dataclasses.fields(cls)
        return made(tuple(member(part, getattr(value, part.name), context) for part in parts))

    @lowering_registry.lower_constant(made)
    def constant(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        struct = cgutils.create_struct_proxy(type_)(context, builder)
        for name, part in type_.values:
            setattr(struct, name, context.get_constant_generic(builder, part, getattr(value, name)))
        return struct._getvalue()

    @typing_registry.register_attr
    class Attributes(AttributeTemplate):  # type: ignore[misc]
        key = made

        def generic_resolve(self, type_: Any, name: str) -> Any:
            found = type_.fields.get(name)
            if found is None and name in made.properties:
                found = type_.known_attribute(name) or _call(self.context, made.properties[name], type_)[1].return_type
            return found

    @lowering_registry.lower_getattr_generic(made)
    def read(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
        found = type_.fields.get(name)
        if found is None:
            found = type_.known_attribute(name)
        if isinstance(found, types.Literal):
            if isinstance(found, types.StringLiteral):
                return context.get_dummy_value()
            kind = types.boolean if isinstance(found.literal_value, bool) else types.int64
            return context.get_constant(kind, found.literal_value)
        if name in made.properties:
            call = context.get_function(*_call(context.typing_context, made.properties[name], type_))
            context.add_linking_libs(getattr(call, "libs", ()))
            return call(builder, (value,))
        return getattr(cgutils.create_struct_proxy(type_)(context, builder, value=value), name)


def _enter_construction(cls: type, made: type[PatternType]) -> None:
    """Register construction inside a kernel: `Copy(self, lanes, 1, self.element_bytes)`."""
    signature = inspect.signature(cls)

    @typing_registry.register
    class Construct(CallableTemplate):  # type: ignore[misc]
        key = cls
        prefer_literal = True

        def generic(self) -> Any:
            def typer(*args: Any, **kwargs: Any) -> Any:
                bound = signature.bind(*args, **kwargs)
                typer.pysig = _positional_signature(bound.arguments)  # type: ignore[attr-defined]
                bound.apply_defaults()
                return made(tuple(_field_type(bound.arguments[part.name]) for part in dataclasses.fields(cls)))

            return typer

    function = types.Function(Construct)
    typing_registry.register_global(cls, function)
    _enter_class_methods(cls, function)

    @lowering_registry.lower(cls, types.VarArg(types.Any))
    def construct(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        type_ = sig.return_type
        struct = cgutils.create_struct_proxy(type_)(context, builder)
        for name, value, given in zip(sig.pysig.parameters, args, sig.args, strict=True):
            part = type_.fields[name]
            if not isinstance(part, types.Literal):
                setattr(struct, name, context.cast(builder, value, given, part))
        return struct._getvalue()


def _enter_class_methods(cls: type, function: Any) -> None:
    """Register class methods that create an object from arguments known when a kernel is compiled: `unspecialized`,
    `single`."""

    @typing_registry.register_attr
    class Attributes(AttributeTemplate):  # type: ignore[misc]
        key = function

        def generic_resolve(self, type_: Any, name: str) -> Any:
            found = isinstance(inspect.getattr_static(cls, name, None), classmethod)
            return types.Function(_class_method(cls, name)) if found else None

    @lowering_registry.lower_getattr_generic(function)
    def read(context: Any, builder: Any, type_: Any, value: Any, name: str) -> Any:
        return context.get_dummy_value()


@functools.cache
def _class_method(cls: type, name: str) -> Any:
    """Return the template of a class method."""

    class Method(CallableTemplate):  # type: ignore[misc]
        key = (cls, name)
        prefer_literal = True

        def generic(self) -> Any:
            def typer(*args: Any, **kwargs: Any) -> Any:
                typer.pysig = _positional_signature([*(f"at{n}" for n in range(len(args))), *kwargs])  # type: ignore[attr-defined]
                given = [_known_value(type_) for type_ in (*args, *kwargs.values())]
                named = dict(zip(kwargs, given[len(args) :], strict=True))
                return typeof(getattr(cls, name)(*given[: len(args)], **named), Purpose.constant)

            return typer

    @lowering_registry.lower(Method.key, types.VarArg(types.Any))
    def construct(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return cgutils.create_struct_proxy(sig.return_type)(context, builder)._getvalue()  # all fields are in the type

    return Method


def _known_value(type_: Any) -> Any:
    """Return the value of an argument whose type is that of a literal or a pattern; raise TypingError if it is known
    only at run time."""
    if isinstance(type_, types.Literal):
        return type_.literal_value
    if isinstance(type_, PatternType) and type_.is_known:
        return type_.host_object()
    raise TypingError(f"an argument of type {type_} is not known when the kernel is compiled: call the class itself")


def _positional_signature(names: Iterable[str]) -> inspect.Signature:
    """Return a signature with only these parameters: Numba supports neither keyword-only parameters nor omitted ones in
    the middle."""
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def _field_type(value: Any) -> Any:
    """Return the type of a field that is assigned a value of this type; integers are stored as int64."""
    if isinstance(value, types.Omitted):
        value = value.value
    if not isinstance(value, types.Type):
        return types.literal(value)
    if isinstance(value, types.Literal):
        return value
    return types.int64 if isinstance(value, types.Integer) else value


def _constant_overload(function: FunctionType) -> Any:
    """Return a function with the same parameters that returns `function`, as Numba's `overload` requires."""
    parameters = [str(p.replace(annotation=p.empty)) for p in inspect.signature(function).parameters.values()]
    space: dict[str, Any] = {"function": function}
    exec(f"def chosen({', '.join(parameters)}): return function", space)
    return space["chosen"]
