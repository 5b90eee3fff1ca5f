"""Compile a kernel of a PTX file to a program."""

from __future__ import annotations

import math
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.graph import Graph
from wsemu.frontend.ptx.availability import version_problem
from wsemu.frontend.ptx.body import check_size, find_place, walk
from wsemu.frontend.ptx.confine import confine
from wsemu.frontend.ptx.emit import Emitter, Frame, Place
from wsemu.frontend.ptx.ends import part_ends
from wsemu.frontend.ptx.ends_of_variables import stop_at_ends
from wsemu.frontend.ptx.expand import expand
from wsemu.frontend.ptx.flight import mark_registers
from wsemu.frontend.ptx.fragment_origins import check_fragments
from wsemu.frontend.ptx.grid import mark_grid_barriers
from wsemu.frontend.ptx.handlers import HANDLERS
from wsemu.frontend.ptx.lifetimes import end_variables
from wsemu.frontend.ptx.mixed_addresses import forbid_numbers
from wsemu.frontend.ptx.multimem import choose_replicas, enter_multicasts
from wsemu.frontend.ptx.provenance import name_accesses
from wsemu.frontend.ptx.reach import Reached
from wsemu.frontend.ptx.reachable_memory import forbid_by_origin
from wsemu.frontend.ptx.recursion import finish
from wsemu.frontend.ptx.relative_addresses import distinguish_relative
from wsemu.frontend.ptx.sources import hidden_note
from wsemu.frontend.ptx.ssa import assign_once
from wsemu.frontend.ptx.variables import EntryParameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.frontend.assemble.graph import Instruction, Register
    from wsemu.frontend.ptx.emit import Clusters
    from wsemu.frontend.ptx.module import Entry, Kind, Module
    from wsemu.frontend.ptx.multimem import Multicasts
    from wsemu.frontend.ptx.syntax import Function
    from wsemu.model.program import Program

_FRAMES = 12_000
"""interpreter frames that a kernel may need, because functions are emitted instead of their calls"""


def compile_entry(
    module: Module,
    entry: Entry,
    kinds: Sequence[Kind],
    *,
    fma: bool = True,
    blocks: bool = False,
    multicasts: Multicasts = (),
) -> Program:
    """Return the program of a kernel whose parameters are bound to arrays (`address`) or to values, in order.

    `blocks` means that arguments may contain addresses of heap blocks.  `multicasts` has the multicast addresses in
    each argument.  `fma` contracts products and sums without a rounding modifier as ptxas does (PTX ISA 9.7.3), except
    in code for a debugger.  An error in the text raises a KernelError; unsupported instructions end a run only if a
    lane reaches them.
    """
    return assemble(
        lower(module, entry, kinds, blocks=blocks, multicasts=multicasts),
        fma=fma and not module.file.debug,
        expand=expand,
    )


def lower(
    module: Module, entry: Entry, kinds: Sequence[Kind], *, blocks: bool = False, multicasts: Multicasts = ()
) -> Graph:
    """Return the graph of a kernel."""
    function = module.file.functions[entry.name]
    if module.file.address_size != 64:
        raise module.source.error(0, "PTX with addresses of 32 bits is not modelled", "compile it with `-m64`")
    problem = version_problem(module.file.target, module.file.version)
    if problem:
        raise module.source.error(0, problem, "write a later `.version`")
    if function.body is None:
        raise module.source.error(function.at, f"`{entry.name}` has no body", "give the file that defines it")
    graph = Graph(entry.name, shows_addresses=True)
    reached = Reached(module, function, allocates=blocks)
    e = Emitter(graph, module, HANDLERS, reached)
    e.clusters = _clusters(function)
    enter_multicasts(e, multicasts)
    graph.unmodelled += [f"{what} is not modelled ({place})" for what, place in _unsupported_parts(reached)]
    name_modules(e)
    e.names[0] = e.scopes[module.source.path]
    names: dict[str, Register | Place] = {
        variable.name: EntryParameter(variable, number, kind == "address")
        for number, (variable, kind) in enumerate(zip(function.parameters, kinds, strict=True))
    }
    for variable in function.parameters:
        check_size(e, variable)
    e.names.append(names)
    e.frames.append(Frame(function, None))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        walk(e, function.body)
    except RecursionError as error:
        raise module.source.error(function.at, f"`{entry.name}` nests calls or blocks too deeply") from error
    finally:
        sys.setrecursionlimit(limit)
    e.block.end, e.block.span, e.block.stack = "exit", e.span, e.stack
    graph.blocks[:] = [*e.layout, *e.aside]
    graph.registers = _registers(function, graph)
    end_variables(graph, e.lifetimes)
    finish(e)
    found: dict[str, str] = {}
    for code, what in mark_registers(graph):
        found.setdefault(what, f"{what} {_place(graph, code)}")
    graph.unmodelled += found.values()
    graph.sources_note = hidden_note(tuple(graph.hidden_sources))
    check_fragments(graph, e.fragments, e.fragment_uses)
    choose_replicas(e)
    stop_at_ends(graph, function, e.origins)
    forbid_numbers(graph, kinds)
    part_ends(graph)
    assign_once(graph)
    distinguish_relative(graph, e.generic, e.relative)
    forbid_by_origin(graph, kinds)
    name_accesses(graph, function, e.origins)
    if not reached.maps_addresses:
        confine(graph, e.origins, e.dynamic)
    if e.workspace:
        unknown = mark_grid_barriers(graph, e.workspace)
        graph.unmodelled += [f"`{unknown}` in the workspace of a cooperative launch is not modelled"] if unknown else []
    return graph


