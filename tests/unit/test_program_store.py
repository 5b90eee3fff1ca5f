"""Programs of long PTX texts are kept from one process to the next, and only where that is safe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import lower
from wsemu.launch.ptx import program_store
from wsemu.machine import cache
from wsemu.proof import taint

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 out, .param .u32 factor)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [factor];
    mov.u32 %r2, %tid.x;
    mul.lo.u32 %r3, %r2, %r1;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
LONG = TEXT + "// a comment of a compiler\n" * (program_store.MIN_TEXT // 26)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    launch(TEXT)  # the VM comes from the folder of all tests
    place = tmp_path / "cache"
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(place))
    return place


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were compiled."""
    names: list[str] = []
    compile_entry = lower.compile_entry

    def noting(module: Any, entry: Any, *arguments: Any, **named: Any) -> Any:
        names.append(entry.name)
        return compile_entry(module, entry, *arguments, **named)

    monkeypatch.setattr(lower, "compile_entry", noting)
    return names


def launch(text: str) -> wsemu.Report:
    """Check a launch of a text that a new process would read."""
    program_store.open_store.cache_clear()
    out = np.zeros(32, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["scale"], 1, 32, (out, 3))
    assert out.tolist() == [3 * n for n in range(32)]
    return report


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("program-*.bin"))


def test_a_long_text_is_compiled_once(folder: Path, compiled: list[str]) -> None:
    first = launch(LONG)
    assert len(kept(folder)) == 2
    second = launch(LONG)
    assert compiled == ["scale"]
    assert (first.verdict, first.counters, first.findings) == ("verified", second.counters, second.findings)
    launch(LONG.replace("mul.lo.u32 %r3, %r2, %r1", "mul.lo.s32 %r3, %r1, %r2"))
    assert compiled == ["scale", "scale"]


def test_a_short_text_is_not_kept(folder: Path, compiled: list[str]) -> None:
    launch(TEXT)
    launch(TEXT)
    assert (compiled, kept(folder)) == (["scale", "scale"], [])


@pytest.mark.parametrize("damage", ["torn", "changed", "open", "version"])
def test_a_file_that_cannot_be_trusted_is_made_again(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    launch(LONG)
    for file in kept(folder):
        data = file.read_bytes()
        if damage == "torn":
            file.write_bytes(data[:-40])
        elif damage == "changed":
            file.write_bytes(data[:-40] + b"x" + data[-39:])
        elif damage == "open":
            file.chmod(0o666)
    if damage == "version":
        monkeypatch.setattr(cache, "package_state", lambda: b"another")
    launch(LONG)
    assert compiled == ["scale", "scale"]


def test_a_folder_where_others_may_write_keeps_nothing(folder: Path, compiled: list[str]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    launch(LONG)
    launch(LONG)
    assert (compiled, kept(folder)) == (["scale", "scale"], [])


def test_a_source_that_changes_has_the_text_compiled_again(
    folder: Path, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "scale.cu"
    source.write_text("__global__ void scale(unsigned *out, unsigned factor)\n")
    text = LONG.replace("    ld.param.u64", "    .loc 1 1 0\n    ld.param.u64", 1) + f'.file 1 "{source}"\n'
    launch(text)
    launch(text)
    assert compiled == ["scale"]
    source.write_text("__global__ void scale(unsigned *result, unsigned factor)\n")
    launch(text)
    assert compiled == ["scale", "scale"]


def test_the_oldest_programs_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_PROGRAMS", 3)
    for number in range(4):
        launch(LONG + f"// {number}\n")
        for file in kept(folder):
            os.utime(file, (file.stat().st_atime - 10, file.stat().st_mtime - 10))
    assert len(kept(folder)) == 3


def test_what_launches_did_is_not_kept(folder: Path) -> None:
    kernel = wsemu.load_ptx(LONG)["scale"]
    out = np.zeros(32, np.uint32)
    assert wsemu.check(kernel, 1, 32, (out, 3)).verdict == "verified"
    (program,) = kernel._programs.values()
    assert "work" in program.derived
    program_store.open_store.cache_clear()
    again = wsemu.load_ptx(LONG)["scale"]
    fitted = again.fit((out, 3))
    assert "work" not in again.program(fitted, fma=True).derived


def test_edits_that_are_tried_are_not_kept(folder: Path) -> None:
    kernel = wsemu.load_ptx(LONG)["scale"].with_text(LONG.replace("%tid.x", "%laneid"))
    out = np.zeros(32, np.uint32)
    kernel.keep(kernel.program(kernel.fit((out, 3)), fma=True))
    assert kept(folder) == []


def test_a_program_whose_variables_have_values_is_kept(folder: Path, compiled: list[str]) -> None:
    text = (
        """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 number;
.visible .entry add(.param .u64 x) {
    .reg .b64 %a<2>; .reg .b32 %r<2>;
    ld.param.u64 %a1, [x];
    ld.global.u32 %r1, [number];
    st.global.u32 [%a1], %r1;
    ret;
}
"""
        + "// a comment of a compiler\n" * (program_store.MIN_TEXT // 26)
    )
    for value in (3, 4):
        module = wsemu.load_ptx(text)
        module.set(number=np.uint32(value))
        x = np.zeros(1, np.uint32)
        assert wsemu.check(module["add"], 1, 1, (x,)).verdict == "verified"
        assert x[0] == value
        program_store.open_store.cache_clear()
    assert compiled == ["add"]


COUNTING = (
    """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 unused;
.visible .entry count(.param .u64 x) {
    .reg .b64 %a<3>; .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.u64 %a1, [x];
    mov.u32 %r1, %tid.x;
    atom.global.add.u32 %r2, [%a1], 1;
    setp.eq.u32 %p1, %r1, 40;
    @%p1 mov.u32 %r3, %r2;
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a2, %a1, %a2;
    st.global.u32 [%a2+4], %r3;
    ret;
}
"""
    + "// a comment of a compiler\n" * (program_store.MIN_TEXT // 26)
)


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The analyses of influence that were performed."""
    names: list[str] = []
    analyze = taint.Analysis.__init__

    def noting(self: taint.Analysis, *arguments: Any, **named: Any) -> None:
        names.append(type(self).__name__)
        analyze(self, *arguments, **named)

    monkeypatch.setattr(taint.Analysis, "__init__", noting)
    return names


def count(*, lockstep: bool = False) -> wsemu.Report:
    """Check a launch of a text that a new process would read; it uses none of the variables with values."""
    program_store.open_store.cache_clear()
    module = wsemu.load_ptx(COUNTING)
    module.set(unused=np.uint32(1))
    return wsemu.check(module["count"], 1, 32, (np.zeros(64, np.uint32),), lockstep=lockstep)


def test_a_second_process_performs_no_analysis_of_the_code(folder: Path, analyses: list[str]) -> None:
    first = count()
    assert analyses
    analyses.clear()
    second = count()
    assert analyses == []
    assert (first.verdict, first.counters, first.notes) == (second.verdict, second.counters, second.notes)


def test_results_of_later_launches_are_added_to_the_file(folder: Path, analyses: list[str]) -> None:
    count()
    analyses.clear()
    count(lockstep=True)
    assert analyses
    analyses.clear()
    count(lockstep=True)
    assert analyses == []
