"""The kernels of the project by two ways: from Python source, and from the PTX that Numba-CUDA makes of it.

Every launch of the examples and the test programs, broken ones included, leaves the same bits, gets the same verdict
with the same findings at the same lines, and has the same memory counters.  Where the compiler changed the accesses
`CHANGED` says how, and what may differ for it; the rest must be equal still.  A reason that nothing needs is an error.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.backends import numba_cuda
from wsemu.evidence.unreached import unreached_note
from wsemu.host import takeover
from wsemu.launch.binding import Memory
from wsemu.launch.compiled import as_declared
from wsemu.launch.crosscheck import disagreements
from wsemu.model.device_array import DeviceArray
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.isa import FIRST_ARRAY
from wsemu.model.tensor_map import TensorMap
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided

try:
    numba_cuda.numba_cuda()
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)

from wsemu.backends import offline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.settings import Settings

CHECK: Any = importlib.import_module("wsemu.launch.check")
ROOT = Path(__file__).parents[2]
_CALL = re.compile(r"TensorMap\(|load_ptx|cluster_ctarank|cluster_sync|cluster_arrive")
FOLDERS = ("examples", "examples/broken", "tests/pass", "tests/fail/*", "tests/incomplete", "tests/numba")
PROGRAMS = [
    path for folder in FOLDERS for path in sorted(ROOT.glob(f"{folder}/*.py"))
    if path.stem not in ("neighbour", "table_changed_between_launches")
    and not _CALL.search(path.read_text(encoding="utf-8"))
]  # fmt: skip
"""without those of tensor maps, of which Numba-CUDA's PTX gets the address: a launch of PTX is given maps themselves;
without those whose kernels are PTX already; without clusters, which the GPU backend does not launch;
and without a table that changes between launches, for PTX is compiled after them"""
SMALL = {
    "dgemm": ["64", "64", "16"],
    "sgemv": ["256", "all"],
    "sgemv_both_single": ["128"],
    "saxpy": ["2048"],
    "stencil": ["32", "16", "2"],
    "fft": ["16384"],
}
"""arguments of programs that take longer"""
ROLES = (1, 64, 64, 64)
TRANSFERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequential": (CudaDMASequential(*ROLES, 1004, alignment=16), {}),
    "strided": (CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16), {"two_phase": True}),
    "gather": (CudaDMAIndirect(*ROLES, 64, 5, alignment=16), {"index": [4, 2, 4, 0, 1], "constants": True}),
    "scatter": (CudaDMAIndirect(*ROLES, 64, 3, scatter=True), {"index": [4, 2, 0]}),
    "halo": (CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100, corners=True), {}),
}

SHARED_LOADS = ("shared_load_wavefronts", "ideal_shared_load_wavefronts")
SHARED_STORES = ("shared_store_wavefronts", "ideal_shared_store_wavefronts")
GLOBAL_LOADS = ("global_load_sectors", "ideal_global_load_sectors")
GLOBAL_STORES = ("global_store_sectors", "ideal_global_store_sectors")
COUNTERS = ("accesses", *SHARED_LOADS, *SHARED_STORES, *GLOBAL_LOADS, *GLOBAL_STORES, "barrier_operations")


class Change(NamedTuple):
    """What the compiler does to a kernel, and what may differ between the two for it."""

    fewer: tuple[str, ...] = ()
    """counters that the PTX may have less of"""
    more: tuple[str, ...] = ()
    """counters that the PTX may have more of"""
    others: tuple[str, ...] = ()
    """what else may differ"""


CHANGES = {
    # an element is loaded once for two loads with no barrier between them, and not at all behind its own store
    "merged": Change(fewer=("accesses", *SHARED_LOADS, *GLOBAL_LOADS)),
    # neighbouring elements are loaded at once: the same sectors, in fewer wavefronts
    "vector": Change(fewer=("accesses", *SHARED_LOADS)),
    # elements are in registers while a loop runs, and stored once, behind it
    "promoted": Change(
        fewer=("accesses", *SHARED_LOADS, *SHARED_STORES, *GLOBAL_LOADS, *GLOBAL_STORES), others=("warning places",)
    ),
    # libdevice's functions: other last bits than the emulator's, which rounds exactly, and tables that are loaded
    "library": Change(more=("accesses", *GLOBAL_LOADS), others=("bits",)),
    # the sides of a branch come in the other order: a race is met the other way round, and leaves other bits
    "order": Change(others=("bits", "error places", "uninitialized-read")),
    # Numba has lines of the kernel alone: what was inlined leads to the line of the call, and is one place with it
    "inlined": Change(others=("error places", "warning places", "warning codes")),
    # a negative index goes to the end of the array, as Numba has it: only the source tells that this was not meant
    "wrapped": Change(others=("out-of-bounds",)),
    # a load is made behind a return or a branch, by the lanes that need it
    "sunk": Change(fewer=("accesses", *GLOBAL_LOADS)),
    # lanes that a condition around the last statements leaves out are at the end of the kernel, as after an early
    # return: the PTX is the same, and machine code has an EXIT there
    "ended": Change(others=("barrier-divergence",)),
    # the PTX has no `.maxnreg`, without which ptxas ignores `setmaxnreg`
    "ignored": Change(others=("setmaxnreg",)),
    # so that warps go on that wait for registers
    "unlimited": Change(more=("accesses", *GLOBAL_STORES), others=("deadlock", "bits")),
    # without `debug` a thread whose assertion fails returns, and says so to nobody
    "silent": Change(others=("failed-assertion",)),
    # without the assertion, the claims of cells decide the launch, and a note says that the order decides who claims
    "claimed": Change(others=("notes",)),
    # what a transfer has to move its object says, in Python: such a finding is not of the kernel's code
    "object": Change(others=("transfer-spilled", "transfer-missed", "transfer-duplicated")),
}
ULPS = 2
"""units in the last place between libdevice's functions and the exact result, of those that are used here (CUDA C++
Programming Guide, "Mathematical Functions")"""
CHANGED: dict[str, tuple[str, ...]] = {
    "examples/broken/padding_copied.py padding_copied": ("merged",),
    "examples/broken/reversed_in_place.py reversed_in_place": ("inlined",),
    "examples/broken/rounded_up.py transfer": ("object",),
    "examples/broken/rows_overlap.py transfer": ("object", "inlined"),
    "examples/broken/sgemv_row_major.py sgemv_row_major": ("inlined",),
    "examples/broken/stack_popped_twice.py pop_twice": ("silent",),
    "examples/broken/stencil_no_compute_barrier.py stencil_no_compute_barrier": ("inlined",),
    "examples/broken/stencil_no_corners.py stencil_no_corners": ("inlined",),
    "examples/broken/tail_left_out.py transfer": ("object",),
    "examples/sgemv.py sgemv": ("vector",),
    "examples/sgemv.py reference": ("vector",),
    "examples/sgemv.py vec_single": ("vector",),
    "examples/sgemv.py vec_double": ("vector",),
    "examples/sgemv.py vec_manual": ("vector",),
    "examples/sgemv.py both_double": ("vector",),
    "examples/sgemv.py both_manual": ("vector",),
    "examples/sgemv.py both_bulk": ("vector",),
    "examples/sgemv.py both_pipeline": ("vector",),
    "examples/stencil.py halo_only_single": ("inlined",),
    "examples/stencil.py halo_only_double": ("inlined",),
    "examples/stencil.py halo_only_manual": ("inlined",),
    "examples/stencil.py block_halo_single": ("inlined",),
    "tests/pass/append_if_absent.py append_if_absent": ("claimed",),
    "tests/pass/pairs_of_words.py pairs_of_words": ("merged",),
    "tests/pass/row_copied_with_its_padding.py row_copied_with_its_padding": ("merged",),
    "tests/pass/sgemv_both_single.py sgemv": ("vector",),
    "tests/pass/shuffles_order_lanes.py shuffles_order_lanes": ("merged",),
    "tests/pass/tail_loaded_and_discarded.py tail_loaded_and_discarded": ("sunk",),
    "tests/pass/vector_store_over_a_neighbour.py vector_store_over_a_neighbour": ("merged",),
    "tests/fail/bank-conflict/pairs_of_words.py pairs_of_words": ("promoted",),
    "tests/fail/barrier-divergence/elected_lane_arrives.py elected_lane_arrives": ("ended",),
    "tests/fail/barrier-divergence/shuffle_in_a_branch.py shuffle_in_a_branch": ("ended",),
    "tests/fail/barrier-divergence/syncthreads_under_a_condition.py syncthreads_under_a_condition": ("ended",),
    "tests/fail/deadlock/more_registers_than_the_pool.py more_registers_than_the_pool": ("unlimited",),
    "tests/fail/failed-assertion/append_if_absent.py append_if_absent": ("silent",),
    "tests/fail/intra-warp-race/exited_lane_not_named.py exited_lane_not_named": ("order",),
    "tests/fail/intra-warp-race/two_branches_one_word.py two_branches_one_word": ("order",),
    "tests/fail/out-of-bounds/halo_before_the_start.py halo_before_the_start": ("wrapped",),
    "tests/fail/phase-alias/empty_work_laps_the_loader_phases.py empty_work_laps_the_loader_phases": ("merged",),
    "tests/fail/race/histogram_without_atomics.py histogram_without_atomics": ("merged",),
    "tests/fail/race/vector_store_over_a_neighbour.py vector_store_over_a_neighbour": ("merged",),
    "tests/fail/setmaxnreg/gives_more_than_it_has.py gives_more_than_it_has": ("ignored",),
    "tests/fail/undefined-shuffle/shuffle_behind_a_return.py shuffle_behind_a_return": ("sunk",),
    "tests/fail/undefined-copy/row_copied_with_its_padding.py row_copied_with_its_padding": ("merged",),
    "tests/numba/heat.py step": ("merged",),
    "tests/numba/laplace.py jacobi": ("merged",),
    "tests/numba/monte_carlo_pi.py compute_pi": ("promoted",),
    "tests/numba/reduction.py reduce(total)": ("merged",),
    "tests/numba/reduction.py reduce(<lambda>)": ("merged",),
    "tests/numba/session_clicks.py racy_sessions": ("inlined",),
    "tests/numba/session_clicks.py sessions": ("inlined",),
    "tests/numba/streams.py smooth": ("merged",),
    "tests/numba/ufunc_call.py trigonometry": ("library",),
    "tests/numba/ufunc_call.py whole": ("library",),
    "tests/numba/ufunc_call.py rows": ("library",),
}
"""program and kernel -> what the compiler changed; the PTX was read for each"""
BY_RELEASE = {"tests/pass/tail_loaded_and_discarded.py tail_loaded_and_discarded"}
"""of these, what some releases of NVVM change and others (23.0, of CUDA 13.5) leave as it is"""


class Launched(NamedTuple):
    """A launch that was emulated from Python source, and what it started from."""

    kernel: Any
    configuration: LaunchConfiguration
    settings: Settings
    twins: tuple[Any, ...]
    """copies of the arguments before it ran"""
    arguments: tuple[Any, ...]
    left: tuple[Any, ...]
    """copies of the arguments after it ran"""
    report: Report


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of an argument."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from arrays_in(item)


def twins_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with arrays of their own that lie to each other, and in themselves, as these do."""
    arrays = list({id(array): array for array in arrays_in(arguments)}.values())
    memory = Memory(arrays)
    copies = [data.copy() for data, _ in memory.segments]
    made = {}
    for n, array in enumerate(arrays):
        segment, offset = memory.place(n)
        bytes_ = copies[segment - FIRST_ARRAY] if array.size else bytearray(8)
        kind = DeviceArray if isinstance(array, DeviceArray) else np.ndarray
        twin = kind(array.shape, array.dtype, bytes_, offset if array.size else 0, array.strides)
        twin.flags.writeable = array.flags.writeable
        if isinstance(twin, DeviceArray):
            twin.blank = getattr(array, "blank", False)
        made[id(array)] = twin

    def twin_of(value: Any) -> Any:
        return tuple(map(twin_of, value)) if type(value) is tuple else made.get(id(value), value)

    return tuple(map(twin_of, arguments))


