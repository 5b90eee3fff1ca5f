"""Replacements for `dataclass`, `field` and `replace` of `dataclasses`, and for `NamedTuple` of `typing`, that load
faster.

When a module is imported, the standard library generates and compiles up to eight methods for each data class, and a
type for each field.  Most are never called, although they take a quarter of the time of a small launch.  Here all
classes share their methods, and `__init__` or `__new__` is compiled when the first object is constructed.
`__dataclass_fields__` provides the standard library's field objects on request.
"""

from __future__ import annotations

import operator
import reprlib
from collections import _tuplegetter  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple

_T = TypeVar("_T")
_MISSING = object()
_SHAPE = "_data_shape"
"""attribute that holds a class's Shape"""
_set = object.__setattr__


# -- named tuples ------------------------------------------------------------------------------------------------------
class _Tuples(type):
    """Creates the classes whose base is NamedTuple: tuples with an element for each annotated name."""

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(mcs, name, bases, members)
        fields = tuple(members.get("__annotations__", ()))
        defaults = {field: members.pop(field) for field in fields if field in members}
        getters = {field: _tuplegetter(n, "") for n, field in enumerate(fields)}
        places = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__slots__": ()}
        return type(name, (tuple,), {**_OF_TUPLES, **places, **getters, **members})


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_Tuples):
        """The base to name for classes of named tuples, which are not actually derived from it."""


def _first_new(cls: Any, *values: Any, **named: Any) -> Any:
    """Compile `__new__` on its first call, and run it."""
    owner = next(base for base in cls.__mro__ if "_fields" in base.__dict__)
    fields = owner._fields
    known = {"_new": tuple.__new__}
    exec(f"def __new__(_cls, {', '.join(fields)}): return _new(_cls, ({''.join(f'{f}, ' for f in fields)}))", known)
    made: Any = known["__new__"]
    made.__defaults__ = tuple(owner._field_defaults.values())
    owner.__new__ = staticmethod(made)
    return made(cls, *values, **named)


def _tuple_made(cls: Any, values: Any) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _tuple_replaced(self: Any, /, **changes: Any) -> Any:
    made = self._make([changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)])
    if changes:
        raise ValueError(f"Got unexpected field names: {[*changes]!r}")
    return made


def _tuple_shown(self: Any) -> str:
    shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{self.__class__.__name__}({', '.join(shown)})"


_OF_TUPLES: dict[str, Any] = {
    "__new__": _first_new,
    "__repr__": _tuple_shown,
    "__getnewargs__": lambda self: tuple(self),
    "__replace__": _tuple_replaced,
    "_make": classmethod(_tuple_made),
    "_replace": _tuple_replaced,
    "_asdict": lambda self: dict(zip(self._fields, self, strict=True)),
}


# -- data classes ------------------------------------------------------------------------------------------------------
class Field(NamedTuple):
    """The declaration of a field."""

    default: Any = _MISSING
    default_factory: Any = _MISSING
    init: bool = True
    repr: bool = True
    compare: bool = True
    kind: Any = None
    """the type, as written in the annotation"""


class Shape(NamedTuple):
    """The fields of a class and of its bases."""

    fields: dict[str, Field]
    key: Callable[[Any], Any]
    """function that returns the key by which two objects are compared"""


if not TYPE_CHECKING:

    def dataclass(cls=None, *, frozen=False, slots=False, eq=True):
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, eq=eq)
        own = _own_fields(cls)
        fields = {name: field for base in cls.__mro__[:0:-1] for name, field in _fields_in(base).items()} | own
        members = {name: value for name, value in cls.__dict__.items() if name not in own}
        defaults = {name: field.default for name, field in own.items() if field.default is not _MISSING}
        members[_SHAPE] = Shape(fields, _getter([name for name, field in fields.items() if field.compare]))
        members.setdefault("__match_args__", tuple(name for name, field in fields.items() if field.init))
        for name, value in _methods(members, frozen, slots, eq).items():
            members.setdefault(name, value)
        if slots:
            return _with_slots(cls, members, fields)
        for name in own.keys() - defaults.keys() & cls.__dict__.keys():
            delattr(cls, name)
        for name, value in (members | defaults).items():
            if cls.__dict__.get(name, _MISSING) is not value:
                setattr(cls, name, value)
        return cls

    def field(**said):
        return Field(**said)

    def replace(obj, /, **changes):
        shape = getattr(obj, _SHAPE, None)
        if shape is None:
            import dataclasses

            return dataclasses.replace(obj, **changes)
        for name, field in shape.fields.items():
            if field.init and name not in changes:
                changes[name] = getattr(obj, name)
        return obj.__class__(**changes)


