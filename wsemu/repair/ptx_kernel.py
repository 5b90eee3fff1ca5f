"""A kernel in PTX with findings, as edits see it: its rings, its loops, and the numbers that findings report.

Deadlocks and findings about phases name a ring, and the arrivals or bytes that it lacks: few edits explain that.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wsemu.model.cure import Edit
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.repair.ptx_text import Loop, Patch, Registers, Source, find_loops
from wsemu.repair.rings import Rings, find_named_frame, ring_words
from wsemu.repair.scene import Candidate

if TYPE_CHECKING:
    from wsemu.model.cure import Kind
    from wsemu.repair.ptx_text import Place, Text
    from wsemu.repair.rings import Operation, Ring

WARP = 32
_MAPPED = re.compile(r"mapa\S*\s+[%\w]+,\s*[%\w]+,\s*(%\w+);")
_LACKS = re.compile(r"([\d,]+) of ([\d,]+) arrivals? missing")
_SURPLUS = re.compile(r"([\d,]+) arrivals? on `[^`]*` in phase [\d,]+, which expects ([\d,]+)")
_BYTES = re.compile(r"([\d,]+) bytes(?: \w+)* (missing|too many)")
_COPIED = re.compile(r"([\d,]+) bytes")
_JUMP = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_GUARD = 6
"""maximum number of instructions of a branch around a statement"""
_SHARED_READ = re.compile(r"ld\.(?:\w+\.)*shared|ldmatrix|wgmma\.mma")
_POLL = 3
"""maximum number of instructions of a loop that polls, in PTX without source lines"""
_FINDINGS = 12
"""maximum number of findings from which edits are drawn"""

Scored = tuple[float, Candidate, dict[int, str]]
"""distance of an edit, its words, and the lines that it changes"""


class Numbers(NamedTuple):
    """The numbers that findings report."""

    lacks: list[tuple[int, int]]
    """missing arrivals, and the arrivals of the phase"""
    surplus: int
    """number of surplus arrivals; 0: none"""
    missing: list[int]
    """bytes that do not arrive"""
    too_many: list[int]
    """bytes in excess of the expected ones"""
    copied: list[int]
    """bytes of the copies that findings name"""


@dataclass(eq=False)
class Kernel:
    """A kernel in PTX with findings."""

    text: Text
    report: Any
    transferred: tuple[int, ...] = ()
    """bytes that copies transfer for each expect-tx operation of the launch"""
    registers: Registers = field(init=False)
    uses: Rings = field(init=False)
    loops: list[Loop] = field(init=False)
    source: Source = field(init=False)
    hot: set[tuple[str, int]] = field(init=False)
    """source lines that findings name"""
    codes: list[str] = field(init=False)
    numbers: Numbers = field(init=False)

    def __post_init__(self) -> None:
        findings = [f for f in self.report.findings if f.severity == "error"] or self.report.findings
        findings = findings[:_FINDINGS]
        self.registers = Registers(self.text.places)
        self.uses = Rings(self.text, self.registers)
        self.loops = find_loops(self.text)
        self.hot = {(site.file, site.line) for f in findings for site in f.sites}
        self.source = Source({file for file, _ in self.hot})
        self.codes = [*dict.fromkeys(f.code for f in findings)]
        said = "\n".join(part for f in findings for part in (f.message, *(s.text for s in f.sites), *f.notes))
        pairs = [(int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in _LACKS.findall(said)]
        over = [int(a.replace(",", "")) - int(b.replace(",", "")) for a, b in _SURPLUS.findall(said)]
        amounts = [(int(n.replace(",", "")), what) for n, what in _BYTES.findall(said)]
        self.numbers = Numbers(
            [*dict.fromkeys(pairs)],
            max(over, default=0),
            [*dict.fromkeys(n for n, what in amounts if what == "missing")],
            [*dict.fromkeys(n for n, what in amounts if what != "missing")],
            [*dict.fromkeys(int(n.replace(",", "")) for n in _COPIED.findall(said))],
        )

    def is_hot(self, operation: Operation) -> bool:
        """Return whether a finding names a line of an operation."""
        return any((p.file, p.line) in self.hot for p in operation.places)

    def distance(self, operation: Operation) -> float:
        """Return the distance of an operation from what findings name: 0 if they name the operation, more if they only
        name its ring, and most if they name neither."""
        if self.is_hot(operation):
            return 0.0
        return 0.4 if operation.ring in self.hot_rings else 1.5

    @cached_property
    def hot_rings(self) -> list[Ring]:
        """Return the rings whose operations findings name, or all rings if they name none."""
        found = {op.ring: None for op in self.uses.operations if op.ring is not None and self.is_hot(op)}
        return [*found] or self.uses.known

    @property
    def ranks(self) -> list[str]:
        """Return registers that hold the rank of another CTA whose shared memory the kernel uses."""
        return [m[1] for p in self.text.places if (m := _MAPPED.match(p.text))]

    @property
    def has_cluster(self) -> bool:
        """True if the kernel uses a cluster."""
        return any("::cluster" in p.text and ("multicast" in p.text or "mapa" in p.text) for p in self.text.places)

    @property
    def threads(self) -> int:
        """Return the number of threads of a CTA."""
        x, y, z = self.report.block
        return int(x * y * z)

    def loops_around(self, place: Place) -> list[Loop]:
        """Return the loops around an instruction, the innermost first, without those that only poll."""
        around = [loop for loop in self.loops if loop.first < place.at < loop.last]
        return [loop for loop in around if not self.polls(loop)]

    def polls(self, loop: Loop) -> bool:
        """Return whether a loop only polls: it lies in one line of the source, or is as short as a wait in PTX."""
        inside = [p for p in self.text.places if loop.first <= p.at <= loop.last]
        lines, runs = {(p.file, p.line) for p in inside}, {p.run for p in inside}
        return len(lines) <= 1 or len(runs) <= 1 or len(inside) <= _POLL

    def exit_branch(self, loop: Loop, place: Place) -> int:
        """Return the line of the branch that ends a round after an instruction and the reads that follow it: one that
        leaves the loop, or the last one."""
        after = [p for p in self.text.places if place.at < p.at < loop.last]
        inside = (inner for inner in self.loops if loop.first < inner.first < place.at < inner.last)
        polling = max((inner.last for inner in inside), default=0)
        reads = max((p.at for p in after if _SHARED_READ.match(p.text)), default=place.at)
        labels = {line.strip()[:-1]: at for at, line in enumerate(self.text.lines) if is_label(line)}
        for p in after:
            target = _JUMP.match(p.text)
            if target is None or not p.predicate or p.at < max(reads, polling):
                continue
            if not loop.first <= labels.get(target[1], loop.first) <= loop.last:
                return p.at
        return loop.last

    def start(self, place: Place) -> int:
        """Return the line of the text that begins the statement of an instruction, before a loop that polls with it."""
        around = [loop.first for loop in self.loops if loop.first < place.at < loop.last and self.polls(loop)]
        at = min([place.at, *around])
        for other in reversed([p for p in self.text.places if p.at <= place.at]):
            if (other.file, other.line) != (place.file, place.line):
                break
            at = min(at, other.at)
        return at

    def statement_start(self, place: Place) -> int:
        """Return the line before which an instruction is for all threads that reach its statement: before a branch of
        the same line around it."""
        at = self.start(place)
        before = [p for p in self.text.places if p.at < at]
        for other in reversed(before[-_GUARD:]):
            if (other.file, other.line) != (place.file, place.line):
                break
            at = other.at
        return at

    def cluster_size(self) -> int:
        """Return the number of CTAs of a cluster; 1 if the launch has no clusters."""
        launched = getattr(self.report, "_launched", None)
        x, y, z = launched.bound.configuration.cluster if launched is not None else (1, 1, 1)
        return int(x * y * z)

    def block_end(self, place: Place) -> int:
        """Return the line of the label that follows an instruction, outside of a polling loop around it; without such a
        label, the last instruction."""
        polling = [loop.last for loop in self.loops if loop.first < place.at < loop.last and self.polls(loop)]
        begin = max([place.at, *polling]) + 1
        last = self.text.places[-1].at
        return next((at for at in range(begin, last) if is_label(self.text.lines[at])), last)

    def block_start(self, place: Place) -> int:
        """Return the line of the label before an instruction, outside of a loop that polls with it."""
        polling = [loop.first for loop in self.loops if loop.first < place.at < loop.last and self.polls(loop)]
        first = self.text.places[0].at
        begin = min([place.at, *polling])
        return next((at for at in range(begin - 1, first, -1) if is_label(self.text.lines[at])), first)

    def named_place(self, op: Operation) -> Place:
        """Return an operation's instruction with the source line that names its ring, if that is known: a helper that
        initializes several rings is not edited; its call is."""
        frame = find_named_frame(op.place)
        return op.place._replace(file=frame.file, line=frame.line) if frame is not None and frame.file else op.place

    def name(self, ring: Ring) -> str:
        """Return the words for a ring."""
        return ring_words(ring, self.uses.known)


def candidate(kind: Kind, says: str, near: float, waits: int = 0) -> Candidate:
    """Return an edit of PTX in words."""
    return Candidate(Edit(kind=kind, says=says, changes=[]), (), near, waits)


def score_edit(score: float, kind: Kind, says: str, patch: Patch, waits: int = 0) -> Scored:
    """Return an edit with its distance and its words."""
    return score, candidate(kind, says, score, waits), patch.lines()


def is_label(line: str) -> bool:
    """Return whether a line of PTX is a label."""
    words = line.partition("//")[0].strip()
    return words.startswith("$") and words.endswith(":")
