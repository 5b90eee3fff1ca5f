"""One lane of those that are active together draws numbers for all: decided for all groups of lanes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.group_programs import CombiningProgram, GroupProgram, check_groups, draw_groups, judge_groups
from wsemu import cuda
from wsemu.model.isa import NAMES
from wsemu.proof.lanes_alone import make_single

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
RIGHT = GroupProgram(1, (0, 0, -1, 0), False, "lane", "size", 1, 1, "below", "first", -1, leaves=False)
MATCHES = RIGHT._replace(keys=(0, 1, 1, 0), matches=True)
COMBINES = CombiningProgram(1, (0, 1, 1, 0), True, "max.s32", "max.s32", False, False, 0, False, leaves=False)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "program",
    [
        RIGHT, RIGHT._replace(elects="rank"), RIGHT._replace(times=2, scale=2), RIGHT._replace(bound=2), MATCHES,
        MATCHES._replace(leaves=True), RIGHT._replace(warps=2),
    ],
)  # fmt: skip
def test_a_number_for_each_lane_is_decided(program: GroupProgram, engine: Engine) -> None:
    report = check_groups(program, engine)
    assert report.verdict == "verified", report.notes
    assert "whichever lanes are active together" in report.proof


@pytest.mark.parametrize(
    "change",
    [
        {"added": "one"}, {"scale": 2, "keys": (0,) * 7}, {"times": 2, "scale": 1}, {"rank": "lane"}, {"rank": "up"},
        {"source": "zero", "keys": (-1, 0, 0)}, {"source": "itself"}, {"elects": "last"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("program", [RIGHT, MATCHES])
def test_what_depends_on_the_group_is_not_verified_so(program: GroupProgram, change: dict[str, Any]) -> None:
    changed = program._replace(**change)
    report = check_groups(changed, "vm")
    assert "whichever lanes are active together" not in report.proof or not changed.can_fail()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "program",
    [
        COMBINES, COMBINES._replace(leaves=True), COMBINES._replace(matches=False), COMBINES._replace(warps=2),
        COMBINES._replace(reduces="add.u32", performs="add.u32"),
        COMBINES._replace(reduces="xor.b32", performs="xor.b32"),
    ],
)  # fmt: skip
def test_combined_values_are_decided(program: CombiningProgram, engine: Engine) -> None:
    report = check_groups(program, engine)
    assert report.verdict == "verified", report.notes
    assert "whichever lanes are active together" in report.proof


@pytest.mark.parametrize(
    "change",
    [
        {"performs": "min.s32"}, {"performs": "max.u32"}, {"performs": "add.u32"}, {"whole": True}, {"beside": 1},
        {"stores": True}, {"last": True},
    ],
)  # fmt: skip
def test_combined_values_that_depend_on_the_group_are_open(change: dict[str, Any]) -> None:
    assert check_groups(COMBINES._replace(**change), "vm").verdict == "incomplete"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("activemask", "membar.gl; activemask"),  # the lanes' own atomics would release what they wrote
        ("atom.global", "atom.acq_rel.gpu.global"),
        ("atom.global", "atom.release.gpu.global"),
        ("atom.global", "atom.cta.global"),  # of too narrow a scope for several CTAs
        ("redux.sync.max.s32 %s, %s", "redux.sync.max.s32 %s, %k"),  # values that are the group's
        ("redux.sync.max.s32 %s, %s", "popc.b32 %s, %k; redux.sync.max.s32 %s, %s"),
        ("redux.sync.max.s32 %s, %s, %k", "or.b32 %b, %k, 1; redux.sync.max.s32 %s, %s, %b"),
        ("redux.sync.max.s32 %s, %s, %k;", "redux.sync.max.s32 %s, %s, %k; st.global.u32 [%y], %s;"),
        ("redux.sync.max.s32 %s, %s, %k;", "redux.sync.max.s32 %s, %s, %k; redux.sync.max.s32 %s, %s, %m;"),
        ("redux.sync.max.s32 %s, %s, %k;", "redux.sync.max.s32 %s, %s, %k; and.b32 %s, %s, 3;"),
        ("atom.global.max.s32 %b, [%c], %s;", "atom.global.max.s32 %b, [%c], %s; atom.global.add.u32 %b, [%n], %s;"),
        ("mul.wide.u32 %c, %v, 4;", "mul.wide.u32 %c, %l, 4;"),  # a location that the lane decides
        ("match.any.sync.b32 %k, %v, %m", "shr.u32 %k, %v, 1; match.any.sync.b32 %k, %k, %m"),
    ],
)
def test_what_else_combined_values_reach_keeps_them_unproven(text: str, other: str) -> None:
    changed = COMBINES.ptx().replace(text, other)
    assert changed != COMBINES.ptx()
    x = np.array([0, 1, 1, 0] + [-1] * 28, np.int32)
    given = np.zeros(32, np.uint32), x, np.zeros(32, np.uint32)
    assert wsemu.check(wsemu.load_ptx(changed)["k"], 1, 32, given).verdict != "verified"


def test_a_fence_keeps_lanes_together() -> None:
    text = RIGHT.ptx().replace("SHARE:", "SHARE: membar.gl;")
    x = np.array([0] * 4 + [-1] * 28, np.int32)
    given = np.zeros(4, np.uint32), x, np.zeros(12, np.uint32)
    assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, given).verdict == "incomplete"


def test_an_address_beside_the_matched_value_is_not_that_of_all() -> None:
    """Lanes that match in one value add to a place that another one decides."""
    text = (
        MATCHES._replace(leaves=True)
        .ptx()
        .replace("match.any.sync.b32 %k, %v", "shr.u32 %s, %v, 1; match.any.sync.b32 %k, %s")
    )
    x = np.array([0, 1, 1, 0] + [-1] * 28, np.int32)
    given = np.zeros(4, np.uint32), x, np.zeros(12, np.uint32)
    assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, given).verdict == "incomplete"


def test_products_that_may_wrap_are_not_followed() -> None:
    """4 lanes that draw 2**30 numbers each add 0, in 32 bits."""
    product = "mul.lo.u32 %s, %s, 32768;"
    text = RIGHT._replace(times=1 << 15, leaves=True).ptx().replace(product, 2 * product)
    given = np.zeros(4, np.uint32), np.zeros(32, np.int32), np.zeros(12, np.uint32)
    program = wsemu.load_ptx(text)["k"].program(given, fma=True)
    assert make_single(program, lanes_by_x=True) is None


@pytest.mark.parametrize("program", [RIGHT, RIGHT._replace(leaves=True)])
@pytest.mark.parametrize("offset", [-8, 8])
def test_the_offset_of_an_atomic_is_kept(program: GroupProgram, offset: int) -> None:
    text = program.ptx().replace("add.u64 %c, %c, %n;", f"add.u64 %c, %c, %n; sub.s64 %n, %n, {offset};")
    text = text.replace("[%n], %s", f"[%n + {offset}], %s")
    given = np.zeros(4, np.uint32), np.zeros(32, np.int32), np.zeros(32, np.uint32)
    made = make_single(wsemu.load_ptx(text)["k"].program(given, fma=True), lanes_by_x=True)
    assert made is not None
    assert [fields[6] for fields in made.code.tolist() if NAMES[fields[0]] == "atom.add.b32"] == [offset]


def test_verdicts_of_random_groups_are_those_of_all_groups() -> None:
    source = random.Random(2)
    judged = [judge_groups(draw_groups(source), ("vm",)) for _ in range(40)]
    assert not [str(one) for one in judged if one.complaints]
    assert sum(one.verdicts == ("verified",) for one in judged) > 10


def append(n: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if x[i] > 0:
        mask = cuda.activemask()
        first = cuda.ffs(mask) - 1
        base = 0
        if cuda.laneid == first:
            base = cuda.atomic.add(n, 0, cuda.popc(mask))
        base = cuda.shfl_sync(mask, base, first)
        y[base + cuda.popc(mask & cuda.lanemask_lt())] = x[i]


def test_a_python_kernel_appends_by_groups() -> None:
    x = np.array([k % 3 for k in range(64)], np.int64)
    report = wsemu.check(cuda.jit(append), 1, 64, (np.zeros(1, np.int64), x, np.zeros(64, np.int64)))
    assert report.verdict == "verified", report.notes
