"""The targets and PTX versions that support an instruction, as ptxas 13.0 implements them.

Sources: PTX ISA 9.0, "PTX ISA Notes" and "Target ISA Notes" of each instruction, ".version", ".target"; each row was
compared with the diagnostics of ptxas (`benchmarks/ptx_availability.py`).  An instruction requires the latest target
and version of all rows that it matches.
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.syntax import Address, Name
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction

Version = tuple[int, int]


class Row(NamedTuple):
    """The requirement of an opcode's instructions with certain modifiers."""

    opcode: str
    """`*` for all"""
    modifiers: str
    """required modifiers; `a|b` is one of two, `a+b` two adjacent ones"""
    since: int
    """number of the first target, 90 for sm_90"""
    version: str
    """the first version of PTX"""
    only: str = ""
    """targets of one architecture (`90a`) or family (`100f`) that support it; empty: all targets from the first on"""
    operands: int = 0
    """minimum number of operands of the instruction"""
    without: str = ""
    """modifiers that exclude an instruction from the row"""


_SINCE_HOPPER = "90a 100f 110f 120f"
_CLASSES = (
    # rows that apply to many instructions
    Row("*", "shared::cta", 0, "7.8", without="ca cg"),
    Row("*", "shared::cluster", 90, "7.8"),
    Row("*", "cluster", 90, "7.8"),
    Row("*", "L2::cache_hint", 80, "7.4"),
    Row("*", "L2::64B|L2::128B", 75, "7.4"),
    Row("*", "L2::256B", 80, "7.4"),
    Row("*", "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate", 70, "7.4"),
    Row("*", "L2::evict_normal|L2::evict_first|L2::evict_last", 80, "7.4"),
    Row("*", "mmio", 70, "8.2"),
    Row("*", "cta_group::1|cta_group::2", 100, "8.6", "100f 110f"),
    Row("*", "f32x2", 100, "8.6"),
)
_MEMORY = (
    *(Row(name, "v8 b32|u32|s32|f32", 100, "8.8") for name in ("ld", "st")),
    *(Row(name, "v4 b64|u64|s64|f64", 100, "8.8") for name in ("ld", "st")),
    *(Row(name, "b128", 70, "8.3") for name in ("ld", "st", "mov")),
    Row("atom", "b128", 90, "8.3"),
    Row("atom", "v2|v4|v8", 90, "8.1"),
    Row("red", "v2|v4|v8", 90, "8.1"),
    Row("atom", "add bf16|bf16x2", 90, "7.8"),
    Row("red", "add bf16|bf16x2", 90, "7.8"),
    Row("st", "bulk", 100, "8.6"),
    Row("st", "async", 90, "8.1"),
    Row("red", "async", 90, "8.1"),
    Row("cvta", "param", 70, "7.7"),
    Row("isspacep", "param", 70, "7.7"),
    Row("mapa", "", 90, "7.8"),
    Row("getctarank", "", 90, "7.8"),
    Row("multimem", "", 90, "8.1"),
    Row("alloca", "", 52, "7.3"),
    Row("stacksave", "", 52, "7.3"),
    Row("stackrestore", "", 52, "7.3"),
    Row("applypriority", "", 80, "7.4"),
    Row("createpolicy", "", 80, "7.4"),
    Row("discard", "", 80, "7.4"),
    Row("prefetch", "tensormap", 90, "8.0"),
    Row("tensormap", "replace", 90, "8.3", _SINCE_HOPPER),
    Row("tensormap", "cp_fenceproxy", 90, "8.3"),
)
_SYNCHRONIZATION = (
    Row("barrier", "cta", 30, "7.8"),
    Row("barrier", "cluster", 90, "7.8"),
    Row("barrier", "cluster release|relaxed|acquire", 90, "8.0"),
    Row("fence", "proxy alias", 70, "7.5"),
    Row("fence", "mbarrier_init", 90, "8.0"),
    Row("fence", "async|async.global|async::generic", 90, "8.0"),
    Row("fence", "tensormap::generic", 90, "8.3"),
    Row("fence", "acquire|release", 90, "8.6", without="mbarrier_init tensormap::generic"),
    Row("redux", "", 80, "7.0"),
    Row("redux", "f32", 100, "8.6", "100f"),
    Row("elect", "", 90, "8.0"),
    Row("setmaxnreg", "", 90, "8.0", _SINCE_HOPPER),
    Row("griddepcontrol", "", 90, "7.8"),
    Row("mbarrier", "", 80, "7.0"),
    Row("mbarrier", "try_wait", 90, "7.8"),
    Row("mbarrier", "arrive|arrive_drop", 90, "7.8", operands=3, without="noComplete"),
    Row("mbarrier", "expect_tx|complete_tx", 90, "8.0"),
    Row("mbarrier", "release|acquire", 80, "8.0"),
    Row("mbarrier", "relaxed", 80, "8.0"),
    Row("mbarrier", "arrive|arrive_drop|test_wait|try_wait relaxed", 90, "8.6"),
    Row("mbarrier", "cluster|shared::cluster", 90, "8.0"),
    Row("clusterlaunchcontrol", "", 100, "8.6"),
    Row("clusterlaunchcontrol", "multicast::cluster::all", 100, "8.6", "100f 110f 120f"),
    Row("tcgen05", "", 100, "8.6", "100f"),
)
_COPIES = (
    Row("cp", "async", 80, "7.0"),
    Row("cp", "async bulk", 90, "8.0"),
    Row("cp", "async bulk shared::cta+global", 90, "8.6"),
    Row("cp", "async bulk cp_mask", 100, "8.6"),
    Row("cp", "async bulk tensor tile::gather4", 100, "8.6"),
    Row("cp", "async bulk tensor tile::gather4 shared::cluster", 100, "8.6", "100f 110f"),
    Row("cp", "async bulk tensor tile::scatter4", 100, "8.6", "100f 110f"),
    Row("cp", "async bulk tensor im2col::w", 100, "8.6"),
    Row("cp", "async bulk tensor im2col::w shared::cluster", 100, "8.6", "100f 110f"),
    Row("cp", "async bulk prefetch tensor im2col::w", 100, "8.6", "100f 110f"),
    Row("cp", "async bulk im2col::w::128", 100, "8.6", "100f 110f"),
)
_MATRICES = (
    Row("ldmatrix", "", 75, "6.5"),
    Row("stmatrix", "", 90, "7.8"),
    Row("movmatrix", "", 75, "7.8"),
    Row("mma", "m16n8k16 f16|bf16", 80, "7.0"),
    Row("mma", "bf16|tf32", 80, "7.0"),
    Row("mma", "m16n8k32 s8|u8", 80, "7.0"),
    Row("mma", "m16n8k16 s8|u8", 80, "7.0"),
    Row("mma", "m16n8k32|m16n8k64 s4|u4", 80, "7.0"),
    Row("mma", "m16n8k128|m16n8k256", 80, "7.0"),
    Row("mma", "b1 and", 80, "7.1"),
    Row("mma", "f64", 80, "7.0"),
    Row("mma", "m16n8k4|m16n8k8|m16n8k16 f64", 90, "7.8"),
    Row("mma", "e4m3|e5m2", 89, "8.4"),
    Row("mma", "kind::f8f6f4", 100, "8.6", "100f 120f"),
    Row("mma", "e2m1|e2m3|e3m2|block_scale", 120, "8.7", "120f"),
    Row("mma", "sp", 80, "7.1"),
    Row("mma", "sp::ordered_metadata", 80, "8.5"),
    Row("wmma", "bf16|tf32|f64", 80, "7.0"),
    Row("wgmma", "", 90, "8.0", "90a"),
    Row("wgmma", "sp", 90, "8.2", "90a"),
)
_HALVES = "bf16|bf16x2"
_ARITHMETIC = (
    Row("add", "u16x2|s16x2", 90, "8.0"),
    *(Row(name, "u16x2|s16x2|relu", 90, "8.0", without="f16 f16x2 bf16 bf16x2 f32 f64") for name in ("min", "max")),
    *(Row(name, _HALVES, 90, "7.8") for name in ("add", "sub", "mul", "setp", "tanh", "set")),
    Row("ex2", _HALVES, 90, "7.8"),
    *(Row(name, _HALVES, 80, "7.0") for name in ("fma", "abs", "neg", "min", "max")),
    *(Row(name, "f16|f16x2", 80, "7.0") for name in ("min", "max")),
    *(Row(name, "NaN", 80, "7.0") for name in ("min", "max")),
    *(Row(name, "xorsign", 86, "7.2") for name in ("min", "max")),
    *(Row(name, "f32", 100, "8.8", operands=4) for name in ("min", "max")),
    Row("fma", "relu", 80, "7.0"),
    Row("tanh", "", 75, "7.0"),
    Row("lop3", "and|or", 70, "8.2"),
    Row("szext", "", 70, "7.6"),
    Row("bmsk", "", 70, "7.6"),
    Row("cvt", "bf16|bf16x2", 80, "7.0"),
    Row("cvt", "relu", 80, "7.0"),
    Row("cvt", "f16x2", 80, "7.0"),
    Row("cvt", "tf32", 80, "7.0"),
    Row("cvt", "rn|rz tf32", 90, "7.8"),
    Row("cvt", "e4m3x2|e5m2x2", 89, "7.8"),
    Row("cvt", "satfinite f16|f16x2|bf16|bf16x2", 80, "8.1", without="e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2"),
    Row("cvt", "rs", 100, "8.7", "100a 103a"),
    Row("cvt", "e2m1x2|e2m3x2|e3m2x2|ue8m0x2", 100, "8.6"),
    *(Row("cvt", f"bf16 {kind}{bits}", 90, "7.8") for kind in "us" for bits in (8, 16, 32, 64)),
    Row("cvt", "bf16 f64", 90, "7.8"),
)
ROWS = (*_CLASSES, *_MEMORY, *_SYNCHRONIZATION, *_COPIES, *_MATRICES, *_ARITHMETIC)

