"""Tensor memory, and the operations on it (`tcgen05`).

Detects: uses and releases that do not match allocations; columns that are never released; unordered accesses, except
the pairs that one warp pipelines; loads without a wait.  It also detects addresses in lanes of other warps, invalid
descriptors, and operations that several lanes issue.
Does not detect: allocations that may wait forever (`launch/columns.py`: the launch is `incomplete`); behavior that
depends on which columns an allocation gets (`launch/moved_columns.py`).  Accesses of these operations to shared memory
are checked by `race`, `proxy` and `bounds`.
Reference: PTX ISA, "TensorCore 5th Generation Family Instructions"; the code that the assembler generates for
allocations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.checkers.conflict import ACCESSES, ASYNCHRONOUS, LANES_APART, UNCOMPARED
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures
from wsemu.model.tensor_memory import GRANULE, KINDS, SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

_TWO = {
    "column": "the first one in common", "lane": "the first of 16 lanes in common",
    "other_what": "the class of the earlier access, an index of `_ACCESSES`", "what": "the same of this one",
    "missing": "1: a `wait::st` after the earlier access, 2: a `wait::ld`, 0: neither alone",
}  # fmt: skip
_COLUMN, _COUNT = "the first one", "how many"
_MOVED = {"moved": "the column from which allocations are searched for in the run that shows it, if not from 0"}
DETAIL = {
    "tmem-race": Detail(_TWO),
    "tmem-read-unfinished": Detail(_TWO),
    "tcgen05-fence": Detail(_TWO),
    "tmem-read-unwaited": Detail(_TWO),
    "tmem-unallocated": Detail({
        "column": _COLUMN, "columns": _COUNT, "owned": "32 columns a bit that the CTA has", "rank": "of the CTA",
    }, _MOVED),
    "tmem-bounds": Detail({"column": _COLUMN, "columns": _COUNT}, _MOVED),
    "tmem-uninitialized": Detail({"column": _COLUMN, "lane": "the lane of tensor memory"}),
    "tmem-wrong-quarter": Detail({"quarter": "32 lanes that the address names", "own": "those of the warp"}),
    "tmem-misaligned-lane": Detail({
        "lane": "that the address names", "shape": "an index of `SHAPES`, or 5 and 6 of a copy",
    }),
    "tmem-leak": Detail({"column": _COLUMN, "columns": _COUNT}),
    "tmem-double-free": Detail({
        "column": _COLUMN, "columns": _COUNT, "owned": "32 columns a bit that the CTA has",
        "what": "0: they are not allocated, 1: no allocation begins there, 2: it has other columns",
    }, _MOVED),
    "tmem-columns": Detail({"columns": _COUNT, "frees": "1: of a release"}),
    "tmem-alloc-after-relinquish": Detail({"columns": _COUNT}),
    "tmem-grow": Detail({"columns": _COUNT, "before": "of the allocation before"}),
    "tmem-address-unpublished": Detail(ACCESSES, {**LANES_APART, **ASYNCHRONOUS, **UNCOMPARED}),
    "tmem-cta-group-mixed": Detail({"group": "the `cta_group`", "before": "that of the first operation"}),
    "tcgen05-issued-by-many": Detail({}),
    "tcgen05-descriptor": Detail({
        "what": "1: the version, 2: the swizzle, 3: reserved bits, 4: the shape, 5: the types, 6: the sparse bit, 7: "
        "the layout, 8: the lane of an operand, 9: metadata of a sparse operand",
        "value": "the descriptor, or 4 bits of metadata", "kind": "an index of `KINDS`, or 7 of a copy",
    }),
    "collector-without-fill": Detail({
        "what": "0: its warp has not filled the buffer, 1: with another operand, 2: it was overwritten since",
        "buffer": "0 of A, 1 to 4 of B",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "tmem-race": Cures(405, ptx=("tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;", "bar.sync 0;")),
    "tmem-read-unfinished": Cures(404, ptx=("tcgen05.wait::ld.sync.aligned;",)),
    "tcgen05-fence": Cures(455, ptx=("tcgen05.fence::after_thread_sync;", "tcgen05.fence::before_thread_sync;")),
    "tmem-read-unwaited": Cures(456, ptx=("tcgen05.wait::ld.sync.aligned;",)),
    "tmem-address-unpublished": Cures(395, ptx=("bar.sync 0;",)),
    "tmem-uninitialized": Cures(451),
    "tmem-leak": Cures(441),
    **{
        code: Cures(61 + n + n // 9)
        for n, code in enumerate(CODES)
        if code.removeprefix("tmem-")
        not in (
            "tcgen05-fence",
            "race",
            "read-unfinished",
            "address-unpublished",
            "uninitialized",
            "leak",
            "read-unwaited",
        )
    },
}
_ACCESSES = (
    "the read of an operand by a `tcgen05.mma`", "the sum of a `tcgen05.mma`", "the write of a `tcgen05.cp`",
    "the write of a `tcgen05.cp`", "the load", "the store", "the allocation", "the release", "this use",
)  # fmt: skip
_LOAD, _ALLOCATION, _RELEASE = 4, 6, 7
"""indices of three accesses in `_ACCESSES`"""


def explain(raw: RawFinding, places: Places) -> Finding:
    """Explain a finding about tensor memory."""
    return _EXPLAINED[raw.code](raw, places)


def _extent(detail: dict[str, int]) -> str:
    return _columns_text(detail["column"], detail["columns"])


def _columns_text(first: int, count: int) -> str:
    return f"column {first}" if count == 1 else f"columns {first} to {first + count - 1}"


def _explain_race(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    earlier, later = _ACCESSES[d["other_what"]], _ACCESSES[d["what"]]
    where = f"column {d['column']} of tensor memory, lanes {d['lane']} to {d['lane'] + 15}"
    notes = [f"the first words in common: {where}; nothing orders (1) and (2)", _OVER[d["other_what"]]]
    return words.finding(
        raw, places, f"race in tensor memory: nothing orders {earlier} and {later}",
        f"by {words.who(raw, places)}", notes, _missing_order(raw, places), f"by {words.other(raw, places)}",
    )  # fmt: skip


_OVER = (
    *["a `tcgen05.mma` is complete for a thread that has observed the phase of a later `tcgen05.commit`"] * 2,
    *["a `tcgen05.cp` is complete for a thread that has observed the phase of a later `tcgen05.commit`"] * 2,
    "a load is complete after the next `tcgen05.wait::ld` of its warp, whatever its registers are used for",
    "a store is complete after the next `tcgen05.wait::st` of its warp",
    "a use of columns must be ordered after their allocation, for example by a barrier",
    "the release of columns must be ordered after all their uses",
)  # fmt: skip


def _missing_order(raw: RawFinding, places: Places) -> str:
    """Return the edit that orders the two accesses."""
    d, there = raw.detail, places.near(raw.pc, raw.other_pc)
    if d["missing"]:
        wait = "`tcgen05.wait::ld`" if d["missing"] == 2 else "`tcgen05.wait::st`"
        return f"{wait} after (1), before its warp arrives where {there} waits"
    if d["other_what"] in (_LOAD, _LOAD + 1):
        wait = "`tcgen05.wait::ld`" if d["other_what"] == _LOAD else "`tcgen05.wait::st`"
        return f"{wait} after (1), then a barrier or an arrival that {there} waits for"
    if d["other_what"] == _ALLOCATION:
        return f"a barrier between (1) and {there}"
    if d["other_what"] == _RELEASE:
        return "a barrier of all that use the columns, before the release"
    return f"a `tcgen05.commit` after (1), and a wait for the phase that it completes before {there}"


def _explain_unfinished(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"{_ACCESSES[d['what']]} overwrites column {d['column']} of tensor memory, which a load may still "
        "read", f"by {words.who(raw, places)}",
        ["only `tcgen05.wait::ld` completes a load; later instructions of its warp, arrivals included, do not"],
        _missing_order(raw, places), f"loaded by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_unwaited(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"{_ACCESSES[d['what']]} overwrites column {d['column']} of tensor memory after a load that only "
        "the use of its registers completes", f"by {words.who(raw, places)}",
        ["hardware waits for a load where a register of it is used; PTX promises that only for `tcgen05.wait::ld`"],
        _missing_order(raw, places), f"loaded by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_fence(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    earlier, later = _ACCESSES[d["other_what"]], _ACCESSES[d["what"]]
    where = f"column {d['column']} of tensor memory, lanes {d['lane']} to {d['lane'] + 15}"
    return words.finding(
        raw, places, f"only relaxed operations order {earlier} before {later}, without `tcgen05.fence`",
        f"by {words.who(raw, places)}",
        [f"the first words in common: {where}", "the fence emits no machine instruction: it binds only the compiler"],
        "`tcgen05.fence::before_thread_sync` before the relaxed arrival, and `tcgen05.fence::after_thread_sync` after "
        "the relaxed wait", f"by {words.other(raw, places)}",
    )  # fmt: skip


def _moved_notes(raw: RawFinding) -> list[str]:
    seen = f"seen in a run whose allocations begin at column {raw.detail.get('moved')}"
    return [f"{seen}: {_GIVEN}"] if "moved" in raw.detail else []


_GIVEN = "which columns an allocation gets depends on the other CTAs of the multiprocessor"


def _explain_unallocated(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    owned = [n for n in range(16) if d["owned"] >> n & 1]
    has = ", ".join(_columns_text(GRANULE * n, GRANULE) for n in owned) if owned else "none"
    return words.finding(
        raw, places, f"tensor memory is used that the CTA has not allocated: {_extent(d)}",
        f"by {words.who(raw, places)}", [f"allocated here: {has}", *_moved_notes(raw)],
        "allocate it with `tcgen05.alloc`, and use the address that this stores",
    )  # fmt: skip


def _explain_bounds(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"tensor memory has 512 columns: {_extent(d)} are beyond the last one",
        f"by {words.who(raw, places)}", _moved_notes(raw), "use fewer columns, or a smaller address",
    )  # fmt: skip


def _explain_uninitialized(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"a load of tensor memory that nothing has written: lane {d['lane']}, column {d['column']}",
        f"by {words.who(raw, places)}",
        ["after its allocation tensor memory holds arbitrary values", _LEFT],
        "write it first: by a `tcgen05.st`, or a `tcgen05.mma` that does not add",
    )  # fmt: skip


_LEFT = (
    "a product leaves such values if nothing has written a row, a column or a factor of it, if copies of a factor "
    "differ, or if it adds to them"
)


def _explain_quarter(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"an address in lanes {32 * d['quarter']} to {32 * d['quarter'] + 31} of tensor memory, of which "
        f"the warp has lanes {32 * d['own']} to {32 * d['own'] + 31}", f"by {words.who(raw, places)}",
        ["a warp has only the lanes of its number modulo 4, whatever the address names"],
        "access these lanes from the warp that owns them, or name the lanes of this warp",
    )  # fmt: skip


def _explain_misaligned(raw: RawFinding, places: Places) -> Finding:
    if raw.detail["shape"] > len(SHAPES):
        return words.finding(
            raw, places, f"a copy to lane {raw.detail['lane']} of tensor memory: its rows go to all 128 lanes",
            f"by {words.who(raw, places)}", [], "name lane 0 in bits 31 to 16 of the address",
        )  # fmt: skip
    if raw.detail["shape"] == len(SHAPES):
        return words.finding(
            raw, places, f"a copy of shape .4x256b to lane {raw.detail['lane']} of tensor memory: its rows lie 32 "
            "lanes apart", f"by {words.who(raw, places)}", ["its 4 rows go to lanes beyond the last one, 127"],
            "name a lane from 0 to 31 in bits 31 to 16 of the address",
        )  # fmt: skip
    shape = SHAPES[raw.detail["shape"]]
    step = 32 if shape in ("32x32b", "16x32bx2") else 16
    return words.finding(
        raw, places, f"an access of shape .{shape} at lane {raw.detail['lane']} of tensor memory: it begins at a "
        f"multiple of {step}", f"by {words.who(raw, places)}", [], "put such a lane into bits 31 to 16 of the address",
    )  # fmt: skip


def _explain_leak(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"{_extent(d)} of tensor memory are still allocated when the CTA ends",
        f"allocated by {words.who(raw, places)}",
        ["the next CTA on the multiprocessor may wait for them for ever"],
        f"`tcgen05.dealloc` of {d['columns']} columns on every path that ends the CTA",
    )  # fmt: skip


def _explain_double_free(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    why = ("which are not allocated", "where no allocation begins", "of an allocation of other columns")[d["what"]]
    trap = ["the machine stops with a trap"] if d["what"] < 2 else []
    return words.finding(
        raw, places, f"a release of {_extent(d)} of tensor memory, {why}",
        f"by {words.who(raw, places)}", [*trap, *_moved_notes(raw)],
        "release what `tcgen05.alloc` returned, with the same number of columns",
    )  # fmt: skip


def _explain_size(raw: RawFinding, places: Places) -> Finding:
    what = "a release" if raw.detail["frees"] else "an allocation"
    return words.finding(
        raw, places, f"{what} of {words.amount(raw.detail['columns'], 'column')} of tensor memory",
        f"by {words.who(raw, places)}", [], "give a power of 2 from 32 to 512",
    )  # fmt: skip


def _explain_after(raw: RawFinding, places: Places) -> Finding:
    return words.finding(
        raw, places, "an allocation of tensor memory after the CTA gave up the permit to allocate",
        f"by {words.who(raw, places)}", ["no allocation may follow `tcgen05.relinquish_alloc_permit`"],
        "relinquish the permit after the last allocation", f"by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_growth(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"an allocation of {d['columns']} columns after one of {d['before']}",
        f"by {words.who(raw, places)}", ["a CTA never allocates more columns than the time before"],
        "allocate the most columns first", f"by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_unpublished(raw: RawFinding, places: Places) -> Finding:
    return words.finding(
        raw, places, "the address of an allocation is read before it is published",
        f"by {words.who(raw, places)}",
        ["`tcgen05.alloc` writes it by a plain store: other warps may read it after a barrier"],
        "add a barrier after the allocation, before the address is read", f"allocated by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_mixed(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return words.finding(
        raw, places, f"an operation of `cta_group::{d['group']}` in a kernel of `cta_group::{d['before']}`",
        f"by {words.who(raw, places)}", ["all `tcgen05` operations of a kernel name one `cta_group`"],
        f"use `cta_group::{d['before']}` in all of them", f"by {words.other(raw, places)}",
    )  # fmt: skip


def _explain_many(raw: RawFinding, places: Places) -> Finding:
    return words.finding(
        raw, places, f"each of {raw.lanes.bit_count()} lanes issues a {words.noun(places, raw.pc)} of its own",
        f"by {words.who(raw, places)}",
        ["it is an instruction of one thread: a product that adds is added once for each lane"],
        "issue it from one lane, for example with `elect.sync`",
    )  # fmt: skip


_WRONG = {
    1: ("bits 48 to 46 of a descriptor of shared memory are not 1", "set them: descriptors of `wgmma` have 0 there"),
    2: ("bits 63 to 61 name an invalid swizzle", "use 0, 1, 2, 4 or 6 in bits 63 to 61"),
    3: ("reserved bits are set", "leave them 0"),
    4: ("D has an invalid shape", "use M and N of the table in PTX for this kind and `cta_group`"),
    5: ("the kind has no such types", "use types of the kind, and of D"),
    6: ("the bit for sparse operands contradicts the instruction", "set it only with `.sp`"),
    7: ("operands of this type cannot lie so", "use the swizzle and direction that PTX has for the type"),
    8: ("an operand in tensor memory does not begin at such a lane", "use lane 0; for D and A of 64 rows also lane 16"),
    9: (
        "metadata of its sparse operand are invalid",
        "name two elements of each chunk; for tf32 use 0b0100 or 0b1110",
    ),
}


def _explain_descriptor(raw: RawFinding, places: Places) -> Finding:
    what, remedy = _WRONG[raw.detail["what"]]
    kind = raw.detail["kind"]
    of = f"kind::{KINDS[kind]}" if kind < len(KINDS) else "a copy"
    value = f"{raw.detail['value'] & (1 << 64) - 1:#x}"
    note = f"the metadata of a chunk are {value}" if raw.detail["what"] == 9 else f"the descriptor is {value}"
    return words.finding(
        raw, places, f"a descriptor that its operation does not allow: {what}",
        f"by {words.who(raw, places)}", [f"{note}, of {of}"],
        remedy,
    )  # fmt: skip


_UNFILLED = {
    0: ("no `fill` of this warp is valid", "use `.collector::{name}::fill` in the first product with this operand"),
    1: ("(1) filled the buffer with another operand", "use `.collector::{name}::fill` where the operand changes"),
    2: ("elements of the operand were overwritten since (1) filled the buffer",
        "use `.collector::{name}::fill` after the operand has changed"),
}  # fmt: skip


def _explain_unfilled(raw: RawFinding, places: Places) -> Finding:
    name = f"b{raw.detail['buffer'] - 1}" if raw.detail["buffer"] else "a"
    why, remedy = _UNFILLED[raw.detail["what"]]
    return words.finding(
        raw, places, f"this product may take its operand from collector buffer `{name}`, which does not have it",
        f"by {words.who(raw, places)}", [f"{why}: hardware may use either what is there, or memory"],
        remedy.format(name=name), f"filled by {words.other(raw, places)}" if raw.other_pc >= 0 else "",
    )  # fmt: skip


_EXPLAINED: dict[str, Callable[[RawFinding, Places], Finding]] = {
    "tmem-race": _explain_race,
    "tmem-read-unfinished": _explain_unfinished,
    "tcgen05-fence": _explain_fence,
    "tmem-read-unwaited": _explain_unwaited,
    "tmem-unallocated": _explain_unallocated,
    "tmem-bounds": _explain_bounds,
    "tmem-uninitialized": _explain_uninitialized,
    "tmem-wrong-quarter": _explain_quarter,
    "tmem-misaligned-lane": _explain_misaligned,
    "tmem-leak": _explain_leak,
    "tmem-double-free": _explain_double_free,
    "tmem-columns": _explain_size,
    "tmem-alloc-after-relinquish": _explain_after,
    "tmem-grow": _explain_growth,
    "tmem-address-unpublished": _explain_unpublished,
    "tmem-cta-group-mixed": _explain_mixed,
    "tcgen05-issued-by-many": _explain_many,
    "tcgen05-descriptor": _explain_descriptor,
    "collector-without-fill": _explain_unfilled,
}
