"""Equal launches in a device memory share their binding and their judgment as long as the allocations stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import DeviceMemory, cuda, ptx
from wsemu.launch import examined, verdict
from wsemu.launch.binding import Packed

ADD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 x) {
    .reg .b64 %a<4>; .reg .b32 %r<4>;
    ld.param.u64 %a1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a3, %a1, %a2;
    ld.global.u32 %r2, [%a3];
    add.u32 %r3, %r2, 1;
    st.global.u32 [%a3], %r3;
    ret;
}
"""


@cuda.jit
def copy_unfenced(x, y, count):
    """Copy numbers in bulk, without a fence after the mbarrier's initialization."""
    tile, full = cuda.shared.array(32, np.float32), cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    if cuda.threadIdx.x < count:
        y[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


BLOCKS = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 size);
.visible .entry make(.param .u64 x) {
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [x];
    mov.u64 %a2, 64;
    {
        .param .b64 size; .param .b64 r;
        st.param.b64 [size], %a2;
        call.uni (r), malloc, (size);
        ld.param.b64 %a3, [r];
    }
    st.global.u64 [%a1], %a3;
    ret;
}
.visible .entry use(.param .u64 x) {
    .reg .b64 %a<3>; .reg .b32 %r; .reg .pred %p;
    ld.param.u64 %a1, [x];
    ld.global.u64 %a2, [%a1];
    setp.eq.u64 %p, %a2, 0;
    @%p bra done;
    mov.u32 %r, 3;
    st.u32 [%a2], %r;
done:
    ret;
}
"""


def kernel_of_elements(name: str, words: int, body: str) -> str:
    """Return PTX in which each thread loads its element of the first array to %r2; %a2 is that of the second one."""
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 given, .param .u64 out) {{
    .reg .b64 %a<5>; .reg .b32 %r<8>; .reg .pred %p;
    .shared .align 4 .b8 tile[{4 * words}];
    ld.param.u64 %a1, [given];
    ld.param.u64 %a2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a1, %a1, %a3;
    add.u64 %a2, %a2, %a3;
    ld.global.u32 %r2, [%a1];
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r1, 4, %r3;
{body}}}
"""


UNWRITTEN = kernel_of_elements(
    "unwritten",
    32,
    """    setp.ne.u32 %p, %r2, 0;
    ld.shared.u32 %r4, [%r3];
    selp.b32 %r5, %r4, 0, %p;
    st.global.u32 [%a2], %r5;
    ret;
""",
)

CLOCK_HERE = kernel_of_elements(
    "clock_here",
    64,
    """    mov.u32 %r4, 0;
    st.shared.u32 [%r3], %r4;
    st.shared.u32 [%r3+128], %r4;
    mov.u32 %r5, %clock;
    mad.lo.u32 %r6, %r2, 128, %r3;
    st.shared.u32 [%r6], %r5;
    ld.shared.u32 %r7, [%r3];
    setp.eq.u32 %p, %r7, 123456789;
    @%p bra done;
    st.global.u32 [%a2], %r1;
done:
    ret;
""",
)

