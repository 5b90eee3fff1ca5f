"""Judge certificates like `ocaml/wsemu-certify`, without OCaml: an independent port of Certificate.v, not proven.

    python proofs/certify.py FILE...

Tests compare the two.  Exit codes: 0 all accepted, 1 one is refused, 2 a file is no certificate.  Nothing in a file is
executed.
"""

from __future__ import annotations

import io
import os
import re
import sys
from bisect import bisect_left
from collections import defaultdict
from typing import Any, Final, NamedTuple, TextIO

HEADER: Final = "wsemu-certificate 1"
MOST_PROCESSES: Final = 100_000
MOST_BYTES: Final = 256 << 20
"""maximum size of a file; a larger one is not read"""
OPERANDS: Final = {
    "bar": 2, "join": 1, "leave": 2, "count": 5, "init": 2, "passed": 2, "parity": 2, "start": 1, "read": 3, "write": 3,
}  # fmt: skip
RULES: Final = (
    "R1: a registrant of the phase before does not happen before this one",
    "R2: a registrant of the phase before last does not happen before this wait",
    "R3: this wait happens before no registrant of the phase after it",
    "R4: the initialization does not happen before this wait",
    "R5: this expectation happens before no arrival of its phase",
    "R6: the phase gets more bytes than it expects",
    "this operation adds nothing to its phase",
)
RACE: Final = "race: an earlier conflicting access does not happen before this one"
Event = tuple[int, int]
"""process, number of the operation among its own"""
Tree = tuple[Any, int, Any] | None
"""process + 1, by its binary digits from the last one on -> its operations that happen before; parts are shared"""


class MalformedError(Exception):
    """A text is no certificate; the message begins with the number of the line."""


class Line(NamedTuple):
    """An operation of a process, as written."""

    number: int
    process: int
    verb: str
    place: str
    """memory that the operation accesses, if it is an access"""
    operands: tuple[int, ...]
    text: str
    where: str


class Certificate(NamedTuple):
    """The operations of one launch, and the objects that they name."""

    name: str
    processes: int
    kinds: list[tuple[str, int]]
    lines: list[Line]


class Phase(NamedTuple):
    """The contents of an object in its current phase."""

    kind: str
    total: int
    """threads of a group, arrivals of an mbarrier from the next phase on, count of a named barrier; 0: none yet"""
    pending: int
    """number of missing arrivals or threads; for a named barrier, of those that have arrived"""
    bytes: int


class Step(NamedTuple):
    """An operation of the trace: an event, its line, the address of an access, its phase."""

    event: Event
    line: Line
    address: int
    phase: int


# -- reading ----------------------------------------------------------------------------------------------------------


def _number(line: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise MalformedError(f'{line}: "{text}" is not a number')
    return int(text)


def _process(line: int, text: str) -> int:
    found = _number(line, text)
    if found >= MOST_PROCESSES:
        raise MalformedError(f"{line}: more than 100,000 processes")
    return found


def _parse_line(number: int, text: str) -> Line:
    text, _, where = (part.strip(" ") for part in text.partition(";"))
    words = text.split()
    if not words:
        raise MalformedError(f"{number}: an empty line")
    process = _process(number, words[0])
    verb, operands = (words[1], words[2:]) if len(words) > 1 else ("", [])
    wrong = OPERANDS.get(verb) != len(operands) or (verb == "parity" and operands[1] not in ("0", "1"))
    if wrong:
        raise MalformedError(f'{number}: no operation: "{" ".join(words[1:])}"')
    place = operands.pop(0) if verb in ("read", "write") else ""
    read = _process if verb == "start" else _number
    numbers = tuple(read(number, word) for word in operands)
    if place and not numbers[1]:
        raise MalformedError(f"{number}: an access has 1 or more bytes")
    return Line(number, process, verb, place, numbers, text, where)


def _parse_object(number: int, words: list[str]) -> tuple[str, int]:
    if words == ["named"]:
        return "named", 0
    if words == ["copy"]:
        return "mbarrier", 1
    if len(words) == 2 and words[0] in ("group", "mbarrier"):
        return words[0], _number(number, words[1])
    raise MalformedError(f"{number}: an object is `named`, `copy`, `group N` or `mbarrier N`")


def parse(text: str) -> list[Certificate]:
    """Return the certificates of a text, each from its header to `end`."""
    lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1)]
    found, position = [], 0
    while position < len(lines):
        number, line = lines[position]
        position += 1
        if not line:
            continue
        if line != HEADER:
            raise MalformedError(f'{number}: `{HEADER}` expected, not "{line}"')
        ends = next((k for k in range(position, len(lines)) if lines[k][1] == "end"), None)
        if ends is None:
            raise MalformedError(f"{number}: the certificate has no `end`")
        found.append(_parse_certificate(number, lines[position:ends]))
        position = ends + 1
    return found


