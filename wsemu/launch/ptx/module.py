"""`load_ptx`: the kernels of a PTX file, to launch and check like those in Python."""

from __future__ import annotations

import difflib
import functools
import hashlib
import linecache
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.evidence.source_cuda import refine
from wsemu.launch.kernel import CodeKernel
from wsemu.launch.ptx.demangle import Function, demangle
from wsemu.launch.ptx.parameter_names import parameter_names, renamed
from wsemu.launch.ptx.values import Variables
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.launch_shape import clustered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.frontend.ptx import Entry, Module
    from wsemu.frontend.ptx.module import Kind
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program

SUFFIX = ".ptx"
LARGEST = 64 << 20
"""bytes of a file"""
_SHOWN = 8
"""names of kernels that a message lists"""


class EntryError(UsageError, KeyError):
    """A PTX file has no such kernel, or several."""

    __str__ = Exception.__str__  # not that of KeyError, which quotes


def load_ptx(source: str | os.PathLike[str], *more: str | os.PathLike[str]) -> PtxModule:
    """The kernels of PTX text, or of a file of it, by name: `wsemu.load_ptx("kernels.ptx")["saxpy"]`.

    A name is the mangled or the C++ one, with or without parameters, or the beginning of one kernel's name.  With
    `more` files they are linked: each may name functions and variables that another one defines (`.extern`, `.visible`,
    `.weak`).  UsageError for a file that cannot be read, KernelError for what is no PTX, with line and column, and for
    what two files define.
    """
    from wsemu.frontend.ptx import link

    modules = [_parsed(one) for one in (source, *more)]
    return PtxModule(link(modules) if more else tuple(modules))


