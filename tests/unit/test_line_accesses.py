"""Which lines of a program access the elements of an array that a copy may still write."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from wsemu.host.recorder import recorder
from wsemu.launch.hooks import adding_hook, observers
from wsemu.launch.result import Report

PROGRAM = """
import numpy as np
from wsemu import cuda

s = cuda.stream()
d, h = cuda.to_device(np.arange(64, dtype=np.float32)), cuda.pinned_array(64, np.float32)
d.copy_to_host(h, stream=s)
{line}
s.synchronize()
"""
ACCESSES = """
x = float(np.asarray(h)[0])
np.asarray(h)[0] = 1
h.reshape(8, 8)[1, 2] = 1
x = h.reshape(8, 8)[1].sum()
h.view(np.uint32)[3] += 1
x = h.T[4]
h.fill(3)
np.copyto(h, 3)
x = bytes(h)
x = list(map(float, h))
h[h > 3] = 0
a, b, *c = h
(a, b), c = h[:2], 1
a, b = h[0], h[1]
x = 3.0 in h
x = (lambda: h[0])()
x = sorted(range(3), key=lambda k: h[k])
x = {'a': h}['a'][0]
x = np.sum(h[8:16])
x = max(h[0], h[1])
x = f"{h[0]:.1f}"
x = [float(v) for v in h]
x = [*h]
x = (0, *h[:3])
x = (lambda *a: 0)(*h)
""".strip().splitlines()
NONE = """
x = np.asarray(h)
x = h.reshape(8, 8)
x = h.T
x = [h, h]
x = [*[h, h], *(d,)]
x = (lambda *a: 0)(*[h])
a, b = h, h
x = dict(a=h)
x = np.empty_like(h)
x = np.zeros(h.shape, h.dtype)
x = np.shares_memory(h, d)
f = lambda: h[0]
x = (lambda a: a.shape)(h)
x = h is None or isinstance(h, np.ndarray)
""".strip().splitlines()


def codes_of(line: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(line=line))
    reports: list[Report] = []
    recorder.reset()
    with adding_hook(observers, reports.append):
        runpy.run_path(str(file), run_name="__main__")
    return [finding.code for report in reports for finding in report.findings]


@pytest.mark.parametrize("line", ACCESSES)
def test_a_line_that_uses_elements_races_with_the_copy(line: str, tmp_path: Path) -> None:
    assert set(codes_of(line, tmp_path)) == {"host-race"}


@pytest.mark.parametrize("line", NONE)
def test_a_line_that_names_an_array_does_not(line: str, tmp_path: Path) -> None:
    assert codes_of(line, tmp_path) == []


ASYNCHRONOUS = """
import asyncio
import numpy as np
from wsemu import cuda

s = cuda.stream()
d, h = cuda.to_device(np.arange(64, dtype=np.float32)), cuda.pinned_array(64, np.float32)


async def main():
    d.copy_to_host(h, stream=s)
    done = s.async_done()
    cancelled = s.async_done()
    cancelled.cancel()
    early = h[0]  # wrong
    assert await asyncio.gather(done, s.async_done()) == [s, s]
    assert cancelled.cancelled() and h[3] == 3


asyncio.run(main())
"""


@pytest.mark.parametrize("right", [True, False])
def test_a_future_of_a_stream_waits_when_it_is_awaited(right: bool, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("\n".join(line for line in ASYNCHRONOUS.splitlines() if not (right and "# wrong" in line)))
    reports: list[Report] = []
    recorder.reset()
    with adding_hook(observers, reports.append):
        runpy.run_path(str(file), run_name="__main__")
    expected = [] if right else ["host-race"]
    assert [finding.code for report in reports for finding in report.findings] == expected