def _parse_certificate(header: int, lines: list[tuple[int, str]]) -> Certificate:
    name, position = f"certificate at line {header}", 0
    while position < len(lines) and lines[position][1].startswith("#"):
        name = lines[position][1][1:].strip()
        position += 1
    number, words = (lines[position][0], lines[position][1].split()) if position < len(lines) else (header, [])
    if len(words) != 2 or words[0] != "processes":
        raise MalformedError(f"{number}: `processes N` is missing")
    processes = _number(number, words[1])
    if processes > MOST_PROCESSES:
        raise MalformedError(f"{number}: more than 100,000 processes")
    position += 1
    kinds: list[tuple[str, int]] = []
    while position < len(lines) and (words := lines[position][1].split())[:1] == ["object"]:
        number = lines[position][0]
        if len(words) < 2 or _number(number, words[1]) != len(kinds):
            raise MalformedError(f"{number}: objects are numbered from 0")
        kinds.append(_parse_object(number, words[2:]))
        position += 1
    return Certificate(name, processes, kinds, [_parse_line(*line) for line in lines[position:]])


# -- the run ----------------------------------------------------------------------------------------------------------


def _first(kind: tuple[str, int]) -> Phase:
    name, number = kind
    return Phase(name, number, 0 if name == "named" else number, 0)


def _add(phase: Phase, line: Line) -> Phase | None:
    """Return the contents after a registration; None if it is an error."""
    verb, numbers = line.verb, line.operands
    if phase.kind == "named" and verb == "bar" and numbers[1]:
        fits = not phase.pending or (phase.total == numbers[1] and phase.pending < phase.total)
        return phase._replace(total=numbers[1], pending=phase.pending + 1) if fits else None
    if phase.kind == "group" and verb in ("join", "leave") and phase.pending:
        if verb == "leave":
            return phase._replace(total=max(0, phase.total - 1), pending=phase.pending - 1)
        return phase._replace(pending=phase.pending - 1)
    if phase.kind == "mbarrier" and verb == "count" and numbers[1] <= phase.pending:
        _, arrivals, drops, expected, completed = numbers
        rest = phase.bytes + expected - completed
        return phase._replace(total=max(0, phase.total - drops), pending=phase.pending - arrivals, bytes=rest)
    if phase.kind == "dead" and verb == "init":
        return Phase("born", numbers[1], 0, 0)
    return None


def _is_full(phase: Phase) -> bool:
    if phase.kind == "named":
        return phase.pending == phase.total > 0
    return phase.kind != "dead" and not phase.pending and not phase.bytes


def _next(phase: Phase) -> Phase:
    if phase.kind == "named":
        return Phase("named", 0, 0, 0)
    return Phase("mbarrier" if phase.kind == "born" else phase.kind, phase.total, phase.total, 0)


class _Run:
    """The run of a certificate: its trace, and the registrants and the final contents of each phase."""

    def __init__(self, certificate: Certificate) -> None:
        kinds = [("dead", 0) if kind == ("mbarrier", 0) else kind for kind in certificate.kinds]
        self.dead = {b for b, (kind, _) in enumerate(kinds) if kind == "dead"}
        self.state = {b: (0, _first(kind)) for b, kind in enumerate(kinds)}
        self.started = set(range(certificate.processes))
        self.done: defaultdict[int, int] = defaultdict(int)
        self.joined: dict[tuple[int, int], int] = {}
        """(object, process) -> the last phase of a group in which the process arrived"""
        self.trace: list[Step] = []
        self.registrants: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        """(object, phase) -> positions in the trace"""
        self.closed: dict[tuple[int, int], Phase] = {}
        """(object, phase) -> its contents after all its registrants"""
        self.impossible: Line | None = None
        addresses = _Addresses(certificate.lines)
        for line in certificate.lines:
            cells = addresses.of(line) if line.place else [-1]
            if not all(self._step(line, cell) for cell in cells):
                self.impossible = line
                return

    def _step(self, line: Line, address: int) -> bool:
        process, numbers = line.process, line.operands
        if process not in self.started:
            return False
        b = -1 if line.place or line.verb == "start" else numbers[0]
        phase, contents = self.state.get(b, (0, Phase("named", 0, 0, 0)))
        label = 0
        if line.verb == "start":
            if numbers[0] in self.started:
                return False
            self.started.add(numbers[0])
        elif line.verb in ("passed", "parity"):
            first = int(b in self.dead)
            passes = (
                numbers[1] < phase
                if line.verb == "passed"
                else phase >= first and (phase - first) % 2 != numbers[1]
            )  # fmt: skip
            if not passes:
                return False
            label = numbers[1] + 1 if line.verb == "passed" else phase
        elif not line.place:
            added = _add(contents, line)
            if added is None or (line.verb == "join" and self.joined.get((b, process)) == phase):
                return False
            if line.verb == "join":
                self.joined[b, process] = phase
            label = phase
            self.registrants[b, phase].append(len(self.trace))
            self.closed[b, phase] = added
            self.state[b] = (phase + 1, _next(added)) if _is_full(added) else (phase, added)
        self.trace.append(Step((process, self.done[process]), line, address, label))
        self.done[process] += 1
        return True


