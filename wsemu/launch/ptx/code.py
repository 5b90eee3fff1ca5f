"""The code of a kernel in PTX, and its requirements on a launch."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any, TypeAlias

from wsemu.evidence.source_cuda import refine
from wsemu.launch.code import Code
from wsemu.launch.ptx.parameter_names import parameter_names, rename_arrays
from wsemu.launch.ptx.program_store import file_states
from wsemu.launch.ptx.reading import pausing_collection
from wsemu.model.arch import DEFAULT, number_of
from wsemu.model.data import replace
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.launch_shape import with_cluster
from wsemu.model.multicast import replica_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.backends.driver import Entry
    from wsemu.frontend.ptx import Entry as PtxEntry
    from wsemu.frontend.ptx import Module
    from wsemu.frontend.ptx.availability import Target
    from wsemu.frontend.ptx.module import Kind
    from wsemu.launch.ptx.program_store import ProgramStore
    from wsemu.launch.ptx.values import Variables
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.multicast import Replicated
    from wsemu.model.program import Program

_Key: TypeAlias = "tuple[tuple[Kind, ...], bool, bool, tuple[tuple[Replicated, ...], ...]]"
"""the kinds of the arguments, whether a*b+c is contracted, whether heap blocks are passed, and the multicast addresses
of each argument"""


class PtxCode(Code):
    """An entry of a PTX module."""

    def __init__(
        self, module: Module, entry: PtxEntry, name: str, variables: Variables, store: ProgramStore | None = None
    ) -> None:
        self.entry = entry
        self._variables = variables
        self.__name__ = name
        self._module = module
        self._programs: dict[_Key, Program] = {}
        self._store = store
        """the kept programs of a text that a user has"""

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        return parameter_names(self._module, self.entry)

    @property
    def parameter_types(self) -> Sequence[str]:
        """Return the declared types of the parameters."""
        return [parameter.type for parameter in self.entry.parameters]

    def fit(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments as they are passed: arrays and bytes.  Raise UsageError for a wrong number or type."""
        from wsemu.launch.ptx.arguments import marshal_arguments

        return marshal_arguments(self.entry.parameters, self._names, arguments, self.__name__)

    def with_pointers(self, arguments: Sequence[Any], memory: DeviceMemory) -> Sequence[Any]:
        """Return the fitted arguments with a view of the memory for each number that is passed as a pointer into it."""
        from wsemu.launch.ptx.arguments import find_pointers

        return tuple(find_pointers(*one, memory) for one in zip(self.entry.parameters, arguments, strict=True))

    def names(self, arguments: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of the parameters: those in the CUDA source if it is available, otherwise those in PTX."""
        return self._names

    def program(self, arguments: Sequence[Any], fma: bool, *, blocks: bool = False) -> Program:
        """Return the program for fitted arguments.  It is compiled once for arguments of these types."""
        from wsemu.launch.binding import Packed

        kinds: tuple[Kind, ...] = tuple(
            argument.kind if isinstance(argument, Packed) else "address" for argument in arguments
        )
        key = kinds, fma, blocks, _find_multicasts(arguments)
        if key not in self._programs:
            kept = self._store.load(*self._store_key(key)) if self._store is not None else None
            self._programs[key] = self._compile(key) if kept is None else kept
        return self._variables.with_values(self._programs[key])

    def _compile(self, key: _Key) -> Program:
        from wsemu.frontend.ptx import compile_entry

        kinds, fma, blocks, multicasts = key
        try:
            with pausing_collection():
                program = compile_entry(self._module, self.entry, kinds, fma=fma, blocks=blocks, multicasts=multicasts)
        except RecursionError:
            raise KernelError(f"`{self.__name__}` calls functions too deeply") from None
        program.name = self.__name__
        self._variables.enter(program)
        names = {p.name: name for p, name in zip(self.entry.parameters, self._names, strict=True)}
        for p, some in zip(self.entry.parameters, multicasts, strict=True):
            for n in range(sum(one.size for one in some)):
                names[replica_name(p.name, n)] = replica_name(names[p.name], n)
        rename_arrays(program, names)
        refine(program)
        return program

    def keep(self, program: Program) -> None:
        """Save a program, with the analyses of its code, for the next process."""
        if self._store is None:
            return
        # with values of variables, the launched program is derived from the compiled one
        kept = [one for one in self._programs.items() if self._variables.with_values(one[1]) is program]
        for key, compiled in kept[:1]:
            self._store.save(compiled, *self._store_key(key))
            self._store.save(self._module.file, "tree")

    def _store_key(self, key: _Key) -> tuple[Any, ...]:
        """Return the inputs on which a program depends besides the text."""
        sources = file_states([*self._module.paths.values(), *self._module.hidden.values()])
        return self._module.source.path, self.entry.name, self.__name__, key, sources

    @functools.cached_property
    def _target(self) -> Target | None:
        from wsemu.frontend.ptx.availability import parse_target

        return parse_target(self._module.file.target)

    def _check_target(self, configuration: LaunchConfiguration) -> None:
        """Raise UsageError for an architecture whose GPUs do not load the file; the default architecture is accepted
        even for a file of a later one."""
        target, arch = self._target, configuration.arch
        if target is None or target.runs_on(number_of(arch)):
            return
        if configuration.arch_chosen or target.number <= number_of(DEFAULT):
            later = "" if target.suffix else " or later"
            raise UsageError(
                f"`{self.__name__}` is compiled for {target.name} and needs sm_{target.number}{later}: a GPU of {arch} "
                f"does not load it; compile it for {arch}"
            )

    def admit(self, configuration: LaunchConfiguration) -> None:
        """Raise UsageError for an architecture that is not that of the file, and for a CTA that `.maxntid` or
        `.reqntid` excludes: a GPU rejects the launch as well."""
        self._check_target(configuration)
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

    def apply_cluster(self, configuration: LaunchConfiguration) -> LaunchConfiguration:
        """Return a launch with the cluster size of `.reqnctapercluster`; raise UsageError if the launch requests
        another size."""
        required = _three(self.entry.cluster)
        if self.entry.explicit and not required and configuration.cluster == (1, 1, 1):
            raise UsageError(f"`{self.__name__}` has `.explicitcluster`: give `cluster=`, the CTAs of a cluster")
        if not required or configuration.cluster == required:
            return configuration
        if configuration.cluster != (1, 1, 1):
            wanted = ", ".join(map(str, required))
            raise UsageError(f"`{self.__name__}` has `.reqnctapercluster {wanted}`: launch it in such clusters")
        return with_cluster(configuration, required)

    def gpu_entry(self, arguments: Sequence[Any]) -> Entry:
        """Return the entry for the CUDA driver, with fitted arguments; raise UsageError if the driver needs more than
        the text."""
        from wsemu.backends.driver import Entry
        from wsemu.model import settings

        name = self.__name__
        if self._module.symbols is not None:
            raise UsageError(f"`{name}` is linked of several files: wsemu sends one to a GPU; link them with `nvlink`")
        if self._variables.values:
            raise UsageError(f"variables of `{name}` were set: wsemu sends no values of them to a GPU; use arguments")
        if any(way[-1:] == ("handle",) for packed in arguments for way, _ in getattr(packed, "all_blocks", tuple)()):
            raise UsageError(f"`{name}` takes a texture or surface: wsemu makes none on a GPU; run it on the emulator")
        if any(_find_multicasts(arguments)):
            raise UsageError(f"`{name}` takes a multicast address: wsemu makes none on a GPU; run it on the emulator")
        program = self.program(arguments, settings.current().fma)
        stores = any(array.writable for array in program.constant_arrays)
        text = self._module.source.text
        return Entry(text, self.entry.name, program.cooperative, bool(self.entry.cluster), stores)

    def text(self) -> tuple[str, dict[int, str]] | None:
        """Return the text of the kernel's file, and the source files to which its lines refer by number; None if
        several files are linked."""
        if self._module.symbols is not None:
            return None
        return self._module.source.text, {n: path for n, path in self._module.paths.items() if path is not None}

    def with_text(self, text: str) -> PtxCode:
        """Return this kernel compiled from another text.  Raise KernelError for a text that is not PTX."""
        from wsemu.frontend.ptx import parse

        module = parse(text, self._module.source.path)
        module = replace(module, paths=self._module.paths, hidden=self._module.hidden)
        return PtxCode(module, module.entries[self.entry.name], self.__name__, self._variables)

    def move_arrays(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> PtxCode:
        """Return this kernel with the arrays of its variables replaced by `move`."""
        made = copy.copy(self)
        made._variables = self._variables.move_arrays(move)
        return made

    def source(self) -> tuple[str, int, int]:
        """Return the location of the kernel in the PTX."""
        return self._module.source.path, self.entry.line, self.entry.end_line


def _find_multicasts(arguments: Sequence[Any]) -> tuple[tuple[Replicated, ...], ...]:
    """Return the multicast addresses of each argument; raise UsageError if they have different numbers of replicas."""
    found = tuple([getattr(packed, "multicasts", ()) for packed in arguments])
    counts = {one.size for some in found for one in some}
    if len(counts) > 1:
        few, many = min(counts), max(counts)
        raise UsageError(f"multicast addresses of {few} and of {many} replicas: give each the same number")
    return found


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return extents in x, y and z, or an empty result if none are given."""
    return (*extents, 1, 1)[:3] if extents else ()
