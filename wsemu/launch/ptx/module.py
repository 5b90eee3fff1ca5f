"""`load_ptx`: the kernels of a PTX file, which are launched and checked like Python kernels."""

from __future__ import annotations

import difflib
import functools
import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wsemu.launch.kernel import Launchable
from wsemu.launch.ptx.code import PtxCode
from wsemu.launch.ptx.demangle import Function, demangle
from wsemu.launch.ptx.nvcc import Request, find_templates, is_cuda, split_flags
from wsemu.launch.ptx.program_store import open_store
from wsemu.launch.ptx.reading import read, read_cuda
from wsemu.launch.ptx.values import Variables
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.frontend.ptx import Entry, Module
    from wsemu.launch.ptx.program_store import ProgramStore
    from wsemu.model.device_memory import DeviceMemory

_SHOWN = 8
"""names of kernels that a message lists"""


class EntryError(UsageError, KeyError):
    """A PTX file has no such kernel, or several."""

    __str__ = Exception.__str__  # not that of KeyError, which quotes


def load_ptx(
    source: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    nvcc: str | Sequence[str] = (),
    entries: Sequence[str] = (),
) -> PtxModule:
    """Return the kernels of PTX text, or of a PTX file, by name: `wsemu.load_ptx("kernels.ptx")["saxpy"]`.

    A .cu file is compiled by `nvcc` for the current architecture and with the flags in `nvcc`.  `entries` are kernel
    templates with arguments, such as `sums<true>`, which are instantiated unless the file does so itself.

    A kernel's name is its mangled or its C++ name, with or without parameters, or any unique prefix of it.  Files in
    `more` are linked: each may name functions and variables that another one defines (`.extern`, `.visible`, `.weak`).
    Raise UsageError for a file that cannot be read, and KernelError, with line and column, for text that is not PTX and
    for names that two files define.
    """
    from wsemu.frontend.ptx import link

    flags = split_flags(nvcc) if isinstance(nvcc, str) else tuple(nvcc)
    if not is_cuda(source):
        modules = [_read(one, flags, separate=bool(more)) for one in (source, *more)]
        return PtxModule(link(modules) if more else tuple(modules))
    made = Request(os.path.abspath(source), flags, (), bool(more))
    others = [_read(one, flags, separate=True) for one in more]
    module = _load_cuda(made, others)
    missing = tuple(name for entry in entries if (name := _find_template(entry)) and entry not in module)
    return _load_cuda(made._replace(entries=missing), others) if missing else module


def _read(source: str | os.PathLike[str], flags: tuple[str, ...], *, separate: bool) -> Module:
    """Return the module of a PTX or CUDA C++ source.  `separate` means that it is one of several linked files."""
    return read_cuda(Request(os.path.abspath(source), flags, (), separate)) if is_cuda(source) else read(source)


def _load_cuda(request: Request, others: Sequence[Module]) -> PtxModule:
    """Return the kernels of CUDA C++, linked with other modules."""
    from wsemu.frontend.ptx import link

    module = read_cuda(request)
    return PtxModule(link([module, *others]) if others else (module,), request.file)


def _find_template(entry: str) -> str:
    """Return the kernel's name with its template arguments but without parameters; empty if it has no template
    arguments."""
    return entry[: entry.rindex(">") + 1] if ">" in entry else ""


