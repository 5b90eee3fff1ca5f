"""The PTX fallback: a kernel that the front end cannot read is compiled by Numba-CUDA and launched as PTX.

If Numba-CUDA and its compiler's wheels are installed (`pip install 'wsemu[gpu]'`; no GPU is needed), wsemu runs the PTX
that it compiles, which refers to the lines of the source.  A note of the report mentions it; `--no-numba-ptx` disables
it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import weakref
from typing import TYPE_CHECKING, Any

from wsemu.launch.hooks import aside
from wsemu.launch.ptx.code import PtxCode
from wsemu.launch.ptx.reading import read
from wsemu.launch.ptx.values import Variables
from wsemu.model.data import NamedTuple
from wsemu.model.errors import MissingName, UnsupportedError, UsageError, WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.frontend.ptx import Entry, Module
    from wsemu.model.launch_shape import LaunchConfiguration


class NumbaKernel(PtxCode):
    """A kernel as Numba-CUDA's PTX, whose parameters are the parts of the arguments."""

    is_cuda = False

    def __init__(self, modules: Sequence[Module], entry: Entry, name: str, names: Sequence[str], why: str) -> None:
        super().__init__(modules[0], entry, name, Variables(modules))
        self._own = tuple(names)
        self.notes = (f"run from Numba-CUDA's PTX, because wsemu cannot read the source: {why}",)

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        return self._own

    def _check_target(self, configuration: LaunchConfiguration) -> None:
        """Accept every architecture, because Numba-CUDA compiles the kernel again for each."""


class Way(NamedTuple):
    """A kernel in the form of PTX, and its arguments in this form."""

    kernel: NumbaKernel
    arguments: Sequence[Any]


_made: weakref.WeakKeyDictionary[Any, dict[Any, NumbaKernel | str]] = weakref.WeakKeyDictionary()
"""for each function and argument types, the PTX kernel, or the reason why Numba-CUDA does not compile it"""


def open_to(kernel: Any, arguments: Sequence[Any], error: UnsupportedError) -> Way | None:
    """Return the kernel and these arguments in the form of PTX, or None if Numba-CUDA is missing or cannot compile
    it."""
    if not hasattr(kernel, "py_func"):
        return None
    with _numba_cuda() as found:
        if not found:
            return None
        from wsemu.backends import numba_cuda, offline

        given = tuple(arguments)
        programs = _made.setdefault(kernel.py_func, {})
        key: tuple[Any, ...] = tuple(map(type, given)) if given else ()
        try:
            key = (*key, *(str(numba_cuda.argument_type(value)) for value in given))
            if key not in programs:
                made = offline.compile_kernel(kernel, given, lineinfo=True)
                programs[key] = _load_kernel(kernel, (made.ptx, *made.linked), given, error)
        except WsemuError as refused:
            programs[key] = f"the PTX of Numba-CUDA does not run: {_first_line(refused)}"
        except Exception as refused:  # Numba raises various errors for a kernel that it does not accept
            programs[key] = f"Numba-CUDA also rejects it: {_first_line(refused)}"
        made_or_why = programs[key]
        if isinstance(made_or_why, str):
            error.remedy = f"{error.remedy}; {made_or_why}".lstrip("; ")
            return None
        return Way(made_or_why, offline.pack_arguments(given))


def ask_compiled(kernel: Any, types: Sequence[Any], get: Callable[[Any], Any]) -> Any:
    """Return the result of `get` for the kernel as Numba-CUDA compiles it for these Numba types; UsageError with the
    reason if it does not compile."""
    with _numba_cuda() as found:
        if not found:
            raise UsageError("Numba-CUDA is not installed")
        from wsemu.backends import offline

        try:
            return get(offline.compile_signature(kernel, tuple(types)))
        except Exception as refused:  # Numba raises various errors, also if its compiler is missing
            raise UsageError(f"Numba-CUDA rejects it: {_first_line(refused)}") from None


def asking(name: str) -> Any:
    """Return a function of Numba-CUDA's own compiler, such as `compile_ptx`, which compiles for an sm_90 instead of the
    present device; raise MissingName if Numba-CUDA is not installed."""
    if importlib.util.find_spec("numba_cuda") is None:
        raise MissingName(
            f"`cuda.{name}` is not modelled",
            remedy="install its compiler with `pip install 'wsemu[gpu]'`, or remove the call",
        )

    def ask(pyfunc: Any, *arguments: Any, **named: Any) -> Any:
        with _numba_cuda():
            from wsemu.backends import offline

            try:
                return offline.call_for_sm_90(name, getattr(pyfunc, "py_func", pyfunc), *arguments, **named)
            except Exception as refused:
                raise UsageError(f"`cuda.{name}`, of Numba-CUDA: {_first_line(refused)}") from refused

    ask.__name__ = name
    return ask


def _first_line(error: Exception) -> str:
    lines = [line for line in str(getattr(error, "message", error)).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


@contextlib.contextmanager
def _numba_cuda() -> Iterator[bool]:
    """Use Numba-CUDA itself, if it is installed, inside the `with` block: modules that replace it are removed there."""
    with contextlib.ExitStack() as stack:
        for step in (*aside, _disabling_simulator):
            stack.enter_context(step())
        from wsemu.backends import numba_cuda

        try:
            numba_cuda.numba_cuda()
        except UsageError:
            yield False
            return
        yield True


@contextlib.contextmanager
def _disabling_simulator() -> Iterator[None]:
    """Use Numba-CUDA as a compiler even if the program requests its simulator.  Without Numba, do nothing."""
    try:
        from numba.core import config
    except ImportError:
        yield
        return
    variable, chosen = os.environ.pop("NUMBA_ENABLE_CUDASIM", None), config.ENABLE_CUDASIM
    config.ENABLE_CUDASIM = 0
    try:
        yield
    finally:
        config.ENABLE_CUDASIM = chosen
        if variable is not None:
            os.environ["NUMBA_ENABLE_CUDASIM"] = variable


def _load_kernel(kernel: Any, texts: Sequence[str], arguments: tuple[Any, ...], error: UnsupportedError) -> NumbaKernel:
    from wsemu.backends import offline
    from wsemu.frontend.ptx import link

    code = kernel.py_func.__code__
    modules = link([read(text, (os.path.dirname(os.path.abspath(code.co_filename)),)) for text in texts])
    (entry,) = modules[0].entries.values()
    names = offline.parameter_names(arguments, code.co_varnames[: code.co_argcount])
    return NumbaKernel(modules, entry, kernel.__name__, names, error.message)