_REGISTERS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"), (90, "7.8")),
    **dict.fromkeys(("%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"), (90, "7.8")),
    "%aggr_smem_size": (90, "8.1"),
    **dict.fromkeys(("%reserved_smem_offset_begin", "%reserved_smem_offset_end"), (80, "7.6")),
    "%current_graph_exec": (50, "8.0"),
}
"""special registers -> the first target and PTX version that support them"""
_VERSIONS = {
    80: "7.0", 86: "7.1", 87: "7.4", 88: "7.3", 89: "7.8", 90: "7.8", 100: "8.6", 103: "8.8", 110: "9.0", 120: "8.7",
    121: "8.8",
}  # fmt: skip
"""target -> the first PTX version that supports it"""


class Requirement(NamedTuple):
    """The requirements of an instruction on the target and version of its file."""

    since: int
    version: Version
    only: str


class Target(NamedTuple):
    """A target of PTX: `sm_90a` is number 90 with suffix `a`."""

    number: int
    suffix: str

    @property
    def name(self) -> str:
        return f"sm_{self.number}{self.suffix}"

    def runs_on(self, number: int) -> bool:
        """Return whether a GPU of an architecture loads a file for this target: any later architecture does; with `a`
        only the same one, and with `f` those of its family (PTX ISA, ".target")."""
        if self.suffix == "a":
            return number == self.number
        if self.suffix == "f":
            return number >= self.number and number // 10 == self.number // 10
        return number >= self.number

    def has(self, requirement: Requirement) -> bool:
        """Return whether the target supports an instruction."""
        if self.number < requirement.since:
            return False
        return not requirement.only or any(self._includes(name) for name in requirement.only.split())

    def _includes(self, name: str) -> bool:
        """Return whether this target has all features of `90a`, or of the family of `100f`."""
        number = int(name[:-1])
        if not self.suffix:
            return False
        return (
            (number, "a") == (self.number, self.suffix) if name[-1] == "a" else Target(number, "f").runs_on(self.number)
        )