@contextlib.contextmanager
def recorded() -> Iterator[list[Launched]]:
    """The launches that are made meanwhile, however they are made."""
    examine = CHECK.examine
    launches: list[Launched] = []

    def record(kernel: Any, configuration: Any, arguments: Any, chosen: Any, *more: Any, **options: Any) -> Report:
        given = tuple(as_declared(kernel, arguments))
        twins = twins_of(given)
        report: Report = examine(kernel, configuration, arguments, chosen, *more, **options)
        if not any(isinstance(value, TensorMap) for value in given):
            launches.append(Launched(kernel, configuration, chosen, twins, given, twins_of(given), report))
        return report

    def go_on(report: Report) -> None:
        """A launch that fails is no reason to stop."""

    CHECK.examine = record
    CHECK.observers.append(go_on)
    try:
        yield launches
    finally:
        CHECK.examine = examine
        CHECK.observers.remove(go_on)


def launches_of(path: Path) -> list[Launched]:
    """The launches that a program makes, run with its own folder on the path."""
    kept = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(path), *SMALL.get(path.stem, [])], [str(path.parent)]
    try:
        with (
            recorded() as launches,
            takeover.numba_cuda(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.suppress(SystemExit, UnsupportedError),
        ):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = kept
    return launches


def text_of(launched: Launched) -> str:
    """The PTX of a kernel for an sm_90a, or for the first target that has what it uses."""
    text = offline.compile_kernel(launched.kernel, launched.arguments, lto=False).ptx
    if "st.bulk" not in text:
        return text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offline, "HOPPER", (10, 0))
        return offline.compile_kernel(launched.kernel, launched.arguments, lto=False).ptx


