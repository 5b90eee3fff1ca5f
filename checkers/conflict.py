"""Describe two unordered accesses; the checkers `race` and `intra_warp` share this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.evidence.places import lanes_text
from wsemu.evidence.schedule import Access, Witness
from wsemu.model.data import dataclass, replace
from wsemu.model.finding import with_role
from wsemu.model.isa import ATOMIC, READ, SCOPES, SEGMENT_SHIFT, WRITE
from wsemu.model.outcome import ALL_LANES

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Site, Step
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Span

_HAZARDS = {(READ, WRITE): "write-after-read", (WRITE, READ): "read-after-write", (WRITE, WRITE): "write-after-write"}
VERBS = {READ: "load", WRITE: "store", ATOMIC: "atomic"}
ACCESSES = {
    "address": "of the first byte that both accesses touch, in the lowest of the lanes",
    "kind": "`READ`, `WRITE` or `ATOMIC`",
    "other_kind": "kind of the earlier access",
    "size": "bytes per lane",
    "interval": "the warp's interval that contains the access",
    "other_interval": "interval of the earlier access",
    "other_cta": "linear index of the CTA that made the earlier access",
}
"""fields of the `detail` of a raw finding about two accesses"""
LANES_APART = {
    "other_lane": "the earlier access was made by lanes from this one",
    "other_last": "to this one",
}
ASYNCHRONOUS = {
    "async": "1: the later access is made by an asynchronous copy; its interval is 0",
    "other_async": "1: the earlier access is",
}
UNCOMPARED = {
    "uncompared": "thread instructions of the launch, which are too many to compare what its racing stores write",
    "poll": "a wait whose answer may change what racing stores write; they write the same value in this run",
}
_DONE = {READ: "loaded", WRITE: "stored", ATOMIC: "updated atomically"}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two accesses."""

    access: Access
    kind: int
    role: str
    position: int | None
    """position of the access in the trace; None if the trace does not contain it"""
    iteration: str
    copies: bool = False
    """true if an asynchronous copy performs the access on behalf of the warp that issued it"""

    @property
    def who(self) -> str:
        return with_role(f"warp {self.access.warp}", self.role)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two unordered accesses.  (1) came earlier in this run, (2) later."""

    raw: RawFinding
    places: Places
    first: Side
    second: Side

    @property
    def atomic(self) -> bool:
        return ATOMIC in (self.first.kind, self.second.kind)

    @property
    def hazard(self) -> str:
        """Return `write-after-read`, the hazard of (2) after (1)."""
        return _HAZARDS.get((self.first.kind, self.second.kind), "")

    @property
    def asynchronous(self) -> bool:
        """Return whether an asynchronous copy performs one of the two accesses."""
        return self.first.copies or self.second.copies

    @property
    def same_cta(self) -> bool:
        return self.first.access.cta == self.second.access.cta

    @property
    def element(self) -> str:
        return self.places.element(self.raw.detail["address"], self.raw.pc)

    @property
    def one_statement(self) -> bool:
        """Return whether one statement loads, and then stores elsewhere."""
        one, two = self._spans()
        source = self.places.source(self.raw.pc)
        statements = [source.statement(span) for span in (one, two)]
        same = statements[0] is statements[1] if any(statements) else one.line == two.line
        return self.hazard == "write-after-read" and one.file == two.file and same

    @property
    def one_place(self) -> bool:
        """Return whether both accesses are at one source location, as in `count[0] += 1`."""
        one, two = self._spans()
        return one == two

    @property
    def names_element(self) -> bool:
        """Return whether the source location of each access names the element.  A C++ statement may contain several
        accesses."""
        one, _ = self._spans()
        source = self.places.source(self.raw.pc)
        return source.knows_statements or not source.has_addresses or bool(source.access(one))

    @property
    def one_text(self) -> bool:
        """Return whether the source names the element in the same words for both accesses."""
        one, two = (self.places.source(self.raw.pc).access(span) for span in self._spans())
        return bool(one) and one == two

    @property
    def onward(self) -> bool:
        """Return whether (2) follows (1) in the source, and every warp executes both, once."""
        known = self.places.source(self.raw.pc).knows_statements  # only Python: else branches are not distinguished
        return known and self.exchange_sides().backward and not self.share_a_loop

    @property
    def backward(self) -> bool:
        """Return whether (2) precedes (1) in the source, and every warp executes both."""
        one, two = self._spans()
        return one.file == two.file and (two.line, two.column) <= (one.line, one.column) and not self.apart

    @property
    def share_a_loop(self) -> bool:
        """Return whether one loop contains both accesses."""
        one, two = self._spans()
        if not self.places.source(self.raw.pc).knows_statements:
            return self.places.share_a_loop(self.first.access.pc, self.second.access.pc)
        return one.file == two.file and self.places.source(self.raw.pc).share_a_loop(one, two)

    @property
    def barrier_on_every_path(self) -> bool:
        """Return whether every path from (1) to the next execution of (2) contains a barrier of the whole CTA."""
        one, two = self._spans()
        if one.file != two.file:
            return False
        places, view = self.places, self.places.source(self.raw.pc)
        return any(view.parts(places.span(pc), one, two) for pc in places.syncs(one.file))

    @property
    def sizes(self) -> set[int]:
        """Return the sizes of the two accesses, in bytes per lane."""
        return {self.places.size(side.access.pc) for side in (self.first, self.second)}

    @property
    def narrow(self) -> bool:
        """Return whether the two accesses are atomics that conflict only because their scope is too narrow."""
        if not self.first.kind == self.second.kind == ATOMIC or self.asynchronous or len(self.sizes) > 1:
            return False
        code = self.places.program.code
        return any(code[side.access.pc, 7] & SCOPES for side in (self.first, self.second))

    @property
    def text(self) -> str:
        """Return the source text of the element that (2) accesses.  If C++ source has no text for (2), return the text
        of (1)."""
        one, two = self.first.access, self.second.access
        named = self.places.named_access(two.pc)
        own_names = self.places.source(two.pc).knows_statements or self.places.verb(two.pc) == "async"
        if not (named or own_names) and one.address == two.address:
            named = self.places.named_access(one.pc)
        return named or self.places.access_text(two.pc, two.address)

    def name_side(self, side: Side) -> str:
        """Return the source text of the element that one side accesses.  If its instruction has none, like `wgmma`,
        return the text of (2)."""
        text = self.places.access_text(side.access.pc, side.access.address)
        return self.text if text.startswith("byte ") and side.access.address == self.second.access.address else text

    def exchange_sides(self) -> Conflict:
        """Return the conflict with (1) and (2) exchanged."""
        return replace(self, first=self.second, second=self.first)

    @property
    def apart(self) -> bool:
        """Return whether the two accesses are in different branches, so that no `syncthreads` is possible between
        them."""
        one, two = self._spans()
        return one.file == two.file and self.places.source(self.raw.pc).apart(one, two)

    @property
    def again(self) -> str:
        """Return `, before line 12 runs again`, if (2) precedes (1) in the source."""
        one, two = self._spans()
        text = f", before {self.places.near(self.second.access.pc, self.first.access.pc)}"
        return text + " runs again" * (one.file == two.file and two.line <= one.line)

    def _spans(self) -> tuple[Span, Span]:
        return self.places.span(self.first.access.pc), self.places.span(self.second.access.pc)

    def title(self, of: str = "") -> str:
        space = self.places.space(self.raw.detail["address"] >> SEGMENT_SHIFT)
        what = f"{space} `{self.text}`"
        if self.first.kind == self.second.kind == ATOMIC:
            how = "too narrow a scope" if self.narrow else "different width"
            return f"unordered atomics of {how}{of} on {what}"
        if self.atomic:
            return f"unordered atomic and plain access{of} to {what}"
        return f"{self.hazard} hazard{of} on {what}"

    def site(self, side: Side, number: int, who: str) -> Site:
        what = _copy_label(self.places, side) if side.copies else _DONE[side.kind]
        text = f"({number}) {what} by {who}{', ' * bool(side.iteration)}{side.iteration}"
        access = side.access
        return self.places.site(
            access.pc, text, cta=access.cta, warp=access.warp, role=side.role, primary=number == 2,
            index=_index(self.places.access_text(access.pc, access.address)),
        )  # fmt: skip

    def sites(self, first: str, second: str) -> list[Site]:
        """Return the sites of (2), of (1), and of the calls through which they were reached."""
        sites = [self.site(self.second, 2, second), self.site(self.first, 1, first)]
        for call in (*self.places.callers(self.second.access.pc), *self.places.callers(self.first.access.pc)):
            sites += [call] if call not in sites else []
        return sites

    def overlap(self) -> str:
        """Return a text such as `32 lanes, same words as (1), the first at `tile[0]``."""
        lanes = self.raw.lanes.bit_count()
        who = f"{lanes} lanes" if lanes > 1 else lanes_text(self.raw.lanes)
        who += self.places.cta_text(self.raw.cta) if self.same_cta else ""
        sizes = [self.places.size(side.access.pc) for side in (self.second, self.first)]
        if sizes[0] == sizes[1]:
            same = "same words as (1)" if sizes[0] >= 4 else "same bytes as (1)"
        else:
            later, earlier = (
                f"{size}-byte {VERBS[side.kind]}" for size, side in zip(sizes, (self.second, self.first), strict=True)
            )
            same = f"{_article(later)} {later} overlaps {_article(earlier)} {earlier}"
        return f"{who}, {same}{', the first at' if lanes > 1 else ':'} `{self.element}`"


def conflict(raw: RawFinding, places: Places, witness: Witness | None) -> Conflict:
    """Return the conflict of a raw finding, with the data of its accesses from the trace."""
    d = raw.detail
    second = Access(raw.cta, raw.warp, d["interval"], raw.pc, d["address"], raw.lanes & -raw.lanes)
    first = Access(d["other_cta"], raw.other_warp, d["other_interval"], raw.other_pc, d["address"], _earlier(raw))
    at_first, at_second = (None, None) if witness is None else witness.pair(first, second)
    return Conflict(
        raw, places,
        _side(first, d["other_kind"], at_first, places, witness, copies=bool(d.get("other_async"))),
        _side(second, d["kind"], at_second, places, witness, copies=bool(d.get("async"))),
    )  # fmt: skip


def _copy_label(places: Places, side: Side) -> str:
    """Return the label of an asynchronous side, such as `written by the bulk copy issued`."""
    done = {READ: "read", WRITE: "written", ATOMIC: "updated"}[side.kind]
    return f"{done} by the {words.noun(places, side.access.pc)} issued"


def _earlier(raw: RawFinding) -> int:
    """Return the lanes that may have performed the earlier access."""
    if "other_lane" not in raw.detail:
        return ALL_LANES
    lanes = (2 << raw.detail["other_last"]) - (1 << raw.detail["other_lane"])
    one_warp = (raw.cta, raw.warp) == (raw.detail["other_cta"], raw.other_warp)
    return lanes & ~(raw.lanes & -raw.lanes) if one_warp else lanes


def _side(
    access: Access, kind: int, position: int | None, places: Places, witness: Witness | None, *, copies: bool
) -> Side:
    if witness is None:
        return Side(access, kind, places.role([access.pc]), None, "", copies)
    return Side(access, kind, witness.role(access.cta, access.warp), position, witness.iteration(position), copies)


def step(found: Conflict, witness: Witness, number: int) -> Step:
    """Return access (1) or (2) as a step of a schedule."""
    side = found.second if number == 2 else found.first
    what = found.name_side(side)
    own = found.places.verb(side.access.pc) == "async"  # zeros, which no copy stores, have their own verb
    verb = found.places.operation(side.access.pc) if own else VERBS[side.kind]
    return witness.step(side.access, side.position, verb, what=what, when=side.iteration, mark=f"({number})")


def _index(text: str) -> str | None:
    """Return the text in the brackets of `tile[s, lane]`."""
    return text.partition("[")[2].removesuffix("]") or None


def _article(words: str) -> str:
    return "an" if words[:1] in "aeiou8" or words.startswith(("11-", "18-")) else "a"


def lane_range(first: int, last: int) -> str:
    """Return a text for the lanes of an access of which only the first and the last are known."""
    return f"lane {first}" if first == last else f"some of lanes {first}-{last}"


def uncompared_note(raw: RawFinding) -> list[str]:
    """Return the note on racing stores whose values are not compared, because the launch is too long."""
    count = raw.detail.get("uncompared", 0)
    if not count:
        return []
    return [
        (
            "if these stores write the same value, this is only the warning same-value-store; values are not compared "
            f"in a launch of {count:,} thread instructions: check a smaller grid, or smaller sizes, to see which it is"
        )
    ]
