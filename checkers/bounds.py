"""`out-of-bounds` and `misaligned`.

Detects: an index outside its dimension, even if the address is inside the array; an address outside every array of the
launch; a store to a constant or read-only array.
Also detects: a computed negative index that wraps to the array's end, as Numba allows; an address that is not a
multiple of the access's size (16 bytes for a `v4` of float32).  In PTX it detects an address computed from one
`__shared__` variable that lies in another one, and an address outside its variable in local memory, or outside the
thread's own local memory.  It also detects a store to a kernel parameter, and an access whose address belongs to
another state space than the instruction names, or is not an address at all.  For asynchronous copies, it checks source,
destination and mbarrier.  In a device memory, it detects an access to a freed allocation.  For the heap of the device
(`malloc`), it detects an access outside of a block or to a freed one, and `free` of an address that is not a block.
`ptx.ld_bytes` and `ptx.st_bytes` may access bytes outside the named view, but not outside the array.
Does not detect: pointer arithmetic that lands inside another part of the same array.  In PTX, the local arrays of a
function are one variable, because `nvcc` puts them into one `__local_depot`.
Reference: PTX ISA, "Alignment"; Numba's wraparound indexing.  The compiled tests are `integer.index_address`,
`lane_access.lane_pattern` and `bounds.careful_lane`.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.checkers import words
from wsemu.evidence.places import Places, lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.grid import Grouping
from wsemu.model.heap import BEYOND, FREED, FREED_ALREADY, NO_BLOCK, mistake
from wsemu.model.isa import (
    ANYWHERE,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_SHARED,
    LANES,
    LOCAL,
    NAMES,
    SEGMENT_SHIFT,
    SHARED,
)
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.model.outcome import RawFinding

_ACCESS = {"size": "bytes per lane", "segment": "segment of the access"}
CODES = ("out-of-bounds", "misaligned")
CURES = {
    "out-of-bounds": Cures(130, "bound compare swap index constant load size stage argument guard"),
    "misaligned": Cures(120, "index constant argument size pad swap"),
}
DETAIL = {
    "out-of-bounds": Detail(
        {
            **_ACCESS,
            "bytes": "size of the segment, or extent of the axis at fault",
            "wrapped": "1: a negative index that wraps to the end of its axis",
            "readonly": "1: a store to memory that is read-only",
        },
        {
            "address": "address of the access",
            "index": "index outside its axis, if it is known; then there is no address",
            "elsewhere": "1: memory of another state space than the access names, or a number that is not an address",
            "gap": "1: a store between the elements of an array whose address alone was passed",
        },
    ),
    "misaligned": Detail({"address": "address of the access", "alignment": "required alignment, in bytes", **_ACCESS}),
}
_LONGEST = 60
"""maximum characters of a guard that a suggestion quotes"""


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an access outside of memory, or to memory that the access is not allowed to use."""
    return _explain_outside(raw, places).model_copy(update={"steps": [culprit(raw, places)]})


def _explain_outside(raw: RawFinding, places: Places) -> Finding:
    detail = raw.detail
    if places.verb(raw.pc) == "async":
        return _explain_copy(raw, places)
    if (of_heap := mistake(detail.get("address", 0))) is not None:
        return _explain_heap(raw, places, of_heap[0])
    if raw.code == "misaligned":
        return _explain_misaligned(raw, places)
    if detail.get("elsewhere") and not _is_far_index(raw, places):
        return _elsewhere(raw, places)
    if detail.get("gap"):
        return _explain_gap(raw, places)
    if detail["readonly"] and detail["segment"] == LOCAL:
        message = f"store to the parameter {places.array_name(raw.pc)}, which is read-only"
        return _finding(
            raw, places, message, "the store was left out", "copy the parameter to a variable, and store there"
        )
    if detail["readonly"]:
        message = f"store to {places.array_name(raw.pc)}, which is read-only"
        return _finding(
            raw, places, message, "the store was left out", "pass a writable array, or store to another one"
        )
    if detail["wrapped"]:
        return _explain_negative_index(raw, places)
    if "index" in detail and places.counts_bytes(raw.pc):
        return _outside_memory(raw, places)
    if "index" in detail:
        return _outside_dimension(raw, places)
    return _outside(raw, places)