class PtxModule(Mapping[str, "PtxKernel"]):
    """The kernels of a PTX file, or of several linked files, by name; iteration yields their PTX names."""

    def __init__(self, modules: Sequence[Module], cuda: str = "") -> None:
        """Collect the kernels of linked modules; `cuda` is the CUDA C++ file from which the first one was compiled."""
        self._module, self._cuda = modules[0], cuda
        self._variables = Variables(modules)
        entries = {name: (module, entry) for module in modules for name, entry in module.entries.items()}
        functions = {name: demangle(name) for name in entries}
        shared = Counter(function.name for function in functions.values())
        store = open_store(self._module.source.text) if len(modules) == 1 else None
        self._kernels = {
            name: PtxKernel(*found, _display_name(functions[name], shared), self._variables, store)
            for name, found in entries.items()
        }

    def set(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give values to `__device__` and `__constant__` variables, as `cudaMemcpyToSymbol` does:
        `module.set(scale=2.0)`.

        A name is the PTX or the C++ name.  Values have the form of arguments: numbers, bytes, structures, and arrays
        with the size of the variable; for a pointer, pass an array, whose address the variable gets.  An array is used
        in place: values that launches store into the variable stay in it.  A variable with any other value is reset at
        each launch.  Raise UsageError for an unknown name or another size.
        """
        self._variables.set({**(values or {}), **named})

    def place_variables(self, memory: DeviceMemory, addresses: Mapping[str, int] | None = None) -> dict[str, int]:
        """Allocate the `__device__` variables in a device memory, as `cuModuleLoad` does; return the address of each by
        its PTX name.

        The variables keep their contents between launches.  A variable that contains the address of a function or of a
        constant is not allocated.  `addresses` are existing allocations for variables, by the names of `placeable`;
        they may include `__constant__` variables.
        """
        return self._variables.place(memory, addresses)

    def placeable(self) -> dict[str, int]:
        """Return the variables for which `place_variables` accepts addresses: name in PTX -> size in bytes."""
        return self._variables.placeable(("global", "const"))

    def __getitem__(self, name: str) -> PtxKernel:
        """Return the kernel with this name: in PTX, in C++, or the beginning of either."""
        if name in self._kernels:
            return self._kernels[name]
        for match in (_equals, _begins):
            found = [kernel for kernel in self._kernels.values() if match(kernel, name)]
            if len(found) == 1:
                return found[0]
            if found:
                raise EntryError(
                    f"`{name}` is the name of {len(found)} kernels: {_list_names(found)}; give more of the name"
                )
        raise EntryError(f"no kernel `{name}` in `{self.name}`: {self._suggestion(name)}")

    def only(self) -> PtxKernel:
        """Return the only kernel of a file; raise EntryError if it has none or several."""
        if len(self._kernels) == 1:
            return next(iter(self._kernels.values()))
        if not self._kernels:
            raise EntryError(f"`{self.name}` has no kernel: {self._suggestion('')}")
        raise EntryError(
            f"`{self.name}` has {len(self._kernels)} kernels: {_list_names(self._kernels.values())}; "
            "name one, on the command line with `--entry`"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"<PTX {self.name}: {_list_names(self._kernels.values()) or 'no kernel'}>"

    @property
    def name(self) -> str:
        """Return the name of the file."""
        file = self._cuda or self._module.source.path
        return file if file.startswith("<") else os.path.basename(file)

    def _suggestion(self, name: str) -> str:
        templates = find_templates(self._cuda) if self._cuda else []
        asked = [template for template in templates if name.startswith(template)]
        if asked or (templates and not self._kernels):
            template = (asked or templates)[0]
            return f"`{template}` is a template: give its arguments, as in `{template}<...>`"
        if not self._kernels:
            return "no `__global__` function" if self._cuda else "it has no `.entry` with a body"
        near = difflib.get_close_matches(name, [k.__name__ for k in self._kernels.values()], 1, 0.6)
        return f"did you mean `{near[0]}`?" if near else f"it has {_list_names(self._kernels.values())}"


def _display_name(function: Function, shared: Counter[str]) -> str:
    """Return the name of a kernel: without its parameters, unless another one has the same name."""
    return function.name if shared[function.name] == 1 else str(function)


def _equals(kernel: PtxKernel, name: str) -> bool:
    wanted = name.replace(" ", "")
    return any(wanted == known.replace(" ", "") for known in kernel.known_as)


def _begins(kernel: PtxKernel, name: str) -> bool:
    wanted = name.replace(" ", "")
    return bool(wanted) and any(known.replace(" ", "").startswith(wanted) for known in kernel.known_as)


def _list_names(kernels: Any) -> str:
    names = [f"`{kernel.__name__}`" for kernel in kernels]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class PtxKernel(Launchable, PtxCode):
    """A kernel of a PTX file: `kernel[grid, block](*arguments)` launches it, checked.

    Arrays go to parameters of 64 bits, which get their address; numbers take the type of the parameter; structures by
    value are bytes, NumPy records, or tuples of fields.
    """

    def __init__(
        self, module: Module, entry: Entry, name: str, variables: Variables, store: ProgramStore | None
    ) -> None:
        super().__init__(module, entry, name, variables, store)
        self.__qualname__ = name
        self.__doc__ = str(demangle(entry.name))

    @functools.cached_property
    def known_as(self) -> tuple[str, ...]:
        """The names by which the kernel can be found; the PTX name is the last one."""
        function = demangle(self.entry.name)
        local = function.name.rpartition("::")[2] if "<" not in function.name else function.name
        return (function.name, str(function), local, self.entry.name)

    @property
    def block(self) -> tuple[int, ...]:
        """Return the number of threads of a CTA that its PTX requires, or else the maximum that it allows; empty if it
        declares neither."""
        given = self._module.file.functions[self.entry.name].directives
        found = given.get("reqntid") or given.get("maxntid")
        return tuple(found.values) if found is not None else ()

    def set(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give values to variables of the kernel's file, which its other kernels share: see `PtxModule.set`."""
        self._variables.set({**(values or {}), **named})

    def on(self, target: str) -> Any:
        """Return this kernel on `"emulator"` or `"gpu"`.  For `kernel.on("gpu")[grid, block](*arguments)`, the CUDA
        driver compiles it and runs it there, unchecked; `wsemu.crosscheck` is the safe alternative."""
        if target == "emulator":
            return self
        if target != "gpu":
            raise UsageError(f'no target {target!r}: "emulator" or "gpu"')
        from wsemu.backends.driver import GpuEntry

        return GpuEntry(self, self.gpu_entry)