def _own_fields(cls: type[Any]) -> dict[str, Field]:
    """Return the fields that a class adds or changes."""
    found = {}
    for name, kind in cls.__annotations__.items():
        if not kind.startswith("ClassVar"):
            given = cls.__dict__.get(name, _MISSING)
            found[name] = (given if isinstance(given, Field) else Field(given))._replace(kind=kind)
    return found


def _fields_in(base: type[Any]) -> dict[str, Field]:
    shape = base.__dict__.get(_SHAPE)
    return shape.fields if shape else {}


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return operator.attrgetter(*names) if names else lambda _: ()


def _methods(members: dict[str, Any], frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    """Return the methods that objects of a class have by default, by name."""
    found: dict[str, Any] = {
        "__init__": _first_init,
        "__repr__": _repr,
        "__replace__": replace,
        "__dataclass_fields__": _StandardFields(),
    }
    if eq:
        found["__eq__"] = _eq
        if "__eq__" not in members:
            found["__hash__"] = _hash if frozen else None
    if frozen:
        found |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        if slots:
            found |= {"__getstate__": _state, "__setstate__": _restore}
    return found


def _with_slots(cls: type[_T], members: dict[str, Any], fields: dict[str, Field]) -> type[_T]:
    """Return a new class whose objects have slots for their fields and nothing else."""
    taken = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    members = {name: value for name, value in members.items() if name not in ("__dict__", "__weakref__")}
    members["__slots__"] = tuple(name for name in fields if name not in taken)
    kind: Any = type(cls)
    made: type[_T] = kind(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made


# -- what objects do ---------------------------------------------------------------------------------------------------
def _first_init(self: Any, *arguments: Any, **named: Any) -> None:
    """Compile `__init__` on its first call and run it.  If another thread has compiled it in the meantime, run that
    one."""
    for base in self.__class__.__mro__:
        init = base.__dict__.get("__init__")
        if init is _first_init:
            init = base.__init__ = _compiled_init(base)
        elif "_missing" not in getattr(init, "__globals__", ()):
            continue
        init(self, *arguments, **named)
        return


def _compiled_init(cls: Any) -> Any:
    frozen = cls.__setattr__ is _refuse_set
    parameters, body, known = ["self"], [], {"_set": _set, "_missing": _MISSING}
    for name, field in getattr(cls, _SHAPE).fields.items():
        value = name
        if field.default_factory is not _MISSING:
            known[f"_make_{name}"] = field.default_factory
            made = f"_make_{name}()"
            value = f"{made} if {name} is _missing else {name}" if field.init else made
        elif field.default is not _MISSING:
            known[f"_default_{name}"] = field.default
        if field.init:
            default = "=_missing" if field.default_factory is not _MISSING else f"=_default_{name}"
            parameters.append(name + (default if f"_default_{name}" in known or f"_make_{name}" in known else ""))
        elif field.default_factory is _MISSING:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)
    return known["__init__"]


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, field in self._data_shape.fields.items() if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    key = self._data_shape.key
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self._data_shape.key(self))


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self._data_shape.fields]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._data_shape.fields, state, strict=True):
        _set(self, name, value)


def _refuse_set(self: Any, name: str, value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


class _StandardFields:
    """The attribute `__dataclass_fields__`, computed when `dataclasses.fields`, `asdict` or `replace` read it."""

    def __get__(self, obj: Any, cls: type[Any]) -> dict[str, Any]:
        import dataclasses

        def standard(field: Field) -> Any:
            said = {name: value for name, value in field._asdict().items() if name != "kind" and value is not _MISSING}
            return dataclasses.field(**said)

        fields = [(name, field.kind, standard(field)) for name, field in getattr(cls, _SHAPE).fields.items()]
        found: dict[str, Any] = vars(dataclasses.make_dataclass(cls.__name__, fields))["__dataclass_fields__"]
        owner: Any = next(base for base in cls.__mro__ if _SHAPE in base.__dict__)
        owner.__dataclass_fields__ = found
        return found
