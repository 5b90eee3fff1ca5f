"""Find the array that an access is meant for, from the computation of its address.

PTX does not declare which variable `[%rd7+8]` is in.  An address that is computed from the address of one variable and
from numbers is in that variable; after a join of paths with different variables, the variable is unknown.  The names
are used in reports, and for assumptions that are checked when the kernel runs.  The accesses also determine the element
types of variables, which compilers declare as bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.isa import OPERATIONS
from wsemu.model.matrix import WGMMA, vector_counts
from wsemu.model.multicast import replica_name
from wsemu.model.program import SharedArray
from wsemu.model.tensor_memory import TENSOR_A

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.ptx.syntax import Function

CARRIES = frozenset(
    name
    for name, operation in OPERATIONS.items()
    if operation.kind == "alu" and operation.result in ("b32", "b64") and not name.startswith(("cvt.r", "mul", "div"))
)
"""operations whose result may be an address"""
_ACCESSES = frozenset(
    name
    for name, o in OPERATIONS.items()
    if o.kind in ("load", "store", "atomic")
    or (o.kind == "async" and o.operands[:1] == ("b64",) and o.operands[1:2] != ("b64",))
    or name.startswith("mbarrier.wait")
) - {"mbarrier.pending_count"}
"""operations that access one address, their first operand"""
_TAKE_ADDRESSES = ("mbarrier.", "cp.async.", "bulk.", "tensor.", "tcgen05.alloc", "tcgen05.commit")
"""start of the names of operations that store none of their operands"""


def name_accesses(graph: Graph, function: Function, origins: Mapping[Register, str]) -> None:
    """Set `array` of every access to memory for which it is known, and the element types of variables.

    `origins` are registers that hold the address of a variable.
    """
    known = dict(origins)
    known.update((register, array.name) for register, array in graph.constant_arrays.items())
    for register, parameter in graph.parameters.items():
        if parameter.part == "address":
            name = function.parameters[parameter.argument].name
            known[register] = replica_name(name, parameter.component[-1]) if parameter.component else name
    names = list(dict.fromkeys(known.values()))
    bits = {name: 1 << n for n, name in enumerate(names)}
    held = propagate_provenance(graph, {register: bits[name] for register, name in known.items()})
    elements: dict[str, set[str]] = {}
    for block in graph.blocks:
        for instruction in block.instructions:
            if instruction.operation not in _ACCESSES:
                continue
            if instruction.array is None:
                arrays = held.get(instruction.operands[0], 0)
                if arrays and not arrays & (arrays - 1):
                    instruction.array = names[arrays.bit_length() - 1]
            if instruction.array is not None and instruction.element is not None:
                elements.setdefault(instruction.array, set()).add(instruction.element)
    _retype(graph, elements)


def propagate_provenance(graph: Graph, held: dict[Register, int], without: Collection[int] = ()) -> dict[Register, int]:
    """Return the set of variables whose address each register may hold, on any path.  `without`: identities of
    instructions whose results hold none."""
    steps = [
        (instruction.results[0], instruction.operands)
        for block in graph.blocks
        for instruction in block.instructions
        if instruction.operation in CARRIES and id(instruction) not in without
    ]
    changed = True
    while changed:
        changed = False
        for result, operands in steps:
            arrays = before = held.get(result, 0)
            for operand in operands:
                arrays |= held.get(operand, 0)
            if arrays != before:
                held[result] = arrays
                changed = True
    return held


def passed_operands(instruction: Instruction) -> Sequence[Register]:
    """Return the operands that an instruction stores, or passes to other lanes or agents."""
    name, operation = instruction.operation, OPERATIONS.get(instruction.operation)
    if (operation is not None and operation.kind == "alu") or name.startswith(_TAKE_ADDRESSES):
        return ()
    if name.startswith("async."):
        return instruction.operands[2:]
    if descriptors := list_descriptors(instruction):
        return [operand for number, operand in enumerate(instruction.operands) if number not in descriptors]
    return instruction.operands[operation is not None and operation.kind in ("load", "store", "atomic") :]


def list_descriptors(instruction: Instruction) -> tuple[int, ...]:
    """Return the operands that describe matrices in shared memory."""
    name = instruction.operation
    if name in WGMMA:
        of_a = vector_counts(name, instruction.auxiliary)[1]
        return (0, of_a) if WGMMA[name].shared else (of_a,)
    if name == "tcgen05.mma":
        return (1,) if instruction.auxiliary & TENSOR_A else (0, 1)
    return (1,) if name == "tcgen05.cp" else ()


def _retype(graph: Graph, elements: Mapping[str, set[str]]) -> None:
    """Give arrays of bytes the element type that all accesses to them have."""
    graph.shared[:] = [_with_elements(array, elements) for array in graph.shared]
    graph.locals[:] = [_with_elements(array, elements) for array in graph.locals]
    for register, constant in graph.constant_arrays.items():
        element = _element(elements.get(constant.name), constant.array.nbytes, constant.array.dtype)
        if element is not None:
            graph.constant_arrays[register] = constant._replace(array=constant.array.view(element))


def _with_elements(array: SharedArray, elements: Mapping[str, set[str]]) -> SharedArray:
    size = math.prod(array.shape) * array.dtype.itemsize
    element = _element(elements.get(array.name), size, array.dtype)
    return array if element is None else array._replace(shape=(size // element.itemsize,), dtype=element)


def _element(found: set[str] | None, size: int, declared: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of the elements of `size` bytes, None to leave it unchanged.  A name such as float32 is more
    specific than int32, and int32 is more specific than uint32, which also represents untyped accesses."""
    if not found or declared != np.uint8:
        return None
    dtypes = sorted({np.dtype(name) for name in found}, key=lambda dtype: "fiu".index(dtype.kind))
    widths = {dtype.itemsize for dtype in dtypes}
    if len(widths) > 1 or size % dtypes[0].itemsize:
        return None
    return dtypes[0]
