"""What is said of mbarriers, asynchronous copies, proxies and registers: of raw findings made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.async_program import FULL, TILE, X
from tests.unit.async_program import places as program
from wsemu.checkers import registry
from wsemu.model.codes import CHECKER_OF, CHECKERS
from wsemu.model.finding import Finding
from wsemu.model.isa import EXPECT, READ, WRITE
from wsemu.model.outcome import ALL_LANES, Outcome, PhaseState, RawFinding
from wsemu.report.terminal import render_finding

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.evidence.places import Places

OPERATIONS: dict[str, tuple[Any, ...]] = {
    "init": ("mbarrier.init", 5),
    "expecting": ("mbarrier.arrive", 10, EXPECT),
    "load": ("bulk.load", 12),
    "wait": ("mbarrier.wait.parity", 20),
    "read": ("ld.b32", 21),
    "arrive": ("mbarrier.arrive", 22),
    "write": ("st.b32", 30),
    "store": ("bulk.store", 32),
    "inval": ("mbarrier.inval", 40),
    "cp": ("cp.async.b128", 50),
    "cp_arrive": ("cp.async.arrive", 51),
    "inc": ("setmaxnreg.inc", 60),
    "expect": ("mbarrier.expect_tx", 61),
}
BAR = {"address": FULL + 8}
COPIES = {
    "address": TILE + 16, "size": 4096, "interval": 0, "other_interval": 2, "other_cta": 0, "other_lane": 0,
    "other_last": 31, "async": 1,
}  # fmt: skip
PLAIN = {**COPIES, "size": 4, "interval": 2, "other_interval": 0, "other_last": 0, "other_async": 1}
del PLAIN["async"]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return program(
        tmp_path,
        *OPERATIONS.values(),
        outcome=Outcome("done", phases=[PhaseState(FULL + 8, 2, 0, 1, 0, 0)], mbarriers={FULL + 8: (0, 1)}),
    )


def finding(places: Places, code: str, at: str, detail: dict[str, int], other: str = "", lanes: int = 1) -> Finding:
    """Of warp 1 at one operation; at the other one of warp 0."""
    pcs = list(OPERATIONS)
    two = (pcs.index(other), 0) if other else (-1, -1)
    raw = RawFinding(code, pcs.index(at), 0, 1, lanes, *two, detail)
    assert registry.module_of(CHECKER_OF[code]).DETAIL[code].allows(detail)
    made = registry.explain(raw, places, None)
    assert made.help
    assert render_finding(made)
    assert Finding.model_validate_json(made.model_dump_json()) == made
    return made


SAID: list[tuple[str, str, dict[str, int], str, str, str]] = [
    ("mbarrier-uninitialized", "wait", BAR | {"ordered": 0, "dead": 0}, "",
     "warp 1 waits on `full[1]`, which is not an mbarrier", "check the `ptx.mbarrier_init()` on line 5"),
    ("mbarrier-uninitialized", "wait", BAR | {"ordered": 1, "dead": 0}, "init",
     "warp 1 may wait on `full[1]` before it is initialized", "add `cuda.syncthreads()` after line 5"),
    ("mbarrier-uninitialized", "arrive", BAR | {"ordered": 0, "dead": 1}, "inval",
     "warp 1 arrives on `full[1]` after it was invalidated", "move the `ptx.mbarrier_inval()` on line 40"),
    ("same-value-init", "init", BAR, "init", "lanes of warp 1 initialize `full[1]` with the same count",
     "initialize each mbarrier in one lane: `ptx.elect_sync(0xffffffff)` or `if lane == 0`"),
    ("mbarrier-reinit", "init", BAR, "init",
     "`full[1]` is initialized again without being invalidated", "initialize it once"),
    ("mbarrier-reinit", "init", BAR, "inval",
     "`full[1]` may be initialized again before it is invalidated", "add `cuda.syncthreads()` after line 40"),
    ("mbarrier-clobber", "load", BAR | {"at": FULL + 8, "kind": WRITE, "size": 4096, "asynchronous": 1}, "",
     "a bulk copy writes the bytes of the mbarrier `full[1]`", "keep data out of the 8 bytes"),
    ("mbarrier-clobber", "read", BAR | {"at": FULL + 8, "kind": READ, "size": 4, "asynchronous": 0}, "",
     "a load reads the bytes of the mbarrier `full[1]`", "keep data out of the 8 bytes"),
    ("mbarrier-lifetime", "inval", BAR | {"phase": 2, "what": 0}, "wait",
     "`full[1]` is invalidated while warp 0 may still use it",
     "add `cuda.syncthreads()` after line 20, before line 40"),
    ("commit-order", "inval", BAR | {"phase": 2, "other_lane": 0}, "arrive",
     "`full[1]` is invalidated, and only a later `tcgen05.commit` shows that (1) has arrived on it",
     "wait for its phase 1"),
    ("clc-after-failure", "arrive", {}, "",
     "a request for another cluster after the CTA observed that one had failed", "leave the loop when"),
    ("clc-no-ctaid", "arrive", {}, "", "`get_first_ctaid` of a response that names no cluster", "execute it under"),
    ("mbarrier-lifetime", "inval", BAR | {"phase": 2, "what": 1}, "",
     "`full[1]` is invalidated in phase 2 with operations pending", "wait for phase 2"),
    ("mbarrier-range", "init", BAR | {"what": 0, "value": 0}, "",
     "`full[1]` is initialized with a count of 0", "use the number of arrivals per phase, from 1 to 1,048,575"),
    ("mbarrier-range", "expect", BAR | {"what": 3, "value": 1 << 21}, "",
     "`full[1]`: its phase has 2,097,152 bytes pending", "keep the bytes of a phase"),
    ("mbarrier-range", "arrive", BAR | {"what": 4, "value": 1}, "",
     "`full[1]`: an arrive that must not complete its phase can be the last one", "use `ptx.mbarrier_arrive()`"),
    ("over-arrival", "arrive", BAR | {"phase": 2, "pending": 0, "count": 1}, "",
     "1 arrival on `full[1]` in phase 2, which has all its arrivals",
     "look for a thread that arrives twice"),
    ("phase-alias", "arrive", BAR | {"phase": 2, "rule": 1}, "load",
     "`full[1]`: the arrive of phase 2 can be counted into phase 1: warp 1 does not wait until phase 1 is complete",
     "before line 22, make the threads of (2) wait for phase 1 of `full[1]`"),
    ("phase-alias", "wait", BAR | {"phase": 2, "rule": 2}, "expecting",
     "`full[1]`: the wait of warp 1 can come one phase early, and then succeeds for the phase two earlier",
     "make warp 1 wait for every phase"),
    ("phase-alias", "expecting", BAR | {"phase": 2, "rule": 3}, "wait",
     "`full[1]`: phase 2 can complete before warp 0 has observed phase 1, which it waits for",
     "make phase 2 wait for warp 0"),
    ("phase-alias", "wait", BAR | {"phase": 2, "rule": 4}, "",
     "`full[1]`: a wait uses a token older than phase 1", "use the token of the latest arrive"),
    ("phase-alias", "wait", BAR | {"phase": 2, "rule": 5}, "",
     "`full[1]`: a wait uses a token that `full[1]` has not given", "use the token of an arrive at `full[1]`"),
    ("phase-unobserved", "arrive", BAR | {"phase": 2}, "",
     "`full[1]`: arrive in phase 2 before any thread observed phase 1 complete",
     "wait for phase 1 before this arrive (`ptx.mbarrier_wait_parity()` with parity 1)"),
    ("uncovered-expectation", "expect", BAR | {"phase": 2, "what": 0}, "",
     "`full[1]`: phase 2 can complete before these bytes are expected",
     "expect and arrive in one operation, `ptx.mbarrier_arrive_expect_tx()`"),
    ("uncovered-expectation", "expect", BAR | {"phase": 2, "what": 3}, "",
     "`full[1]`: phase 2 can complete before this operation of size 0",
     "leave out operations of size 0, or execute this one before the last arrive_drop"),
    ("uncovered-expectation", "cp_arrive", BAR | {"phase": 2, "what": 1}, "",
     "`full[1]`: phase 2 can complete before the copies of this arrive",
     "use `ptx.cp_async_mbarrier_arrive_noinc()`"),
    ("tx-mismatch", "expecting", BAR | {"phase": 2, "bytes": 4096, "pending": 1}, "",
     "`full[1]` is in phase 2 when the CTA exits: 4,096 bytes and 1 arrival are missing", "make the bytes"),
    ("tx-mismatch", "load", BAR | {"phase": 2, "bytes": -4096, "pending": 0}, "",
     "`full[1]` is in phase 2 when the CTA exits: 4,096 bytes too many were transferred", "make the bytes"),
    ("dangling-phase", "arrive", BAR | {"phase": 2, "pending": 1, "expected": 2}, "",
     "`full[1]` has 1 of 2 arrivals in phase 2 when the CTA exits", "remove the last arrive"),
    ("proxy", "store", COPIES | {"kind": READ, "other_kind": WRITE}, "write",
     "missing proxy fence: warp 0 has written shared `tile[4]`, and the bulk store reads it",
     "add `ptx.fence_proxy_async()` after line 30, in the threads of (1) and before the barrier; or in the issuing"),
    ("proxy-war", "load", COPIES | {"kind": WRITE, "other_kind": READ}, "read",
     "missing proxy fence: warp 0 has read shared `tile[4]`, and the bulk copy writes it",
     "add `ptx.fence_proxy_async()` after line 21"),
    ("tensormap-proxy", "load", {"address": X, "what": 0}, "write",
     "the bulk copy uses the tensor map `x[0]`, but the change of the map was not released for the tensormap proxy",
     "add `fence.proxy.tensormap::generic.release.gpu` after line 30, in the threads of (1)"),
    ("tensormap-proxy", "load", {"address": X, "what": 1}, "write",
     "the bulk copy uses the tensor map `x[0]`, but the change of the map was not acquired for the tensormap proxy",
     "add `fence.proxy.tensormap::generic.acquire.gpu [map], 128` after the release and before line 12"),
    ("async-outlives-cta", "load", {"address": TILE, "bytes": 4096, "what": 0}, "",
     "nothing waits for the bulk copy that writes `tile[0]`: it may be in flight when the CTA exits",
     "wait for the phase"),
    ("store-outlives-cta", "store", {"address": TILE, "bytes": 4096}, "",
     "nothing waits for the bulk store that reads `tile[0]` before the CTA ends",
     "add `ptx.cp_async_bulk_commit_group()` after it, and `ptx.cp_async_bulk_wait_group_read(0)`"),
    ("copy-size", "load", {"bytes": 4097, "what": 0}, "", "a bulk copy of 4,097 bytes, which is not a multiple of 16",
    "pad the arrays and copy 4,112"),
    ("copy-size", "cp", {"bytes": 17, "what": 1}, "",
     "an asynchronous copy of 16 bytes has a source size of 17 bytes", "use a source size of at most 16 bytes"),
    ("tensor-map", "load", {"address": X, "what": 2, "value": 3}, "",
     "a bulk copy that begins at element 3 of the innermost dimension, not at a multiple of 16 bytes",
     "begin at a multiple of 16 bytes"),
    ("setmaxnreg-repeated", "inc", {"count": 104}, "inc",
     "warp 1 executes `setmaxnreg` with 104 twice, with no synchronization in between", "delete one of them"),
    ("setmaxnreg", "inc", {"count": 20, "what": 0, "present": 168}, "",
     "`setmaxnreg` does not accept 20 as a register count", "use a multiple of 8 from 24 to 256"),
    ("setmaxnreg", "inc", {"count": 40, "what": 1, "present": 168}, "",
     "warp 1 requests 40 registers per thread, fewer than the 168 that it has", "use `ptx.setmaxnreg_dec(40)`"),
    ("race", "read", PLAIN | {"kind": READ, "other_kind": WRITE}, "load",
     "read-after-write hazard on shared `tile[4]`: nothing waits for the bulk copy of warp 0 before this read",
     "wait for the phase of its mbarrier (`ptx.mbarrier_wait_parity()`) before line 21, in the threads that perform"),
    ("race", "load", COPIES | {"kind": WRITE, "other_kind": READ}, "read",
     "write-after-read hazard on shared `tile[4]`: the bulk copy of warp 1 does not wait for warp 0",
     "make warp 0 arrive on an mbarrier (empty) or a barrier after line 21, and warp 1 wait for it before line 12"),
    ("race", "write", PLAIN | {"kind": WRITE, "other_kind": READ}, "store",
     "write-after-read hazard on shared `tile[4]`: nothing waits for the bulk store of warp 0 before this write",
     "`ptx.cp_async_bulk_wait_group_read(0)` in the thread that issued (1), then a barrier that warp 1 passes"),
    ("race", "read", PLAIN | {"kind": READ, "other_kind": WRITE}, "cp",
     "read-after-write hazard on shared `tile[4]`: nothing waits for the asynchronous copy of warp 0 before this read",
     "`ptx.cp_async_wait_group(0)` in the thread that issued (1), then a barrier"),
    ("misaligned", "load", {"address": TILE + 4, "alignment": 16, "size": 4096, "segment": 1}, "",
     "the bulk copy names `tile[1]`, whose address is not a multiple of 16", "begin at a multiple of 16 bytes"),
    ("out-of-bounds", "load",
     {"address": X + 4 * 4090, "size": 4096, "segment": 3, "bytes": 16384, "wrapped": 0, "readonly": 0}, "",
     "the bulk copy of 4,096 bytes reaches outside `x`", "copy no more than both arrays have"),
    ("uninitialized-read", "store", {"address": TILE + 4, "size": 4096, "segment": 1}, "",
     "shared `tile` is read before it is written", "store to `tile[1]` first"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "at", "detail", "other", "message", "help_"), SAID)
def test_a_finding_names_the_thing_and_the_remedy(
    places: Places, code: str, at: str, detail: dict[str, int], other: str, message: str, help_: str
) -> None:
    made = finding(places, code, at, detail, other)
    assert made.message == message
    assert made.help is not None
    assert made.help.startswith(help_)
    lines = [OPERATIONS[name][1] for name in (at, other) if name]
    assert [site.line for site in made.sites] == lines
    assert [site.primary for site in made.sites] == [True, False][: len(lines)]


def test_every_code_of_the_asynchronous_machine_is_told() -> None:
    codes = {code for name in ("mbarrier", "phase", "proxy", "asynchronous", "setmaxnreg") for code in CHECKERS[name]}
    assert codes <= {code for code, *_ in SAID}


def test_lanes_that_all_arrive_are_told_how_many_they_are(places: Places) -> None:
    made = finding(places, "over-arrival", "arrive", BAR | {"phase": 2, "pending": 1, "count": 32}, lanes=ALL_LANES)
    assert made.message == "32 arrivals on `full[1]` in phase 2, which expects 1"
    assert made.sites[0].text == "32 lanes of warp 1 arrive separately: 32 of 1"
    assert made.notes[1].startswith("`full[1]` is initialized on line 5, with 1 arrival a phase")
    assert made.help is not None
    assert made.help.startswith("arrive in only one of the 32 lanes, with `ptx.elect_sync(0xffffffff)`")


def test_a_copy_is_named_with_its_issuer(places: Places) -> None:
    made = finding(places, "race", "read", PLAIN | {"kind": READ, "other_kind": WRITE}, "load")
    assert [site.text for site in made.sites] == [
        "(2) loaded by warp 1, lane 0",
        "(1) written by the bulk copy issued by warp 0, lane 0",
    ]


def test_ptx_is_advised_in_ptx(places: Places) -> None:
    spans = places.program.spans
    places.program.spans = [span._replace(file=span.file.replace(".py", ".ptx")) for span in spans]
    made = finding(places, "proxy", "store", COPIES | {"kind": READ, "other_kind": WRITE}, "write")
    assert made.help is not None
    assert made.help.startswith("add `fence.proxy.async` after line 30")
