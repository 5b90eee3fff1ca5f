"""`wgmma`: values by records of hardware, where operands lie, what its reads race with, and its registers."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.model.matrix import WGMMA, Descriptor, Wgmma
from wsemu.reference.matrix.wgmma import offset_of

TESTS = Path(__file__).parents[1]
TEXT = (TESTS / "ptx" / "wgmma.sm_90a.ptx").read_text(encoding="utf-8")
RECORDS = TESTS / "data" / "wgmma.npz"
"""of an H100: for each type a few tiles a, b, c, and what wgmma gave"""
DESCRIPTORS = TESTS / "data" / "wgmma_descriptors.csv"
"""of an H100: of which element of shared memory each element of an operand is"""


def checked(text: str, name: str, arguments: tuple[Any, ...], grid: int = 1, engine: str = "vm") -> Any:
    return wsemu.check(wsemu.load_ptx(text)[name], grid, 128, arguments, engine=engine)  # type: ignore[arg-type]


def errors(report: Any) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


class GroupProgram:
    """A loop of fences, `wgmma`, commits, waits and uses of registers, some of them in the first round only."""

    DRAIN = ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
    WORDS = (
        *["wgmma.fence.sync.aligned;"] * 2, *["G"] * 4, "wgmma.commit_group.sync.aligned;", *DRAIN,
        "wgmma.wait_group.sync.aligned 1;", "T", "T",
    )  # fmt: skip

    def __init__(self, generator: random.Random) -> None:
        self.lines = [f"mov.b32 %f{i}, {'%f0' if i else 0};" for i in range(8)] * generator.randrange(2)
        self.lines += ["wgmma.fence.sync.aligned;"] * generator.randrange(2)
        choices = [generator.choice(self.WORDS) for _ in range(generator.randrange(4, 10))]
        self.lines.append("LOOP:")
        for word in choices:
            if generator.random() < 0.2:
                self.lines.append("FIRST")
            if word == "T":
                word = f"T {generator.choice(('f', 'f', 'v'))}{generator.randrange(8)}"
            elif word == "G":
                word = f"G {generator.randrange(4)}"
            self.lines.append(word)
        self.lines += ["add.u32 %i, %i, 1;", "setp.lt.u32 %p, %i, %n;", "@%p bra LOOP;"]

    @staticmethod
    def registers(kind: int) -> tuple[set[str], set[str]]:
        """(accumulators, of a) of a `wgmma`: 8 columns, 16 columns, and both with `a` in registers."""
        return {f"f{i}" for i in range(8 if kind & 1 else 4)}, {f"v{i}" for i in range(4)} if kind & 2 else set()

    def spelled(self, line: str) -> str:
        if line.startswith("T "):
            return f"xor.b32 %{line[2:]}, %{line[2:]}, 1;"
        if not line.startswith("G "):
            return line
        kind = int(line[2:])
        sums, of_a = ("{" + ", ".join(f"%{r}" for r in sorted(part)) + "}" for part in self.registers(kind))
        shape = f"m64n{16 if kind & 1 else 8}k16.f32.f16.f16"
        turns = "0" if kind & 2 else "0, 0"
        return f"wgmma.mma_async.sync.aligned.{shape} {sums}, {of_a if kind & 2 else '%b'}, %b, 1, 1, 1, {turns};"

    @property
    def text(self) -> str:
        return "\n".join([*HEADER, *self.body(), *self.DRAIN, "ret;", "}"])

    def body(self) -> list[str]:
        lines = []
        for number, line in enumerate(self.lines):
            if line == "FIRST":
                lines += ["setp.ne.u32 %q, %i, 0;", f"@%q bra OVER{number};", self.spelled(self.lines[number + 1])]
                lines.append(f"OVER{number}:")
            elif not number or self.lines[number - 1] != "FIRST":
                lines.append(self.spelled(line))
        return lines

    def trouble(self, rounds: int) -> dict[str, set[int]]:
        """Code -> lines, of an execution."""
        body = self.body()
        spelled = {self.spelled(line): line for line in self.lines}
        start = body.index("LOOP:")
        registers = {f"{of}{i}" for of in "fv" for i in range(8)}
        unordered = [set(registers) for _ in range(3)]  # for accumulators of 8, of 16 columns, and for `a`
        flying: list[list[int]] = [[]]  # groups, the open one last
        found: dict[str, set[int]] = {}
        for step in range(rounds):
            over = ""
            for at in range(start if step else 0, len(body)):
                line, number = body[at], len(HEADER) + at + 1
                word = spelled.get(line, line)
                if line.startswith("@%q bra") and step:
                    over = line.split()[-1].replace(";", ":")
                over = "" if line == over else over
                if over:
                    continue
                if "fence" in word:
                    unordered = [set(), set(), set()]
                elif "commit" in word:
                    flying.append([])
                elif "wait" in word:
                    flying = flying[max(0, len(flying) - 1 - int(word[-2])) :]
                elif word.startswith("T "):
                    held = [r for kinds in flying for kind in kinds for r in set.union(*self.registers(kind))]
                    if word[2:] in held:
                        found.setdefault("wgmma-register", set()).add(number)
                    for part in unordered:
                        part.add(word[2:])
                elif word.startswith("G "):
                    kind = int(word[2:])
                    sums, of_a = self.registers(kind)
                    if any((k ^ kind) & 1 for kinds in flying for k in kinds):
                        found.setdefault("wgmma-register", set()).add(number)
                    if unordered[kind & 1] & sums or unordered[2] & of_a:
                        found.setdefault("wgmma-unfenced", set()).add(number)
                    unordered[kind & 1] -= sums
                    unordered[1 - (kind & 1)] |= sums
                    flying[-1].append(kind)
        return found


HEADER = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{
.shared .align 128 .b8 tile[4096];
.reg .b32 %t, %s, %n, %i, %x, %f<8>, %v<8>; .reg .b64 %b, %at; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %s, tile; ld.param.u32 %n, [n]; mov.u32 %i, 0;
mad.lo.u32 %x, %t, 32, %s;
st.shared.v4.b32 [%x], {%i, %i, %i, %i}; st.shared.v4.b32 [%x+16], {%i, %i, %i, %i};
fence.proxy.async; bar.sync 0;
cvt.u64.u32 %b, %s; shr.u64 %b, %b, 4; or.b64 %b, %b, 0x1000080000;""".splitlines()