def _explain_copy(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an asynchronous copy or an operation on an mbarrier.  Such an operation names up to three
    locations, one of which is wrong."""
    detail, noun = raw.detail, words.noun(places, raw.pc)
    label = f"{noun} by {places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}"
    copies = not words.operation(places, raw.pc).startswith("mbarrier")
    if raw.code == "misaligned":
        align = detail["alignment"]
        message = (
            f"the {noun} names `{places.element(detail['address'], raw.pc)}`, whose address is not a multiple of "
            f"{align}"
        )
        left = "; the copy was left out" if copies else ""
        note = f"the hardware raises a misaligned address error{left}"
        help_ = f"begin at a multiple of {align} bytes; declare shared arrays with `alignment={align}`"
    elif detail["readonly"]:
        message = f"the {noun} writes to an array that is read-only"
        note, help_ = "the copy was left out", "pass a writable array, or copy to another one"
    elif "address" not in detail and places.source(raw.pc).has_addresses:
        message, note, help_ = _copy_outside_texts(raw, places, noun, copies=copies)
    elif "address" not in detail:
        message = f"index {detail['index']} of the {noun} lies outside its array"
        note, help_ = "it was left out", "check the indices against the arrays' shapes"
    elif (of_heap := mistake(detail["address"])) is not None:
        message = f"the {noun} of {words.amount(detail['size'])} {_COPY_OF_HEAP[of_heap[0]]}"
        note, help_ = "it was left out", _OF_HEAP[of_heap[0]][1]
    elif rank := _wrong_rank(raw, places):
        message = f"the {noun} names `{places.element(detail['address'], raw.pc)}` in the shared memory of {rank}"
        note = "PTX leaves it undefined; it was left out"
        help_ = (
            "copy to another CTA's memory, with the `mapa` of its rank"
            if rank == _ITS_OWN
            else "name the CTA's own array: only the target of a copy between CTAs may be in another CTA"
        )
    elif gone := places.freed_allocation(detail["address"]):
        message = f"the {noun} names `{gone}`, which was freed"
        note, help_ = f"{places.beyond(detail['address'])[1]}; it was left out", _TOO_EARLY
    else:
        near, where = places.beyond(detail["address"])
        of = f" of {words.amount(detail['size'])}" * copies
        message = f"the {noun}{of} reaches outside {near or 'memory'}"
        note = f"{where}; it was left out"
        help_ = (
            "copy no more than both arrays have left: the last tile may be smaller"
            if copies
            else "an mbarrier is a word of the CTA's own shared memory: check its index"
        )
        if places.program.uses_dynamic_shared and (given := _dynamic_bytes(raw, places)) is not None:
            message += f": this launch has {words.amount(given)} of dynamic shared memory"
            help_ = _larger(places, raw.pc)
    site = places.site(raw.pc, label, cta=raw.cta, warp=raw.warp)
    sites = [site, *places.callers(raw.pc)]
    return Finding(code=raw.code, message=message, sites=sites, notes=[note], help=help_, count=raw.count)


_OF_HEAP = {
    BEYOND: (
        "{verb} of {size} bytes outside of all heap blocks",
        "check the index against the size passed to `malloc`",
    ),
    FREED: ("{verb} of {size} bytes in a freed heap block", "free the block after its last use"),
    FREED_ALREADY: ("`free` of a block that was freed", "free each block once"),
    NO_BLOCK: ("`free` of an address that is not a heap block", "free the address that `malloc` returned"),
}
"""message and help for each misuse of the heap"""
_COPY_OF_HEAP = {BEYOND: "reaches outside its heap block", FREED: "names a freed heap block"}
"""the end of the message for a copy"""


def _explain_heap(raw: RawFinding, places: Places, which: int) -> Finding:
    """Return the finding of a wrong access to the heap of the device, or of a wrong `free`."""
    message, help_ = _OF_HEAP[which]
    told = message.format(verb=places.verb(raw.pc), size=raw.detail["size"])
    frees = which in (FREED_ALREADY, NO_BLOCK)
    note = "the heap is as it was" if frees else _left_out(raw, places)
    return _finding(raw, places, told, note, help_, verb="free" if frees else "")


def _copy_outside_texts(raw: RawFinding, places: Places, noun: str, *, copies: bool) -> tuple[str, str, str]:
    """Return message, note and help for a copy that begins in one variable and reaches beyond its end."""
    distance, within = raw.detail["index"], places.within(0, raw.pc)
    of = f" of {words.amount(raw.detail['size'])}" * copies
    has = f", which has {words.amount(within[1])}" if within is not None else ""
    message = f"the {noun}{of} reaches outside {places.array_name(raw.pc)}{has}"
    return message, f"it begins at byte {distance:,}; it was left out", "copy no more than is left"


_ITS_OWN = "its own CTA"


def _wrong_rank(raw: RawFinding, places: Places) -> str:
    """Return the CTA rank whose shared memory an asynchronous operation names, if the location exists in that CTA, or
    an empty text."""
    outcome, address, bytes_ = places.outcome, raw.detail["address"], raw.detail["bytes"]
    member, inside = divmod(address & ((1 << SEGMENT_SHIFT) - 1), 1 << outcome.window)
    there = address >> SEGMENT_SHIFT == SHARED and inside + raw.detail["size"] <= bytes_
    if not there:
        return ""
    if member != Grouping(places.grid, outcome.group).of(raw.cta)[1]:
        return f"rank {member}"
    return _ITS_OWN if words.operation(places, raw.pc).startswith("bulk.send") else ""


def _finding(
    raw: RawFinding, places: Places, message: str, note: str, help_: str, index: str = "", verb: str = ""
) -> Finding:
    verb, by = verb or places.verb(raw.pc), f"by {places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}"
    site = places.site(
        raw.pc, f"{verb} {by}{': ' * bool(index)}{index}", cta=raw.cta, warp=raw.warp,
        index=str(raw.detail.get("index", "")) or None,
    )  # fmt: skip
    sites = [site, *places.callers(raw.pc)]
    return Finding(code=raw.code, message=message, sites=sites, notes=[note], help=help_, count=raw.count)


def _left_out(raw: RawFinding, places: Places) -> str:
    verb = places.verb(raw.pc)
    return f"the {verb} was left out" + (" and returned 0" if verb == "load" else "")


def _explain_negative_index(raw: RawFinding, places: Places) -> Finding:
    element = places.element(raw.detail["address"], raw.pc)
    parts = [*dict.fromkeys(part for part in _indices(raw, places)[1] if not _literal(part))]
    low = " and ".join(f"{part} >= 0" for part in [part for part in parts if "-" in part] or parts)
    guard = f"`if {low}:`" if parts and len(low) <= _LONGEST else "`if i >= 0:`"
    return _finding(
        raw, places, f"negative index into {places.array_name(raw.pc)} wraps to `{element}`",
        "the access was performed there, as in Numba's code",
        f"guard the index with {guard}{_or_else(raw, places)}, or write a literal negative index if the wrap is meant",
    )  # fmt: skip


def _outside_dimension(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an index beyond the extent of its axis.  The shape may show which axis it is; otherwise,
    the finding names none."""
    value, shape = raw.detail["index"], _shape(raw, places)
    if len(_indices(raw, places)[1]) not in (0, len(shape)) or all(-n <= value < n for n in shape):
        shape = ()  # a view of a part of the array
    axis = _axis(raw, places, shape)
    text = f"index {value}"
    if len(shape) == 1:
        text += f" of {shape[0]} elements"
    elif shape:
        text += f" on axis {axis}" * (axis is not None) + f" of shape {shape}"
    message = f"index {value} lies outside {places.array_name(raw.pc)}"
    help_ = _guard(raw, places, axis, shape)
    if _is_dynamic(raw, places) and value >= 0:
        help_ = f"{_larger(places, raw.pc)}; or {help_}"
    return _finding(raw, places, message, _left_out(raw, places), help_, text)


def _axis(raw: RawFinding, places: Places, shape: tuple[int, ...]) -> int | None:
    """Return the axis at fault: the only axis on which the index does not fit, unless literals rule it out."""
    value, parts = raw.detail["index"], _indices(raw, places)[1]
    found = [axis for axis, extent in enumerate(shape) if not -extent <= value < extent]
    if len(parts) == len(shape):
        found = [axis for axis in found if not _literal(parts[axis]) or int(parts[axis]) == value]
    return found[0] if len(found) == 1 else None


def _guard(raw: RawFinding, places: Places, axis: int | None, shape: tuple[int, ...]) -> str:
    """Return the help that keeps the index inside: a guard in the words of the source."""
    base, parts = _indices(raw, places)
    if not parts or (not shape and base == places.program.array_of[raw.pc]):
        return "check the index against the array's shape"
    if axis is not None and _literal(parts[axis]):
        return f"use an index below {shape[axis]}, or make the array larger"
    elements = raw.detail["size"] // np.dtype(places.program.element_of[raw.pc] or "u1").itemsize
    if elements > 1 and axis in (len(parts) - 1, None) and raw.detail["index"] >= 0 and not _literal(parts[-1]):
        guard = f"{parts[-1]} + {elements} <= {base}.shape[{len(parts) - 1}]"  # a vector
        return f"guard the access: `if {guard}:`"
    axes = [n for n, part in enumerate(parts) if axis in (n, None) and not _literal(part)]
    if raw.detail["index"] < 0:
        guard = " and ".join(dict.fromkeys(f"{parts[n]} >= 0" for n in axes))
    else:
        guard = " and ".join(f"{parts[n]} < {base}.shape[{n}]" for n in axes)
    if not guard or len(guard) > _LONGEST:
        return "guard the access, or check the index against the array's shape"
    return f"guard the access: `if {guard}:`{_or_else(raw, places)}"


def _or_else(raw: RawFinding, places: Places) -> str:
    """Return the addition to a guard of a load: without an `else`, its destination in memory would stay
    uninitialized."""
    statement = places.source(raw.pc).statement(places.span(raw.pc)) if places.verb(raw.pc) == "load" else None
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            own = {array.name for array in (*places.program.shared, *places.program.locals)}
            if name in own and name != places.program.array_of[raw.pc]:
                return f", with an `else` that stores to `{name}`, such as 0 (or it is read uninitialized)"
    return ""


_IN_64_BITS = (
    "if the array is that large, compute the index in 64 bits: `(long long)` or `size_t` before the multiplication; "
    "else check the numbers that it is computed from"
)
_PRODUCT = re.compile(r"(mul|mad|shl)\.b32")
_FAR = 1 << 36
"""number of bytes that a 32-bit index can span with 16-byte elements"""


def _is_far_index(raw: RawFinding, places: Places) -> bool:
    """Return whether an address in other memory was computed from the array that the access names, with a large
    index."""
    within = places.within(raw.detail["address"], raw.pc)
    return within is not None and places.forbidden(raw.pc) != ANYWHERE and abs(within[0]) < _FAR


def _wrapped_index(raw: RawFinding, places: Places) -> str:
    """Return the note that an index has overflowed an `int`: it is outside the range of array indices, and the kernel
    multiplies in 32 bits.  Return an empty text if the index has not overflowed."""
    within, size = places.within(raw.detail["address"], raw.pc), raw.detail["size"]
    if within is None or within[0] % size:
        return ""
    index, names = within[0] // size, {NAMES[code] for code in places.program.code[:, 0].tolist()}
    if not any(map(_PRODUCT.fullmatch, names)) or not (-(1 << 31) <= index < -(1 << 29) or 1 << 31 <= index < 1 << 32):
        return ""
    if index > 0:
        return f"the index is {index:,}, and an `int` holds at most {(1 << 31) - 1:,}"
    return f"the index has wrapped in 32 bits: it is {index:,}, for {index + (1 << 32):,}"


_TOO_EARLY = "free the memory after its last use, and drop the pointers to it"
_BEYOND = "guard the access, such as with `if (i < n)`, or check the address against the array's end"


def _outside(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an address outside the array, from a pointer or from a vector access that begins inside and
    ends beyond it."""
    verb, size, shape = places.verb(raw.pc), raw.detail["size"], _shape(raw, places)
    base, parts = _indices(raw, places)
    element = np.dtype(places.program.element_of[raw.pc] or "u1").itemsize
    gone = places.freed_allocation(raw.detail["address"])
    overrun = bool(gone) and places.names_live_array(raw.pc)  # of an argument, into memory that was freed
    if gone and not overrun:
        message, where = f"{verb} of {size} bytes in `{gone}`, which was freed", places.beyond(raw.detail["address"])[1]
        return _finding(raw, places, message, f"{where}; {_left_out(raw, places)}", _TOO_EARLY)
    if rank := _wrong_rank(raw, places):
        message = f"{verb} of `{places.element(raw.detail['address'], raw.pc)}` in the shared memory of {rank}"
        help_ = "`.shared` is the CTA's own memory: write `.shared::cluster`, or give a generic address"
        return _finding(raw, places, message, _left_out(raw, places), help_)
    if raw.detail["segment"] == LOCAL and not _is_far_index(raw, places):
        return _outside_local(raw, places)
    within = places.within(raw.detail["address"], raw.pc)
    before = within is not None and within[0] < 0
    help_ = "check the index: it is before the array's start" if before else _BEYOND
    python = places.source(raw.pc).knows_shapes
    if python and len(shape) == 1 == len(parts) and size > element and len(parts[0]) <= _LONGEST:
        help_ = f"guard the access: `if {parts[0]} + {size // element} <= {base}.shape[0]:`"
    name, note = places.array_name(raw.pc), _left_out(raw, places)
    if not parts or not python:  # a pointer: the source gives no extent to compare with
        near, where = places.beyond(raw.detail["address"])
        if within is not None and (overrun or raw.detail.get("elsewhere")):  # at this address other memory is located
            near, where = name, f"the address is byte {within[0]:,} of {name}, which has {within[1]:,}"
            where += f", in freed memory (`{gone}`)" * overrun
        name = near if near and not places.program.array_of[raw.pc] else name
        note = f"{where}; {note}"
        if wrapped := _wrapped_index(raw, places):
            note, help_ = f"{wrapped}; {note}", _IN_64_BITS
    if _is_dynamic(raw, places) and (given := _dynamic_bytes(raw, places)) is not None:
        gives = f"this launch has {words.amount(given)} of dynamic shared memory"
        note, help_ = f"{gives}: {note}", f"{_larger(places, raw.pc)}; or check the index"
        if not given:
            name, note, help_ = f"{name}: {gives}", _left_out(raw, places), _larger(places, raw.pc)
    return _finding(raw, places, f"{verb} of {size} bytes outside {name}", note, help_)


_FORMS = (
    "an access without a state space needs a generic address, which `cvta` makes; an access to shared, local, constant "
    "or parameter memory needs an address relative to that space, as the variable's name gives it"
)


def _elsewhere(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an address in memory that the access must not reach: an address of another state space, or
    a number that is not an address."""
    verb, size, address = places.verb(raw.pc), raw.detail["size"], raw.detail["address"]
    left_out, forbidden = _left_out(raw, places), places.forbidden(raw.pc)
    name = places.program.array_of[raw.pc]
    if forbidden == ANYWHERE and name:
        message = f"{verb} of {size} bytes at an address of {places.array_name(raw.pc)} in the wrong form"
        note, help_ = f"{_FORMS}; {left_out}", "convert the address with `cvta`, or name the state space in the access"
        return _finding(raw, places, message, note, help_)
    if forbidden == ANYWHERE:
        message = f"{verb} of {size} bytes at a number that is not an address"
        note = f"the number is {address:#x}, not computed from the address of a variable or argument; {left_out}"
        return _finding(raw, places, message, note, "compute the address from that of an array or variable")
    space, other = (
        next(name for name, kind in _KINDS.items() if not forbidden & kind),
        places.space(raw.detail["segment"]),
    )
    message = f"{verb} of {size} bytes in {space} memory at an address of {other} memory"
    note = (
        f"the access names a state space, or its address is not computed from a variable in {other} memory; {left_out}"
    )
    help_ = f"give it an address of {space} memory, or a generic address to an access that names no state space"
    return _finding(raw, places, message, note, help_)


def _explain_gap(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a store to the bytes between the elements of a strided argument."""
    size, address = raw.detail["size"], raw.detail["address"]
    _, where = places.beyond(address)
    message = f"store of {size} bytes between the elements of {places.array_name(raw.pc)}"
    note = f"{where}, and belongs to none of its elements; the store was performed"
    return _finding(raw, places, message, note, "pass the whole array, or a contiguous copy")


_KINDS = {"global": IN_ARRAY, "shared": IN_SHARED, "local": IN_LOCAL, "constant": IN_CONSTANT}
"""bit for each kind of memory in `detail`"""
_OWN = "each thread has its own local memory"
_FRAME = "__local_depot"
"""nvcc's name, in PTX, for the local arrays of a function"""


def _outside_local(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an address outside the variable of local memory from which it was computed, or in the local
    memory of another thread."""
    verb, size, lane = places.verb(raw.pc), raw.detail["size"], raw.lanes.bit_length() - 1
    name, distance, owner = places.local_variable_at(raw.detail["address"], lane)
    extent, left_out = raw.detail["bytes"], _left_out(raw, places)
    what = f"`{name}`" if name else places.array_name(raw.pc)
    if not extent:
        message = f"{verb} of {size} bytes in a variable whose function has returned"
        return _finding(raw, places, message, left_out, "use the address only until its function returns")
    place = f"the address is byte {distance:,} of {what}, which has {extent:,}"
    help_ = index = f"check the index against the array's {'start' if distance < 0 else 'end'}"
    if what == "memory":
        what, place = "the thread's local memory", f"the address is byte {distance:,} of the thread's {extent:,}"
    if 0 <= owner < LANES and owner != lane:
        place = f"{place}: in the memory of lane {owner}; {_OWN}"
        share = "share the value in shared memory, not the address of a local variable"
        if -size <= distance < extent + size:  # just outside: more likely a wrong index than a passed address
            help_ = f"{index}; if lane {owner} passed the address on, {share}"
        elif distance % places.program.local_bytes < extent:
            help_ = f"{share}; or check the index"
    frame = ", the function's local arrays" if name.startswith(_FRAME) else ""
    return _finding(raw, places, f"{verb} of {size} bytes outside {what}{frame}", f"{place}; {left_out}", help_)


def _larger(places: Places, pc: int) -> str:
    """Return advice to launch with more dynamic shared memory."""
    how = "`--dynamic-shared BYTES`, the third number of `<<<grid, block, bytes>>>`"
    return f"launch with more bytes of dynamic shared memory{f': {how}' if places.source(pc).has_addresses else ''}"


def _is_dynamic(raw: RawFinding, places: Places) -> bool:
    """Return whether an access names an array in dynamic shared memory, which has no declaration of its own."""
    name, program = places.program.array_of[raw.pc], places.program
    arrays: list[Any] = [*places.arrays, *program.shared, *program.locals]
    known = {array.name for array in arrays}
    return program.uses_dynamic_shared and name is not None and name not in known


def _dynamic_bytes(raw: RawFinding, places: Places) -> int | None:
    """Return the number of bytes of dynamic shared memory if an access reaches beyond its end."""
    own = places.own_shared_address(raw.detail["address"])
    if own >> SEGMENT_SHIFT != SHARED or own & ((1 << SEGMENT_SHIFT) - 1) < raw.detail["bytes"]:
        return None
    return int(raw.detail["bytes"]) - -(-places.program.shared_bytes // 16) * 16


def _outside_memory(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of bytes that are not all inside the array, whatever view of it the access names."""
    verb, size, distance = places.verb(raw.pc), raw.detail["size"], raw.detail["index"]
    message = f"{verb} of {size} bytes outside {places.array_name(raw.pc)}"
    end = "start" if distance < 0 else "end"
    what = "address" if places.source(raw.pc).has_addresses else "offset, in bytes,"
    help_ = f"check the {what} against the array's {end}"
    within = places.within(0, raw.pc)
    if within is not None:
        message += f", at byte {distance:,} of {within[1]:,}"
        help_ = _byte_guard(raw, places, distance, within[1])
    text = f"{-distance} bytes before the array" if distance < 0 else f"{distance} bytes after the array's start"
    return _finding(raw, places, message, _left_out(raw, places), help_, text)


def _byte_guard(raw: RawFinding, places: Places, at: int, whole: int) -> str:
    """Return the help that keeps an access by byte offset, or an access of a transfer pattern, inside."""
    name, size = places.array_name(raw.pc), raw.detail["size"]
    array, offset = places.source(raw.pc).byte_offset(places.span(raw.pc))
    if places.source(raw.pc).has_addresses:
        return f"check the address against the {whole:,} bytes of {name}"
    if not offset:
        return f"check the address against the array's end, or the part of {name} that the transfer gets"
    if f"`{array}`" != name or len(offset) > _LONGEST:
        return f"check the offset, in bytes, against the {whole:,} bytes of {name}"
    return f"guard the access: `if {offset} >= 0:`" if at < 0 else f"guard the access: `if {offset} <= {whole - size}:`"


def _indices(raw: RawFinding, places: Places) -> tuple[str, list[str]]:
    return places.source(raw.pc).indices(places.span(raw.pc))


def _literal(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _shape(raw: RawFinding, places: Places) -> tuple[int, ...]:
    """Return the shape of the array that the access names; () if it is unknown."""
    name = places.program.array_of[raw.pc]
    arrays: list[Any] = [*places.arrays, *places.program.shared, *places.program.locals]
    return next((tuple(int(n) for n in array.shape) for array in arrays if array.name == name), ())


def _explain_misaligned(raw: RawFinding, places: Places) -> Finding:
    size = raw.detail["size"]
    element = places.element(raw.detail["address"], raw.pc)
    who = f"{places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}"
    label = f"{places.verb(raw.pc)} of {size} bytes at `{element}` by {who}"
    return Finding(
        code=raw.code,
        message=f"access of {size} bytes to {places.array_name(raw.pc)} at an address that is no multiple of {size}",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=["the hardware raises a misaligned address error"],
        help=f"make the index a multiple of the vector's length, or use narrower accesses than {size} bytes",
        count=raw.count,
    )