class Compiler:
    """The kernels of a program from their PTX; each is compiled once for arguments of the same types."""

    def __init__(self) -> None:
        self.made: dict[Any, tuple[Any, wsemu.PtxKernel]] = {}

    def kernel(self, launched: Launched) -> wsemu.PtxKernel:
        numba_cuda.prepare(launched.arguments)
        types = tuple(numba_cuda.argument_type(value) for value in launched.arguments)
        key = (id(launched.kernel), types)
        if key not in self.made:
            launched.kernel.options.setdefault("lineinfo", True)
            self.made[key] = launched.kernel, wsemu.load_ptx(text_of(launched)).only()
        return self.made[key][1]

    def differences(self, launched: Launched) -> dict[str, tuple[Any, Any]]:
        """What the PTX does otherwise on the twins: what it is -> (from Python source, from PTX)."""
        report = CHECK.examine(
            self.kernel(launched), launched.configuration, offline.pack_arguments(launched.twins), launched.settings
        )
        found = described(launched.report), described(report)
        different = {what: (found[0][what], found[1][what]) for what in found[0] if found[0][what] != found[1][what]}
        pairs = zip(arrays_in(launched.left), arrays_in(launched.twins), strict=True)
        apart = [a.size and a.tobytes() != b.tobytes() and farthest(a, b) for a, b in pairs]
        return different | ({"bits": (0, max(apart))} if any(apart) else {})


