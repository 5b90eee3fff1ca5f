"""`Record`: data that is JSON, with Pydantic's methods, and without Pydantic until one of them is called.

Importing Pydantic and building its models takes longer than checking a small kernel.  A verified launch needs neither,
because the values of its report are correct by construction (`Record.build`).  A record is therefore a plain class.
Its `model`, a Pydantic model with the same fields, is built when a record is constructed by other code, written or
read.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from pydantic import BaseModel

_P = TypeVar("_P", bound="_Plain")
_REQUIRED = object()
_GIVEN = "_given"
"""attribute that holds the names of the fields that were set explicitly"""
_set = object.__setattr__
"""records do not change after their construction"""


class Derived(NamedTuple):
    """A default that is computed from the fields before it."""

    make: Callable[[dict[str, Any]], Any]


def derive_default(make: Callable[[dict[str, Any]], Any]) -> Any:
    """Declare a default that is computed from the values of earlier fields."""
    return Derived(make)


class Padded:
    """A marker in a type: an int or a short tuple is padded with `with_` to three numbers."""

    def __init__(self, with_: int) -> None:
        self.with_ = with_

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.of, handler(source))

    def of(self, value: Any) -> Any:
        if isinstance(value, int):
            value = (value,)
        is_short = isinstance(value, (tuple, list)) and len(value) < 3
        return (*value, self.with_, self.with_)[:3] if is_short else value


class _OfModel:
    """The parts of a record class that its model provides."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Any, cls: type[Any]) -> Any:
        return getattr(_model(cls) if record is None else record._as_model(), self.name)


