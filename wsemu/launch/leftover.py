"""Find state that an earlier launch left in memory, such as a counter or flag that nothing reset.

This applies if a launch fails and an earlier launch of the same kernel with similar arguments was verified.  If the
failing launch is also verified once an array has the contents that the earlier launch found, these contents are the
cause.  Only arrays on which the kernel has atomics are tried, one at a time, in a run on copies.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch import passed
from wsemu.launch.examined import judge_run, ran_with_orders
from wsemu.launch.footprint import possible_accesses
from wsemu.model.isa import FIRST_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.launch.examined import Examined
    from wsemu.launch.result import Report
    from wsemu.model.bound import BoundArray

    Memory = np.ndarray[Any, np.dtype[np.uint8]]

CODES = frozenset(("deadlock", "out-of-bounds", "failed-assertion"))
"""errors to which a counter with an unexpected value leads"""
MAX_TRIED = 4
"""the most arrays to try"""


def name_leftover(report: Report, kernel: Any, arguments: Sequence[Any], done: Examined) -> Report:
    """Return the report with a note at its first error that state of an earlier launch explains, if there is one."""
    wrong = next((n for n, one in enumerate(report.findings) if one.code in CODES), None)
    earlier = passed.find_alike(kernel, done.bound.configuration, arguments)
    if wrong is None or earlier is None or done.initial is None:
        return report
    before = done.initial()
    for array in _changed_arrays(earlier, done, before):
        if _passes_with(kernel, done, before, array, earlier["before"]):
            findings = [*report.findings]
            note = _describe(array, earlier, before)
            findings[wrong] = findings[wrong].model_copy(
                update={"notes": [*findings[wrong].notes, note], "help": f"reset `{array.name}` before each launch"}
            )
            return report.model_copy(update={"findings": findings})
    return report


def _changed_arrays(earlier: dict[str, Any], done: Examined, before: Sequence[Memory | None]) -> Iterator[BoundArray]:
    """Yield arrays of both launches that have atomics, and other contents than when the earlier one began."""
    atomic = {n for n, kinds in possible_accesses(done.bound, done.places).items() if "atomic" in kinds}
    tried = 0
    for old, new in zip(earlier["bound"].arrays, done.bound.arrays, strict=False):
        n = new.segment - FIRST_ARRAY
        if new.segment not in atomic or old != new or tried == MAX_TRIED:
            continue
        was, now = earlier["before"][n], before[n]
        if was is not None and now is not None and not np.array_equal(was, now):
            tried += 1
            yield new


def _passes_with(
    kernel: Any, done: Examined, before: Sequence[Memory | None], array: BoundArray, earlier: Sequence[Memory | None]
) -> bool:
    """Return whether the launch is verified if an array has its contents from before the earlier launch."""
    contents = [*before]
    contents[array.segment - FIRST_ARRAY] = earlier[array.segment - FIRST_ARRAY]
    segments = [(np.array(data), writable) for data, (_, writable) in zip(contents, done.bound.segments, strict=True)]
    bound = done.bound._replace(segments=segments)
    run, orders = ran_with_orders(bound, None, tried=True)
    return judge_run(kernel, bound, (), run, time.perf_counter(), None, orders, tried=True).report.verdict == "verified"


def _describe(array: BoundArray, earlier: dict[str, Any], before: Sequence[Memory | None]) -> str:
    """Return a note with the first element that differs."""
    was, now = _elements(array, earlier["before"]), _elements(array, before)
    at = next(n for n, (one, other) in enumerate(zip(was, now, strict=True)) if repr(one) != repr(other))
    where = f"line {earlier['site'][1]}" if earlier["site"] else "an earlier line"
    name = f"{array.name}[{', '.join(map(str, np.unravel_index(at, array.shape)))}]"
    return (
        f"`{name}` is {now[at]} when this launch begins, and was {was[at]} when the launch at {where} began: with the "
        "earlier value, this launch is verified"
    )


def _elements(array: BoundArray, data: Sequence[Memory | None]) -> list[Any]:
    """Return the elements of an array in memory that holds `data`."""
    memory = data[array.segment - FIRST_ARRAY]
    found: list[Any] = np.ndarray(array.shape, array.dtype, memory, array.offset, array.strides).ravel().tolist()
    return found
