"""Classes of data as `dataclasses` makes them, at a fifth of what that costs.

A process that checks one small launch makes sixty of them, of which it uses half.  What the standard library compiles
for each at import is here one function for all, or compiled when an object is first made.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
from dataclasses import MISSING, Field, FrozenInstanceError, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["dataclass", "field", "replace"]

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """What `dataclasses.dataclass` does with these options; `dataclasses.fields`, `replace` and `asdict` know its
    classes, and `__post_init__` is called."""

    def decorated(cls: type[T]) -> type[T]:
        return _made(cls, frozen=frozen, slots=slots, eq=eq)

    return decorated


def replace(obj: T, **changes: Any) -> T:
    """The same object with other values in some of its fields."""
    for part in obj.__data_fields__:  # type: ignore[attr-defined]
        if part.init and part.name not in changes:
            changes[part.name] = getattr(obj, part.name)
    return type(obj)(**changes)


def _made(cls: type[T], *, frozen: bool, slots: bool, eq: bool) -> type[T]:
    own = _own_fields(cls)
    names = [part.name for part in own]
    fields = {part.name: part for base in cls.__mro__[:0:-1] for part in base.__dict__.get("__data_fields__", ())}
    fields.update(zip(names, own, strict=True))
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    made: Any = _with_slots(cls, names, tuple(n for n in names if n not in inherited)) if slots else cls
    attributes: dict[str, Any] = {
        "__data_fields__": (*fields.values(),),
        "__match_args__": tuple(part.name for part in fields.values() if part.init),
        "__init__": _first_init(made, frozen),
        **_STANDARD,
    }
    for name, value in attributes.items():
        setattr(made, name, value)
    if "__repr__" not in cls.__dict__:
        made.__repr__ = _repr
    if eq:
        _compare(made, fields.values(), frozen)
    if frozen:
        made.__setattr__ = made.__delattr__ = _refuse
        if slots:
            made.__getstate__, made.__setstate__ = _state, _restore
    result: type[T] = made
    return result


def _own_fields(cls: type) -> list[Any]:
    """The fields that a class declares; their defaults stay attributes of the class, as far as they have some."""
    found = []
    for name, kind in cls.__annotations__.items():
        if str(kind).startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, MISSING)
        part: Any = default if isinstance(default, Field) else field(default=default)
        part.name, part.type = name, kind
        if part.default is not MISSING:
            setattr(cls, name, part.default)
        elif isinstance(default, Field):
            delattr(cls, name)
        found.append(part)
    return found


def _with_slots(cls: type, fields: list[str], slots: tuple[str, ...]) -> type:
    """The class again, with its fields in slots."""
    kept = {name: value for name, value in cls.__dict__.items() if name not in fields}
    kept.pop("__dict__", None)
    kept.pop("__weakref__", None)
    kept["__slots__"] = slots
    made = type(cls)(cls.__name__, cls.__bases__, kept)
    made.__qualname__ = cls.__qualname__
    return made


def _compare(made: Any, fields: Any, frozen: bool) -> None:
    """Objects of one class are equal where their fields are; they have a hash where they do not change."""
    names = [part.name for part in fields if part.compare]
    key: Callable[[Any], Any] = operator.attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: Any) -> Any:
        return (key(self), 0) == (key(other), 0) if other.__class__ is self.__class__ else NotImplemented

    if "__eq__" not in made.__dict__:
        made.__eq__ = __eq__
    if not frozen:
        made.__hash__ = None
    elif made.__dict__.get("__hash__") is None:
        made.__hash__ = lambda self: hash(key(self))


# -- objects ----------------------------------------------------------------------------------------------------------
def _first_init(made: Any, frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the class's own into its place when it is first called."""

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        init = made.__init__ = _init(made, frozen)
        init(self, *args, **named)

    return __init__


def _init(made: Any, frozen: bool) -> Callable[..., None]:
    """The `__init__` of a class, compiled."""
    space: dict[str, Any] = {"_missing": MISSING}
    head, body = ["self"], []
    for part in made.__data_fields__:
        name, value = part.name, part.name
        if part.default_factory is not MISSING:
            space[f"_make_{name}"] = part.default_factory
            value = f"_make_{name}()"
            if part.init:
                head.append(f"{name}=_missing")
                value = f"{value} if {name} is _missing else {name}"
        elif part.default is not MISSING:
            space[f"_default_{name}"] = part.default
            head.append(f"{name}=_default_{name}")
        elif part.init:
            head.append(name)
        else:
            continue
        body.append(_assignment(made, name, value, space) if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(head)}):\n  " + "\n  ".join(body or ["pass"])
    exec(text, space)
    init: Callable[..., None] = space["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _assignment(made: Any, name: str, value: str, space: dict[str, Any]) -> str:
    """A statement that sets a field of an object that does not change."""
    slot = inspect.getattr_static(made, name, None)
    if inspect.ismemberdescriptor(slot):
        space[f"_set_{name}"] = slot.__set__
        return f"_set_{name}(self, {value})"
    space["_set"] = object.__setattr__
    return f"_set(self, {name!r}, {value})"


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{part.name}={getattr(self, part.name)!r}" for part in self.__data_fields__ if part.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse(_: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, part.name) for part in self.__data_fields__]


def _restore(self: Any, state: list[Any]) -> None:
    for part, value in zip(self.__data_fields__, state, strict=True):
        object.__setattr__(self, part.name, value)


# -- for `dataclasses` and `inspect` ----------------------------------------------------------------------------------
class _Standard:
    """An attribute that the standard library's own class of these fields has, which is made when it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, _: object, owner: Any) -> Any:
        parts = [(part.name, part.type, _copy(part)) for part in owner.__data_fields__]
        standard = dataclasses.make_dataclass(owner.__name__, parts, frozen=owner.__setattr__ is _refuse)
        for name in _STANDARD:
            found = inspect.signature(standard) if name == "__signature__" else getattr(standard, name)
            setattr(owner, name, found)
        return getattr(owner, self.name)


def _copy(part: Any) -> Any:
    options = {name: getattr(part, name) for name in ("init", "repr", "compare")}
    if part.default_factory is not MISSING:
        return field(default_factory=part.default_factory, **options)
    return field(**options) if part.default is MISSING else field(default=part.default, **options)


_STANDARD = {name: _Standard(name) for name in ("__dataclass_fields__", "__dataclass_params__", "__signature__")}
