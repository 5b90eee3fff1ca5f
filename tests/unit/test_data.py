"""`wsemu.model.data` makes the classes that `dataclasses` makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from wsemu.model.data import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    kinds: ClassVar[int] = 3
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = ""
    hidden: int = field(default=1, repr=False)


@dataclass(slots=True)
class Sum:
    parts: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.parts)


@dataclass(slots=True, eq=False)
class Alone:
    x: int = 0


@dataclass(frozen=True)
class Open:
    x: int
    y: int = 5


def _standard(made: Any, **options: Any) -> Any:
    """The standard library's class of the same fields."""
    parts = [(part.name, Any, _again(part)) for part in made.__data_fields__]
    space = {name: value for name, value in vars(made).items() if name == "__post_init__"}
    return dataclasses.make_dataclass(made.__qualname__, parts, namespace=space, **options)


def _again(part: Any) -> Any:
    options = {name: getattr(part, name) for name in ("default", "default_factory", "init", "repr", "compare")}
    return dataclasses.field(**options)


_SAME: list[tuple[Any, dict[str, bool], Callable[[Any], Any]]] = [
    (Point, {"frozen": True, "slots": True}, lambda c: c(1)),
    (Point, {"frozen": True, "slots": True}, lambda c: c(1, tags=["a"])),
    (Named, {"frozen": True, "slots": True}, lambda c: c(1, 3, ["b"], name="n")),
    (Sum, {"slots": True}, lambda c: c([1, 2, 4])),
    (Alone, {"slots": True, "eq": False}, lambda c: c()),
    (Open, {"frozen": True}, lambda c: c(y=1, x=2)),
]


@pytest.mark.parametrize(("made", "options", "one"), _SAME)
def test_the_same_as_of_the_standard_library(made: Any, options: dict[str, bool], one: Callable[[Any], Any]) -> None:
    standard = _standard(made, **options)
    assert repr(one(made)) == repr(one(standard))
    assert (one(made) == one(made)) == (one(standard) == one(standard))
    assert (made.__hash__ is None) == (standard.__hash__ is None)
    assert made.__match_args__ == standard.__match_args__
    assert list(inspect.signature(made).parameters) == list(inspect.signature(standard).parameters)
    assert [part.name for part in dataclasses.fields(made)] == [part.name for part in dataclasses.fields(standard)]
    assert dataclasses.asdict(one(made)) == dataclasses.asdict(one(standard))
    assert hasattr(one(made), "__dict__") == hasattr(one(standard), "__dict__")


def test_of_equal_fields_are_equal_and_have_one_hash() -> None:
    assert Point(1) == Point(1, tags=["not compared"])
    assert hash(Point(1)) == hash(Point(1, tags=["not compared"]))
    assert Point(1) != Point(2)
    assert Named(1) != Point(1)
    pair: Any = (1, 2)
    assert Point(1) != pair
    assert Alone(1) != Alone(1)


def test_frozen_ones_do_not_change() -> None:
    for obj in (Point(1), Open(1)):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            obj.x = 2  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del obj.x


def test_defaults_are_made_for_each() -> None:
    assert Point(1).tags is not Point(1).tags


@pytest.mark.parametrize("obj", [Named(1, name="n"), Sum([1]), Open(3)])
def test_replaced_copied_and_pickled(obj: Any) -> None:
    same = (replace(obj), dataclasses.replace(obj), copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj)))
    assert all(type(other) is type(obj) and other == obj for other in same)


def test_replaced_fields_are_others() -> None:
    assert replace(Named(1, name="n"), x=4) == Named(4, name="n")
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        replace(Point(1), z=4)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Open()  # type: ignore[call-arg]


def test_a_field_that_is_a_list_of_itself_is_shown() -> None:
    obj = Sum([1])
    obj.parts.append(obj)  # type: ignore[arg-type]
    assert "..." in repr(obj)