class _Addresses:
    """Numbers for the bytes that accesses touch: bytes that the same accesses touch have one number."""

    def __init__(self, lines: list[Line]) -> None:
        points: defaultdict[str, set[int]] = defaultdict(set)
        for line in lines:
            if line.place:
                points[line.place] |= {line.operands[0], sum(line.operands)}
        self._sorted = {place: sorted(found) for place, found in points.items()}
        self._base: dict[str, int] = {}
        for place, found in self._sorted.items():
            self._base[place] = sum(len(self._sorted[other]) for other in self._base)
            assert found
        self._written = {n for line in lines if line.verb == "write" for n in self._range(line)}

    def _range(self, line: Line) -> range:
        found, base = self._sorted[line.place], self._base[line.place]
        start, size = line.operands
        return range(base + bisect_left(found, start), base + bisect_left(found, start + size))

    def of(self, line: Line) -> list[int]:
        """Return the numbers of an access, without those that nothing writes: they cannot race."""
        return [n for n in self._range(line) if n in self._written]


# -- the rules --------------------------------------------------------------------------------------------------------


class Clock(NamedTuple):
    """The operations that happen before an operation: a tree that processes share, and for a few processes a larger
    number than the tree has."""

    tree: Tree
    more: tuple[Event, ...] = ()
    """for the process and each one that started it, directly or not: its number of operations"""

    def includes(self, event: Event) -> bool:
        """Return whether an event happens before."""
        return event[1] < _get(self.tree, event[0]) or any(event[0] == p and event[1] < n for p, n in self.more)

    def flattened(self) -> Tree:
        """Return all of it as a tree."""
        tree = self.tree
        for process, number in self.more:
            tree = _put(tree, process + 1, number)
        return tree

    def after(self, process: int, number: int) -> Clock:
        """Return the clock after an operation of a process, the last one of `number`."""
        return Clock(self.tree, ((process, number), *(one for one in self.more if one[0] != process)))


def _get(tree: Tree, process: int) -> int:
    key = process + 1
    while tree is not None and key > 1:
        tree = tree[2] if key & 1 else tree[0]
        key >>= 1
    return tree[1] if tree is not None else 0


def _put(tree: Tree, key: int, number: int) -> Tree:
    left, value, right = tree or (None, 0, None)
    if key == 1:
        return tree if tree and number <= value else (left, number, right)
    if key & 1:
        return left, value, _put(right, key >> 1, number)
    return _put(left, key >> 1, number), value, right


def _join(one: Tree, other: Tree) -> Tree:
    """Return the join of two trees, which is one of them if it has all of the other."""
    if one is other or one is None:
        return other
    if other is None:
        return one
    joined = _join(one[0], other[0]), max(one[1], other[1]), _join(one[2], other[2])
    for same in (other, one):
        if joined[0] is same[0] and joined[1] == same[1] and joined[2] is same[2]:
            return same
    return joined


def _is_within(one: Tree, other: Tree) -> bool:
    """Return whether a tree has all of another one."""
    if one is other or one is None:
        return True
    left, value, right = other or (None, 0, None)
    return one[1] <= value and _is_within(one[0], left) and _is_within(one[2], right)


class _Clocks:
    """The clock of each operation, and of each phase in the end: its registrants and what happens before them."""

    def __init__(self, trace: list[Step]) -> None:
        own: defaultdict[int, Clock] = defaultdict(lambda: Clock(None))
        phases: dict[tuple[int, int], tuple[Tree, Tree]] = {}
        """(object, phase) -> the join of its registrants, the tree of the last one"""
        self.before: list[Clock] = []
        for (process, number), line, _, phase in trace:
            clock = own[process]
            self.before.append(clock)
            waits = line.verb in ("passed", "parity")
            if waits and phase:
                given, last = phases.get((line.operands[0], phase - 1), (None, None))
                clock = Clock(given if last is clock.tree else _join(clock.tree, given), clock.more)
            own[process] = clock = clock.after(process, number + 1)
            if line.verb == "start":
                own[line.operands[0]] = clock
            elif not line.place and not waits:
                given, last = phases.get((line.operands[0], phase), (None, None))
                joined = given if last is clock.tree else _join(given, clock.tree)
                phases[line.operands[0], phase] = Clock(joined, clock.more).flattened(), clock.tree
        self.phases = {place: given for place, (given, _) in phases.items()}


