"""The registry of finding codes: severity, meaning and checker of each code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

Source = Literal["engines", "deadlock", "trap", "outcome", "transfer", "host"]
"""input of a checker.  `engines`: raw findings that the engines record during the launch.  `deadlock`, `trap`: the
state of a launch that ended in a deadlock, or at an instruction that the front end cannot translate.  `outcome`:
counters of any launch.  `transfer`: bytes that `check_transfer` moved.  `host`: operations of the host between
launches"""


class Code(NamedTuple):
    """A finding code, with a one-line description."""

    severity: Literal["error", "warning"]
    meaning: str
    checker: str
    """name of the checker; its module in `checkers` has this name with underscores"""
    proves: bool = False
    """true if a launch without this finding is proven free of the error in every schedule"""
    source: Source = "engines"
    strict: bool = False
    """true for a warning about behavior that no rule allows although hardware was not seen to fail: the verdict names
    it, and it is an error with `--strict`"""
    rests_on: str = ""
    """assumption under which a launch with this finding is verified"""


_CODES = {
    "deadlock": Code(
        "error", "no warp can proceed, and not all have exited", "deadlock", proves=True, source="deadlock"
    ),
    "race": Code("error", "conflicting accesses of two warps that nothing orders", "race", proves=True),
    "intra-warp-race": Code("error", "conflicting accesses of two lanes of a warp that nothing orders", "intra-warp"),
    "same-value-store": Code(
        "warning", "unordered stores of the same value to one location", "same-value", proves=True, strict=True,
        rests_on="stores of one value to one place leave that value",
    ),
    "barrier-recycling": Code(
        "error", "an operation can be counted into the wrong generation of a named barrier", "recycling", proves=True
    ),
    "count-mismatch": Code(
        "error", "operations of one barrier generation have different thread counts or kinds",
        "barrier-misuse", proves=True,
    ),
    "oversubscribed": Code(
        "error", "the participants of a barrier generation can never complete it", "barrier-misuse", proves=True
    ),
    "all-arrive": Code(
        "error", "a barrier generation completes by arrives alone, and no warp waits for it",
        "barrier-misuse", proves=True,
    ),
    "barrier-divergence": Code(
        "error", "only part of a warp executes a warp-wide or aligned barrier operation", "barrier-misuse", proves=True
    ),
    "invalid-barrier": Code(
        "error", "a barrier id outside 0-15, or a count that is not a positive multiple of 32", "barrier-misuse",
        proves=True,
    ),
    "dangling-arrive": Code(
        "warning", "arrivals remain in an open barrier generation at CTA exit", "barrier-misuse", proves=True
    ),
    "mbarrier-uninitialized": Code(
        "error", "an operation on memory that may not be an initialized mbarrier", "mbarrier", proves=True
    ),
    "mbarrier-reinit": Code("error", "an mbarrier is initialized where a live one is", "mbarrier", proves=True),
    "same-value-init": Code(
        "warning", "lanes of one instruction initialize one mbarrier with the same count", "mbarrier", proves=True,
        strict=True, rests_on="a second initialization of an mbarrier with the same count changes nothing",
    ),
    "mbarrier-clobber": Code("error", "a plain or asynchronous access to the bytes of a live mbarrier", "mbarrier"),
    "mbarrier-lifetime": Code(
        "error", "an mbarrier is invalidated while other threads may still use it", "mbarrier", proves=True
    ),
    "commit-order": Code(
        "warning", "an mbarrier is invalidated while only a later `tcgen05.commit` is known to be complete",
        "mbarrier", proves=True, strict=True, rests_on="commits of a thread arrive in their order",
    ),
    "mbarrier-range": Code("error", "a count of arrivals or bytes that an mbarrier cannot hold", "mbarrier"),
    "over-arrival": Code("error", "more arrivals than the phase of an mbarrier expects", "mbarrier", proves=True),
    "phase-alias": Code(
        "error", "an operation that can meet another phase of its mbarrier than in this run", "phase", proves=True
    ),
    "phase-unobserved": Code(
        "warning", "an arrive before any thread observed the previous phase complete", "phase", strict=True,
        rests_on="arrivals count although nobody waited for the phase before",
    ),
    "lane-lag": Code(
        "warning", "a phase that can be missed only by a lane that lags behind its converged warp", "lane-lag",
        proves=True, strict=True, rests_on="lanes that wait together go on together",
    ),
    "uncovered-expectation": Code(
        "error", "an expect-tx operation that may come after all arrivals of its phase", "phase", proves=True
    ),
    "tx-mismatch": Code(
        "error", "an mbarrier phase is left with too few or too many transferred bytes", "phase", proves=True
    ),
    "dangling-phase": Code("warning", "arrivals remain in an open phase of an mbarrier at CTA exit", "phase"),
    "proxy": Code(
        "error", "an asynchronous access that no proxy fence orders after a plain one", "proxy", proves=True
    ),
    "proxy-war": Code(
        "warning", "an asynchronous write after a plain read, ordered but without a proxy fence", "proxy", proves=True,
        strict=True,
    ),
    "mbarrier-unfenced": Code(
        "warning", "an asynchronous copy credits an mbarrier whose initialization no fence follows", "init-fence",
        proves=True, strict=True,
    ),
    "missing-fence": Code(
        "warning", "a read after an atomic that publishes the data, without the required fence", "race", proves=True,
        strict=True,
    ),
    "tensormap-proxy": Code(
        "error", "a tensor copy through a map whose change was not released and acquired", "proxy", proves=True
    ),
    "async-outlives-cta": Code(
        "error", "an asynchronous operation that nothing waits for", "asynchronous", proves=True
    ),
    "store-outlives-cta": Code(
        "warning", "a bulk store to global memory that nothing waits for at CTA exit", "asynchronous", proves=True,
        strict=True, rests_on="shared memory stays until bulk stores have read it",
    ),
    "dsmem-before-start": Code(
        "error", "an access to shared memory of another CTA of the cluster, which may not have started",
        "dsmem", proves=True,
    ),
    "dsmem-after-exit": Code(
        "error", "an access to shared memory of another CTA of the cluster, which may have exited", "dsmem", proves=True
    ),
    "dsmem-relaxed-exit": Code(
        "warning", "only a relaxed arrive orders an access before the exit of the CTA that owns the memory",
        "dsmem", proves=True, strict=True,
    ),
    "cluster-barrier": Code(
        "error", "an arrive or wait at the cluster barrier without its counterpart", "cluster-barrier",
        proves=True,
    ),
    "remote-mbarrier": Code(
        "error", "an operation that is not allowed on an mbarrier of another CTA", "remote-mbarrier"
    ),
    "scope": Code("error", "synchronization of CTA scope between two CTAs", "scope", proves=True),
    "copy-size": Code("error", "an asynchronous copy has a size that PTX does not allow", "asynchronous"),
    "tensor-map": Code(
        "error", "a tensor copy whose map, coordinates or element type do not allow it", "asynchronous"
    ),
    "wgmma-register": Code("error", "a register of an in-flight `wgmma` is used before its wait", "wgmma"),
    "wgmma-unfenced": Code("error", "no fence orders register accesses before a `wgmma`", "wgmma"),
    "wgmma-divergence": Code(
        "error", "the four warps of a warpgroup do not execute the same `wgmma`", "wgmma"
    ),
    "tmem-race": Code(
        "error", "conflicting accesses to tensor memory that nothing orders", "tensor-memory", proves=True
    ),
    "tmem-read-unfinished": Code(
        "error", "tensor memory is overwritten while a load from it may be in flight", "tensor-memory", proves=True
    ),
    "tmem-read-unwaited": Code(
        "warning", "a load from tensor memory ends only by the use of its registers, without `tcgen05.wait::ld`",
        "tensor-memory", proves=True, strict=True,
        rests_on="a load from tensor memory is over when its registers have been used",
    ),
    "tcgen05-fence": Code(
        "warning", "relaxed operations order two accesses to tensor memory, without `tcgen05.fence`", "tensor-memory",
        proves=True, strict=True,
    ),
    "tmem-unallocated": Code("error", "an access to columns that the CTA has not allocated", "tensor-memory"),
    "tmem-bounds": Code("error", "an access beyond the last column of tensor memory", "tensor-memory"),
    "tmem-uninitialized": Code("error", "a load of tensor memory that nothing has written", "tensor-memory"),
    "tmem-wrong-quarter": Code(
        "error", "an address in lanes of tensor memory that its warp does not have", "tensor-memory"
    ),
    "tmem-misaligned-lane": Code(
        "error", "an address in tensor memory whose lane its instruction does not allow", "tensor-memory"
    ),
    "tmem-leak": Code("error", "tensor memory is still allocated when its CTA ends", "tensor-memory", proves=True),
    "tmem-double-free": Code("error", "a release of columns that are not exactly one allocation", "tensor-memory"),
    "tmem-columns": Code("error", "a number of columns that cannot be allocated", "tensor-memory"),
    "tmem-alloc-after-relinquish": Code(
        "error", "an allocation of tensor memory after the CTA gave up the permit", "tensor-memory"
    ),
    "tmem-grow": Code("error", "an allocation of more columns than the one before", "tensor-memory"),
    "tmem-address-unpublished": Code(
        "error", "the address of an allocation is read before it is published", "tensor-memory", proves=True
    ),
    "tmem-cta-group-mixed": Code("error", "operations of two values of `cta_group` in one kernel", "tensor-memory"),
    "tcgen05-issued-by-many": Code("error", "several lanes issue a tensor operation", "tensor-memory"),
    "tcgen05-descriptor": Code("error", "a descriptor that its tensor operation does not allow", "tensor-memory"),
    "collector-without-fill": Code(
        "error", "a product that may take an operand from a collector buffer which does not have it", "tensor-memory"
    ),
    "clc-after-failure": Code(
        "error", "a request for a cluster after the CTA observed that one had failed", "cancellation"
    ),
    "clc-no-ctaid": Code(
        "warning", "the CTA is read from a response that names none", "cancellation", strict=True,
        rests_on="decoding a failed response changes only registers that nothing uses",
    ),
    "setmaxnreg-repeated": Code(
        "warning", "a `setmaxnreg` repeats the count of the previous one without synchronization in between",
        "setmaxnreg", strict=True, rests_on="a `setmaxnreg` that changes nothing needs no synchronization",
    ),
    "setmaxnreg": Code("error", "a register count that a warp cannot request or release", "setmaxnreg"),
    "out-of-bounds": Code(
        "error", "an access outside the array or with a negative index, or a store to constant memory", "bounds"
    ),
    "misaligned": Code("error", "an address is not a multiple of the access size", "bounds"),
    "uninitialized-read": Code("error", "a read of uninitialized memory", "initialised"),
    "failed-assertion": Code("error", "an assertion fails, or a `trap` is executed", "assertion"),
    "undefined-register": Code(
        "error", "a value depends on a register that no instruction has written", "undefined-register"
    ),
    "read-only-written": Code(
        "error", "a load through the read-only cache of bytes that the launch writes", "read-only", proves=True
    ),
    "undefined-behavior": Code(
        "error", "an instruction whose behavior PTX leaves undefined for its operands", "undefined", source="trap"
    ),
    "undefined-shuffle": Code(
        "warning", "a shuffle reads a lane that does not participate; an error if the value matters", "shuffle"
    ),
    "undefined-copy": Code(
        "warning", "uninitialized bytes are copied to a location that nothing reads", "initialised", strict=True
    ),
    "strong-vector": Code(
        "warning", "a strong access of a vector, which PTX does not promise to be one access", "strong-vector",
        source="outcome", strict=True, rests_on="a strong access of an aligned vector is one access",
    ),
    "frozen-array": Code(
        "warning", "a global array changed after the kernel was compiled with a copy of it", "frozen-array",
        source="outcome",
    ),
    "bank-conflict": Code(
        "warning", "lanes of a shared memory access use different words of one bank", "bank-conflict", source="outcome"
    ),
    "uncoalesced": Code(
        "warning", "a global access touches more sectors than its bytes need", "coalescing", source="outcome"
    ),
    "transfer-missed": Code(
        "error", "a transfer left destination bytes unwritten, or filled them from the wrong source", "transfer",
        source="transfer",
    ),
    "transfer-duplicated": Code(
        "error", "a transfer wrote destination bytes more than once", "transfer", source="transfer"
    ),
    "transfer-spilled": Code(
        "error", "a transfer wrote bytes outside its destination", "transfer", source="transfer"
    ),
    "stream-race": Code(
        "error", "conflicting accesses of two launches or copies that nothing orders", "between", source="host"
    ),
    "host-race": Code(
        "error", "the host accesses memory that a launch or copy in flight uses", "between", source="host"
    ),
    "freed-in-use": Code(
        "error", "memory is freed or unregistered while a launch or copy may use it, or is used after that",
        "between", source="host",
    ),
    "use-before-alloc": Code(
        "error", "an access to stream-ordered memory that nothing orders after its allocation", "between",
        source="host",
    ),
    "uninitialised-device-read": Code(
        "error", "a read of device memory that no copy and no launch has written", "between", source="host"
    ),
    "missing-pdl-wait": Code(
        "error", "a dependent launch accesses data of the launch before it without `griddepcontrol.wait`", "between",
        source="host",
    ),
    "pdl-transitive": Code(
        "error", "a dependent launch accesses data of an earlier launch, and the one between them never waits",
        "between", source="host",
    ),
    "pdl-nc": Code(
        "error", "a dependent launch uses the read-only cache to load data that the previous launch writes", "between",
        source="host",
    ),
    "stale-capture": Code(
        "error", "a graph launch uses memory that was freed after the capture", "between", source="host"
    ),
    "capture-violation": Code(
        "error", "a call that CUDA forbids while a stream is captured", "between", source="host"
    ),
    "managed-access": Code(
        "error", "the host accesses managed memory while a launch may run, on a system without concurrent access",
        "between", source="host",
    ),
}  # fmt: skip
"""codes in the order in which checkers and their findings are listed"""
MARKS = ("raised-exception", "same-value")
"""codes that an engine records besides findings; `verdict` turns them into reasons and notes"""

NOT_REPLAYED = (
    "same-value-store", "lane-lag", "mbarrier-unfenced", "undefined-copy", "store-outlives-cta",
    "same-value-init", "tmem-read-unwaited", "commit-order",
)  # fmt: skip
"""codes without a witness: errors with `--strict` that no schedule shows"""
NOT_OF_AN_ORDER = (
    "transfer-missed", "transfer-duplicated", "transfer-spilled", "undefined-behavior",
)  # fmt: skip
"""codes of errors that depend on addresses, operands or registers, not on the schedule.  They have no schedule and no
witness, unless only some orders of atomics lead to them"""

CODES: dict[str, Code] = {}
"""all codes: errors first, then warnings"""
CODE_NAMES: list[str] = []
"""code names, indexed by the numbers that the machine records"""
CODE_NUMBERS: dict[str, int] = {}
CHECKERS: dict[str, tuple[str, ...]] = {}
"""codes that a checker reports, by checker"""
CHECKER_OF: dict[str, str] = {}
SCHEDULES: list[str] = []
"""checkers whose silence proves a property for every schedule"""
SOURCES: dict[str, Source] = {}
"""kind of input that each checker needs"""


def register(code: str, entry: Code) -> None:
    """Add a code of this name to all tables.  It is an error if the code exists already."""
    if code in CODES:
        raise ValueError(f"finding code {code!r} is registered twice")
    CODES[code] = entry
    _number(code)
    _assign(code, entry)


def _number(name: str) -> None:
    CODE_NUMBERS[name] = len(CODE_NAMES)
    CODE_NAMES.append(name)


def _assign(code: str, entry: Code) -> None:
    """Assign a code to its checker."""
    checker = entry.checker
    CHECKERS[checker] = (*CHECKERS.get(checker, ()), code)
    CHECKER_OF[code] = checker
    SOURCES[checker] = entry.source
    if entry.proves and checker not in SCHEDULES:
        SCHEDULES.append(checker)


CODES.update(sorted(_CODES.items(), key=lambda item: item[1].severity == "warning"))
for _name in (*CODES, *MARKS):
    _number(_name)
for _code, _entry in _CODES.items():
    _assign(_code, _entry)


def _hyphenate(name: object) -> str:
    """Return the known spelling of a name, with hyphens.  Return an unknown name for a value that is not a string."""
    return name.replace("_", "-") if isinstance(name, str) else ""


def _choice(name: str, known: Iterable[str], shown: int | None = None) -> str:
    """Return the known names to suggest instead of an unknown one: `shown` of them, and the closest match."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(name, names, 1, 0.5)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    more = ", ... (`wsemu explain` lists all)" if len(names[:shown]) < len(names) else ""
    return f"one of {', '.join(names[:shown])}{more}{meant}"


def checkers_named(names: Iterable[str]) -> frozenset[str]:
    """Return the checkers for these names or finding codes.  Raise UsageError for another name."""
    chosen = set()
    for name in names:
        checker = CHECKER_OF.get(name, _hyphenate(name))
        if checker not in CHECKERS:
            raise UsageError(f"no checker {name!r}: {_choice(checker, CHECKERS)}")
        chosen.add(checker)
    return frozenset(chosen)


def finding_codes(names: Iterable[str]) -> frozenset[str]:
    """Return the finding codes for these codes or checkers.  Raise UsageError for another name."""
    chosen: set[str] = set()
    for name in names:
        code = _hyphenate(name)
        if code not in CODES and code not in CHECKERS:
            raise UsageError(f"no finding code {name!r}: {_choice(code, CODES, 8)}")
        chosen.update((code,) if code in CODES else CHECKERS[code])
    return frozenset(chosen)
