"""Launches in a `DeviceMemory`: pointers that the host and kernels store are the same numbers everywhere."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import DeviceMemory, UsageError, cuda
from wsemu.model.settings import Engine

MODULE = Path(__file__).parents[1] / "ptx" / "device_memory.sm_90.ptx"
KERNELS = wsemu.load_ptx(MODULE)
ENGINES: tuple[Engine, ...] = ("vm", "reference")
WINDOW = 1 << 40


def array(memory: DeviceMemory, values: Any, name: str = "") -> int:
    """Return the address of a new allocation that holds these values."""
    values = np.asarray(values)
    address = memory.allocate(values.nbytes, name)
    memory.write(address, values)
    return address


def check(name: str, arguments: tuple[Any, ...], memory: DeviceMemory, engine: Engine, block: int = 32) -> wsemu.Report:
    return wsemu.check(KERNELS[name], 1, block, arguments, memory=memory, engine=engine)


def codes(report: wsemu.Report) -> list[str]:
    return [finding.code for finding in report.findings]


# -- what holds --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_of_pointers_that_the_host_stored_is_followed(engine: Engine) -> None:
    memory = DeviceMemory()
    rows = [array(memory, np.arange(40, dtype="i4") * k) for k in range(3)]
    table = array(memory, np.array([rows[0], rows[1] + 16, rows[2]], "u8"))  # one into the midst of a row
    out = memory.allocate(128)
    report = check("sum_table", (table, 3, out), memory, engine)
    assert report.verdict == "verified", report
    i = np.arange(32)
    assert (memory.read(out, "i4", 32) == i + 4 + 2 * i).all()
    assert check("scatter", (table, 3), memory, engine).verdict == "verified"
    assert (memory.view(rows[1], "i4")[4:36] == i).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_pointers_that_a_kernel_stores_hold_in_the_next_launch(engine: Engine) -> None:
    memory = DeviceMemory()
    nodes, out = memory.allocate(16 * 8), memory.allocate(4)
    assert check("link_nodes", (nodes, 8), memory, engine).verdict == "verified"
    assert check("walk", (nodes + 16, out), memory, engine).verdict == "verified"
    assert memory.read(out, "i4", 1) == sum(i * i for i in range(8))
    assert memory.read(nodes, "u8", 1) == nodes + 16


@pytest.mark.parametrize("engine", ENGINES)
def test_variables_live_in_the_memory(engine: Engine) -> None:
    memory, module = DeviceMemory(), wsemu.load_ptx(MODULE)
    at = module.place_variables(memory)
    assert sorted(at) == ["kept", "third", "values"]
    assert memory.read(at["third"], "u8", 1) == at["values"] + 8
    x, y = memory.allocate(128, "x"), memory.allocate(16, "y")
    for name, arguments in (("keep", (x,)), ("use", ()), ("read_third", (y,))):
        report = wsemu.check(
            module[name], 1, 32 if name != "read_third" else 1, arguments, memory=memory, engine=engine
        )
        assert report.verdict == "verified", report
    assert (memory.read(x, "i4", 32) == np.arange(1, 33)).all()
    assert memory.read(y, "i4", 1) == 3
    memory.write(at["values"], np.array([5, 6, 7, 8], "i4"))
    assert wsemu.check(module["scaled"], 1, 4, (y, 1), memory=memory, engine=engine).verdict == "verified"
    assert memory.read(y, "i4", 4).tolist() == [100, 120, 140, 160]
    module.set(scale=memory.view(array(memory, np.array([1, 2], "i4")), "i4"))  # constants are in device memory, too
    assert wsemu.check(module["scaled"], 1, 4, (y, 1), memory=memory, engine=engine).verdict == "verified"
    assert memory.read(y, "i4", 4).tolist() == [10, 12, 14, 16]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_structure_by_value_holds_pointers_as_bytes(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.arange(32, dtype="i4")), memory.allocate(128)
    given = np.array([out, x], "u8").tobytes() + np.array([32, 0], "i4").tobytes()
    assert check("two", (given,), memory, engine).verdict == "verified"
    assert (memory.read(out, "i4", 32) == np.arange(1, 33)).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_and_views_are_arguments_beside_addresses(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.arange(64, dtype="i4")), np.zeros(32, "i4")
    assert check("copy", (out, x + 128, 32), memory, engine).verdict == "verified"
    assert (out == np.arange(32, 64)).all()
    view = memory.view(x + 128, "i4")
    assert memory.address_of(view[3:]) == x + 140
    assert check("copy", (view, out[::-1].copy(), 32), memory, engine).verdict == "verified"
    assert (memory.view(x, "i4")[32:] == out[::-1]).all()


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]


@pytest.mark.parametrize("engine", ENGINES)
def test_python_kernels_take_views(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.arange(32, dtype="f4")), memory.allocate(128)
    views = memory.view(x, "f4"), memory.view(out, "f4")
    assert wsemu.check(double, 1, 32, views, memory=memory, engine=engine).verdict == "verified"
    assert (memory.read(out, "f4", 32) == 2 * np.arange(32)).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_by_pointers_from_memory(engine: Engine) -> None:
    memory = DeviceMemory()
    counters = [array(memory, np.zeros(1, "i4")) for _ in range(3)]
    table = array(memory, np.array(counters, "u8"))
    assert check("count", (table, 3), memory, engine).verdict == "verified"
    assert [int(memory.read(one, "i4", 1)[0]) for one in counters] == [11, 11, 10]


@pytest.mark.parametrize("engine", ENGINES)
def test_all_orders_of_atomics_by_pointers_from_memory_are_tried(engine: Engine) -> None:
    memory = DeviceMemory()
    counter, slots, out = array(memory, np.zeros(1, "i4")), memory.allocate(16), memory.allocate(4)
    table = array(memory, np.array([counter, slots], "u8"))
    for ctas in (3, 4):  # partly written slots in the second launch
        memory.write(counter, np.int32(0))
        report = wsemu.check(KERNELS["last"], ctas, 1, (table, out), memory=memory, engine=engine)
        assert report.verdict == "verified", report
        assert memory.read(out, "i4", 1) == ctas * (ctas + 1) // 2
        now = next(one for one in memory if one.address == slots).written
        assert (12 if ctas == 3 else None) == (None if now is None else int(now.sum()))


def test_ctas_on_several_cores_and_compiled_regions_write_rows_of_a_table() -> None:
    memory = DeviceMemory()
    rows = [array(memory, np.zeros(256, "i4")) for _ in range(8)]
    table = array(memory, np.array(rows, "u8"))
    report = wsemu.check(KERNELS["spin"], 8, 32, (table, 3000), memory=memory, workers=2)
    assert report.verdict == "verified", report
    sums = [sum(range(k, 3000, 8)) for k in range(8)]
    for row in rows:
        assert memory.read(row, "i4", 256).reshape(8, 32).tolist() == [[n] * 32 for n in sums]


def test_memory_of_the_client_is_shared_at_its_address() -> None:
    memory, own = DeviceMemory(), np.arange(32, dtype="i4")
    memory.place(80 * WINDOW, own, "own")
    out = memory.allocate(128)
    assert check("copy", (out, 80 * WINDOW, 32), memory, "vm").verdict == "verified"
    assert check("copy", (80 * WINDOW, out, 0), memory, "vm").verdict == "verified"
    own[:] = 7
    assert check("copy", (out, 80 * WINDOW, 32), memory, "vm").verdict == "verified"
    assert (memory.read(out, "i4", 32) == 7).all()


# -- what does not -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
def test_freed_memory_is_named(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.zeros(32, "i4"), "x"), memory.allocate(128)
    table = array(memory, np.array([x], "u8"))
    memory.free(x)
    for name, arguments in (("sum_table", (table, 1, out)), ("copy", (out, x, 32))):  # from memory, and passed
        report = check(name, arguments, memory, engine)
        assert codes(report) == ["out-of-bounds"]
        assert report.findings[0].message == "load of 4 bytes in `x`, which was freed"
    memory.write(table, np.uint64(out))
    assert check("sum_table", (table, 1, out), memory, engine).verdict == "verified"


@pytest.mark.parametrize(("shift", "where"), [
    (-4, "byte -4 of `x`, which has 128"), (4, "byte 128 of `x`, which has 128"),
    (WINDOW // 4, f"byte {WINDOW // 4:,} of `x`, which has 128"), (7 * WINDOW, f"{23 * WINDOW:#x}"),
    (-WINDOW + 124, f"{15 * WINDOW + 124:#x}"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ENGINES)
def test_addresses_beside_an_allocation_are_named_by_it(engine: Engine, shift: int, where: str) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.zeros(32, "i4"), "x"), memory.allocate(128)
    report = check("copy", (out, x + shift, 32), memory, engine)
    assert codes(report) == ["out-of-bounds"]
    assert where in report.findings[0].notes[0]
    table = array(memory, np.array([x + shift], "u8"))
    report = check("sum_table", (table, 1, out), memory, engine)
    assert codes(report) == ["out-of-bounds"]
    assert where in report.findings[0].notes[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_nothing_wrote_is_kept_from_launch_to_launch(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = memory.allocate(128), memory.allocate(128)
    assert codes(check("copy", (out, x, 32), memory, engine)) == ["uninitialized-read"]
    memory.write(x, np.arange(16, dtype="i4"))
    assert check("copy", (out, x, 16), memory, engine).verdict == "verified"
    assert codes(check("copy", (out, x, 17), memory, engine)) == ["uninitialized-read"]
    y = array(memory, np.arange(32, dtype="i4"))
    assert check("copy", (x + 64, y, 16), memory, engine).verdict == "verified"  # a launch writes the rest
    assert check("copy", (out, x, 32), memory, engine).verdict == "verified"
    z = memory.allocate(128)
    memory.view(z, "i4")[:] = 1
    memory.mark_written(z, 128)
    assert check("copy", (out, z, 32), memory, engine).verdict == "verified"


@cuda.jit
def write_evens(out):
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = i


@pytest.mark.parametrize("engine", ENGINES)
def test_what_nothing_wrote_is_kept_by_launches_that_do_not_look_for_it(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = memory.allocate(128), memory.allocate(128)
    views = memory.view(x, "f4"), memory.view(out, "f4")
    options: dict[str, Any] = {"memory": memory, "engine": engine}
    assert wsemu.check(write_evens, 1, 32, views[:1], checkers=["race"], **options).verdict == "verified"
    assert wsemu.check(double, 1, 32, views, checkers=["race"], **options).verdict == "verified"
    assert codes(wsemu.check(double, 1, 32, views, **options)) == ["uninitialized-read"]


def test_calls_that_are_wrong_are_rejected() -> None:
    memory = DeviceMemory()
    x = memory.allocate(16, "x")
    for wrong, message in (
        (lambda: memory.allocate(0), "size=0"),
        (lambda: memory.allocate(1 << 40), "allocate 1 byte or more"),
        (lambda: memory.free(x + 8), "begins no allocation"),
        (lambda: memory.write(x + 8, np.zeros(3, "i4")), "12 bytes at byte 8 of `x`, which has 16"),
        (lambda: memory.read(x - 4, "i4", 1), "byte -4 of `x`"),
        (lambda: memory.view(x, "i4", 5), "`x` has 4 from there"),
        (lambda: memory.view("x"), "give an int"),  # type: ignore[arg-type]
        (lambda: memory.place(x, np.zeros(1)), "free it first"),
        (lambda: memory.place(x + 8, np.zeros(1)), "multiple of 2"),
        (lambda: memory.place(5 * WINDOW, np.zeros(1)), "multiple of 2"),
        (lambda: memory.place(90 * WINDOW, np.zeros((2, 2))[:, 0]), "contiguous"),
        (lambda: memory.address_of(np.zeros(1)), "outside of this memory"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            wrong()
    memory.free(x)
    with pytest.raises(UsageError, match="is freed already"):
        memory.free(x)
    with pytest.raises(UsageError, match="which has 16 bytes and is freed"):
        memory.read(x, "i4", 1)


def test_a_view_of_freed_memory_is_rejected() -> None:
    memory = DeviceMemory()
    x = array(memory, np.arange(32, dtype="f4"), "x")
    view = memory.view(x + 64, "f4")
    memory.free(x)
    with pytest.raises(UsageError, match="argument `x` is a view of `x`, which was freed"):
        wsemu.check(double, 1, 16, (view, np.zeros(16, "f4")), memory=memory)
    assert wsemu.check(double, 1, 16, (view.copy(), np.zeros(16, "f4")), memory=memory).verdict == "verified"
    memory.place(x, np.zeros(32, "f4"))  # the address has memory again, the view has not
    with pytest.raises(UsageError, match="argument `x` is a view of `x`, which was freed"):
        wsemu.check(double, 1, 16, (view, np.zeros(16, "f4")), memory=memory)


def test_a_byte_of_the_host_has_one_address() -> None:
    memory, own = DeviceMemory(), np.zeros(64, "f4")
    memory.place(80 * WINDOW, own[16:32])
    with pytest.raises(UsageError, match="place: the array shares bytes with device memory at 0x500000000000"):
        memory.place(81 * WINDOW, own)
    with pytest.raises(UsageError, match="add_arena: the array shares bytes with device memory"):
        memory.add_arena(81 * WINDOW, own[31:])
    for part in (own[8:24], own[31:], own, own[::-1], own[:34:33]):
        with pytest.raises(UsageError, match=r"argument `out` shares \d+ of its \d+ bytes with device memory at 0x5"):
            wsemu.check(double, 1, 2, (np.zeros(2, "f4"), part), memory=memory)
    for part in (own[:16], own[32:], own[18:20]):
        assert wsemu.check(double, 1, 2, (np.zeros(2, "f4"), part), memory=memory).verdict == "verified"
    memory.free(80 * WINDOW)
    memory.place(81 * WINDOW, own)


def test_addresses_of_freed_memory_are_given_again_only_if_there_are_no_others_of_47_bits() -> None:
    memory = DeviceMemory()
    first = [memory.allocate(16) for _ in range(100)]
    memory.free(first[3])
    more = [memory.allocate(16) for _ in range(14)]
    assert first[3] not in more[:12]
    assert more[12] == first[3]
    assert more[13] == 128 * WINDOW


# -- arenas ------------------------------------------------------------------------------------------------------------
def make_arena(memory: DeviceMemory, size: int = 1 << 16) -> tuple[int, np.ndarray]:
    """Return the address of a new arena, and its bytes."""
    data = np.zeros(size, np.uint8)
    return memory.add_arena(80 * WINDOW, data), data


@pytest.mark.parametrize("engine", ENGINES)
def test_allocations_lie_side_by_side_in_an_arena(engine: Engine) -> None:
    memory = DeviceMemory()
    base, data = make_arena(memory)
    x = memory.place(base + 0x1000, 128, "x", written=False)
    y = memory.allocate(128, "y", arena=base)
    assert y == base + 0x1200
    out = memory.allocate(128)
    table = memory.allocate(16, arena=base)
    memory.write(table, np.array([x, y], "u8"))
    assert codes(check("copy", (out, x, 32), memory, engine)) == ["uninitialized-read"]
    memory.write(x, np.arange(32, dtype="i4"))
    assert (data[0x1000:0x1080].view("i4") == np.arange(32)).all()
    assert check("copy", (y, x, 32), memory, engine).verdict == "verified"
    assert check("sum_table", (table, 2, out), memory, engine).verdict == "verified"
    assert (memory.read(out, "i4", 32) == 2 * np.arange(32)).all()
    for at, where in (
        (x - 4, "byte -4 of `x`, which has 128"), (x + 4, "byte 128 of `x`"), (x + 384, "byte -128 of `y`"),
        (base, "byte -4,096 of `x`"), (base + (1 << 20), "of `"),
    ):  # fmt: skip
        report = check("copy", (out, at, 32), memory, engine)
        assert codes(report) == ["out-of-bounds"]
        assert where in report.findings[0].notes[0], report
    report = check("copy", (x + 4, out, 32), memory, engine)  # a store into the gap
    assert codes(report) == ["out-of-bounds"]
    memory.free(x)
    report = check("sum_table", (table, 2, out), memory, engine)
    assert report.findings[0].message == "load of 4 bytes in `x`, which was freed"
    assert check("copy", (out, y, 32), memory, engine).verdict == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_address_after_a_live_block_is_not_one_in_the_freed_block_behind_it(engine: Engine) -> None:
    memory = DeviceMemory()
    at, _ = make_arena(memory)
    x, gone = memory.place(at, 128, "x"), memory.place(at + 512, 128, "gone")
    out = memory.allocate(128)
    table = array(memory, np.array([x + 400], "u8"))
    memory.free(gone)
    report = check("sum_table", (table, 1, out), memory, engine)  # nearer to the freed block
    assert report.findings[0].message == "load of 4 bytes outside `x`"
    assert "byte 400 of `x`, which has 128;" in report.findings[0].notes[0]
    memory.write(table, np.uint64(gone))
    report = check("sum_table", (table, 1, out), memory, engine)
    assert report.findings[0].message == "load of 4 bytes in `gone`, which was freed"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_may_reach_past_the_last_allocation_of_an_arena(engine: Engine) -> None:
    memory = DeviceMemory()
    at, data = make_arena(memory)
    memory.place(at, 64, "x")
    out = memory.place(at + 256, 128, "out")
    x, y = data[:2048].view("f4"), data[256:4096].view("f4")
    assert wsemu.check(double, 1, 16, (x, y), memory=memory, engine=engine).verdict == "verified"
    for given in ((x, y[16:]), (x[16:], y), (x[:32].reshape(2, 16)[::-1][0], x[1000:])):
        assert set(codes(wsemu.check(double, 1, 17, given, memory=memory, engine=engine))) == {"out-of-bounds"}
    memory.free(out)
    assert codes(wsemu.check(double, 1, 16, (x, y), memory=memory, engine=engine)) == ["out-of-bounds"]


def test_an_arena_is_filled_and_its_freed_parts_are_used_again() -> None:
    memory = DeviceMemory()
    base, _ = make_arena(memory, 2048)
    first = [memory.allocate(256, arena=base) for _ in range(4)]
    assert first == [base + 512 * n for n in range(4)]
    with pytest.raises(UsageError, match="no room for 256 bytes"):
        memory.allocate(256, arena=base)
    memory.free(first[1])
    assert memory.allocate(200, arena=base) == first[1]
    for wrong, message in (
        (lambda: memory.place(first[1] + 128, 256), "overlap"),
        (lambda: memory.place(base + 2000, 256), "an arena, which has 2,048"),
        (lambda: memory.place(16 * WINDOW, 256), "in no arena"),
        (lambda: memory.allocate(256, arena=16 * WINDOW), "no arena is there"),
        (lambda: memory.add_arena(base, np.zeros(1)), "that of an arena"),
    ):
        with pytest.raises(UsageError, match=message):
            wrong()


def test_allocations_of_an_arena_cost_what_others_do() -> None:
    memory = DeviceMemory()
    base, _ = make_arena(memory)
    counted = []
    for arena in (0, base):
        x, y = memory.allocate(256, arena=arena), memory.allocate(256, arena=arena)
        memory.write(x, np.arange(64, dtype="i4"))
        reports = [check("copy", (y, x + 4, 32), memory, engine) for engine in ENGINES]
        assert [report.verdict for report in reports] == ["verified"] * 2
        counted += [report.counters for report in reports]
    assert counted.count(counted[0]) == 4


# -- any program of pointers -------------------------------------------------------------------------------------------
FOLLOW, MOVE, ADD, STORE, POINT = range(5)


class Model:
    """What `run` does to words of memory, by their addresses; `wrong` once it leaves memory."""

    def __init__(self, words: dict[int, int]) -> None:
        self.words, self.sum, self.wrong = words, 0, False

    def load(self, at: int) -> int:
        self.wrong |= at not in self.words
        return self.words.get(at, 0)

    def store(self, at: int, value: int) -> None:
        self.wrong |= at not in self.words
        if at in self.words:
            self.words[at] = value

    def run(self, p: int, commands: list[tuple[int, int]]) -> None:
        for op, k in commands:
            if op == FOLLOW:
                p = self.load(p)
            elif op == MOVE:
                p += 8 * k
            elif op == ADD:
                self.sum += self.load(p)
            elif op == STORE:
                self.store(p, self.sum)
            else:
                self.store(p, p + 8 * k)


@pytest.mark.parametrize("arena", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_of_pointers_do_what_a_plain_model_does(seed: int, arena: bool) -> None:
    rng = random.Random(seed)
    outcomes = []
    for engine in ENGINES:
        rng.seed(seed)
        memory = DeviceMemory()
        sizes = [rng.randint(1, 6) for _ in range(rng.randint(2, 6))]
        base = make_arena(memory)[0] if arena else 0
        blocks = [memory.allocate(8 * size, f"block{n}", arena=base) for n, size in enumerate(sizes)]
        for at, size in zip(blocks, sizes, strict=True):
            targets = [rng.choice(blocks) + 8 * rng.randint(0, 2) for _ in range(size)]
            memory.write(at, np.array([t if rng.random() < 0.8 else 8 * rng.randint(0, 12) for t in targets], "i8"))
        if seed % 3 == 0 and len(blocks) > 2:
            gone = rng.randrange(1, len(blocks))
            memory.free(blocks.pop(gone))
            sizes.pop(gone)
        words = {
            at + 8 * n: int(word)
            for at, size in zip(blocks, sizes, strict=True)
            for n, word in enumerate(memory.read(at, "i8", size))
        }
        model = Model(dict(words))
        commands = []
        for _ in range(rng.randint(4, 20)):
            op = rng.choices((FOLLOW, MOVE, ADD, STORE, POINT), (4, 3, 2, 1, 2))[0]
            commands.append((op, rng.randint(-1, 2)))
        model.run(blocks[0], commands)
        out = memory.allocate(8)
        given = array(memory, np.array(commands, "i4"))
        report = check("run", (blocks[0], given, len(commands), out), memory, engine, block=1)
        assert set(codes(report)) == ({"out-of-bounds"} if model.wrong else set()), (commands, report)
        now = {at: int(memory.read(at, "i8", 1)[0]) for at in model.words}
        assert now == model.words
        assert int(memory.read(out, "u8", 1)[0]) == model.sum & (1 << 64) - 1
        outcomes.append((report.verdict, [(f.code, f.message, f.notes, f.count) for f in report.findings]))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_launch_that_ended_early_would_have_written_is_not_reported_later(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = memory.allocate(128), memory.allocate(128)
    report = wsemu.check(
        KERNELS["copy"], 1, 32, (x, array(memory, np.zeros(32, "i4")), 32), memory=memory, budget=3, engine=engine
    )
    assert report.verdict == "incomplete"
    assert codes(check("copy", (out, x, 32), memory, engine)) == []


EMBEDDED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry read(.param .u64 out) {{
    .reg .b64 %a<4>; .reg .b32 %r<3>;
    ld.param.u64 %a1, [out];
    mov.u64 %a2, {address};
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a2, %a2, %a3;
    add.u64 %a1, %a1, %a3;
    ld.u32 %r2, [%a2];
    st.global.u32 [%a1], %r2;
    ret;
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_an_address_that_a_compiler_has_put_into_the_code_is_followed(engine: Engine) -> None:
    memory = DeviceMemory()
    x, out = array(memory, np.arange(32, dtype="i4")), memory.allocate(128)
    module = wsemu.load_ptx(EMBEDDED.format(address=x))
    report = wsemu.check(module["read"], 1, 32, (out,), memory=memory, engine=engine)
    assert report.verdict == "verified", report
    assert (memory.read(out, "i4", 32) == np.arange(32)).all()
    wild = wsemu.load_ptx(EMBEDDED.format(address=x + (20 << 40)))
    assert codes(wsemu.check(wild["read"], 1, 32, (out,), memory=memory, engine=engine)) == ["out-of-bounds"]