def farthest(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """Units in the last place between the most distant floats of two arrays; infinite where others differ."""
    wrong, distance = disagreements(ours, theirs, 0)
    return float(distance.max()) if distance is not None and len(wrong) else float("inf")


def described(report: Report) -> dict[str, Any]:
    """What must be equal of two reports."""
    findings = {severity: [f for f in report.findings if f.severity == severity] for severity in ("error", "warning")}
    return {
        "verdict": report.verdict,
        **{f"{severity} codes": {f.code for f in some} for severity, some in findings.items()},
        **{f"{severity} places": {places(f) for f in some} for severity, some in findings.items()},
        # compilers copy code, and a launch need not run each copy of a barrier: that note may differ
        "notes": sum(report.unreached is None or note != unreached_note(report.unreached) for note in report.notes),
        **{name: getattr(report.counters, name) for name in COUNTERS},
    }


def places(finding: Finding) -> tuple[str, frozenset[int]]:
    """A finding's code and the lines that it leads to."""
    return finding.code, frozenset(site.line for site in finding.sites if site.primary)


def unexplained(differences: dict[str, tuple[Any, Any]], reasons: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """The differences that none of the reasons allows."""
    changes = [CHANGES[reason] for reason in reasons]
    others = {what for change in changes for what in change.others}
    fewer = {what for change in changes for what in change.fewer}
    more = {what for change in changes for what in change.more}

    def allowed(what: str, ours: Any, theirs: Any) -> bool:
        if what in COUNTERS:
            return what in (fewer if theirs < ours else more)
        if what == "bits":
            return what in others and (theirs <= ULPS or "library" not in reasons)
        if what == "error codes":
            return bool(ours ^ theirs <= others)
        if what == "error places":
            return what in others or {code for code, _ in ours ^ theirs} <= others
        if what in ("verdict", "notes") and what not in others:  # what follows from the only error
            return "error codes" in differences and not differences["error codes"][1]
        return what in others

    return {what: pair for what, pair in differences.items() if not allowed(what, *pair)}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_ptx_of_a_program_does_what_its_source_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    compiler, needed = Compiler(), set()
    launches = launches_of(path)
    assert launches
    for launched in launches:
        name = f"{path.relative_to(ROOT)} {launched.kernel.__name__}"
        differences = compiler.differences(launched)
        assert not unexplained(differences, CHANGED.get(name, ())), name
        needed |= {name} if differences else set()
    explained = {name for name in CHANGED if name.startswith(f"{path.relative_to(ROOT)} ")}
    assert needed - BY_RELEASE == explained - BY_RELEASE


@pytest.mark.parametrize("name", TRANSFERS)
def test_the_ptx_of_a_transfer_does_what_its_source_does(name: str) -> None:
    pattern, options = TRANSFERS[name]
    with recorded() as launches:
        wsemu.check_transfer(pattern, **options)
    compiler = Compiler()
    for launched in launches:
        assert not unexplained(compiler.differences(launched), ("inlined",))


@cuda.jit
def every_kind(x, matrix, pair, number, flag, small, big, out):
    i = cuda.grid(1)
    if i < x.size:
        total = x[i] + matrix[i % 2, 1] + pair[0] + pair[1][i] + number.real * number.imag + small + big
        out[i] = total if flag else 0.0


def test_arguments_of_every_kind_are_passed_as_numba_passes_them() -> None:
    x, columns = np.arange(40.0)[::2], np.arange(6, dtype=np.int16).reshape(2, 3).T
    out = np.zeros(20)
    arguments = x, columns, (3, np.ones(20, np.float32)), 1 + 2j, True, np.int8(-7), 2**40, out
    with recorded() as launches:
        every_kind[2, 16](*arguments)
    assert not Compiler().differences(launches[0])
    assert out[19] == 38 + 4 + 3 + 1 + 2 - 7 + 2**40