@functools.cache
def parse_target(text: str) -> Target | None:
    """Return the target that a file names; None for one without a number."""
    found = re.fullmatch(r"sm_(\d+)([af]?)", text)
    return Target(int(found[1]), found[2]) if found else None


@functools.cache
def parse_version(text: str) -> Version | None:
    """Return (8, 4) of "8.4"; None for text that is not a version."""
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


_BY_OPCODE: dict[str, list[Row]] = {}
for _row in ROWS:
    _BY_OPCODE.setdefault(_row.opcode, []).append(_row)


def _is_about(row: Row, modifiers: tuple[str, ...], operands: int) -> bool:
    if operands < row.operands or not set(row.without.split()).isdisjoint(modifiers):
        return False
    known = {*modifiers, *(f"{one}+{other}" for one, other in itertools.pairwise(modifiers))}
    return all(not known.isdisjoint(one.split("|")) for one in row.modifiers.split())


@functools.cache
def requirement(opcode: str, modifiers: tuple[str, ...], operands: int = 0) -> Requirement:
    """Return what an instruction with a number of operands requires."""
    rows = [row for row in (*_BY_OPCODE["*"], *_BY_OPCODE.get(opcode, ())) if _is_about(row, modifiers, operands)]
    since = max((row.since for row in rows), default=0)
    version = max((parse_version(row.version) or (0, 0) for row in rows), default=(0, 0))
    return Requirement(since, version, next((row.only for row in rows if row.only), ""))