class _Plain:
    """The runtime base of Record: the methods of Pydantic's BaseModel that records have, under the same names."""

    _fields: dict[str, Any] = {}
    """the default of each field: a value, a Derived, or _REQUIRED"""
    _kinds: dict[str, tuple[str, str]] = {}
    """the type of each field as written, and the module whose names it uses"""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._fields, cls._kinds = {**cls._fields}, {**cls._kinds}
        for name, kind in cls.__annotations__.items():
            if not name.startswith("_"):
                cls._fields[name] = cls.__dict__.get(name, _REQUIRED)
                cls._kinds[name] = kind, cls.__module__
                if name in cls.__dict__:
                    delattr(cls, name)  # a field without a value has no attribute, not its default

    # -- made
    def __init__(self, **fields: Any) -> None:
        if self._become_exact(fields):
            return
        try:
            model = _model(self.__class__)
        except ModuleNotFoundError:
            self._become_unchecked(fields)
        else:
            self._become(model(**fields))

    def _become_exact(self, fields: dict[str, Any]) -> bool:
        """Accept the values of fields without the model if the model would not change any of them.  Return whether they
        were accepted."""
        cls = self.__class__
        required = {name for name, default in cls._fields.items() if default is _REQUIRED}
        if not required <= fields.keys() <= cls._fields.keys():
            return False
        if not all(_exact_test(*cls._kinds[name])(value) for name, value in fields.items()):
            return False
        self.__dict__.update(cls.model_construct(**_copy_containers(fields)).__dict__)
        try:
            self._check_fields()
        except ValueError:  # the model raises its own error
            return False
        return True

    def _become_unchecked(self, fields: dict[str, Any]) -> None:
        """Accept the values of fields without checks if Pydantic is not installed, as in a browser."""
        required = {name for name, default in self._fields.items() if default is _REQUIRED}
        if wrong := (fields.keys() - self._fields.keys()) | (required - fields.keys()):
            raise TypeError(f"{self.__class__.__name__}: unknown or missing fields {', '.join(sorted(wrong))}")
        self.__dict__.update(self.model_construct(**fields).__dict__)
        self._check_fields()

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **fields: Any) -> Self:
        """Return a record with unchecked values."""
        data: dict[str, Any] = {}
        for name, default in _copy_containers(cls._fields).items():
            if name in fields:
                data[name] = fields[name]
            elif default is not _REQUIRED:
                data[name] = default.make(data) if default.__class__ is Derived else default
        data[_GIVEN] = frozenset(fields if _fields_set is None else _fields_set)
        return _with(cls, data)

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Construct a record as `model_construct` does, in less time.  All fields without a default must be given."""
        record: Self = _blank(cls).again(**fields)
        return record

    def again(self, **fields: Any) -> Self:
        """Return a copy of the record with other, unchecked values of these fields.  Its lists are copied."""
        data = _copy_containers(self.__dict__)
        data.update(fields)
        data[_GIVEN] |= fields.keys()
        return _with(self.__class__, data)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy of the record with these unchecked values."""
        record = copy.deepcopy(self) if deep else _with(self.__class__, {**self.__dict__})
        if update:
            record.__dict__.update(update)
            record.__dict__[_GIVEN] |= update.keys()
        return record

    @classmethod
    def _of(cls, model: BaseModel) -> Self:
        record = cls.__new__(cls)
        record._become(model)
        return record

    def _become(self, model: BaseModel) -> None:
        _set(self, "__dict__", {**model.__dict__, _GIVEN: frozenset(model.model_fields_set)})

    # -- for subclasses
    def _complete(self) -> None:
        """Compute the fields that are missing."""

    def _fill(self, other: Self, names: tuple[str, ...]) -> None:
        """Take the missing fields from another record."""
        for name in names:
            self.__dict__.setdefault(name, getattr(other, name))
        self.__dict__[_GIVEN] |= {*names}

    def _check_fields(self) -> None:
        """Raise ValueError if fields contradict each other, although each is valid by itself."""

    # -- compared and shown
    def _values(self) -> dict[str, Any]:
        """Return the value of each field, by name."""
        self._complete()
        return {name: self.__dict__[name] for name in self._fields if name in self.__dict__}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self._values().items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Plain) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.__class__, *self._values().values()))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self._values().items())

    def __getstate__(self) -> dict[str, Any]:
        self._complete()
        return self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            setattr(self._as_model(), name, value)  # this raises an error
        _set(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not name.startswith("_"):
            delattr(self._as_model(), name)  # this raises an error
        object.__delattr__(self, name)

    # -- by way of the model
    model_fields = _OfModel()
    model_computed_fields = _OfModel()
    model_config = _OfModel()
    model_dump = _OfModel()
    model_dump_json = _OfModel()
    model_json_schema = _OfModel()

    @property
    def model_fields_set(self) -> set[str]:
        return {*self.__dict__[_GIVEN]}

    @classmethod
    def model_validate(cls, value: Any, **options: Any) -> Self:
        return value if isinstance(value, cls) else cls._of(_model(cls).model_validate(value, **options))

    @classmethod
    def model_validate_json(cls, text: str | bytes | bytearray, **options: Any) -> Self:
        return cls._of(_model(cls).model_validate_json(text, **options))

    def _as_model(self) -> BaseModel:
        """Return the Pydantic model of a record, with the same values."""
        cls, values = _model(self.__class__), self._values()
        model = cls.__new__(cls)
        _set(model, "__dict__", values)
        _set(model, "__pydantic_fields_set__", self.model_fields_set)
        _set(model, "__pydantic_extra__", None)
        _set(model, "__pydantic_private__", None)
        return model

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema by which Pydantic reads and writes a record inside a model or another record."""
        from pydantic_core import core_schema

        def read(value: Any, read_model: Callable[[Any], BaseModel]) -> Any:
            return value if isinstance(value, cls) else cls._of(read_model(value))

        schema = handler(_model(cls))
        write = core_schema.plain_serializer_function_ser_schema(cls._as_model, return_schema=schema)
        return core_schema.no_info_wrap_validator_function(read, schema, serialization=write)


if TYPE_CHECKING:

    class Record(BaseModel):
        """Data that is JSON and does not change."""

        @classmethod
        def build(cls, **fields: Any) -> Self: ...
        def again(self, **fields: Any) -> Self: ...
        def _complete(self) -> None: ...
        def _fill(self, other: Self, names: tuple[str, ...]) -> None: ...
        def _check_fields(self) -> None: ...

else:

    class Record(_Plain):
        """Data that can be converted to JSON and does not change.

        The code that checks it is built when it is first needed.  `build` accepts unchecked values, and does not need
        that code.
        """


def _copy_containers(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with copies of the lists and dictionaries among them."""
    return {name: value.copy() if value.__class__ in (list, dict) else value for name, value in values.items()}


def _with(cls: type[_P], data: dict[str, Any]) -> _P:
    record = cls.__new__(cls)
    _set(record, "__dict__", data)
    return record


_EXACT: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: value.__class__ is bool,
    "float": lambda value: value.__class__ is float,
    "int": lambda value: value.__class__ is int,
    "str": lambda value: value.__class__ is str,
    "Annotated[int, Field(ge=0)]": lambda value: value.__class__ is int and value >= 0,
    "Index": lambda value: value.__class__ is tuple and [one.__class__ for one in value] == [int] * 3,
}
_CHECKED = re.compile(r"Annotated\[str, AfterValidator\((\w+)\)\]")