CLOCK_IN_STRUCTURE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry clock_in_structure(.param .align 8 .b8 arrays[32]) {
    .reg .b64 %a<5>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %a1, [arrays];
    ld.param.u64 %a2, [arrays+8];
    ld.param.u64 %a3, [arrays+16];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a4, %r1, 4;
    add.u64 %a1, %a1, %a4;
    add.u64 %a2, %a2, %a4;
    add.u64 %a3, %a3, %a4;
    mov.u32 %r2, %clock;
    st.global.u32 [%a1], %r2;
    ld.global.u32 %r3, [%a2];
    setp.eq.u32 %p, %r3, 123456789;
    @%p bra done;
    st.global.u32 [%a3], %r1;
done:
    ret;
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    (tmp_path / "add.ptx").write_text(ADD)
    return wsemu.load_ptx(tmp_path / "add.ptx")["add"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The numbers of launches that were bound, and judged."""
    counts = {"bound": 0, "judged": 0}

    def count(module: Any, name: str, what: str) -> None:
        function = getattr(module, name)

        def counting(*args: Any, **options: Any) -> Any:
            counts[what] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counting)

    count(examined, "bind_launch", "bound")
    count(verdict, "judge", "judged")
    return counts


def numbers(memory: DeviceMemory) -> int:
    """Return the address of 32 numbers."""
    address = memory.allocate(128)
    memory.write(address, np.zeros(32, "i4"))
    return address


def launch(kernel: Any, address: int, memory: DeviceMemory, block: int = 32) -> wsemu.Report:
    return wsemu.check(kernel, 1, block, (Packed(address.to_bytes(8, "little")),), memory=memory)


def test_launches_in_several_arrays_by_turns_are_bound_and_judged_once_each(kernel: Any, calls: dict[str, int]) -> None:
    memory = DeviceMemory()
    arrays = [numbers(memory) for _ in range(3)]
    reports = [launch(kernel, arrays[n % 3], memory) for n in range(12)]
    assert {report.verdict for report in reports} == {"verified"}
    assert calls == {"bound": 3, "judged": 3}
    assert all((memory.read(address, "i4", 32) == 4).all() for address in arrays)


def test_a_launch_with_a_warning_is_judged_once_for_equal_arguments(calls: dict[str, int]) -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    reports = [wsemu.check(copy_unfenced, 1, 64, (x, y, np.int32(count))) for count in (32, 32, 31, 32)]
    assert [report.verdict for report in reports] == ["verified"] * 4
    assert [[finding.code for finding in report.findings] for report in reports] == [["mbarrier-unfenced"]] * 4
    assert reports[0].findings == reports[1].findings == reports[3].findings
    assert calls["judged"] == 2
    assert (y == x).all()


def load(text: str, name: str, tmp_path: Path) -> Any:
    (tmp_path / f"{name}.ptx").write_text(text)
    return wsemu.load_ptx(tmp_path / f"{name}.ptx")[name]


def launch_with_flag(kernel: Any, flag: int) -> str:
    return wsemu.check(kernel, 1, 32, (np.full(32, flag, np.int32), np.zeros(32, np.int32))).verdict


@pytest.mark.parametrize(
    ("text", "name", "flags", "verdicts"),
    [
        (UNWRITTEN, "unwritten", (0, 1, 0), ("verified", "failed", "verified")),
        (CLOCK_HERE, "clock_here", (1, 0, 1), ("verified", "incomplete", "verified")),
    ],
)
def test_a_verdict_that_rests_on_the_contents_of_an_array_is_not_used_again(
    text: str, name: str, flags: tuple[int, ...], verdicts: tuple[str, ...], tmp_path: Path
) -> None:
    """The outcomes are equal: only the contents decide whether an undefined value is used, or a clock is loaded."""
    kernel = load(text, name, tmp_path)
    assert tuple(launch_with_flag(kernel, flag) for flag in flags) == verdicts


def test_a_launch_with_other_arrays_in_a_structure_is_judged_anew(tmp_path: Path) -> None:
    memory = DeviceMemory()
    x, y, z = (numbers(memory) for _ in range(3))
    kernel = load(CLOCK_IN_STRUCTURE, "clock_in_structure", tmp_path)
    verdicts = []
    for given in ((x, y, z, x), (x, x, z, y), (x, y, z, x)):
        structure = Packed(b"".join(address.to_bytes(8, "little") for address in given))
        verdicts.append(wsemu.check(kernel, 1, 32, (structure,), memory=memory).verdict)
    assert verdicts == ["verified", "incomplete", "verified"]


def test_another_shape_is_bound_anew(kernel: Any, calls: dict[str, int]) -> None:
    memory = DeviceMemory()
    address = numbers(memory)
    assert launch(kernel, address, memory).verdict == "verified"
    assert {finding.code for finding in launch(kernel, address, memory, 64).errors} == {"out-of-bounds"}
    assert launch(kernel, address, memory).verdict == "verified"
    assert calls["bound"] == 2


def test_a_launch_after_a_free_is_not_bound_as_before(kernel: Any) -> None:
    memory = DeviceMemory()
    address = numbers(memory)
    assert launch(kernel, address, memory).verdict == "verified"
    memory.free(address)
    assert {finding.code for finding in launch(kernel, address, memory).errors} == {"out-of-bounds"}
    memory.place(address, np.zeros(32, "i4"))
    assert launch(kernel, address, memory).verdict == "verified"
    assert (memory.read(address, "i4", 32) == 1).all()


def test_bytes_that_a_launch_writes_are_written_for_an_equal_one(kernel: Any) -> None:
    memory = DeviceMemory()
    address = memory.allocate(256)
    memory.mark_written(address, 64)
    first, second = (launch(kernel, address, memory) for _ in range(2))
    assert "uninitialized-read" in [finding.code for finding in first.findings]
    assert "uninitialized-read" not in [finding.code for finding in second.findings]


def test_memory_that_has_the_address_of_a_block_is_bound_anew(tmp_path: Path) -> None:
    (tmp_path / "blocks.ptx").write_text(BLOCKS)
    module = wsemu.load_ptx(tmp_path / "blocks.ptx")
    memory = DeviceMemory()
    address = numbers(memory)
    verdicts = [launch(module[name], address, memory, 1).verdict for name in ("use", "make", "use")]
    assert verdicts == ["verified", "verified", "incomplete"]