# -- values ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("in_registers", [0, 1])
@pytest.mark.parametrize("type_", ["f16", "tf32", "e4m3"])
@pytest.mark.parametrize(("engine", "tiles"), [("vm", 18), ("reference", 1)])
def test_w1_w2_w5_sums_are_those_of_an_h100(engine: str, tiles: int, type_: str, in_registers: int) -> None:
    with np.load(RECORDS) as file:
        a, b, c, wanted = (file[f"{type_}/{x}"][:tiles] for x in "abcd")
    d = np.zeros_like(c)
    bytes_ = a.view(np.uint8), b.view(np.uint8)
    report = checked(TEXT, type_, (*bytes_, c.view(np.float32), d.view(np.float32), in_registers), tiles, engine)
    assert report.verdict == "verified", report
    assert np.array_equal(d, wanted)


def product(mode: int, text: str = TEXT) -> tuple[Any, Any, Any]:
    """The kernel `swizzled`: (report, what it gave, what that should be)."""
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-8, 9, (64, 64)).astype(np.float16) for _ in range(2))
    d = np.zeros((64, 64), np.float32)
    report = checked(text, "swizzled", (a.view(np.uint8), b.view(np.uint8), d, mode))
    return report, d, 2 * a.astype(np.float32) @ b.astype(np.float32).T


def test_w10_a_chain_of_them_with_the_swizzle_of_128_bytes() -> None:
    report, d, wanted = product(0)
    assert report.verdict == "verified", report
    assert np.array_equal(d, wanted)


