"""Bytes that are loaded through the read-only cache must not be written by the launch."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.machine.vm import Machine
from wsemu.model.errors import KernelError


def codes(report):
    return [finding.code for finding in report.findings if finding.severity == "error"]


def both(kernel, block, *arguments, grid=1, **options):
    """The report, the same one on both engines."""
    reports = [
        wsemu.check(
            kernel,
            grid,
            block,
            [a.copy() if isinstance(a, np.ndarray) else a for a in arguments],
            engine=engine,
            **options,
        )
        for engine in ("vm", "reference")
    ]
    one, other = (report.model_dump(exclude={"seconds"}) for report in reports)
    assert one == other
    return reports[0]


@cuda.jit
def before(x, y):
    t = cuda.threadIdx.x
    y[t] = ptx.ld_nc(x, t)
    x[t] = 1


@cuda.jit
def after(x, y):
    t = cuda.threadIdx.x
    x[t] = 1
    cuda.syncthreads()
    y[t] = ptx.ld_nc(x, t)


@cuda.jit
def atomically(x, y):
    t = cuda.threadIdx.x
    cuda.atomic.add(x, t, 1)
    cuda.syncthreads()
    y[t] = ptx.ld_nc(x, t)


@cuda.jit
def pairs(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = ptx.ld_v2_nc(x, 2 * t)[1]
    cuda.syncthreads()
    if t == 40:
        x[5] = 1


@cuda.jit
def quads(x, y):
    t = cuda.threadIdx.x
    y[t] = ptx.ld_v4_nc(x, 4 * (t % 4))[1]
    x[t] = 1


@cuda.jit
def words(x, y):
    t = cuda.threadIdx.x
    y[t] = ptx.ld_bytes(x, 4 * t, 4, "nc")[0]
    x[t] = 1


@pytest.mark.parametrize("kernel", [before, after, atomically, pairs, quads, words], ids=lambda k: k.__name__)
def test_a_write_is_found_whoever_makes_it_and_when(kernel):
    report = both(kernel, 64, np.zeros(64, np.int32), np.zeros(64, np.int32))
    assert "read-only-written" in codes(report)
    found = next(finding for finding in report.findings if finding.code == "read-only-written")
    lines = [site.line for site in found.sites]
    assert len(lines) == 2
    assert lines[0] != lines[1]
    assert found.schedule


@cuda.jit
def neighbour(x, y, loads, stores):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == loads:
        y[t] = ptx.ld_nc(x, t)
    if cuda.blockIdx.x == stores:
        x[t] = 1


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"checkers": ["read-only"]}], ids=str)
@pytest.mark.parametrize(("loads", "stores"), [(0, 3), (3, 0), (1, 2)])
def test_it_does_not_matter_which_cta_comes_first(loads, stores, options):
    report = both(neighbour, 32, np.zeros(32, np.int32), np.zeros(32, np.int32), loads, stores, grid=4, **options)
    assert "read-only-written" in codes(report)
    (found,) = [finding for finding in report.findings if finding.code == "read-only-written"]
    assert [site.cta for site in found.sites] == [(loads, 0, 0), (stores, 0, 0)]
    assert "128 bytes in all, the first at `x[0]`" in found.notes[0]


@cuda.jit
def beside(x):
    t = cuda.threadIdx.x
    x[2 * t] = ptx.ld_nc(x, 2 * t + 1)


def test_bytes_beside_those_that_are_written_are_read_only():
    assert both(beside, 32, np.zeros(64, np.int16)).verdict == "verified"


def test_an_array_by_two_names_is_one():
    x = np.zeros(64, np.int32)
    for engine in ("vm", "reference"):
        assert "read-only-written" in codes(wsemu.check(before, 1, 32, (x[:32], x[:32]), engine=engine))
        assert "read-only-written" not in codes(wsemu.check(others, 1, 32, (x[:32], x[32:]), engine=engine))


@cuda.jit
def others(x, y):
    t = cuda.threadIdx.x
    y[t] = ptx.ld_nc(x, t)


def test_it_is_not_looked_for_where_its_checker_is_off():
    report = both(after, 64, np.zeros(64, np.int32), np.zeros(64, np.int32), checkers=["race"])
    assert report.verdict == "verified"
    assert report.proof.startswith("looked for race alone")


def test_what_is_not_in_global_memory_has_no_read_only_cache():
    @cuda.jit
    def of_shared(y):
        tile = cuda.shared.array(32, np.int32)
        tile[cuda.threadIdx.x] = 1
        y[cuda.threadIdx.x] = ptx.ld_nc(tile, cuda.threadIdx.x)

    with pytest.raises(KernelError, match="`tile`, which is in shared memory"):
        wsemu.check(of_shared, 1, 32, (np.zeros(32, np.int32),))


@cuda.jit
def plain(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]


@pytest.mark.parametrize(("kernel", "noted"), [(plain, False), (others, True)])
def test_only_programs_with_such_loads_note_accesses(kernel, noted, monkeypatch):
    machines = []
    original = Machine.run

    def watched(self, *arguments, **options):
        machines.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(Machine, "run", watched)
    wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32), np.zeros(32, np.int32)))
    assert [bool(machine.marks) for machine in machines] == [noted]


PTX = """\
.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    {}
    ret;
}}
"""


def of_ptx(body, tmp_path):
    """The codes of a kernel with this body in a launch of one thread."""
    path = tmp_path / "k.ptx"
    path.write_text(PTX.format(body))
    return codes(both(wsemu.load_ptx(path)["k"], 1, np.zeros(32, np.int32), np.zeros(4, np.int32)))


@pytest.mark.parametrize(("offset", "expected"), [(0, ["read-only-written"]), (8, ["read-only-written"]), (12, [])])
def test_loaded_bytes_that_are_not_used_may_be_written(offset, expected, tmp_path):
    body = (
        '.pragma "used_bytes_mask 4095";'
        "ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];"
        f"st.global.u32 [%rd1+{offset}], %r1; st.global.u32 [%rd2], %r1;"
    )
    assert of_ptx(body, tmp_path) == expected


@pytest.mark.parametrize(
    ("atomic", "expected"),
    [
        ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", []),
        ("atom.global.or.b32 %r2, [%rd1], 0;", []),
        ("atom.global.and.b32 %r2, [%rd1], -1;", []),
        ("atom.global.add.u64 %rd3, [%rd1], 0;", []),
        ("atom.global.cas.b32 %r2, [%rd1], 5, 5;", []),
        ("red.global.add.u32 [%rd1], 0;", []),
        ("atom.global.cas.b32 %r2, [%rd1], 5, 6;", ["read-only-written"]),
        ("atom.global.and.b32 %r2, [%rd1], 0;", ["read-only-written"]),
        ("atom.global.or.b32 %r2, [%rd1], 1;", ["read-only-written"]),
        ("atom.global.exch.b32 %r2, [%rd1], 0;", ["read-only-written"]),
    ],
)
def test_an_atomic_that_leaves_memory_as_it_is_writes_nothing(atomic, expected, tmp_path):
    assert of_ptx(f"ld.global.nc.u32 %r1, [%rd1]; {atomic} st.global.u32 [%rd2], %r1;", tmp_path) == expected


@pytest.mark.parametrize("lanes", ["%r1", "0", "%r2"])
def test_an_access_that_goes_to_another_space_is_left_out(lanes):
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{ .reg .b64 %rd<5>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; xor.b32 %r2, %r1, 5;
  mul.wide.u32 %rd3, {lanes}, 4; add.u64 %rd4, %rd1, %rd3; ld.global.nc.u32 %r3, [%rd4];
  st.shared.u32 [%rd4], %r3; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r3; ret; }}
"""
    report = both(wsemu.load_ptx(text)["k"], 32, np.zeros(32, np.int32), np.zeros(32, np.int32))
    assert codes(report) == ["out-of-bounds"]
