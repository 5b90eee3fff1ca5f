"""What was found stays found: beside findings that are accepted, beside notes, after an edit, in a cross-check."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.launch.crosscheck import emulate
from wsemu.model import settings
from wsemu.model.launch_shape import configure

ENGINES = ("vm", "reference")


@cuda.jit
def narrowed_mask(c):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(np.uint32(np.uint16(mask))) - 1:  # nobody, where lanes 16-31 are active alone
        cuda.atomic.add(c, 0, cuda.popc(mask))


@cuda.jit
def whole_mask(c):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(c, 0, cuda.popc(mask))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kernel", "verdict"), [(narrowed_mask, "incomplete"), (whole_mask, "verified")])
def test_a_mask_that_was_cut_off_elects_nobody_for_certain(kernel, verdict, engine):
    assert wsemu.check(kernel, 1, 32, (np.zeros(1, np.int32),), engine=engine).verdict == verdict


@cuda.jit
def one_word_written(y):
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    if t < 32:
        y[t] = tile[t]
    elif t == 32:
        tile[0] = 5  # wsemu: ignore[race] on purpose


@pytest.mark.parametrize("engine", ENGINES)
def test_reads_of_what_nothing_writes_are_not_accepted_with_a_race(engine):
    report = wsemu.check(one_word_written, 1, 64, (np.zeros(64, np.int32),), engine=engine)
    assert [finding.code for finding in report.errors] == ["uninitialized-read"]
    assert [entry.finding.code for entry in report.suppressed] == ["race"]


SAME_VALUES = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %q<2>; .reg .b16 %h<2>;
  ld.param.u64 %rd1, [p]; mov.u32 %r1, %laneid; mov.u16 %h1, 7; setp.lt.u32 %q1, %r1, 16;
  {stores}
  @%q1 shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff;
  st.global.u32 [%rd1+8192], %r1;
  ret;
}}
"""


@pytest.mark.parametrize("strict", [False, True])
def test_notes_take_no_room_from_what_decides(tmp_path, strict):
    file = tmp_path / "k.ptx"
    file.write_text(SAME_VALUES.format(stores="\n  ".join(f"st.global.u8 [%rd1+{n}], %h1;" for n in range(4200))))
    kernel = wsemu.load_ptx(file)["k"]
    report = wsemu.check(kernel, 1, 32, (np.zeros(4096, np.uint32),), strict=strict)
    assert report.verdict != "verified"
    assert "undefined-shuffle" in {finding.code for finding in report.findings}


NUMBERS = cuda.to_device(np.arange(64, dtype=np.int32))


@cuda.jit
def named_and_given(x, y):
    i = cuda.grid(1)
    x[i] = i + 100
    y[i] = NUMBERS[63 - i]


def test_a_cross_check_sees_arrays_that_are_one_and_leaves_them_as_they_were():
    y = np.zeros(64, np.int32)
    emulated = emulate(named_and_given, configure(1, 64), (NUMBERS, y))
    assert emulated.report.verdict == "failed"
    assert NUMBERS.copy_to_host().tolist() == list(range(64))
    assert not y.any()


def test_what_explains_a_finding_is_the_source_of_the_launch():
    text = "@cuda.jit\ndef k(x):\n    t = cuda.threadIdx.x\n    x[t] = x[63 - t] + 1\n"
    name = "<edited later>"
    space: dict[str, Any] = {"cuda": cuda}
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), space)
    report = wsemu.check(space["k"], 1, 64, (np.zeros(64, np.int32),))
    edited = "# a line more\n" * 3 + text
    linecache.cache[name] = (len(edited), None, edited.splitlines(keepends=True), name)
    assert any("x[63 - t]" in finding.message or "x[t]" in finding.message for finding in report.findings)


def test_a_finding_is_whole_before_it_was_looked_at():
    def found() -> wsemu.Finding:
        return wsemu.check(named_and_given, 1, 64, (NUMBERS, np.zeros(64, np.int32))).findings[0]

    assert set(dict(found())) == set(wsemu.Finding.model_fields)
    assert found().model_dump(exclude_unset=True)["message"]


@cuda.jit
def one_more(y, n):
    y[cuda.threadIdx.x + n] = 1


@pytest.mark.parametrize("checkers", [("bounds",), ("bounds", "race")], ids=" ".join)
def test_a_launch_knows_nothing_of_the_one_before(checkers):
    """The tables of findings are kept for the next launch."""

    def said(n):
        report = wsemu.check(one_more, 1, 32, (np.zeros(32, np.int32), n))
        return report.model_dump(exclude={"seconds"})

    with settings.using(settings.Settings(checkers=frozenset(checkers))):
        (wrong, right), *others = [(said(1), said(0)) for _ in range(3)]
    assert ([finding["code"] for finding in wrong["findings"]], right["findings"]) == (["out-of-bounds"], [])
    assert others == [(wrong, right)] * 2
