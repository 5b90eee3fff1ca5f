"""Our dataclasses and named tuples are those of the standard library: the same objects, made of the same source."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from typing import Any, ClassVar

import pytest

from wsemu.model import data


@data.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    names: list[str] = data.field(default_factory=list)
    note: str = data.field(default="", compare=False, repr=False)


@data.dataclass(slots=True)
class Count:
    kind: ClassVar[str] = "count"
    n: int = 0
    seen: dict[str, int] = data.field(default_factory=dict, init=False)
    twice: int = data.field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


@data.dataclass(frozen=True)
class Base:
    a: int
    b: int = 1


@data.dataclass(frozen=True)
class Derived(Base):
    b: int = 3
    c: Any = None


@data.dataclass(slots=True, eq=False)
class Same:
    a: int


class Pair(data.NamedTuple):
    """Two of them."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    @classmethod
    def of(cls, first: int) -> Pair:
        return cls(first)


class Standard(typing.NamedTuple):
    first: int
    second: str = "b"


class Wider(Pair):
    def __new__(cls, first: int) -> Wider:
        return super().__new__(cls, 2 * first, "c")


def test_fields_have_the_values_given_or_their_defaults():
    point = Point(1)
    assert (point.x, point.y, point.names, point.note) == (1, 2, [], "")
    assert Point(1).names is not Point(1).names
    assert (Count(3).twice, Count(3).seen, Count.kind) == (6, {}, "count")
    assert (Derived(1).b, Derived(1, 2, c=4).c, Base(1).b) == (3, 4, 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]


def test_an_object_is_made_whose_class_another_thread_compiles_meanwhile():
    @data.dataclass(slots=True)
    class Early:
        n: int

    @data.dataclass(slots=True)
    class Late(Early):
        m: int

    first, late = Late.__init__, Late.__new__(Late)
    Late(1, 2)
    first(late, 2, 3)
    assert late == Late(2, 3)


def test_objects_compare_by_their_fields():
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Point(2)
    assert Base(1, 3) != Derived(1)
    assert hash(Base(1)) == hash(Base(1))
    assert Same(1) != Same(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Count())


def test_a_frozen_object_does_not_change():
    for change in (lambda p: setattr(p, "x", 2), lambda p: delattr(p, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
            change(Point(1))
    with pytest.raises(AttributeError):
        Count().other = 1  # type: ignore[attr-defined]


def test_they_are_shown_copied_and_pickled():
    point = Point(1, 3, ["a"], "b")
    assert repr(point) == "Point(x=1, y=3, names=['a'])"
    for copied in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (copied, copied.note) == (point, "b")
    assert pickle.loads(pickle.dumps(Count(2))) == Count(2)
    match point:
        case Point(x, y):
            assert (x, y) == (1, 3)


@pytest.mark.parametrize("replace", [data.replace, dataclasses.replace])
def test_replace_keeps_the_rest(replace):
    changed = replace(Point(1, 3, note="n"), y=4)
    assert (changed.x, changed.y, changed.note) == (1, 4, "n")
    assert replace(Count(2), n=5).twice == 10


def test_the_standard_library_knows_their_fields():
    assert dataclasses.is_dataclass(Point)
    assert [part.name for part in dataclasses.fields(Derived)] == ["a", "b", "c"]
    assert dataclasses.asdict(Point(1, names=["a"])) == {"x": 1, "y": 2, "names": ["a"], "note": ""}
    assert [part.name for part in dataclasses.fields(Base(1))] == ["a", "b"]
    assert Point.__dataclass_fields__ is Point.__dataclass_fields__


def test_a_dataclass_of_the_standard_library_is_replaced_too():
    made = dataclasses.make_dataclass("Made", [("a", int)])
    assert data.replace(made(1), a=2).a == 2


def test_named_tuples_are_as_those_of_typing():
    ours: Any = Pair(1)
    theirs: Any = Standard(1)
    assert ours == theirs == (1, "b")
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs).replace("Standard", "Pair")
    assert (ours.first, ours.second, ours.both) == (1, "b", "1b")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(second="c") == Pair(1, "c") == Pair._make((1, "c")) == Pair(second="c", first=1)
    assert (Pair._fields, Pair._field_defaults) == (Standard._fields, Standard._field_defaults)
    assert Pair.__match_args__ == Standard.__match_args__
    assert typing.get_type_hints(Pair) == typing.get_type_hints(Standard)
    assert isinstance(ours, tuple)
    assert not hasattr(ours, "__dict__")


def test_named_tuples_are_copied_pickled_and_derived_from():
    assert copy.deepcopy(Pair(1)) == pickle.loads(pickle.dumps(Pair(1))) == Pair.of(1)
    assert isinstance(pickle.loads(pickle.dumps(Pair(1))), Pair)
    assert (Wider(2), Wider(2).both, type(Wider(2))) == ((4, "c"), "4c", Wider)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair(), "missing 1 required positional argument: 'first'"),  # type: ignore[call-arg]
        (lambda: Pair(1, "b", 3), "takes from 2 to 3 positional arguments but 4 were given"),  # type: ignore[call-arg]
        (lambda: Pair._make((1, 2, 3)), "Expected 2 arguments, got 3"),
    ],
)
def test_named_tuples_take_no_other_values(make, message):
    with pytest.raises(TypeError, match=message):
        make()
    with pytest.raises(ValueError, match="unexpected field names: \\['third'\\]"):
        Pair(1)._replace(third=3)  # type: ignore[call-arg]
