"""Markers: the host side of names of `wsemu.cuda` and `wsemu.ptx` that only work inside kernels.

Inside a kernel, the front end implements each name (`frontend.python.library`).  On the host, a marker only has a name
and a docstring; calling it, or computing with it, raises an error that explains this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Parameter(NamedTuple):
    """A parameter of a kernel function; it must be given if it has no default."""

    name: str
    has_default: bool
    variadic: bool


def _raise_outside(name: str, what: str) -> NoReturn:
    from wsemu.model.errors import UsageError  # on demand: kernels' modules import this one early

    raise UsageError(f"`{name}` {what} only inside a kernel: decorate the function with `@cuda.jit` and launch it")


class KernelFunction:
    """A function that only kernels can call."""

    def __init__(self, module: str, signature: str, doc: str) -> None:
        name = signature.partition("(")[0]
        self.__name__ = name.rsplit(".", 1)[-1]
        self.__qualname__ = name
        self.__module__ = f"wsemu.{module}"
        self.__doc__ = f"{signature}\n\n{doc}"
        self.name = f"{module}.{name}"
        self.signature = f"{module}.{signature}"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of the function."""
        rest = self.signature.partition("(")[2]
        parts = (p.strip() for p in rest.rstrip(")").split(",")) if rest != ")" else ()
        return tuple(Parameter(p.partition("=")[0].lstrip("*"), "=" in p, p.startswith("*")) for p in parts)

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        _raise_outside(self.name, "can be called")

    def __repr__(self) -> str:
        return f"<kernel function {self.signature}>"


class KernelValue:
    """A number that only a running thread has, such as `cuda.threadIdx.x`."""

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def _refuse(self, *_: object) -> NoReturn:
        _raise_outside(self.name, "has a value")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = (
        _refuse
    )
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __pos__ = __invert__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = __index__ = _refuse

    def __repr__(self) -> str:
        return f"<kernel value {self.name}>"


class Namespace:
    """A group of markers: `cuda.atomic`, `cuda.shared`, `cuda.threadIdx`."""

    def __init__(self, name: str, doc: str, members: dict[str, Any]) -> None:
        self.__doc__ = doc
        self.__name__ = self._name = name
        self._members = members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = self._members.get(name)
        if member is None:
            raise AttributeError(unknown(f"`{self._name}`", name, self._members))
        return member

    def has(self, value: object) -> bool:
        """Return whether a value is a member of the group."""
        return any(member is value for member in self._members.values())

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"<kernel namespace {self._name}>"


class Declared:
    """A function decorated by `cuda.jit`; `launch.kernel.Kernel` can be launched.

    `py_func` is the original function, `device` is true if only kernels call it, and `options` are those of `jit`.
    """

    py_func: Any
    device: bool
    options: dict[str, Any]
    __name__: str


class ScalarType:
    """A number type by Numba's name, for kernels on machines without Numba: `cuda.types.float32`."""

    def __init__(self, name: str) -> None:
        self.number_name = self.__name__ = name

    def __getitem__(self, index: Any) -> Any:
        """Return Numba's array type, for signatures: `float32[:]`."""
        return self._numba()[index]

    def __call__(self, *arguments: Any) -> Any:
        """Return Numba's signature with this result, or a number of this type."""
        return self._numba()(*(a._numba() if isinstance(a, ScalarType) else a for a in arguments))

    def _numba(self) -> Any:
        from wsemu.model.numba_library import load_numba  # on demand: kernels' modules import this one early

        return getattr(load_numba("numba.types"), self.number_name)

    def __repr__(self) -> str:
        return self.number_name


class NumbaTypes(Namespace):
    """Types by Numba's names: wsemu's own types if they exist, which do not need Numba, otherwise Numba's."""

    def __getattr__(self, name: str) -> Any:
        if name in self._members or name.startswith("__"):
            return super().__getattr__(name)
        from wsemu.model.numba_library import load_numba  # on demand: kernels' modules import this one early

        found = getattr(load_numba("numba.core.types"), name, None)
        return super().__getattr__(name) if found is None else found


class Foreign:
    """A name of Numba-CUDA that only its own compiler supports, or the result of calling it.

    A kernel that uses it is not modeled unless Numba-CUDA compiles the kernel; then it is the object at `path`.
    """

    def __init__(self, path: str, made: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None) -> None:
        self.path = path
        self.made = made
        self.__name__ = path.rpartition(".")[2]
        self.__module__ = "numba.cuda"

    def __call__(self, *arguments: Any, **named: Any) -> Foreign:
        return Foreign(self.path, (self, arguments, named))

    def __getattr__(self, name: str) -> Foreign:
        if name.startswith("__"):
            raise AttributeError(name)
        return Foreign(f"{self.path}.{name}")

    def __repr__(self) -> str:
        return f"<cuda.{self.path}, which wsemu does not model>"


class NotModelled:
    """A name of Numba-CUDA that is not implemented here: it can be imported, but its use raises an error."""

    def __init__(self, path: str, remedy: str = "do without it") -> None:
        self.__name__ = path.rpartition(".")[2]
        self._path, self._remedy = path, remedy

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        from wsemu.model.errors import UnsupportedError  # on demand: kernels' modules import this one early

        raise UnsupportedError(f"`{self._path}` is not modelled", remedy=self._remedy)

    def __getattr__(self, name: str) -> NotModelled:
        if name.startswith("__"):
            raise AttributeError(name)
        return NotModelled(f"{self._path}.{name}", self._remedy)

    def __mro_entries__(self, bases: Any) -> tuple[type]:
        """Allow classes to derive from it; it adds no base class."""
        return (type(self.__name__, (), {"__init__": self}),)

    def __instancecheck__(self, value: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._path}, which wsemu does not model>"


def functions(module: str, group: str, table: dict[str, str]) -> dict[str, Any]:
    """Return kernel functions by bare name, from a table of signature to description; `group` is their namespace or
    empty."""
    prefix = f"{group}." if group else ""
    made = (KernelFunction(module, prefix + signature, doc) for signature, doc in table.items())
    return {function.__name__: function for function in made}


def unknown(where: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that `where` lacks, with similar names that it contains."""
    import difflib

    near = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
    return f"{where} has no attribute `{name}`{hint}"