# -- descriptors -------------------------------------------------------------------------------------------------------
def test_w12_elements_lie_where_an_h100_has_them() -> None:
    with DESCRIPTORS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = {k: int(row[k]) for k in ("swizzle", "lbo", "sbo", "start", "base_offset")}
            swizzle = 256 >> numbers["swizzle"] if numbers["swizzle"] else 16
            d = Descriptor(numbers["start"], numbers["lbo"], numbers["sbo"], numbers["base_offset"], swizzle)
            rows = 64 if row["operand"] == "A" else 8
            places = [offset_of(d, m, k, 2, turned=row["major"] != "K") for m in range(rows) for k in range(16)]
            assert [place // 2 % 16384 for place in places] == [int(n) for n in row["elements"].split()]


MADE = [
    (0x100, 0x40, 0, 0), (0x80, 0x20, 1, 0), (0x100, 0x40, 2, 0), (0x40, 0x80, 3, 0), (0x80, 0x40, 1, 1),
]  # fmt: skip
"""leading and stride offsets, swizzle, base offset"""


@pytest.mark.parametrize("fields", MADE)
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_w12_both_engines_find_the_same_elements(name: str, fields: tuple[int, ...]) -> None:
    leading, stride, swizzle, base = (min(n, 0x20) if name == "columns" and k < 2 else n for k, n in enumerate(fields))
    high = leading << 16 | stride << 32 | base << 49 | swizzle << 62
    b = high | 0x40
    x = np.random.default_rng(3).standard_normal(8192).astype(np.float16).view(np.uint32)
    results = []
    for engine in ("vm", "reference"):
        d = np.zeros((64, 8), np.float32)
        report = checked(TEXT, name, (x, d, high, b, 4), engine=engine)
        results.append((report.verdict, errors(report), d.view(np.uint32).tolist()))
    assert results[0] == results[1]


def test_an_operand_outside_shared_memory() -> None:
    x, d = np.zeros(4096, np.uint32), np.zeros((64, 8), np.float32)
    for engine in ("vm", "reference"):
        report = checked(TEXT, "rows", (x, d, 0x3F00 | 0x10 << 32, 0x10 << 32, 4), engine=engine)
        assert errors(report) == {"out-of-bounds"}


# -- order -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (1, "proxy"),  # no proxy fence before
        (2, "race"),  # no barrier before
        (3, "race"),  # written before the wait
    ],
)
def test_reads_are_live_from_issue_to_wait(mode: int, code: str) -> None:
    report, _, _ = product(mode)
    assert errors(report) == {code}
    assert "wgmma" in "".join(finding.message for finding in report.findings)


@pytest.mark.parametrize("mode", [4, 5])
def test_what_was_waited_for_may_be_written(mode: int) -> None:
    """W14: by the warp that has waited, for all four; or behind a barrier."""
    report, _, _ = product(mode)
    assert report.verdict == "verified", report


def test_a_wgmma_that_nobody_waits_for() -> None:
    report, _, _ = product(0, re.sub(r"wgmma\.wait_group\.sync\.aligned \d+;", "", TEXT))
    found = next(finding for finding in report.findings if finding.code == "async-outlives-cta")
    assert "`wgmma` that reads `of_b[0]`" in found.message
    assert "wgmma.wait_group" in found.help


RING = (TESTS / "ptx" / "wgmma_ring.sm_90a.ptx").read_text(encoding="utf-8")
GIVEN_BACK: dict[int, set[str]] = {
    0: set(), 1: {"race"}, 2: set(),
    3: set(), 4: set(), 5: {"race", "phase-alias"}, 6: {"race", "phase-alias"}, 7: {"deadlock"}, 8: {"race"},
}  # fmt: skip
"""mode of the ring -> errors"""


def given_back(mode: int, text: str = RING, engine: Any = "vm", steps: int = 4) -> Any:
    """The ring with a mode."""
    x = np.random.default_rng(0).integers(-4, 5, (steps, 64, 64)).astype(np.float16)
    kernel = wsemu.load_ptx(text)["ring"]
    return wsemu.check(kernel, 1, 160, (x.view(np.uint8), np.zeros(4097, np.float32), steps, mode), engine=engine)


@pytest.mark.parametrize("mode", GIVEN_BACK)
def test_a_stage_is_given_back_after_the_wait_that_covers_it(mode: int) -> None:
    report = given_back(mode)
    assert errors(report) == GIVEN_BACK[mode]
    assert report.verdict == ("failed" if GIVEN_BACK[mode] else "verified"), report


@pytest.mark.parametrize("mode", [4, 6, 7])
def test_w14_both_engines_know_of_the_other_warps_of_a_warpgroup(mode: int) -> None:
    """A `wgmma` is over when all four warps have issued it and its reads are made."""
    reports = [given_back(mode, engine=engine, steps=3) for engine in ("vm", "reference")]
    said = [report.model_dump(exclude={"seconds"}) for report in reports]
    assert said[0] == said[1]
    assert errors(reports[0]) == GIVEN_BACK[mode]