def _broken_rules(run: _Run, clocks: _Clocks, position: int) -> list[int]:
    """Return the rules that an operation breaks, by their indexes in `RULES`."""
    (event, line, _, phase), trace = run.trace[position], run.trace
    if line.place or line.verb in ("start", "passed"):
        return []
    b, known = line.operands[0], clocks.before[position].flattened()

    def all_before(earlier: int) -> bool:
        return _is_within(clocks.phases.get((b, earlier)), known)

    present = run.registrants[b, phase]
    if line.verb == "parity":
        completes = bool(present) and _is_full(run.closed[b, phase])
        broken = {
            1: phase > 1 and not all_before(phase - 2),
            2: completes and event[1] >= _get(clocks.phases[b, phase], event[0]),
            3: b in run.dead and not all_before(0),
        }
    else:
        closed = run.closed[b, phase]
        unsettled = closed.kind != "mbarrier" or closed.pending > 0
        _, arrivals, _, expected, completed = line.operands if line.verb == "count" else (b, 1, 0, 0, 0)
        arriving = (n for n in present if trace[n].line.verb == "count" and trace[n].line.operands[1])
        broken = {
            0: phase > 0 and not all_before(phase - 1),
            4: bool(expected) and not arrivals and not unsettled
            and not any(clocks.before[n].includes(event) for n in arriving),
            5: not unsettled and closed.bytes < 0,
            6: not arrivals + expected + completed,
        }  # fmt: skip
    return [rule for rule, is_broken in broken.items() if is_broken]


def _race(run: _Run, clocks: _Clocks) -> Step | None:
    """Return the first access that nothing orders after an earlier conflicting one."""
    last: dict[int, Event] = {}
    reads: defaultdict[int, dict[int, Event]] = defaultdict(dict)
    for step, clock in zip(run.trace, clocks.before, strict=True):
        event, line, address, _ = step
        if not line.place:
            continue
        earlier = [last[address]] if address in last else []
        if line.verb == "write":
            earlier += reads.pop(address, {}).values()
        if not all(one[0] == event[0] or clock.includes(one) for one in earlier):
            return step
        if line.verb == "write":
            last[address] = event
        else:
            reads[address][event[0]] = event
    return None


def judge(certificate: Certificate) -> str:
    """Return why a certificate is refused; nothing if it is accepted."""
    run = _Run(certificate)
    if run.impossible is not None:
        return f"{_show(run.impossible)}: no run does this here"
    clocks = _Clocks(run.trace)
    broken: dict[int, Line] = {}
    """rule -> the first operation that breaks it"""
    for position, step in enumerate(run.trace):
        for rule in _broken_rules(run, clocks, position):
            broken.setdefault(rule, step.line)
    if broken:
        return f"{_show(broken[min(broken)])}: {RULES[min(broken)]}"
    race = _race(run, clocks)
    return f"{_show(race.line)}: {RACE}" if race else ""


def _show(line: Line) -> str:
    return f"line {line.number}, `{line.text}`{f' ({line.where})' if line.where else ''}"


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def show(text: str, file: TextIO | None = None) -> None:
    """Print a line without characters that could move a terminal's cursor: names come from the file that is judged."""
    print(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), file=file)


def judge_file(file: str) -> int:
    """Print the verdicts on the certificates in a file; return the exit code."""
    try:
        with open(file, encoding="utf-8") as opened:
            is_large = os.fstat(opened.fileno()).st_size > MOST_BYTES
            text = "" if is_large else opened.read(MOST_BYTES + 1)
        if is_large or len(text) > MOST_BYTES:
            show(f"{file}: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
            return 2
        found = parse(text)
    except MalformedError as error:
        show(f"{file}:{error}", file=sys.stderr)
        return 2
    except (OSError, UnicodeDecodeError) as error:
        why: Any = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        show(f"{file}: {why}", file=sys.stderr)
        return 2
    if not found:
        show(f"{file}: no certificate", file=sys.stderr)
        return 2
    code = 0
    for certificate in found:
        why = judge(certificate)
        if why:
            show(f"refused: {certificate.name}")
            show(f"  {file}:{why}")
            code = 1
        else:
            show(f"accepted: {certificate.name}: {len(certificate.lines)} operations")
    return code


def main(files: list[str]) -> int:
    """Judge each file; return the worst exit code."""
    if not files or files[0] in ("-h", "--help"):
        print("usage: certify.py FILE...", file=sys.stderr)
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return max(judge_file(file) for file in files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