def _place(graph: Graph, code: Instruction) -> str:
    span = graph.spans[code.span]
    return f"depends on the way there (line {span.line} of {PurePath(span.file).name})"


def name_modules(e: Emitter) -> None:
    """Enter the used variables and functions of each reached file."""
    for path, module in e.reached.modules.items():
        scope = e.scopes[path] = {}
        used = e.reached.names[path]
        with e.within(module):
            for name in (*module.file.functions, *module.file.variables):
                if name in used and (place := find_place(e, name)) is not None:
                    scope[name] = place


# -- directives ------------------------------------------------------------------------------------------------------
_LIMITS = frozenset(
    "maxnreg maxntid reqntid minnctapersm maxnctapersm maxclusterrank noreturn pragma abi_preserve "
    "abi_preserve_control reqnctapercluster explicitcluster blocksareclusters".split()
)
"""performance directives that have no effect on results, or are handled elsewhere (11.4).  A launch without clusters
satisfies every limit on the cluster size"""
_IN_CLUSTERS = ("reqnctapercluster", "explicitcluster", "blocksareclusters")
"""directives of a kernel that is always launched in clusters (11.7)"""


def _clusters(function: Function) -> Clusters:
    """Return the cluster requirement of a kernel; if the kernel gives no number, the launch chooses it."""
    asked = [name for name in _IN_CLUSTERS if name in function.directives]
    if not asked:
        most = function.directives.get("maxclusterrank")
        return "of some" if most is not None and math.prod(most.values) > 1 else "none"
    alone = asked[0] == "reqnctapercluster" and math.prod(function.directives[asked[0]].values) == 1
    return "of one" if alone else "of several"


_REGISTERS, _THREADS, _MOST = 1 << 16, 2048, 256
"""registers and threads of a multiprocessor, for sm_80 and later data-center GPUs; maximum registers of a thread"""
_UNIT, _WARPS, _LANES = 8, 4, 32
"""registers of a thread are allocated in units of 8, warps in units of four"""


def _registers(function: Function, graph: Graph) -> int:
    """Return the registers that each thread has at the launch, as ptxas chooses them for a kernel with `setmaxnreg`.
    They are `.maxnreg`, or the share of each thread if the multiprocessor is to hold `.minnctapersm` CTAs, or the
    most that a `setmaxnreg.inc` requests, whichever is least. Return 0 if neither directive is there: ptxas then
    ignores `setmaxnreg`."""
    given = function.directives
    limits = [given["maxnreg"].values[0]] if "maxnreg" in given else []
    size = given.get("reqntid") or given.get("maxntid")
    if "minnctapersm" in given and size is not None:
        ctas, threads = given["minnctapersm"].values[0], math.prod(size.values)
        if 0 < ctas * threads <= _THREADS:
            warps = -(-ctas * -(-threads // _LANES) // _WARPS) * _WARPS
            limits.append(_REGISTERS // (warps * _LANES) // _UNIT * _UNIT)
    if not limits:
        return 0
    requests = [
        code.immediate for block in graph.blocks for code in block.instructions if code.operation == "setmaxnreg.inc"
    ]
    limits += [max(requests)] if requests else []
    return min(_MOST, *(-(-limit // _UNIT) * _UNIT for limit in limits))


def _unsupported_parts(reached: Reached) -> Iterator[tuple[str, str]]:
    """Yield the unsupported parts of a kernel as a whole, with their locations."""
    module, kernel = reached.functions[0]
    directive = kernel.directives.get("blocksareclusters")
    if directive is not None:
        yield f"a grid that counts clusters, `{directive.text}`,", module.source.place(directive.at)
    for home, function in reached.functions:
        for name, directive in function.directives.items():
            if name not in _LIMITS:
                yield f"`{directive.text}` of `{function.name}`", home.source.place(directive.at)
    for home in reached.modules.values():
        for unknown in home.file.unknown:
            yield f"`{unknown.text}`", home.source.place(unknown.at)