@pytest.mark.parametrize("commits", ["", "wgmma.commit_group.sync.aligned;"])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_w14_nobody_waits_for_what_a_warp_has_not_committed(engine: str, commits: str) -> None:
    """Warp 3 issues a `wgmma` and exits; the others commit theirs, and thread 0 writes what warp 3 may still read."""
    program = GroupProgram(random.Random(0))
    program.lines = ["wgmma.fence.sync.aligned;", "G 0", "setp.ge.u32 %q, %t, 96;"]
    store = "@%p st.shared.u32 [%s+1536], %i;"
    after = [
        commits, "@%q bra END;", "" if commits else "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;", "setp.eq.u32 %p, %t, 0;", store, "END:", "ret;", "}",
    ]  # fmt: skip
    text = "\n".join([*HEADER, *program.body(), *after])
    report = checked(text, "k", (np.zeros(64, np.uint32), 1), engine=engine)
    assert ("race" in errors(report)) == (not commits), report


def test_w14_a_warp_that_does_not_come_is_named() -> None:
    found = next(finding for finding in given_back(7).findings if finding.code == "deadlock")
    assert "at `wgmma.commit_group` for the warpgroup: 3 of its 4 warps have reached it" in str(found)


# -- registers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (r"wgmma\.fence\.sync\.aligned;", "", "wgmma-unfenced"),
        (r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "wgmma-register"),
        (r"wgmma\.commit_group\.sync\.aligned;", "", "wgmma-register"),
    ],
)
def test_registers_of_a_wgmma_under_way(old: str, new: str, code: str) -> None:
    report, _, _ = product(0, re.sub(old, new, TEXT))
    assert code in errors(report), report


def test_each_wgmma_has_one_finding_of_its_registers() -> None:
    report, _, _ = product(0, re.sub(r"wgmma\.wait_group\.sync\.aligned 0;", "", TEXT))
    found = [finding for finding in report.findings if finding.code == "wgmma-register"]
    assert len(found) == len({finding.sites[1].line for finding in found})


@pytest.mark.parametrize("seed", range(8))
def test_registers_are_followed_through_branches_and_loops(seed: int) -> None:
    program = GroupProgram(random.Random(seed))
    for rounds in (1, 3):
        wanted = program.trouble(rounds)
        said = []
        for engine in ("vm", "reference"):
            report = checked(program.text, "k", (np.zeros(64, np.uint32), rounds), engine=engine)
            said.append(report.model_dump(exclude={"seconds"}))
            assert errors(report) - {"async-outlives-cta"} == set(wanted), (program.text, report)
            for finding in report.findings:
                if finding.code in wanted:
                    assert finding.sites[0].line in wanted[finding.code]
        assert said[0] == said[1]


def test_what_a_register_is_may_depend_on_the_way() -> None:
    program = GroupProgram(random.Random(0))
    program.lines = [
        "wgmma.fence.sync.aligned;", "G 0", "wgmma.commit_group.sync.aligned;", "setp.eq.u32 %q, %n, 7;",
        "mov.b32 %x, 0;", "@%q bra OVER;", "mov.b32 %x, %f0;", "OVER:", "add.u32 %x, %x, 1;",
        "wgmma.wait_group.sync.aligned 0;",
    ]  # fmt: skip
    for engine in ("vm", "reference"):
        report = checked(program.text, "k", (np.zeros(64, np.uint32), 7), engine=engine)
        assert report.verdict == "incomplete"
        assert any("depends on the way" in note for note in report.notes)


def test_accumulators_set_to_zero_before_a_loop_without_a_fence() -> None:
    program = GroupProgram(random.Random(0))
    zeros = [f"mov.b32 %f{i}, {'%f0' if i else 0};" for i in range(4)]
    loop = ["G 0", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "add.u32 %i, %i, 1;"]
    program.lines = [*zeros, "mov.u32 %x, 0;", "LOOP:", *loop, "setp.lt.u32 %p, %i, %n;", "@%p bra LOOP;"]
    for engine in ("vm", "reference"):
        report = checked(program.text, "k", (np.zeros(64, np.uint32), 3), engine=engine)
        assert report.verdict == "failed"
        assert errors(report) == {"wgmma-unfenced"}


@pytest.mark.parametrize("warps", [1, 2, 3])
def test_the_warps_of_a_warpgroup_execute_the_same(warps: int) -> None:
    x, d = np.zeros(4096, np.uint32), np.zeros((64, 8), np.float32)
    for engine in ("vm", "reference"):
        report = checked(TEXT, "rows", (x, d, 0x10 << 32, 0x10 << 32, warps), engine=engine)
        (found,) = [finding for finding in report.findings if finding.code == "wgmma-divergence"]
        assert f"warp {warps} of the same warpgroup executes none" in found.message


