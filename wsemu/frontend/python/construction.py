"""Objects that a kernel constructs: on the host if the class is a pattern's and all fields are known, otherwise field
by field."""

# mypy: disable-error-code="misc"
# (`self` is the complete `Walker` in the methods of each of its parts)
from __future__ import annotations

import ast
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import trial
from wsemu.frontend.python.frames import NONE
from wsemu.frontend.python.values import PatternValue, Scalar, Value
from wsemu.model.errors import KernelError, UsageError

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker


_signature = functools.lru_cache(maxsize=1024)(inspect.signature)


class Construction:
    """Methods of `Walker` for calls of classes."""

    def construct(self: Walker, cls: type, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Construct a pattern object: on the host if all its fields are known, otherwise field by field."""
        own = inspect.getattr_static(cls, "__init__", None)
        by_field = not isinstance(own, FunctionType) or _generates_init(cls)
        fields = self.collect_fields(cls, args, kwargs, node) if by_field else {}
        positional = [self.to_host(value) for value in args]
        named = {key: self.to_host(value) for key, value in kwargs.items()}
        if all(ok for ok, _ in (*positional, *named.values())):
            try:
                return self.host_value(
                    cls(*(v for _, v in positional), **{k: v for k, (_, v) in named.items()}), cls.__name__
                )
            except KernelError:
                raise
            except Exception as error:  # the checks of the class may raise anything
                raise self.refused_fields(cls, error, node) from error
        if not by_field:
            return self.initialise(PatternValue(cls, {}), cls, args, kwargs, node)
        found = {k: v if isinstance(v, Value) else self.host_value(v, k) for k, v in fields.items()}
        self.try_fields(cls, found, node)
        return PatternValue(cls, found)

    def collect_fields(
        self: Walker, cls: type, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> dict[str, Any]:
        """Return the fields by name, for a class whose parameters are its fields; defaults are host values."""
        signature = _signature(cls)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self.wrong_fields(cls, signature, str(error), len(args), kwargs, node) from error
        bound.apply_defaults()
        return bound.arguments

    def wrong_fields(
        self: Walker,
        cls: type,
        signature: inspect.Signature,
        said: str,
        count: int,
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> KernelError:
        """Return the error for arguments that are not the fields of a class."""
        remedy = f"its fields are {', '.join(signature.parameters)}"
        strange = next((key for key in kwargs if key not in signature.parameters), None)
        if strange is not None:
            import difflib

            near = difflib.get_close_matches(strange, signature.parameters, n=1)
            said, remedy = f"no field `{strange}`", f"did you mean `{near[0]}`? {remedy}" if near else remedy
        elif said.startswith("too many"):
            most = sum(p.kind is not p.KEYWORD_ONLY for p in signature.parameters.values())
            said = f"{count} arguments by position, for {most} field{'s' * (most != 1)}"
        return self.error(node, f"`{cls.__name__}`: {said.replace(chr(39), '`')}", remedy)

    def refused_fields(self: Walker, cls: type, error: Exception, node: ast.AST) -> KernelError:
        """Return the error of a class that does not accept its fields; `words` has the remedy after its colon."""
        what, _, remedy = str(error).partition(": ") if isinstance(error, UsageError) else (str(error), "", "")
        names = ", ".join(_signature(cls).parameters)
        return self.error(node, f"`{cls.__name__}`: {what}", remedy or f"check its fields: {names}")

    def try_fields(self: Walker, cls: type, fields: dict[str, Value], node: ast.AST) -> None:
        """Reject known fields that the class does not accept, whatever the other fields are."""
        known, unknown = {}, []
        for name, value in fields.items():
            is_known, known[name] = self.to_host(value)
            if is_known:
                continue
            if not isinstance(value, Scalar) or value.type.kind not in "iu":
                return  # for example, a class may check types
            unknown.append(name)
            del known[name]
        error = trial.refusal(cls, known, tuple(unknown))
        if error is not None:
            raise self.refused_fields(cls, error, node) from error

    def initialise(
        self: Walker, receiver: Value, cls: type, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """Return the object after the `__init__` of a plain class."""
        function = inspect.getattr_static(cls, "__init__", None)
        if not isinstance(function, FunctionType):  # `object.__init__`, which does nothing
            return receiver
        return self.walk_function(function, [receiver, *args], kwargs, node, builds=function.__code__.co_varnames[0])

    def call_parent(
        self: Walker,
        node: ast.Call,
        receiver: Value,
        parent: type,
        name: str,
        args: list[Value],
        kwargs: dict[str, Value],
    ) -> Value:
        """Lower `super().name(...)`; the parent's `__init__` sets further fields of the object under construction."""
        building = self.frame.builds
        if name == "__init__" and building:
            self.env[building] = self.initialise(receiver, parent, args, kwargs, node)
            return NONE
        return self.call_method(receiver, parent, name, args, kwargs, node)


def _generates_init(cls: type) -> bool:
    """Return whether a class has a generated `__init__`, whose parameters are its fields: a dataclass, a pydantic
    model, a named tuple."""
    return any(hasattr(cls, name) for name in ("__dataclass_fields__", "__pydantic_fields__", "_fields"))
