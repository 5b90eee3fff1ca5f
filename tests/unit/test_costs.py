"""What memory accesses cost, on both engines: against the hardware, and by the rules for older architectures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.machine import run as execution
from wsemu.machine.counts import COUNTS
from wsemu.machine.state import ACCESS
from wsemu.machine.tables import Watch
from wsemu.model.arch import ARCHS
from wsemu.model.memory_cost import sectors
from wsemu.model.outcome import AccessCount
from wsemu.reference import run as reference

DATA = Path(__file__).parent.parent / "data"
LANE = np.arange(32)
FULL = 0xFFFFFFFF
SHARED = 32768
"""bytes of shared memory of these kernels, where there are so many"""


# -- one access of a warp, at byte addresses --------------------------------------------------------------------------
@cuda.jit
def shared_load_1(address, mask, x, y):
    tile = cuda.shared.array(0, np.int8)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        y[t] = tile[address[t]]


@cuda.jit
def shared_load_4(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        y[t] = tile[address[t] // 4]


@cuda.jit
def shared_load_8(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        a, b = ptx.ld_v2(tile, address[t] // 4)
        y[t] = a + b


@cuda.jit
def shared_load_16(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        a, b, c, d = ptx.ld_v4(tile, address[t] // 4)
        y[t] = a + b + c + d


@cuda.jit
def shared_store_1(address, mask, x, y):
    tile = cuda.shared.array(0, np.int8)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[address[t]] = 1


@cuda.jit
def shared_store_4(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[address[t] // 4] = 1


@cuda.jit
def shared_store_8(address, mask, x, y):
    tile = cuda.shared.array(0, np.float64)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[address[t] // 8] = 1


@cuda.jit
def shared_store_16(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        ptx.st_v4(tile, address[t] // 4, (np.float32(0), np.float32(1), np.float32(2), np.float32(3)))


@cuda.jit
def global_load(address, mask, x, y):
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        y[t] = x[address[t] // x.itemsize]


@cuda.jit
def global_load_16(address, mask, x, y):
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        a, b, c, d = ptx.ld_v4(x, address[t] // 4)
        y[t] = a + b + c + d


KERNELS = {
    "shared load": {1: shared_load_1, 4: shared_load_4, 8: shared_load_8, 16: shared_load_16},
    "shared store": {1: shared_store_1, 4: shared_store_4, 8: shared_store_8, 16: shared_store_16},
    "global load": {1: global_load, 2: global_load, 4: global_load, 8: global_load, 16: global_load_16},
}
ELEMENT = {1: np.int8, 2: np.int16, 4: np.float32, 8: np.float64, 16: np.float32}


def cost(run, access, size, address, mask=FULL, arch="sm_90"):
    """(wavefronts or sectors, ideal) of one access: `address` in bytes, by lane."""
    address = np.asarray(address)
    x = np.zeros((int(address.max()) + 16) // np.dtype(ELEMENT[size]).itemsize, ELEMENT[size])
    arguments = (address, mask, x, np.zeros(32))
    space, kind = access.split()
    unit = "wavefronts" if space == "shared" else "sectors"
    only = ["bounds"]  # what the addresses do to each other is another matter
    room = min(SHARED, ARCHS[arch].limits.shared)
    counters = run(KERNELS[access][size], 32, *arguments, arch=arch, checkers=only, dynamic_shared=room).counters
    found = [getattr(counters, f"{ideal}{space}_{kind}_{unit}") for ideal in ("", "ideal_")]
    if space == "global":  # the addresses are loaded as well
        active = {int(lane): 8 * int(lane) for lane in LANE if mask >> lane & 1}
        found = [both - own for both, own in zip(found, sectors(active, 8, ARCHS[arch].costs), strict=True)]
    return tuple(found)


def measured():
    with (DATA / "h200-memory.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            addresses = np.array(row["byte_address_of_lane_0_to_31"].split(), np.int64)
            yield row["access"], int(row["bytes"]), int(row["active_mask"], 16), int(row["measured"]), addresses


def test_every_access_costs_what_an_h200_counts(run):
    rows = list(measured())
    assert len(rows) == 281
    wrong = [
        (access, size, hex(mask), expected, found, addresses.tolist())
        for access, size, mask, expected, addresses in rows
        if (found := cost(run, access, size, addresses, mask)[0]) != expected
    ]
    assert not wrong


def test_volta_and_later_cost_the_same() -> None:
    newer = {row.costs._replace(atomics=False) for arch, row in ARCHS.items() if arch >= "sm_70"}
    assert len(newer) == 1  # atomics were measured on sm_90 alone


# -- what an access costs at best -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("size", "passes"), [(4, 1), (8, 2), (16, 4)])
def test_without_a_conflict_a_pass_takes_one_wavefront(run, size, passes):
    for kind in ("shared load", "shared store"):
        assert cost(run, kind, size, LANE * size) == (passes, passes)
        assert cost(run, kind, size, LANE * 128)[1] == passes
        assert cost(run, kind, size, LANE * size, mask=0xFF) == (1, 1)


@pytest.mark.parametrize(("size", "passes"), [(4, 1), (8, 1), (16, 2)])
def test_loads_that_merge_are_judged_by_the_passes_they_take_then(run, size, passes):
    assert cost(run, "shared load", size, LANE // 2 * 128) == (16, passes)
    assert cost(run, "shared load", size, LANE * 0) == (passes, passes)
    assert cost(run, "shared store", size, LANE * 0) == ({4: 1, 8: 2, 16: 4}[size],) * 2


@pytest.mark.parametrize(
    ("size", "address", "mask", "expected"),
    [
        (4, LANE * 4, FULL, (4, 4)),
        (4, LANE * 4 + 4, FULL, (5, 4)),
        (4, LANE * 32, FULL, (32, 4)),
        (4, LANE * 0, FULL, (1, 1)),  # less than was asked for, and no more can be saved
        (4, LANE * 32, 0xFF, (8, 1)),
        (4, LANE * 4, 0x55555555, (4, 2)),
        (1, LANE + 1, FULL, (2, 1)),
        (2, LANE * 2 + 2, FULL, (3, 2)),
        (8, LANE * 64, FULL, (32, 8)),
        (16, LANE * 16, FULL, (16, 16)),
    ],
)
def test_ideal_sectors_are_the_bytes_asked_for(run, size, address, mask, expected):
    assert cost(run, "global load", size, address, mask) == expected


# -- older architectures: the rules and examples of the CUDA programming guide ----------------------------------------
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6, 8, 16, 17, 32])
def test_strides_conflict_by_their_common_divisor_with_the_banks(run, stride):
    address = LANE * 4 * stride
    assert cost(run, "shared load", 4, address, arch="sm_20") == (np.gcd(stride, 32), 1)
    assert cost(run, "shared load", 4, address, arch="sm_13") == (2 * np.gcd(stride, 16), 2)


def test_sm_20_has_no_conflict_within_a_word(run):
    assert cost(run, "shared load", 1, LANE, arch="sm_20") == (1, 1)
    assert cost(run, "shared store", 1, LANE, arch="sm_20") == (1, 1)
    assert cost(run, "shared load", 4, LANE // 2 * 4, arch="sm_20") == (1, 1)  # several words are broadcast


def test_sm_20_judges_64_bits_by_half_warps_and_merges_nothing(run):
    assert cost(run, "shared load", 8, LANE * 8, arch="sm_20") == (2, 2)
    assert cost(run, "shared load", 8, LANE % 16 * 128 + LANE // 16 * 8, arch="sm_20") == (32, 2)
    assert cost(run, "shared load", 8, LANE * 0, arch="sm_20") == (2, 2)
    assert cost(run, "shared load", 8, LANE * 0, arch="sm_90") == (1, 1)


def test_sm_20_adds_one_way_to_128_bits(run):
    for kind in ("shared load", "shared store"):
        assert cost(run, kind, 16, LANE * 16, arch="sm_20") == (8, 4)
        assert cost(run, kind, 16, LANE * 16, mask=0xF, arch="sm_20") == (2, 1)
        assert cost(run, kind, 16, LANE * 32, arch="sm_20") == (12, 4)


def test_sm_20_moves_lines_of_128_bytes(run):
    assert cost(run, "global load", 4, LANE * 4, arch="sm_20") == (4, 4)
    assert cost(run, "global load", 4, LANE * 4 + 4, arch="sm_20") == (8, 4)
    assert cost(run, "global load", 4, LANE * 0, arch="sm_20") == (4, 4)
    assert cost(run, "global load", 4, LANE * 128, arch="sm_20") == (128, 4)
    assert cost(run, "global load", 4, LANE[::-1] * 64, arch="sm_20") == (64, 4)
    assert cost(run, "global load", 16, LANE * 16, arch="sm_20") == (16, 16)


def test_sm_13_halves_of_a_warp_do_not_conflict(run):
    assert cost(run, "shared load", 4, LANE % 16 * 4, arch="sm_13") == (2, 2)
    assert cost(run, "shared load", 4, LANE * 4, mask=0xFFFF0000, arch="sm_13") == (1, 1)


def test_sm_13_narrow_and_wide_elements_conflict(run):
    assert cost(run, "shared load", 1, LANE, arch="sm_13") == (8, 2)  # char: 4 ways in each half
    assert cost(run, "shared load", 1, LANE * 4, arch="sm_13") == (2, 2)
    assert cost(run, "shared load", 8, LANE * 8, arch="sm_13") == (8, 4)  # double: two requests of 2 ways
    assert cost(run, "shared store", 8, LANE * 8, arch="sm_13") == (8, 4)
    assert cost(run, "shared load", 16, LANE * 16, arch="sm_13") == (32, 8)


def test_sm_13_broadcasts_one_word(run):
    assert cost(run, "shared load", 4, LANE * 0, arch="sm_13") == (2, 2)
    several = LANE * 4
    several[[3, 4, 6, 7, 9]] = 5 * 4  # one word for several lanes; the others have a bank each
    assert cost(run, "shared load", 4, several, mask=0xFFFF, arch="sm_13") == (1, 1)
    assert cost(run, "shared load", 4, LANE // 2 * 4, mask=0xF, arch="sm_13") == (2, 1)  # two words for two lanes each


@pytest.mark.parametrize(
    ("size", "address", "mask", "expected"),
    [
        (4, LANE * 4, 0xFFFF, (2, 2)),  # a segment of 128 bytes of which half is used
        (4, LANE * 4, FULL, (4, 4)),
        (4, LANE * 4 + 4, 0xFFFF, (4, 2)),  # 4 to 67: both halves
        (4, LANE * 4 + 64 + 4, 0xFFFF, (3, 2)),  # 68 to 131: 64 bytes of one segment, 32 of the next
        (4, LANE * 4 + 96, 0xFFFF, (2, 2)),  # 96 to 159: the last quarter, the first quarter
        (4, LANE * 0, FULL, (2, 2)),
        (4, LANE * 128, 0xFFFF, (16, 2)),
        (4, LANE * 8, 0xFFFF, (4, 2)),
        (8, LANE * 8, 0xFFFF, (4, 4)),
        (16, LANE * 16, FULL, (16, 16)),
        (1, LANE, FULL, (2, 2)),
        (1, LANE * 2, 0xFFFF, (1, 1)),
        (1, LANE * 4, 0xFFFF, (2, 1)),  # bytes have segments of 32 bytes
        (2, LANE * 4, 0xFFFF, (2, 1)),
    ],
)
def test_sm_13_moves_the_smallest_segments_for_each_half_warp(run, size, address, mask, expected):
    assert cost(run, "global load", size, address, mask, "sm_13") == expected


# -- what is kept of the worst execution ------------------------------------------------------------------------------
def accesses(kernel, arguments, *, arch="sm_90", grid=1, engine="vm", **options) -> dict[int, AccessCount]:
    """What a launch of one warp a CTA counts for each access."""
    program, names, _ = compile_for_types(kernel, arguments, True)
    rows, memory, _ = bind(program, arguments, names)
    shape = (program, (grid, 1, 1), (32, 1, 1), rows, memory.segments)
    if engine == "reference":
        return reference.run(*shape, arch=arch, dynamic_shared=SHARED).accesses
    watch = Watch(races=False, recycling=False, initialised=False)
    return execution.run(*shape, arch=arch, dynamic_shared=SHARED, watch=watch, **options).accesses


def random_addresses(rng, size):
    """Byte addresses of lanes: anything, strides, groups with one address, and now and then one that is wrong."""
    index = [
        rng.integers(0, rng.choice([4, 64, 1000]), 32),
        LANE * rng.integers(-5, 40) + 150,
        LANE // rng.choice([2, 4, 8]) * rng.integers(0, 20),
        (LANE // 4 * 2 + LANE % 2) * rng.integers(1, 4),
        rng.permutation(32) * rng.integers(1, 5),
    ][rng.integers(5)]
    address = index.astype(np.int64) * size
    if rng.random() < 0.2:
        address[rng.integers(32)] = rng.choice([-size, 1 << 20])
    return address


@pytest.mark.parametrize("arch", ["sm_13", "sm_20", "sm_90"])
def test_both_engines_count_alike(arch):
    rng = np.random.default_rng(7)
    for _ in range(150):
        access = str(rng.choice(list(KERNELS)))
        size = int(rng.choice(list(KERNELS[access])))
        mask = int(rng.choice([FULL, FULL, 0xFFFF, 1, int(rng.integers(1, 1 << 32))]))
        x = np.zeros(2048 * 16 // np.dtype(ELEMENT[size]).itemsize, ELEMENT[size])
        arguments = (random_addresses(rng, size), mask, x, np.zeros(32))
        found = [accesses(KERNELS[access][size], arguments, arch=arch, engine=e) for e in ("vm", "reference")]
        assert found[0] == found[1], (access, size, hex(mask), arguments[0].tolist())


@cuda.jit
def turns_1(address, mask, x, y):
    tile = cuda.shared.array(0, np.int8)
    t = cuda.threadIdx.x
    for k in range(address.shape[0]):
        if (mask[k] >> t) & 1:
            tile[address[k, t]] = x[address[k, t]]


@cuda.jit
def turns_4(address, mask, x, y):
    tile = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    for k in range(address.shape[0]):
        if (mask[k] >> t) & 1:
            y[t] = x[address[k, t]] + tile[address[k, t]]


@cuda.jit
def turns_8(address, mask, x, y):
    tile = cuda.shared.array(0, np.float64)
    t = cuda.threadIdx.x
    for k in range(address.shape[0]):
        if (mask[k] >> t) & 1:
            y[t] = x[address[k, t]] + tile[address[k, t]]


@pytest.mark.parametrize("arch", ["sm_13", "sm_20", "sm_90"])
@pytest.mark.parametrize(("kernel", "element"), [(turns_1, np.int8), (turns_4, np.float32), (turns_8, np.float64)])
def test_each_execution_counts_as_its_lanes_lie(kernel, element, arch):
    """Whatever the execution before cost whose lanes lay the same way, or nearly."""
    rng = np.random.default_rng(3)
    shapes = [LANE % 16, LANE // 4 * 3 % 20, rng.permutation(32), rng.integers(0, 64, 32), LANE * 9]
    masks = [FULL, FULL, 0x0F0F0F0F, int(rng.integers(1, 1 << 32))]
    before = shapes[0]
    address: list[np.ndarray] = []
    mask: list[int] = []
    for _ in range(60):
        before = before if rng.random() < 0.7 else shapes[rng.integers(len(shapes))]
        address.append(before + rng.choice([0, 1, 2, 4, 16, 32, 128]))
        mask.append(masks[rng.integers(len(masks))] if rng.random() < 0.5 or not mask else mask[-1])
    arguments = (np.array(address, np.int64), np.array(mask, np.int64), np.zeros(512, element), np.zeros(32))
    vm, other = (accesses(kernel, arguments, arch=arch, engine=engine) for engine in ("vm", "reference"))
    assert vm == other


def test_an_access_with_a_lane_outside_is_one_execution(run):
    address = LANE * 128
    address[3] = 1 << 20
    assert cost(run, "shared load", 4, address) == (31, 1)


@cuda.jit
def strides_by_turn(strides, y):
    tile = cuda.shared.array(1024, np.float32)
    lane = cuda.threadIdx.x
    for k in range(strides.shape[1]):
        tile[lane * strides[cuda.blockIdx.x, k]] = 1
        y[cuda.blockIdx.x, lane * strides[cuda.blockIdx.x, k]] = 1


def worst(strides, **options):
    """(wavefronts, ideal, the worst stride and its CTA) of the shared, then of the global store."""
    strides = np.array(strides)
    counts = accesses(strides_by_turn, (strides, np.zeros((len(strides), 1024))), grid=len(strides), **options)
    shared = next(count for count in counts.values() if count.wavefronts)
    stored = max(counts.values(), key=lambda count: count.sectors)
    kept, moved = shared.worst_wavefronts, stored.worst_sectors
    return (
        (shared.wavefronts, shared.ideal_wavefronts, kept and (kept.cost, kept.offsets[1] // 4, kept.cta)),
        (stored.sectors, stored.ideal_sectors, moved and (moved.cost, moved.offsets[1] // 8 % 1024, moved.cta)),
    )


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_first_of_the_worst_executions_is_kept(engine):
    assert worst([[1, 2, 6, 4, 12, 4]], engine=engine)[0] == (1 + 2 + 2 + 4 + 4 + 4, 6, (4, 4, 0))
    assert worst([[1, 2, 6, 4, 12, 3]], engine=engine)[1][2] == (32, 6, 0)
    assert worst([[1, 3]], engine=engine)[0] == (2, 2, None)


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 3}, {"descending": True}, {"engine": "reference"}])
def test_the_first_cta_with_the_worst_execution_is_told(options):
    strides = [[1, 2], [4, 2], [2, 12], [12, 4], [1, 1]]
    assert worst(strides, **options)[0] == (1 + 2 + 4 + 2 + 2 + 4 + 4 + 4 + 2, 10, (4, 4, 1))


def test_lanes_that_made_no_access_are_not_kept() -> None:
    for engine in ("vm", "reference"):
        counts = accesses(shared_load_4, (LANE * 128, 0b1101, np.zeros(4), np.zeros(32)), engine=engine)
        kept = next(count.worst_wavefronts for count in counts.values() if count.worst_wavefronts)
        assert (kept.cost, kept.lanes, kept.offsets[:4], set(kept.offsets[4:])) == (3, 0b1101, (0, 0, 256, 384), {0})


@cuda.jit
def two_arrays(x, z, y):
    lane = cuda.threadIdx.x
    chosen = x if lane < 16 else z
    y[lane] = chosen[8 * (lane % 16)]


@cuda.jit
def shared_or_global(x, z, y):
    tile = cuda.shared.array(1024, np.float32)
    lane = cuda.threadIdx.x
    chosen = x if lane < 16 else tile
    y[lane] = chosen[32 * (lane % 16)]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_lanes_in_several_arrays_are_one_execution(engine):
    arguments = (np.zeros(1024, np.float32), np.zeros(1024, np.float32), np.zeros(32))
    load = next(iter(accesses(two_arrays, arguments, engine=engine).values()))
    assert (load.executions, load.lanes, load.sectors, load.ideal_sectors) == (1, 32, 32, 4)
    load = next(iter(accesses(shared_or_global, arguments, engine=engine).values()))
    assert (load.executions, load.lanes, load.sectors, load.ideal_sectors) == (1, 32, 16, 2)
    assert (load.wavefronts, load.ideal_wavefronts) == (16, 1)
    kept = (load.worst_wavefronts, load.worst_sectors)
    assert [pattern and pattern.lanes for pattern in kept] == [0xFFFF0000, 0xFFFF]


def test_each_number_of_an_access_has_its_field() -> None:
    names = AccessCount.__slots__
    assert len(COUNTS) == len(names) - len(("worst_wavefronts", "worst_sectors"))
    assert set(COUNTS) == {*(ACCESS.names or ())} - {"pattern", "forbids"}