def _special_register_requirement(instruction: Instruction) -> Requirement | None:
    """Return what the special register that a `mov` reads requires."""
    if instruction.opcode != "mov" or len(instruction.operands) < 2:
        return None
    operand = instruction.operands[1]
    if isinstance(operand, Address):
        operand = operand.base
    if not isinstance(operand, Name) or operand.text[:1] != "%":
        return None
    found = _REGISTERS.get(operand.text.partition(".")[0])
    return Requirement(found[0], parse_version(found[1]) or (0, 0), "") if found else None


def instruction_requirement(instruction: Instruction) -> Requirement:
    """Return what an instruction requires."""
    found = _special_register_requirement(instruction)
    return found or requirement(instruction.opcode, instruction.modifiers, len(instruction.operands))


def check_available(e: Emitter, instruction: Instruction) -> None:
    """Raise a KernelError for an instruction that the target or the PTX version of its file does not support: ptxas
    rejects it."""
    file, needed = e.module.file, instruction_requirement(instruction)
    if needed.since and (target := parse_target(file.target)) is not None and not target.has(needed):
        where = " or ".join(_describe_target(needed))
        raise e.error(
            instruction.at,
            f"`{_spelling(instruction)}` needs {where}, and the file is for {file.target}",
            f"compile it for {where}",
        )
    if needed.version > (parse_version(file.version) or needed.version):
        wanted = ".".join(map(str, needed.version))
        raise e.error(
            instruction.at,
            f"`{_spelling(instruction)}` needs PTX {wanted} or later, and the file has `.version {file.version}`",
            f"write `.version {wanted}`",
        )


def _describe_target(needed: Requirement) -> list[str]:
    if not needed.only:
        return [f"sm_{needed.since} or later"]
    return [f"sm_{name}" for name in needed.only.split()]


def _spelling(instruction: Instruction) -> str:
    return ".".join((instruction.opcode, *instruction.modifiers))


def version_problem(target: str, version: str) -> str:
    """Return why a PTX version does not support a target; empty if it does."""
    found, given = parse_target(target), parse_version(version)
    first = _VERSIONS.get(found.number) if found is not None else None
    if first is None or given is None or given >= (parse_version(first) or given):
        return ""
    return f"`.target {target}` needs PTX {first} or later, and the file has `.version {version}`"
