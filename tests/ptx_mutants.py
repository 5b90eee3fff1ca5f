"""PTX with a small change of its structure, and what must hold of every such text.

A mutant is a kernel of `tests/ptx` in which a statement was removed, repeated or moved, or had a register, a number, a
modifier, a type, a label, a guard or an opcode replaced by another one of its kind.  Whatever it does, wsemu ends with
a report or an error of its own, leaves the bytes around its arrays alone, and reports the same on every tier of the
compiled engine and on the reference engine.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import re
import resource
import select
import signal
import traceback
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu
from tests.ptx import build
from tests.ptx.expected.launches import BROKEN, CASES, Case, Out
from wsemu.model.errors import WsemuError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Sequence

FOLDER = Path(__file__).parent / "ptx"
GUARD = 4096
"""bytes before and behind each array, which nothing may change"""
PATTERN = 0x5C
BUDGET = 400_000
"""warp instructions of a launch"""
SMALL = 60_000
"""warp instructions up to which the reference engine runs a mutant, too"""
COMPILED = 4
"""one in so many mutants runs as compiled blocks, too, which take longer to make than to run; campaigns take fewer"""
MANY_WARPS = 4
"""warps from which a launch is drawn the less, the more it has"""
FULL = "too many asynchronous operations"
SECONDS, MEMORY = 120, 8 << 30
"""that a mutant may take"""
SILENT = 10 * SECONDS
"""seconds after which a child that does not answer is ended"""
FOLLOWED = frozenset(("undefined-register", "undefined-copy", "undefined-shuffle", "uninitialized-read"))
"""codes of undefined values, of which each engine names the use that it comes to first"""
_ORDER = "in this order of atomics"
_FOLLOWED_NOTES = ("`--effort` follows more", "shuffle from a lane that takes no part")
"""parts of notes on them"""
_NOT_STORED = "(1) loads memory that nothing had stored to"
"""the beginning of a race's note on a value that nothing wrote"""
PAIRED = frozenset(("same-value-store",))
"""codes of which each engine names other pairs of the same accesses"""
NUMBERS = (
    0, 1, -1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1023, 1024, 4096, 65535, 65536,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*")
_BODY = re.compile(
    r"^(?:\.visible |\.weak |\.extern )?\.(?P<kind>entry|func)\b[^{};]*?(?P<name>[\w$]+)\s*\([^{};]*\)"
    r"(?:\s*\.\w+[^{};]*)?\s*^(?P<body>\{.*?^\})(?=\s*(?:\Z|^\.|\.(?:file|section)\b))",
    re.MULTILINE | re.DOTALL,
)
_STATEMENT = re.compile(r"(?:@!?%\w+\s+)?[a-z][\w.:]*\s[^;{}]*;|ret;|trap;|exit;")
_REGISTER = re.compile(r"%(?:rs|rd|fd|r|f|p|h)\d+")
_NUMBER = re.compile(r"(?<![\w%.$])-?\d+(?![\w.])")
_TYPE = re.compile(r"\.(?:[bus](?:8|16|32|64)|f16|bf16|f32|f64)\b")
_LABEL = re.compile(r"\$L\w+")
_MODIFIER = re.compile(r"\.\w+(?:::\w+)*")
_FAMILIES = (
    ("add", "sub", "min", "max", "and", "or", "xor"), ("shl", "shr"), ("div", "rem"), ("mul.lo", "mul.hi", "mul.wide"),
    (".eq", ".ne", ".lt", ".le", ".gt", ".ge"), (".global", ".shared", ".local", ".const"), ("ld", "st"),
    (".relaxed", ".acquire", ".release", ".acq_rel", ".volatile"), (".cta", ".gpu", ".sys", ".cluster"),
    (".sync", ".arrive"), (".v2", ".v4"), ("shfl.sync.idx", "shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly"),
    (".rn", ".rz", ".rm", ".rp"), (".exch", ".add", ".cas", ".inc"), ("ex2", "lg2", "sin", "cos", "rcp", "sqrt"),
    ("mbarrier.arrive", "mbarrier.test_wait", "mbarrier.inval"), ("cp.async.commit_group", "cp.async.wait_all"),
)  # fmt: skip
"""words of PTX that may stand where another one of their group does"""


class Mutant(NamedTuple):
    """A launch of changed PTX."""

    case: Case
    text: str
    what: str
    """what was changed, on one line"""


class Ending(NamedTuple):
    """What a mutant came to."""

    verdicts: dict[str, str]
    """engine and tier -> verdict, or the kind of error"""
    wrong: str
    """what must not be; empty if all is well"""


def _variants() -> Iterator[tuple[Case, build.Variant]]:
    """Yield each launch with each file that has its kernel."""
    yield from ((case, variant) for case in (*CASES, *BROKEN) for variant in build.variants(case.source))


def mutants(random_: random.Random) -> Iterator[Mutant]:
    """Yield mutants without end."""
    cases = [*CASES, *BROKEN]
    weights = [min(1.0, MANY_WARPS / _count_warps(case)) for case in cases]
    while True:
        (case,) = random_.choices(cases, weights)
        variant = random_.choice(build.variants(case.source)).suffix
        name = f"{case.source}.{variant}.ptx"
        changed, what = launched_text(name, case.kernel), []
        for _ in range(random_.choice((1, 1, 1, 2, 3))):
            found = _change(changed, _extent(changed, random_), random_)
            if found is not None:
                changed, told = found
                what.append(told)
        if what:
            yield Mutant(case, changed, f"{name}: {'; '.join(what)}")


def _count_warps(case: Case) -> int:
    """Return how many warps a launch has."""
    grid, block = (math.prod(n) if isinstance(n, tuple) else n for n in (case.grid, case.block))
    return grid * -(-block // 32)


@functools.cache
def launched_text(name: str, kernel: str) -> str:
    """Return the text of a file without the other kernels, which a mutant would read for nothing."""
    text, module = _module(name)
    launched = module[kernel].entry.name
    for body in reversed(list(_BODY.finditer(text))):
        if body["kind"] == "entry" and body["name"] != launched:
            less = text[: body.start()] + text[body.end() :]
            if not re.search(rf"(?<![\w$]){re.escape(body['name'])}(?![\w$])", less):
                text = less
    return text


@functools.lru_cache(1)
def _module(name: str) -> tuple[str, Any]:
    """Return the text of a file without comments, and its kernels."""
    text = _COMMENT.sub("", (FOLDER / name).read_text(encoding="utf-8"))
    return text, wsemu.load_ptx(text)


def _extent(text: str, random_: random.Random) -> tuple[int, int]:
    """Return where the body of the kernel is, or of a function beside it."""
    bodies = list(_BODY.finditer(text))
    entries = [body for body in bodies if body["kind"] == "entry"]
    return random_.choice([*entries, random_.choice(bodies)]).span("body")


def _change(text: str, extent: tuple[int, int], random_: random.Random) -> tuple[str, str] | None:
    """Return the text with one change and what it is; None where the place drawn has nothing to change."""
    places = list(_STATEMENT.finditer(text, *extent))
    if not places:
        return None
    place, other = random_.choice(places), random_.choice(places)
    one = place[0]
    kind = random_.choice(("remove", "repeat", "swap", *_REPLACED, *_REPLACED))
    if kind == "remove":
        new = ""
    elif kind == "repeat":
        new = f"{one}\n{one}"
    elif kind == "swap":
        new = other[0]
        if place.start() != other.start():
            first, second = sorted((place, other), key=lambda match: match.start())
            middle = text[first.end() : second.start()]
            return (
                text[: first.start()] + second[0] + middle + first[0] + text[second.end() :],
                f"`{first[0]}` and `{second[0]}` swapped",
            )
    else:
        new = _REPLACED[kind](one, text, extent, random_)
        if new == one:
            return None
    return text[: place.start()] + new + text[place.end() :], f"{kind}: `{one}` -> `{new}`"


def _replace(pattern: re.Pattern[str], one: str, random_: random.Random, by: Callable[[str], str]) -> str:
    found = list(pattern.finditer(one))
    if not found:
        return one
    match = random_.choice(found)
    return one[: match.start()] + by(match[0]) + one[match.end() :]


def _register(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    def another(name: str) -> str:
        kind = name.rstrip("0123456789")
        names: list[str] = _REGISTER.findall(text, *extent)
        return random_.choice([other for other in names if other.startswith(kind)])

    return _replace(_REGISTER, one, random_, another)


def _number(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    def another(written: str) -> str:
        near = int(written) + random_.choice((-16, -4, -1, 1, 4, 16))
        return str(random_.choice((near, near, random_.choice(NUMBERS))))

    return _replace(_NUMBER, one, random_, another)


def _type(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    types = (".b8 .b16 .b32 .b64 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f16 .f32 .f64").split()
    return _replace(_TYPE, one, random_, lambda _: random_.choice(types))


def _label(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    return _replace(_LABEL, one, random_, lambda _: random_.choice(_LABEL.findall(text, *extent)))


def _guard(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    if one.startswith("@!"):
        return "@" + one[2:]
    if one.startswith("@"):
        return random_.choice(("@!" + one[1:], one.partition(" ")[2].lstrip()))
    predicates: list[str] = re.findall(r"%p\d+", text[slice(*extent)])
    return f"@{random_.choice(predicates)} {one}" if predicates else one


def _modifier(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    head, space, rest = one.partition(" ")
    if head.startswith("@"):
        head, space, rest = one.split(" ", 1)[0] + " " + rest.partition(" ")[0], " ", rest.partition(" ")[2]
    return _replace(_MODIFIER, head, random_, lambda _: "") + space + rest


def _word(one: str, text: str, extent: tuple[int, int], random_: random.Random) -> str:
    fitting = [(word, family) for family in _FAMILIES for word in family if re.search(rf"{re.escape(word)}\b", one)]
    if not fitting:
        return one
    word, family = random_.choice(fitting)
    return re.sub(rf"{re.escape(word)}\b", random_.choice(family), one, count=1)


_REPLACED: dict[str, Callable[[str, str, tuple[int, int], random.Random], str]] = {
    "register": _register, "number": _number, "type": _type, "label": _label, "guard": _guard, "modifier": _modifier,
    "word": _word,
}  # fmt: skip


# -- runs --------------------------------------------------------------------------------------------------------------
class _Run(NamedTuple):
    report: dict[str, Any] | None
    """None: an error of the kernel or the launch"""
    error: str
    left: list[bytes]
    """the arrays after the launch"""
    instructions: int


def run(mutant: Mutant, compiled: int = COMPILED) -> Ending:
    """Run a mutant on the compiled engine, one in `compiled` in all its tiers and, if it is small, on the reference
    engine, in this process."""
    runs = {"off": _run(mutant, "off")}
    if zlib.crc32(mutant.text.encode()) % compiled == 0:
        runs |= {tier: _run(mutant, tier) for tier in ("always", "restless")}
    off = runs["off"]
    if off.instructions <= SMALL and FULL not in off.error:  # what fills the VM's tables is not small
        runs["reference"] = _run(mutant, "off", engine="reference")
    wrong = next((text for name in runs if name != "off" and (text := _difference(runs["off"], runs[name], name))), "")
    return Ending(
        {name: r.report["verdict"] if r.report else r.error.partition(":")[0] for name, r in runs.items()}, wrong
    )


def _run(mutant: Mutant, tier: str, **options: Any) -> _Run:
    os.environ["WSEMU_TIER"] = tier
    given = mutant.case.arguments()
    guarded = [with_guards(a.start if isinstance(a, Out) else a) for a in given]
    arrays = [array for array, _ in guarded if array is not None]
    passed = [a if array is None else array for a, (array, _) in zip(given, guarded, strict=True)]
    try:
        kernel = _load(mutant.text)[mutant.case.kernel]
        with np.errstate(all="ignore"):
            report = wsemu.check(
                kernel, mutant.case.grid, mutant.case.block, passed,
                dynamic_shared=mutant.case.shared, budget=BUDGET, **options,
            )  # fmt: skip
    except WsemuError as error:
        return _Run(None, f"{type(error).__name__}: {error}", [], 0)
    finally:
        for array, whole in guarded:
            if array is not None and whole is not None:
                check_guards(whole)
    instructions = report.counters.warp_instructions
    return _Run(report.model_dump(exclude={"seconds"}), "", [array.tobytes() for array in arrays], instructions)


@functools.lru_cache(1)
def _load(text: str) -> Any:
    """Load a text once for all engines: reading it takes a third of a mutant's time."""
    return wsemu.load_ptx(text)


def with_guards(value: Any) -> tuple[Any, Any]:
    """Return a copy of an array between bytes of a pattern, and all of these bytes; (None, None) of anything else."""
    if not isinstance(value, np.ndarray):
        return None, None
    whole = np.full(value.nbytes + 2 * GUARD, PATTERN, np.uint8)
    inner = whole[GUARD : GUARD + value.nbytes].view(value.dtype).reshape(value.shape)
    inner[...] = value
    return inner, whole


class GuardChanged(Exception):
    """Bytes beside an array were changed."""


def check_guards(whole: Any) -> None:
    if (whole[:GUARD] != PATTERN).any() or (whole[-GUARD:] != PATTERN).any():
        raise GuardChanged("bytes beside an array were changed")


def _difference(one: _Run, other: _Run, name: str) -> str:
    """Return what two engines do not agree on."""
    if one.error != other.error:
        return f"{name}: `{one.error}` and `{other.error}`"
    if one.report is None or other.report is None:
        return ""
    if _is_cut_short(one.report) != _is_cut_short(other.report):
        return ""
    stopped = _is_stopped(one.report)
    followed = any(map(_is_followed, (one.report, other.report)))
    for field, value in one.report.items():
        if field == "counters" and (stopped or one.report["verdict"] == "incomplete"):
            continue  # of a launch that was stopped each engine counts what it had begun
        mine, own = (_compared(field, v, stopped, followed) for v in (value, other.report[field]))
        if mine != own:
            return f"{name}: {field} differs: {_short(mine)} and {_short(own)}"
    if one.report["verdict"] != "failed" and one.left != other.left:
        return f"{name}: the arrays differ"
    return ""


def _is_followed(report: dict[str, Any]) -> bool:
    """Return whether a report has findings of undefined values."""
    findings = report["findings"]
    return any(f["code"] in FOLLOWED or any(_NOT_STORED in note for note in f["notes"]) for f in findings)


def _compared(field: str, value: Any, stopped: bool, followed: bool) -> Any:
    """Return what of a field engines must agree on; `followed`: one of them reports undefined values.  Each follows
    these in its own way, as far as its effort goes, and names the use that it comes to first.  Of a launch that was
    stopped these are the codes of errors: each engine stops in the midst of other warps' turns, with other counts."""
    if field == "notes":
        return [note for note in value if not any(text in note for text in _FOLLOWED_NOTES)]
    if field != "findings":
        return value
    codes = {finding["code"] for finding in value}
    if stopped:
        return {finding["code"] for finding in value if finding["severity"] == "error"} - FOLLOWED
    others = [_without_count(finding) for finding in value if finding["code"] not in FOLLOWED | PAIRED]
    return [_without_followed(finding) if followed else finding for finding in others], codes & PAIRED


def _without_count(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding of one order of atomics without its count: the search ends long orders, and each engine goes on
    a little further in its own way."""
    return finding | {"count": 0} if any(_ORDER in note for note in finding["notes"]) else finding


def _without_followed(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding without what the uses of undefined values, which each engine chooses, add to it: a note of a
    race, and the loads that a schedule shows."""
    notes = [note for note in finding["notes"] if not note.startswith(_NOT_STORED)]
    return finding | {"notes": notes, "schedule": [], "schedule_steps": 0, "steps": []}


def _is_cut_short(report: dict[str, Any]) -> bool:
    """Return whether undefined values of a launch were followed in its beginning alone, and decided nothing there: the
    reference engine follows fewer instructions than compiled code."""
    return report["reasons"] == ["undefined value"] and any("`--effort` follows more" in n for n in report["notes"])


def _is_stopped(report: dict[str, Any]) -> bool:
    """Return whether a failed launch did not come to its end."""
    return any("what was stored until then" in note or "step budget" in note for note in report["notes"])


def _short(value: object) -> str:
    return repr(value)[:400]


# -- processes ---------------------------------------------------------------------------------------------------------
def run_apart(mutant: Mutant, compiled: int = COMPILED) -> Ending:
    """Run a mutant in a process of its own, with limits of time and memory."""
    (ending,) = run_in_turn([mutant], compiled)
    return ending


def run_in_turn(several: Iterable[Mutant], compiled: int = COMPILED) -> Iterator[Ending]:
    """Run mutants one after the other in a child, with limits of time and memory for each.

    What ends the child is the end of the mutant that it ran; another child goes on behind that one.
    """
    left = list(several)
    while left:
        child = _Child(left, compiled)
        try:
            while left and (ending := child.answer()) is not None:
                del left[0]
                yield ending
        finally:
            how = child.end()
        if left:
            del left[0]
            yield Ending({}, how)


class _Child:
    """A process that runs mutants and answers with the end of each."""

    def __init__(self, several: Sequence[Mutant], compiled: int) -> None:
        self._pipe, write = os.pipe()
        self._process = os.fork()
        if not self._process:
            code = 1
            try:
                os.close(self._pipe)
                _answer(several, compiled, write)
                code = 0
            finally:
                os._exit(code)
        os.close(write)

    def answer(self) -> Ending | None:
        """Return how the next mutant ended; None where the process did, which a silent one is made to."""
        size = self._read(8)
        data = self._read(int.from_bytes(size, "little"))
        return Ending(*pickle.loads(data)) if data else None

    def _read(self, size: int) -> bytes:
        """Return so many bytes; nothing where there are no more."""
        data = b""
        while len(data) < size:
            if not select.select([self._pipe], [], [], SILENT)[0]:
                os.kill(self._process, signal.SIGALRM)
            more = os.read(self._pipe, size - len(data))
            if not more:
                return b""
            data += more
        return data

    def end(self) -> str:
        """Wait for the end of the process, and return what it was."""
        os.close(self._pipe)
        _, status = os.waitpid(self._process, 0)
        if not os.WIFSIGNALED(status):
            return f"ended with exit code {os.WEXITSTATUS(status)}"
        number = os.WTERMSIG(status)
        return f"ended by {signal.Signals(number).name}" + " (time)" * (number in (signal.SIGXCPU, signal.SIGALRM))


def _answer(several: Sequence[Mutant], compiled: int, pipe: int) -> None:
    """Run mutants, and write how each ended to a pipe."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for mutant in several:
        _limit_time()
        answer = pickle.dumps(tuple(_run_or_traceback(mutant, compiled)))
        _write(pipe, len(answer).to_bytes(8, "little") + answer)


def _limit_time() -> None:
    """Let this process run for SECONDS more: then SIGXCPU ends it; SIGKILL is for want of memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, hard))


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _run_or_traceback(mutant: Mutant, compiled: int) -> Ending:
    try:
        return run(mutant, compiled)
    except BaseException:
        return Ending({}, traceback.format_exc())


def warm() -> None:
    """Compile what mutants need, so that children need not: it takes each as much memory as time."""
    from wsemu.machine import build
    from wsemu.machine.memory.cell_bits import WIDTHS

    for width in range(len(WIDTHS)):
        build.load_parts(width=width)
    names = {(f"{case.source}.{variant.suffix}.ptx", case.kernel) for case, variant in _variants()}
    for name, kernel in sorted(names):
        launched_text(name, kernel)
    case = next(case for case in CASES if case.source == "integers")
    run(Mutant(case, (FOLDER / "integers.sm_90.ptx").read_text(encoding="utf-8"), ""))