@functools.cache
def _exact_test(kind: str, module: str) -> Callable[[Any], bool]:
    """Return a function that recognizes values which the model of a record keeps as they are.

    `kind` is the type of the field, as it is written in the module.  Values that the function does not recognize are
    left to the model.
    """
    if kind in _EXACT:
        return _EXACT[kind]
    if kind.endswith(" | None"):
        other = _exact_test(kind.removesuffix(" | None"), module)
        return lambda value: value is None or other(value)
    if kind.startswith("list["):
        element = _exact_test(kind[5:-1], module)
        return lambda value: value.__class__ is list and all(map(element, value))
    if validated := _CHECKED.fullmatch(kind):
        return functools.partial(_passes, getattr(sys.modules[module], validated[1]))
    named = getattr(sys.modules[module], kind, None)
    if get_origin(named) is Literal:
        return lambda value: value.__class__ is str and value in get_args(named)
    if isinstance(named, type) and issubclass(named, _Plain):
        return lambda value: isinstance(value, named)
    return lambda _: False


def _passes(check: Callable[[str], str], value: Any) -> bool:
    try:
        return value.__class__ is str and check(value) == value
    except ValueError:
        return False


_blanks: dict[Any, Any] = {}
_models: dict[Any, type[BaseModel]] = {}


def _blank(cls: Any) -> Any:
    """Return an object with the defaults of its class."""
    if cls not in _blanks:
        required = {name: None for name, default in cls._fields.items() if default is _REQUIRED}
        _blanks[cls] = cls.model_construct(_fields_set=set(), **required)
    return _blanks[cls]


def _model(cls: Any) -> type[BaseModel]:
    """Return the Pydantic model with the fields of a record."""
    made = _models.get(cls)
    if made is None:
        made = _models[cls] = _made_model(cls)
    return made


def _made_model(cls: Any) -> type[BaseModel]:
    import pydantic

    names = {"Field": pydantic.Field, "AfterValidator": pydantic.AfterValidator}
    fields: dict[str, Any] = {}
    for name, default in cls._fields.items():
        kind, module = cls._kinds[name]
        if default is _REQUIRED:
            default = ...
        elif isinstance(default, Derived):
            default = pydantic.Field(default_factory=default.make)
        fields[name] = (eval(kind, {**names, **vars(sys.modules[module])}), default)

    def check(model: BaseModel) -> BaseModel:
        cls._of(model)._check_fields()
        return model

    checks: dict[str, Any] = {}
    if cls._check_fields is not Record._check_fields:
        checks["_check"] = pydantic.model_validator(mode="after")(check)
    made: type[BaseModel] = pydantic.create_model(
        cls.__name__,
        __config__=pydantic.ConfigDict(extra="forbid", frozen=True),
        __doc__=cls.__doc__,
        __module__=cls.__module__,
        __validators__=checks,
        **fields,
    )
    return made
