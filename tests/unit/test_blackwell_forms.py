"""Instructions that came with sm_100: accesses of 256 bits, reductions of floats in a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES = ["vm", "reference"]
TEXT = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{{
  .reg .b32 %t, %r<9>; .reg .b64 %x<5>, %from, %to, %o; .reg .f32 %f<3>;
  ld.param.u64 %from, [source]; ld.param.u64 %to, [result];
  mov.u32 %t, %tid.x;
  {body}
  ret;
}}
"""
MOVES = {
    "v8": """mul.wide.u32 %o, %t, 32; add.u64 %from, %from, %o; add.u64 %to, %to, %o;
  ld.global.v8.b32 {{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}}, [%from{off}];
  st.global.v8.b32 [%to{off}], {{%r8,%r7,%r6,%r5,%r4,%r3,%r2,%r1}};""",
    "v4": """mul.wide.u32 %o, %t, 32; add.u64 %x1, %from, %o; add.u64 %to, %to, %o;
  ld.global.v4.b64 {{%x1,%x2,%x3,%x4}}, [%x1{off}];
  st.global.v4.b64 [%to{off}], {{%x4,%x3,%x2,%x1}};""",
}


def run(body: str, source: Any, result: Any, engine: Engine) -> Any:
    kernel = wsemu.load_ptx(TEXT.format(body=body))["k"]
    return wsemu.check(kernel, 1, 32, [source, result], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", MOVES)
def test_an_access_of_256_bits(form: str, engine: Engine):
    source = np.arange(32 * 8, dtype=np.uint32)
    result = np.zeros_like(source)
    assert run(MOVES[form].format(off=""), source, result, engine).verdict == "verified"
    wide = np.uint32 if form == "v8" else np.uint64
    rows = source.view(wide).reshape(32, -1)
    assert (result.view(wide).reshape(32, -1) == rows[:, ::-1]).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", MOVES)
def test_an_access_of_256_bits_that_is_not_aligned(form: str, engine: Engine):
    source = np.zeros(33 * 8, np.uint32)
    report = run(MOVES[form].format(off="+16"), source, np.zeros_like(source), engine)
    assert {finding.code for finding in report.findings} == {"undefined-behavior"}


def reduce(values: Any, what: str, flags: str) -> int:
    """Return the bits of the result, by the text of PTX."""
    some = np.abs(values) if "abs" in flags else values
    nan = np.isnan(some)
    if nan.all() or ("NaN" in flags and nan.any()):
        return 0x7FFFFFFF
    kept = some[~nan]
    order = sorted(kept.tolist(), key=lambda x: (x, not np.signbit(x)))
    return int(np.float32(order[0 if what == "min" else -1]).view(np.uint32))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", ["min", "max"])
@pytest.mark.parametrize("flags", ["", ".abs", ".NaN", ".abs.NaN"])
def test_a_reduction_of_floats(what: str, flags: str, engine: Engine):
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((5, 32)).astype(np.float32)
    rows[1, 3], rows[2, :] = np.nan, -np.nan
    rows[3, :] = np.where(generator.random(32) < 0.5, np.float32(-0.0), np.float32(0.0))
    rows[4, 5], rows[4, 7] = -np.inf, np.inf
    body = f"""mul.wide.u32 %o, %t, 4; add.u64 %from, %from, %o; add.u64 %to, %to, %o;
  ld.global.f32 %f1, [%from]; redux.sync.{what}{flags}.f32 %f2, %f1, 0xffffffff; st.global.f32 [%to], %f2;"""
    for row in rows:
        result = np.zeros(32, np.uint32)
        assert run(body, row.copy(), result, engine).verdict == "verified"
        assert set(result.tolist()) == {reduce(row, what, flags)}


@pytest.mark.parametrize(("target", "version", "needs"), [("sm_90", "8.8", "sm_100"), ("sm_100a", "8.7", "PTX 8.8")])
@pytest.mark.parametrize("form", MOVES)
def test_an_access_of_256_bits_needs_its_target_and_version(form: str, target: str, version: str, needs: str):
    """Its test of the address is no reason to take it for an instruction that is not modelled."""
    text = TEXT.format(body=MOVES[form].format(off="")).replace("sm_100a", target).replace("8.8", version)
    with pytest.raises(KernelError, match=needs):
        wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, [np.zeros(256, np.uint32), np.zeros(256, np.uint32)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", ["b8", "u16"])
def test_eight_small_elements_are_not_modeled(type_: str, engine: Engine):
    body = f"ld.global.v8.{type_} {{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}}, [%from];"
    report = run(body, np.zeros(64, np.uint32), np.zeros(64, np.uint32), engine)
    assert report.verdict == "incomplete"
    assert f"ld.global.v8.{type_}` is not modelled" in report.notes[0]