def _parsed(source: str | os.PathLike[str]) -> Module:
    from wsemu.frontend.ptx import parse

    text, file = _text(source)
    try:
        return parse(text, file)
    except RecursionError:
        raise KernelError(f"`{os.path.basename(file)}` nests blocks too deeply") from None


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text, and the file that it is shown from."""
    if isinstance(source, str) and ("\n" in source or ".version" in source):
        file = f"<ptx {hashlib.sha256(source.encode(errors='replace')).hexdigest()[:8]}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        return source, file
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(f"load_ptx got a {type(source).__name__}: give PTX text, or the path of a file")
    path = Path(source)
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= LARGEST else b""
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > LARGEST:
        raise UsageError(f"`{path}` has {size:,} bytes: wsemu reads at most {LARGEST:,}")
    if b"\0" in data:
        what = "a cubin or an object file" if data.startswith(b"\x7fELF") else "no text"
        raise UsageError(f"`{path}` is {what}: give PTX text, as `nvcc -ptx` writes it")
    return data.decode(errors="replace"), os.path.abspath(path)


class PtxModule(Mapping[str, "PtxKernel"]):
    """The kernels of a PTX file, or of files that are linked, by name; iterates over their names in PTX."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._module = modules[0]
        self._variables = Variables(modules)
        entries = {name: (module, entry) for module in modules for name, entry in module.entries.items()}
        functions = {name: demangle(name) for name in entries}
        shared = Counter(function.name for function in functions.values())
        self._kernels = {
            name: PtxKernel(*found, _shown(functions[name], shared), self._variables) for name, found in entries.items()
        }

    def set(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give `__device__` and `__constant__` variables values, as `cudaMemcpyToSymbol` does: `module.set(scale=2.0)`.

        A name is that of PTX, or the C++ one.  Values are what arguments are: numbers, bytes, structures, and arrays of
        as many bytes as the variable has; a pointer is an array, whose address it gets.  An array is used in place:
        what launches store into the variable stays in it; anything else is there anew at each launch.  UsageError for
        a name that there is not, and for another size.
        """
        self._variables.set({**(values or {}), **named})

    def __getitem__(self, name: str) -> PtxKernel:
        """The kernel of this name: in PTX, in C++, or the beginning of one."""
        if name in self._kernels:
            return self._kernels[name]
        for match in (_equals, _begins):
            found = [kernel for kernel in self._kernels.values() if match(kernel, name)]
            if len(found) == 1:
                return found[0]
            if found:
                raise EntryError(f"`{name}` is the name of {len(found)} kernels: {_listed(found)}; write more of it")
        raise EntryError(f"no kernel `{name}` in `{self.name}`: {self._suggestion(name)}")

    def only(self) -> PtxKernel:
        """The kernel of a file that has one."""
        if len(self._kernels) == 1:
            return next(iter(self._kernels.values()))
        if not self._kernels:
            raise EntryError(f"`{self.name}` has no kernel: no `.entry` with a body")
        raise EntryError(f"`{self.name}` has {len(self._kernels)} kernels: {_listed(self._kernels.values())}; name one")

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"<PTX {self.name}: {_listed(self._kernels.values()) or 'no kernel'}>"

    @property
    def name(self) -> str:
        """Of the file."""
        file = self._module.source.path
        return file if file.startswith("<") else os.path.basename(file)

    def _suggestion(self, name: str) -> str:
        if not self._kernels:
            return "it has none, no `.entry` with a body"
        near = difflib.get_close_matches(name, [k.__name__ for k in self._kernels.values()], 1, 0.6)
        return f"did you mean `{near[0]}`?" if near else f"it has {_listed(self._kernels.values())}"


def _shown(function: Function, shared: Counter[str]) -> str:
    """How a kernel is called: without its parameters, unless another one has the same name."""
    return function.name if shared[function.name] == 1 else str(function)


def _equals(kernel: PtxKernel, name: str) -> bool:
    wanted = name.replace(" ", "")
    return any(wanted == known.replace(" ", "") for known in kernel.known_as)


def _begins(kernel: PtxKernel, name: str) -> bool:
    wanted = name.replace(" ", "")
    return bool(wanted) and any(known.replace(" ", "").startswith(wanted) for known in kernel.known_as)


def _listed(kernels: Any) -> str:
    names = [f"`{kernel.__name__}`" for kernel in kernels]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class PtxKernel(CodeKernel):
    """A kernel of a PTX file: `kernel[grid, block](*arguments)` launches it, checked.

    Arrays go to parameters of 64 bits, which get their address; numbers take the type of the parameter; structures by
    value are bytes, NumPy records, or tuples of fields.
    """

    def __init__(self, module: Module, entry: Entry, name: str, variables: Variables) -> None:
        self.entry = entry
        self._variables = variables
        self.__name__ = self.__qualname__ = name
        self.__doc__ = str(demangle(entry.name))
        self._module = module
        self._programs: dict[tuple[tuple[Kind, ...], bool], Program] = {}

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        return parameter_names(self._module, self.entry)

    @functools.cached_property
    def known_as(self) -> tuple[str, ...]:
        """The names that it is found by, the one in PTX last."""
        function = demangle(self.entry.name)
        local = function.name.rpartition("::")[2] if "<" not in function.name else function.name
        return (function.name, str(function), local, self.entry.name)

    @property
    def block(self) -> tuple[int, ...]:
        """The threads of a CTA that its PTX asks for, or at most allows; nothing where it says neither."""
        given = self._module.file.functions[self.entry.name].directives
        found = given.get("reqntid") or given.get("maxntid")
        return tuple(found.values) if found is not None else ()

    def set(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give variables of its file, which other kernels there have, too, values: see `PtxModule.set`."""
        self._variables.set({**(values or {}), **named})

    def fit(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The arguments as they are passed, arrays and bytes; UsageError for a wrong number or type."""
        from wsemu.launch.ptx.arguments import fitted

        return fitted(self.entry.parameters, self._names, arguments, self.__name__)

    def names(self, arguments: Sequence[Any]) -> tuple[str, ...]:
        """The names of the parameters: those of the CUDA source where it is there, else as in PTX."""
        return self._names

    def program(self, arguments: Sequence[Any], fma: bool) -> Program:
        """The program for fitted arguments; compiled once for arguments of this kind."""
        from wsemu.frontend.ptx import compile_entry
        from wsemu.launch.binding import Packed

        kinds: tuple[Kind, ...] = tuple(
            "value" if isinstance(argument, Packed) else "address" for argument in arguments
        )
        if (kinds, fma) not in self._programs:
            try:
                program = compile_entry(self._module, self.entry, kinds, fma=fma)
            except RecursionError:
                raise KernelError(f"`{self.__name__}` calls functions too deeply") from None
            program.name = self.__name__
            self._variables.enter(program)
            renamed(program, {p.name: name for p, name in zip(self.entry.parameters, self._names, strict=True)})
            refine(program)
            self._programs[kinds, fma] = program
        return self._variables.given(self._programs[kinds, fma])

    def admit(self, configuration: LaunchConfiguration) -> None:
        """UsageError for a CTA that `.maxntid` or `.reqntid` excludes: a GPU refuses the launch, too."""
        threads = " x ".join(map(str, configuration.block))
        required, most = (_three(given) for given in (self.entry.reqntid, self.entry.maxntid))
        if required and configuration.block != required:
            wanted = ", ".join(map(str, required))
            raise UsageError(f"block of {threads} threads: `{self.__name__}` has `.reqntid {wanted}`; launch that many")
        limit = most[0] * most[1] * most[2] if most else configuration.threads
        if configuration.threads > limit:
            raise UsageError(
                f"block of {configuration.threads:,} threads: `{self.__name__}` was compiled for at most {limit:,} "
                "(`.maxntid`, from `__launch_bounds__`); use a smaller block"
            )

    def clustered(self, configuration: LaunchConfiguration) -> LaunchConfiguration:
        """A launch in the clusters of `.reqnctapercluster`; UsageError where it asks for others."""
        required = _three(self.entry.cluster)
        if self.entry.explicit and not required and configuration.cluster == (1, 1, 1):
            raise UsageError(f"`{self.__name__}` has `.explicitcluster`: give `cluster=`, the CTAs of a cluster")
        if not required or configuration.cluster == required:
            return configuration
        if configuration.cluster != (1, 1, 1):
            wanted = ", ".join(map(str, required))
            raise UsageError(f"`{self.__name__}` has `.reqnctapercluster {wanted}`: launch it in such clusters")
        return clustered(configuration, required)

    def source(self) -> tuple[str, int, int]:
        """Where the kernel stands in the PTX."""
        return self._module.source.path, self.entry.line, self.entry.end_line

    def on(self, target: str) -> Any:
        """This kernel on `"emulator"`; PTX is not sent to a GPU."""
        if target == "emulator":
            return self
        raise UsageError(f"`{self.__name__}` is PTX, which wsemu runs on the emulator alone, not on {target!r}")


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    """Extents in x, y, z; nothing where none are given."""
    return (*extents, 1, 1)[:3] if extents else ()
