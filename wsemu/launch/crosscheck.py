"""`crosscheck`: compare the emulator with a GPU, on the same kernel and the same arguments.

The launch is emulated and checked first.  Unless `force` is set, only a `verified` launch is sent to a GPU, because a
deadlock would hang it.  Then every array is compared bit for bit.  Only if the kernel calls functions of the
mathematical library, whose results IEEE 754 does not fix, may floats differ within a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from wsemu.backends import driver, gpu_process
from wsemu.backends.gpu_process import copy_arguments, find_arrays
from wsemu.launch.check import examine
from wsemu.launch.code import Code
from wsemu.launch.compiled import as_declared, compile_for_types
from wsemu.launch.result import Report
from wsemu.model import settings
from wsemu.model.data import dataclass
from wsemu.model.device_array import DeviceArray
from wsemu.model.errors import UsageError, WsemuError, hide_internal_frames
from wsemu.model.file_names import short
from wsemu.model.isa import BINARY_FUNCTIONS, NAMES, OPERATIONS, UNARY_FUNCTIONS
from wsemu.model.launch_shape import LaunchConfiguration, configure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.launch.kernel import Kernel, Launchable
    from wsemu.model.launch_shape import Size
    from wsemu.model.program import Program

ULPS = 4
"""maximum difference of floats, in units in the last place, if a kernel calls the mathematical library: CUDA states up
to 4 for nearly all float32 and float64 functions"""
SECONDS = 30.0
"""maximum seconds of a launch on the GPU"""
SHOWN = 5
"""differences of an array that are shown"""
LIBRARY = frozenset((*UNARY_FUNCTIONS, *BINARY_FUNCTIONS))
Status = Literal["same", "differs", "refused", "failed"]


class Difference(BaseModel):
    """An element on which the emulator and the GPU disagree."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    array: str
    index: tuple[int, ...]
    emulated: str
    gpu: str
    ulps: int | None = None
    """distance between two floats in units in the last place"""
    place: str = ""
    """`file.py:12` of the store that wrote it here, as far as that is known"""

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        distance = "" if self.ulps is None else f", {self.ulps} ulp apart"
        stored = self.place and f" (stored at {self.place})"
        return f"{self.array}[{index}]: emulator {self.emulated}, GPU {self.gpu}{distance}{stored}"