def test_a_warpgroup_has_four_warps() -> None:
    program = GroupProgram(random.Random(0))
    program.lines = ["wgmma.fence.sync.aligned;", "G 0", *program.DRAIN]
    for engine in ("vm", "reference"):
        kernel = wsemu.load_ptx(program.text)["k"]
        report = wsemu.check(kernel, 1, 64, (np.zeros(64, np.uint32), 1), engine=engine)
        (found,) = [finding for finding in report.findings if finding.code == "wgmma-divergence"]
        assert "fewer than four warps" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %r1, 2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 1;",
    ],
)
def test_other_forms_are_refused_by_name(text: str) -> None:
    report, _, _ = product(0, re.sub(r"wgmma\.fence\.sync\.aligned;", text, TEXT))
    assert report.verdict == "incomplete"
    assert any("wgmma.mma_async" in note for note in report.notes)


# -- every form --------------------------------------------------------------------------------------------------------
def form(found: Wgmma, n: int) -> str:
    """A kernel `k(x, d)` with one of them, on 4 KiB of x: operands without a swizzle, registers from x too."""
    part = found.part
    count = part.accumulators * n // 8
    types = f"{part.d}.{part.a}.{part.b}" + (".and.popc" if part.combine == "and" else "")
    clamps = ".satfinite" if part.a == "s8" else ""
    scales = {"s32": "", "f32": ", -1, 1", "f16": ", 1, -1"}[part.d]
    turns = (", 0, 0" if found.shared else ", 0") if part.a in ("f16", "bf16") else ""
    sums = ", ".join(f"%d{i}" for i in range(count))
    a = "%da" if found.shared else "{%a0, %a1, %a2, %a3}"
    return f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 d)
{{
.shared .align 1024 .b8 tile[4096];
.reg .b32 %t, %s, %v<4>, %a<4>, %d<{count}>; .reg .b64 %x, %p, %at, %da, %db; .reg .pred %q;
mov.u32 %t, %tid.x; ld.param.u64 %x, [x]; mul.wide.u32 %at, %t, 16; add.u64 %p, %x, %at; mov.u32 %s, tile;
cvt.u64.u32 %da, %s; shl.b32 %t, %t, 4; add.u32 %s, %s, %t;
ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%p]; st.shared.v4.b32 [%s], {{%v0, %v1, %v2, %v3}};
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%p+2048]; st.shared.v4.b32 [%s+2048], {{%a0, %a1, %a2, %a3}};
{" ".join(f"ld.global.b32 %d{i}, [%p+{4 * i}];" for i in range(count))}
fence.proxy.async; bar.sync 0;
shr.u64 %da, %da, 4; or.b64 %da, %da, {0x8 << 16 | 0x10 << 32}; add.u64 %db, %da, 16; setp.ne.u32 %q, %t, 99;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k{part.k}{clamps}.{types} {{{sums}}}, {a}, %db, %q{scales}{turns};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mov.u32 %t, %tid.x; ld.param.u64 %p, [d]; mul.wide.u32 %at, %t, {4 * count}; add.u64 %p, %p, %at;
{" ".join(f"st.global.b32 [%p+{4 * i}], %d{i};" for i in range(count))}
ret;
}}
"""


@pytest.mark.parametrize("name", [name for name in WGMMA if not name.endswith(".sp")])
def test_both_engines_give_the_same_bits(name: str) -> None:
    found = WGMMA[name]
    x = np.random.default_rng(len(name)).integers(0, 1 << 32, 2048, np.uint32)
    if found.part.a in ("f16", "bf16", "tf32"):
        x &= np.uint32(0xBFFFBFFF)  # few infinities and nans
    if "e5m2" in name:
        x &= np.uint32(0xBFBFBFBF)
    n = 16 if name == "wgmma.s.f32.f16.f16" else 8
    results = []
    for engine in ("vm", "reference"):
        d = np.zeros((128, found.part.accumulators * n // 8), np.uint32)
        report = checked(form(found, n), "k", (x, d), engine=engine)
        assert report.verdict == "verified", report
        results.append(d)
    assert np.array_equal(results[0], results[1])
    assert len(np.unique(results[0])) > 20
