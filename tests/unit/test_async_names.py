"""The asynchronous names of `wsemu.ptx`: what each becomes, and what is refused when the kernel is compiled."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.frontend.python.compile import Compiled, argument_type, compile_kernel
from wsemu.language import async_names
from wsemu.launch.compiled import compile_for_types
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.isa import (
    ALL,
    BLOCKS,
    BULK_REDUCTIONS,
    DROP,
    EXPECT,
    FIELDS,
    NAMES,
    NO_COMPLETE,
    NOINC,
    ONLY_READ,
    PEEK,
    PROXIES,
    RELAXED,
    TRY,
)  # fmt: skip
from wsemu.model.program import Program

HEAD = """\
def kernel(x, y, words, n):
    bar = cuda.shared.array(4, np.uint64)
    tile = cuda.shared.array((2, 64), np.float32, 16)
    ints = cuda.shared.array(64, np.uint32, 16)
    private = cuda.local.array(4, np.uint64)
    value = {call}
    if value is not None:
        y[0] = value
"""
TILE, INTS = 32, 32 + 2 * 64 * 4
"""bytes before the arrays in shared memory"""
CONSTANTS = np.arange(64, dtype=np.float32)
FROZEN = np.arange(64, dtype=np.float32)
FROZEN.flags.writeable = False


def made_of(call: str, x: Any = CONSTANTS) -> Compiled:
    """A kernel with that expression; `x` and `y` are of float32, `words` of uint32, `n` an int."""
    text, file = HEAD.format(call=call), f"<{call}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np, "CONSTANTS": CONSTANTS}
    exec(compile(text, file, "exec"), names)
    arguments = (x, CONSTANTS.copy(), np.zeros(64, np.uint32), 3)
    return compile_kernel(names["kernel"], tuple(map(argument_type, arguments)))


def program(call: str, x: Any = CONSTANTS) -> Program:
    return made_of(call, x).program


def rows_at(made: Program, at: int) -> dict[int, Any]:
    """What is in the rows before an instruction of straight code: numbers, names, (name, bytes after it), and for a
    checked index (index, bytes of an element, address)."""
    known: dict[int, Any] = {c.row: c.value for c in made.constants}
    known |= {row: (name, 0) for name, row in made.specials.items()}
    names = "x", "y", "words", "n"
    known |= {p.row: names[p.argument] if p.part == "value" else (names[p.argument], 0) for p in made.parameters}
    for op, _, d, a, b, c, imm, _ in made.code[:at].tolist():
        if NAMES[op] == "add.b64":
            name, offset = known[a]
            known[d] = name, offset + known[b]
        elif NAMES[op].startswith("index"):
            known[d] = known[a], known[c], known[imm]
    return known


def found(made: Program) -> tuple[int, str]:
    """Where the only operation that does not compute is, and what."""
    kept = ("mbarrier", "cp.", "bulk", "fence", "elect", "setmaxnreg")
    names = [NAMES[op] for op in made.code[:, 0].tolist()]
    (at,) = (pc for pc, name in enumerate(names) if name.startswith(kept))
    return at, names[at]


def only(made: Program) -> tuple[str, dict[str, int]]:
    """That operation and its fields."""
    at, name = found(made)
    return name, dict(zip(FIELDS, made.code[at].tolist(), strict=True))


def operands(made: Program, *names: str) -> tuple[Any, ...]:
    """What is in some rows of it."""
    at, _ = found(made)
    rows = rows_at(made, at)
    return tuple(rows[int(made.code[at, FIELDS.index(name)])] for name in names)


SHARED = ("shared", 0)


# -- what each name becomes ------------------------------------------------------------------------------------------
ONE_MBARRIER = {
    "mbarrier_init(bar, 1, 7)": ("mbarrier.init", (7,), 0),
    "mbarrier_inval(bar, 1)": ("mbarrier.inval", (), 0),
    "mbarrier_arrive(bar, 1)": ("mbarrier.arrive", (1, 0), 0),
    "mbarrier_arrive(bar, 1, 5)": ("mbarrier.arrive", (5, 0), 0),
    "mbarrier_arrive(bar, 1, count=5)": ("mbarrier.arrive", (5, 0), 0),
    "mbarrier_arrive_relaxed(bar, 1, 5)": ("mbarrier.arrive", (5, 0), RELAXED),
    "mbarrier_arrive_no_complete(bar, 1, 5)": ("mbarrier.arrive", (5, 0), NO_COMPLETE),
    "mbarrier_arrive_drop(bar, 1)": ("mbarrier.arrive", (1, 0), DROP),
    "mbarrier_arrive_expect_tx(bar, 1, 96)": ("mbarrier.arrive", (1, 96), EXPECT),
    "mbarrier_arrive_drop_expect_tx(bar, 1, 96)": ("mbarrier.arrive", (1, 96), DROP | EXPECT),
    "mbarrier_expect_tx(bar, 1, 4)": ("mbarrier.expect_tx", (4,), 0),
    "mbarrier_complete_tx(bar, 1, 4)": ("mbarrier.complete_tx", (4,), 0),
    "mbarrier_test_wait(bar, 1, np.uint64(9))": ("mbarrier.wait", (9,), 0),
    "mbarrier_test_wait_parity(bar, 1, 1)": ("mbarrier.wait.parity", (1,), 0),
    "mbarrier_try_wait(bar, 1, np.uint64(9))": ("mbarrier.wait", (9,), TRY),
    "mbarrier_try_wait(bar, 1, np.uint64(9), 1000)": ("mbarrier.wait", (9,), TRY),
    "mbarrier_try_wait_parity(bar, 1, 0, hint=n)": ("mbarrier.wait.parity", (0,), TRY),
    "mbarrier_wait(bar, 1, np.uint64(9))": ("mbarrier.wait", (9,), TRY),
    "mbarrier_wait_parity(bar, 1, 1)": ("mbarrier.wait.parity", (1,), TRY),
    "cp_async_mbarrier_arrive(bar, 1)": ("cp.async.arrive", (), 0),
    "cp_async_mbarrier_arrive_noinc(bar, 1)": ("cp.async.arrive", (), NOINC),
}
"""call -> operation on `bar[1]`, its operands from b on, aux"""


@pytest.mark.parametrize("call", ONE_MBARRIER)
def test_an_operation_on_an_mbarrier(call):
    made = program(f"ptx.{call}")
    operation, rest, auxiliary = ONE_MBARRIER[call]
    name, fields = only(made)
    seen = fields["aux"] & ~(BLOCKS | PEEK) if operation.startswith("mbarrier.wait") else fields["aux"]
    assert (name, seen, fields["imm"]) == (operation, auxiliary, 8)
    assert operands(made, "a", *"bc"[: len(rest)]) == (SHARED, *rest)
    assert made.array_of[found(made)[0]] == "bar"


def test_the_count_of_a_token():
    made = program("ptx.mbarrier_pending_count(np.uint64(9))")
    assert only(made)[0] == "mbarrier.pending_count"
    assert operands(made, "a") == (9,)


@pytest.mark.parametrize(("phase", "operation"), [("np.uint64(9)", "wait"), ("1", "wait_parity")])
def test_a_wait_is_a_block_that_goes_back_to_itself(phase, operation):
    made = program(f"ptx.mbarrier_{operation}(bar, 1, {phase})\n    value = 1.0")
    at, fields = found(made)[0], only(made)[1]
    assert fields["aux"] == TRY | BLOCKS
    back = made.code[at + 1].tolist()
    assert (NAMES[back[0]], back[FIELDS.index("imm")]) == ("bra", at)
    assert back[FIELDS.index("guard")] == 2 * fields["d"] + 1  # where the answer is false


def test_indices_of_mbarriers_are_checked_as_those_of_elements_are():
    assert operands(program("ptx.mbarrier_arrive(bar, n)"), "a") == (("n", 8, SHARED),)
    assert operands(program("ptx.mbarrier_arrive(bar, 4)"), "a") == ((4, 8, SHARED),)


X = 3, 4, ("x", 0)
"""x[3]: how many elements x has is not known"""
COPIES = {
    "cp_async_ca(tile, (1, 2), x, 3, 4)": ("cp.async.b32", 4),
    "cp_async_ca(tile, (1, 2), x, 3, 8)": ("cp.async.b64", 8),
    "cp_async_ca(tile, (1, 2), x, 3, 16, 12)": ("cp.async.b128", 12),
    "cp_async_cg(tile, (1, 2), x, 3, 16)": ("cp.async.b128", 16),
    "cp_async_cg(tile, (1, 2), x, 3, 16, np.int32(n))": ("cp.async.b128", None),
    "cp_async_cg(tile, (1, 2), x, 3, 16, src_bytes=0)": ("cp.async.b128", 0),
}
"""call -> operation, bytes that are read"""


@pytest.mark.parametrize("call", COPIES)
def test_a_copy_of_a_few_bytes(call):
    made = program(f"ptx.{call}")
    operation, size = COPIES[call]
    name, fields = only(made)
    assert (name, fields["imm"], fields["aux"]) == (operation, 66 * 4, 0)
    assert operands(made, "a", "b") == (("shared", TILE), X)
    assert size is None or operands(made, "c") == (size,)


PLAIN = {
    "cp_async_commit_group()": ("cp.async.commit", 0, 0),
    "cp_async_wait_group(0)": ("cp.async.wait", 0, 0),
    "cp_async_wait_group(3)": ("cp.async.wait", 3, 0),
    "cp_async_wait_all()": ("cp.async.wait", 0, ALL),
    "cp_async_bulk_commit_group()": ("bulk.commit", 0, 0),
    "cp_async_bulk_wait_group(2)": ("bulk.wait", 2, 0),
    "cp_async_bulk_wait_group_read(0)": ("bulk.wait", 0, ONLY_READ),
    "fence_proxy_async()": ("fence.proxy", PROXIES.index("async"), 0),
    "fence_proxy_async_shared_cta()": ("fence.proxy", PROXIES.index("async.shared::cta"), 0),
    "fence_proxy_async_global()": ("fence.proxy", PROXIES.index("async.global"), 0),
    "fence_mbarrier_init()": ("fence.mbarrier_init", 0, 0),
    "setmaxnreg_inc(240)": ("setmaxnreg.inc", 240, 0),
    "setmaxnreg_dec(24)": ("setmaxnreg.dec", 24, 0),
}
"""call -> operation, imm, aux"""


@pytest.mark.parametrize("call", PLAIN)
def test_an_operation_without_operands(call):
    name, fields = only(program(f"ptx.{call}"))
    assert (name, fields["imm"], fields["aux"]) == PLAIN[call]


def test_a_bulk_load_names_two_places_and_an_mbarrier():
    made = program("ptx.cp_async_bulk_global_to_shared(tile, (1, 4), x, 3, 64, bar, 2)")
    assert (only(made)[0], only(made)[1]["aux"]) == ("bulk.load", 0)
    assert operands(made, "a", "b", "c", "imm") == (("shared", TILE + 68 * 4), X, 64, ("shared", 16))


@pytest.mark.parametrize("name", ["cp_async_ca", "cp_async_cg"])
def test_a_copy_between_bytes(name):
    made = program(f"ptx.{name}_bytes(tile[1:], 16, x[3:], n, 16)")
    assert (only(made)[0], only(made)[1]["imm"]) == ("cp.async.b128", 0)
    checks = [row[FIELDS.index("d")] for row in made.code.tolist() if NAMES[row[0]] == "index.u64"]
    assert {only(made)[1][operand] for operand in "ab"} <= set(checks)
    made = program(f"ptx.{name}_bytes(tile, 16, x, 32, 16)")
    assert (only(made)[1]["imm"], operands(made, "a")) == (16, (("shared", TILE),))


def test_bulk_copies_between_bytes():
    made = program("ptx.cp_async_bulk_global_to_shared_bytes(tile, 16, x, 16, n, bar, 2)")
    assert only(made)[0] == "bulk.load"
    assert operands(made, "a", "imm") == (("shared", TILE + 16), ("shared", 16))
    made = program("ptx.cp_async_bulk_shared_to_global_bytes(x, 16, tile, 16, 32)")
    assert only(made)[0] == "bulk.store"
    assert operands(made, "b", "c", "imm") == (("shared", TILE + 16), 32, 0xFFFF)


def test_a_bulk_store_writes_every_byte():
    made = program("ptx.cp_async_bulk_shared_to_global(x, 3, tile, (1, 4), 64)")
    assert (only(made)[0], only(made)[1]["aux"]) == ("bulk.store", 0)
    assert operands(made, "a", "b", "c", "imm") == (X, ("shared", TILE + 68 * 4), 64, 0xFFFF)


REDUCED = [(what, dtype, type_) for what, row in async_names.REDUCTIONS.items() for dtype, type_ in row.types.items()]


@pytest.mark.parametrize(("what", "dtype", "type_"), REDUCED)
def test_the_types_of_a_bulk_reduction_are_those_of_its_arrays(what, dtype, type_):
    call = f"ptx.cp_reduce_async_bulk_{what}(x, 0, ints.view(np.{dtype}), 8, 32)"
    made = program(call, np.zeros(64, dtype))
    name, fields = only(made)
    assert (name, BULK_REDUCTIONS[fields["aux"]]) == ("bulk.reduce", (what, type_))
    size = np.dtype(dtype).itemsize
    assert operands(made, "a", "b", "c") == ((0, size, ("x", 0)), ("shared", INTS + 8 * size), 32)


def test_bytes_of_one_array():
    made = program("ptx.st_bulk(ints, 2, 24)")
    assert (only(made)[0], only(made)[1]["imm"]) == ("bulk.zero", 8)
    assert operands(made, "a", "b") == (("shared", INTS), 24)
    made = program("ptx.cp_async_bulk_prefetch_l2(x, 3, 32)")
    assert only(made)[0] == "bulk.prefetch"
    assert operands(made, "a", "b") == (X, 32)


def test_the_lane_elected_is_told_so():
    made = program("ptx.elect_sync(0xFFFFFFFF)")
    assert operands(made, "c") == (-1,)
    test = made.code[found(made)[0] + 1].tolist()
    assert NAMES[test[0]] == "setp.eq.b32"
    assert set(test[3:5]) == {only(made)[1]["d"], made.specials["laneid"]}


@pytest.mark.parametrize("name", ["griddepcontrol_wait", "griddepcontrol_launch_dependents"])
def test_launches_do_not_overlap(name):
    """A mark for traces remains, by which sequences of launches are checked."""
    assert {NAMES[op] for op in program(f"ptx.{name}()").code[:, 0].tolist()} == {"exit", "show"}


TYPES = {
    "ptx.mbarrier_arrive(bar, 0)": np.uint64,
    "ptx.mbarrier_pending_count(ptx.mbarrier_arrive_no_complete(bar, 0, 1))": np.int32,
    "int(ptx.mbarrier_try_wait_parity(bar, 0, n & 1))": np.int64,
    "ptx.elect_sync(n)": np.bool_,
}


@pytest.mark.parametrize("call", TYPES)
def test_types_of_results(call):
    (type_,) = {v.type for v in made_of(call).variables if v.name == "value"}
    assert np.dtype(type_) == TYPES[call]


def test_every_name_has_a_case():
    cases = [*ONE_MBARRIER, *COPIES, *PLAIN]
    named = {call.partition("(")[0] for call in cases} | {f"cp_reduce_async_bulk_{what}" for what, *_ in REDUCED}
    named |= {
        "mbarrier_pending_count", "cp_async_bulk_global_to_shared", "cp_async_bulk_shared_to_global", "st_bulk",
        "cp_async_ca_bytes", "cp_async_cg_bytes", "cp_async_bulk_global_to_shared_bytes",
        "cp_async_bulk_shared_to_global_bytes", "cp_async_bulk_prefetch_l2",
        "elect_sync", "griddepcontrol_wait", "griddepcontrol_launch_dependents",
    }  # fmt: skip
    named |= {name for name in async_names.FUNCTIONS if "tensor" in name}  # test_tensor_copies.py
    named |= set(async_names.CLUSTER_NAMES)  # test_clusters.py
    named |= {"tcgen05_commit"}  # test_tensor_names.py
    assert named == set(async_names.FUNCTIONS)


# -- what is refused -------------------------------------------------------------------------------------------------
REFUSED = {
    "mbarrier_init(x, 0, 1)": "needs `x` in shared memory; it is in global memory",
    "mbarrier_init(private, 0, 1)": "needs `private` in shared memory; it is in local memory",
    "mbarrier_init(bar if n else private, 0, 1)": "needs `bar or private` in shared memory; it is in memory of more",
    "mbarrier_init(tile, (0, 0), 1)": "on array `tile` of float32",
    "mbarrier_init(ints, 0, 1)": "on array `ints` of uint32",
    "mbarrier_init(n, 0, 1)": "needs an array, not int64",
    "mbarrier_init(bar, (0, 0), 1)": "array `bar` has 1 dimensions, the index 2",
    "mbarrier_init(bar, 1.0, 1)": "the index of `ptx.mbarrier_init` needs an integer",
    "mbarrier_init(bar, 0, 0)": "the count of `ptx.mbarrier_init` is 0",
    "mbarrier_init(bar, 0, 1 << 20)": "the count of `ptx.mbarrier_init` is 1048576",
    "mbarrier_init(bar, 0, 1.5)": "the count of `ptx.mbarrier_init` needs an integer, not float64",
    "mbarrier_arrive(bar, 0, 0)": "the count of `ptx.mbarrier_arrive` is 0",
    "mbarrier_arrive_drop(bar, 0, -1)": "the count of `ptx.mbarrier_arrive_drop` is -1",
    "mbarrier_arrive_no_complete(bar, 0)": "lacks `count`",
    "mbarrier_arrive_expect_tx(bar, 0, 1 << 20)": "bytes of `ptx.mbarrier_arrive_expect_tx` is 1048576",
    "mbarrier_expect_tx(bar, 0, -16)": "bytes of `ptx.mbarrier_expect_tx` is -16",
    "mbarrier_wait_parity(bar, 0, 2)": "the parity of `ptx.mbarrier_wait_parity` is 2",
    "mbarrier_test_wait(bar, 0, np.int32(1))": "the token of `ptx.mbarrier_test_wait` is a int32",
    "mbarrier_try_wait(bar, 0, ptx.mbarrier_arrive(bar, 0), 0.5)": "the hint of `ptx.mbarrier_try_wait` needs an int",
    "mbarrier_pending_count(1.5)": "the token of `ptx.mbarrier_pending_count` needs an integer",
    "cp_async_ca(tile, (0, 0), x, 0, 2)": "`ptx.cp_async_ca` of 2 bytes",
    "cp_async_cg(tile, (0, 0), x, 0, 8)": "`ptx.cp_async_cg` of 8 bytes",
    "cp_async_ca(tile, (0, 0), x, 0, n)": "the number of bytes of `ptx.cp_async_ca` must be a constant integer",
    "cp_async_ca(tile, (0, 0), x, 0, 8, 9)": "the src_bytes of `ptx.cp_async_ca` is 9",
    "cp_async_ca(y, 0, x, 0, 4)": "needs `y` in shared memory; it is in global memory",
    "cp_async_ca(tile, (0, 0), tile, (1, 0), 4)": "needs `tile` in global memory; it is in shared memory",
    "cp_async_ca(tile, (0, 0), CONSTANTS, 0, 4)": "needs `CONSTANTS` in global memory; it is in constant memory",
    "cp_async_ca(tile, 0, x, 0, 4)": "array `tile` has 2 dimensions, the index 1",
    "cp_async_ca_bytes(y, 0, x, 0, 4)": "needs `y` in shared memory; it is in global memory",
    "cp_async_ca_bytes(tile, 0.5, x, 0, 4)": "the offset of `ptx.cp_async_ca_bytes` needs an integer",
    "cp_async_cg_bytes(tile, 0, x, 0, 8)": "`ptx.cp_async_cg_bytes` of 8 bytes",
    "cp_async_bulk_shared_to_global_bytes(y, 0, tile, 0, 8)": "is 8",
    "cp_async_bulk_global_to_shared_bytes(tile, 0, x, 0, 8, bar, 0)": "is 8",
    "cp_async_ca(tile.T, (0, 0), x, 0, 4)": "the elements of `tile` do not lie side by side",
    "cp_async_ca(tile, (0, 0), x[::2], 0, 4)": "the elements of `x` do not lie side by side",
    "cp_async_wait_group(-1)": "the number of groups of `ptx.cp_async_wait_group` is -1",
    "cp_async_wait_group(n)": "the number of groups of `ptx.cp_async_wait_group` must be a constant integer",
    "cp_async_bulk_wait_group(n)": "the number of groups of `ptx.cp_async_bulk_wait_group` must be a constant",
    "cp_async_bulk_global_to_shared(tile, (0, 0), x, 0, 20, bar, 0)": "is 20",
    "cp_async_bulk_global_to_shared(tile, (0, 0), x, 0, 1 << 20, bar, 0)": "is 1048576",
    "cp_async_bulk_global_to_shared(tile, (0, 0), x, 0, 16, ints, 0)": "on array `ints` of uint32",
    "cp_async_bulk_global_to_shared(x, 0, x, 0, 16, bar, 0)": "needs `x` in shared memory",
    "cp_async_bulk_shared_to_global(y, 0, x, 0, 16)": "needs `x` in shared memory",
    "cp_async_bulk_shared_to_global(y, 0, tile, (0, 0), -16)": "is -16",
    "cp_reduce_async_bulk_add(words, 0, tile, (0, 0), 16)": "on `words` of uint32 and `tile` of float32",
    "cp_reduce_async_bulk_xor(y, 0, tile, (0, 0), 16)": "on arrays of float32",
    "cp_async_bulk_prefetch_l2(tile, (0, 0), 16)": "needs `tile` in global memory",
    "st_bulk(ints, 0, 12)": "bytes of `ptx.st_bulk` is 12",
    "st_bulk(y, 0, 16)": "needs `y` in shared memory",
    "setmaxnreg_inc(28)": "the count of `ptx.setmaxnreg_inc` is 28",
    "setmaxnreg_dec(16)": "the count of `ptx.setmaxnreg_dec` is 16",
    "setmaxnreg_dec(n)": "the count of `ptx.setmaxnreg_dec` must be a constant integer",
    "elect_sync(1.5)": "the mask of `ptx.elect_sync` needs an integer",
}
"""call -> part of the message"""


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_is_said_at_the_call(call):
    with pytest.raises(KernelError) as caught:
        program(f"ptx.{call}")
    assert REFUSED[call] in str(caught.value)
    assert caught.value.remedy


def test_a_read_only_array_is_no_destination():
    with pytest.raises(KernelError, match=r"`ptx\.cp_async_bulk_shared_to_global` on the read-only array `x`"):
        program("ptx.cp_async_bulk_shared_to_global(x, 0, tile, (0, 0), 16)", FROZEN)
    assert only(program("ptx.cp_async_ca(tile, (0, 0), x, 0, 16)", FROZEN))[0] == "cp.async.b128"


# -- registers -------------------------------------------------------------------------------------------------------
def empty() -> None:
    """A kernel."""


def test_max_registers_is_what_a_thread_has_at_launch():
    with_all, with_some = cuda.jit(empty), cuda.jit(max_registers=168)(empty)
    assert [compile_for_types(kernel, (), True).program.registers for kernel in (with_all, with_some, with_all)] == [
        0,
        168,
        0,
    ]
    with pytest.raises(UsageError, match="max_registers has 'many'"):
        compile_for_types(cuda.jit(max_registers="many")(empty), (), True)