class CrossReport(BaseModel):
    """The result of a cross-check."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    status: Status
    report: Report
    """report of the emulator on the same launch"""
    launches: int = 0
    """number of launches on the GPU"""
    unequal: int = 0
    """number of these that differed from the first"""
    ulps: int = 0
    """allowed difference of floats, in units in the last place"""
    compared: int = 0
    """number of elements that were compared"""
    different: int = 0
    """number of elements that differ by more than allowed"""
    differences: list[Difference] = []
    """first differences that were found"""
    message: str = ""
    """reason for rejecting the launch, or the failure on the GPU"""

    def __str__(self) -> str:
        if self.status == "same":
            floats = "floats identical" if not self.ulps else f"floats within {self.ulps} ulp (library functions)"
            return f"{self.kernel}: integers and copies identical, {floats}, {self.launches} launches"
        if self.status == "differs":
            head = f"{self.kernel}: {self.different:,} of {self.compared:,} elements differ"
            if self.unequal:
                head += f"; {self.unequal} of {self.launches} launches on the GPU differ from its first"
            return "\n".join([head, *(f"  {difference}" for difference in self.differences)])
        return f"{self.kernel}: {self.status}: {self.message}"

    def assert_same(self) -> None:
        """Raise WsemuError with the first differences unless the two agree."""
        if self.status != "same":
            raise WsemuError(str(self))


@dataclass(frozen=True, slots=True)
class Emulated:
    """A launch that was emulated, with its arguments before and after."""

    kernel: Kernel
    configuration: LaunchConfiguration
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    report: Report


@hide_internal_frames
def crosscheck(
    kernel: Launchable | Callable[..., object],
    grid: Size,
    block: Size,
    args: Sequence[Any] = (),
    *,
    launches: int = 20,
    dynamic_shared: int = 0,
    cluster: Size | None = None,
    ulps: int = ULPS,
    seconds: float = SECONDS,
    force: bool = False,
) -> CrossReport:
    """Emulate and check `kernel[grid, block](*args)`, run it `launches` times on the GPU, and compare every array.

    The arrays in `args` stay unchanged.  `cluster` counts the CTAs of a cluster, `ulps` is the allowed difference of
    floats if the kernel calls library functions, `seconds` is the maximum time of a launch.  `force` also runs launches
    that are not `verified`.  Raise UsageError without a GPU.
    """
    if launches < 1:
        raise UsageError(f"{launches} launches: give 1 or more")
    configuration = configure(grid, block, 0, dynamic_shared, cluster)
    if isinstance(kernel, Code):
        configuration = kernel.apply_cluster(configuration)
    emulated = [emulate(kernel, configuration, args)]
    return compare(emulated, launches=launches, ulps=ulps, seconds=seconds, force=force)[0]


def emulate(kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> Emulated:
    """Run a launch on the emulator.  Arguments, and device arrays that the kernel names, keep their contents."""
    given = as_declared(kernel, arguments)
    before = copy_arguments(given)
    program, _, _ = compile_for_types(kernel, given, settings.current().fma)
    named = [array.array for array in program.constant_arrays if array.live]
    kept = [(a, np.array(a, order="K")) for _, _, a in find_arrays((*given, *named))]
    blank = [(a.written, a.written.nothing, a.written.marks) for a, _ in kept if isinstance(a, DeviceArray) and a.blank]
    try:  # used in place: arrays may share memory with each other and with arrays that the kernel refers to by name
        report = examine(kernel, configuration, given, settings.current())
        after = copy_arguments(given)
    finally:
        for array, data in kept:
            if array.flags.writeable:
                array[...] = data
        for written, nothing, marks in blank:
            written.nothing, written.marks = nothing, marks
    return Emulated(kernel, configuration, before, after, report)


def compare(
    emulated: Sequence[Emulated],
    *,
    launches: int = 20,
    ulps: int = ULPS,
    seconds: float = SECONDS,
    force: bool = False,
    children: int = 1,
) -> list[CrossReport]:
    """Run launches on the GPU, in `children` child processes, and compare each result with that of the emulator."""
    wanted = [(force or e.report.verdict == "verified") and not _captured_arrays(e) for e in emulated]
    jobs = [
        gpu_process.GpuLaunch(_gpu_kernel(e), e.configuration, e.before, launches)
        for e, sent in zip(emulated, wanted, strict=True)
        if sent
    ]
    if any(not isinstance(job.kernel, driver.Entry) for job in jobs):
        require_gpu()
    elif jobs:
        require_driver()
    results = iter(gpu_process.run(jobs, seconds, children))
    return [
        _judge(e, next(results) if sent else None, launches, ulps) for e, sent in zip(emulated, wanted, strict=True)
    ]


def require_gpu() -> None:
    """Raise UsageError unless a GPU is usable.  A child process tests it, because a process that has used a GPU cannot
    fork."""
    from wsemu.backends import numba_cuda

    numba_cuda.numba_cuda()
    if not gpu_process.call(numba_cuda.available, SECONDS):
        raise UsageError("no GPU here that Numba-CUDA can use: run this on a machine with an NVIDIA GPU and its driver")


def require_driver() -> None:
    """Raise UsageError unless the driver can be used without Numba-CUDA."""
    if not gpu_process.call(driver.available, SECONDS):
        raise UsageError("no GPU here: run this on a machine with an NVIDIA GPU and its driver")


def _captured_arrays(emulated: Emulated) -> list[str]:
    """Return the device arrays that a kernel names: their memory belongs to this process, and they are not arguments,
    which could be copied."""
    if isinstance(emulated.kernel, Code):  # it says so itself
        return []
    program, _, _ = compile_for_types(emulated.kernel, emulated.before, settings.current().fma)
    return [array.name for array in program.constant_arrays if array.live]


def _gpu_kernel(emulated: Emulated) -> Any:
    """Return the part of a kernel that goes to the GPU."""
    kernel: Any = emulated.kernel
    return kernel.gpu_entry(emulated.before) if isinstance(kernel, Code) else kernel


def _judge(emulated: Emulated, result: Any, launches: int, ulps: int) -> CrossReport:
    report = emulated.report
    base = CrossReport(kernel=report.kernel, status="same", report=report, launches=launches)
    if result is None:
        message = f"the emulator says {report.verdict}; what is not verified could hang the GPU: repair it, or force it"
        captured = _captured_arrays(emulated)
        if captured:
            message = f"the kernel names the device array `{captured[0]}`: give it as an argument"
        return base.model_copy(update={"status": "refused", "message": message, "launches": 0})
    if result.error:
        return base.model_copy(update={"status": "failed", "message": result.error})
    program, names, _ = compile_for_types(emulated.kernel, emulated.before, settings.current().fma)
    allowed = ulps if calls_library(program) else 0
    compared, differing, first = 0, 0, []
    left = find_arrays(emulated.after)
    for number, gpu in result.arrays.items():
        k, way, ours = left[number]
        compared += ours.size
        wrong, distance = disagreements(ours, gpu, allowed)
        differing += len(wrong)
        for flat in wrong[:SHOWN]:
            index = tuple(int(i) for i in np.unravel_index(int(flat), ours.shape))
            first.append(
                Difference(
                    array=names[k] + way,
                    index=index,
                    emulated=str(ours[index]),
                    gpu=str(gpu[index]),
                    ulps=None if distance is None else int(distance[flat]),
                    place=_store_location(program, names[k]),
                )
            )
    bad = differing or result.unequal
    changes = {
        "status": "differs" if bad else "same", "unequal": result.unequal, "ulps": allowed, "compared": compared,
        "different": differing, "differences": first[:SHOWN],
    }  # fmt: skip
    return base.model_copy(update=changes)


def calls_library(program: Program) -> bool:
    """Return whether a kernel calls functions whose last bits IEEE 754 leaves open."""
    return any(NAMES[op].partition(".")[0] in LIBRARY for op in program.code[:, 0].tolist())


def disagreements(
    ours: npt.NDArray[Any], theirs: npt.NDArray[Any], ulps: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any] | None]:
    """Return the flat indices of the elements that differ, or that differ by more than `ulps`, and for floats their
    distances.

    All NaNs are equal, because their bits depend on the machine.
    """
    a, b = np.ascontiguousarray(ours).ravel(), np.ascontiguousarray(theirs).ravel()
    if a.dtype.kind == "c":
        part = np.float32 if a.dtype.itemsize == 8 else np.float64
        wrong, distance = disagreements(a.view(part), b.view(part), ulps)
        pairs = None if distance is None else distance.reshape(-1, 2).max(axis=1)
        return np.unique(wrong // 2), pairs
    if a.dtype.kind != "f":
        size = max(a.dtype.itemsize, 1)
        bits = (x.view(np.uint8).reshape(len(x), size) for x in (a, b))
        return np.flatnonzero(np.not_equal(*bits).any(axis=1)), None
    distance = _ulps_between(a, b)
    same = (np.isnan(a) & np.isnan(b)) | (distance <= ulps)
    return np.flatnonzero(~same), distance


def _ulps_between(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the number of representable steps between two floats. -0 and +0 are one step apart, so that they are
    distinguished."""
    size = a.dtype.itemsize
    most = (1 << (8 * size - 1)) - 1  # all bits but the sign
    bits = [f.view(f"i{size}").astype(np.int64) for f in (a, b)]
    x, y = (np.where(v >= 0, v, ~(v & most)) for v in bits)
    return np.where(x >= y, x.view(np.uint64) - y.view(np.uint64), y.view(np.uint64) - x.view(np.uint64))


def _store_location(program: Program, array: str) -> str:
    """Return the source location at which the program stores to an array, if there is exactly one."""
    found = set()
    for pc, op in enumerate(program.code[:, 0].tolist()):
        if OPERATIONS[NAMES[op]].kind in ("store", "atomic") and program.array_of[pc] == array:
            span = program.spans[program.span_of[pc]]
            found.add(f"{short(span.file)}:{span.line}")
    return " or ".join(sorted(found)) if len(found) <= 2 else ""


class Recorder:
    """Records the launches of a program while it runs, with their arguments before and after.  It is a hook of
    `check.around`."""

    def __init__(self) -> None:
        self.emulated: list[Emulated] = []

    def __call__(self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Any) -> Report:
        """Run a launch, and keep its arguments before and after."""
        before = copy_arguments(as_declared(kernel, arguments))
        report: Report = run()
        given = as_declared(kernel, arguments) if isinstance(kernel, Code) else arguments
        self.emulated.append(Emulated(kernel, configuration, before, copy_arguments(given), report))
        return report
