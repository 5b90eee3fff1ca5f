"""An architecture is one row of `model/arch.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.pair_programs import PAIR
from wsemu import UsageError, cuda, ptx
from wsemu.frontend.ptx import compile_entry
from wsemu.frontend.ptx.module import parse
from wsemu.model.arch import ARCHS, DEFAULT, LATEST, Arch, Multiprocessor, arch_of, number_of
from wsemu.model.effects import EFFECTS
from wsemu.model.introduced import check_instructions
from wsemu.model.launch_shape import configure
from wsemu.model.residency import ctas_per_multiprocessor

if TYPE_CHECKING:
    from wsemu.model.settings import Engine


def test_rows_are_in_the_order_of_their_numbers() -> None:
    numbers = [row.number for row in ARCHS.values()]
    assert numbers == sorted(numbers)
    assert {LATEST, DEFAULT} <= {*ARCHS}
    assert number_of("sm_90a") == 90


def test_a_row_without_a_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        Arch(*ARCHS["sm_90"][:-1])  # type: ignore[call-arg]


def test_an_unknown_architecture_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"unknown arch 'sm_91': use one of sm_13, .*, sm_90, sm_100, sm_120"):
        arch_of("sm_91")


def test_a_target_of_one_architecture_names_its_generation() -> None:
    with pytest.raises(UsageError, match=r"unknown arch 'sm_90a': use sm_90$"):
        arch_of("sm_90a")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> str:
    """An architecture that is entered by its row alone."""
    row = ARCHS["sm_80"]
    own = Multiprocessor(1536, 16, 164 << 10, 64 << 10, 1 << 10, 14, "a board")
    limits = row.limits._replace(shared=100_000)
    monkeypatch.setitem(ARCHS, "sm_87", row._replace(name="sm_87", limits=limits, multiprocessor=own))
    return "sm_87"


@cuda.jit
def summed(x: Any) -> None:
    i = cuda.threadIdx.x
    x[i] = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)


@cuda.jit
def elected(x: Any) -> None:
    if ptx.elect_sync(0xFFFFFFFF):
        x[0] = 1


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_new_row_is_all_that_an_architecture_needs(later: str, engine: Engine) -> None:
    report = wsemu.check(summed, 1, 32, (np.zeros(32, np.float32),), arch=later, engine=engine)
    assert (report.verdict, report.arch) == ("verified", later)
    with pytest.raises(UsageError, match="at most 100,000 on sm_87"):
        configure(1, 32, None, 100_001, arch=later)
    with pytest.raises(UsageError, match="there are none on sm_87; give an `arch` from sm_90 on"):
        wsemu.check(summed, 2, 32, (np.zeros(32, np.float32),), arch=later, cluster=2)
    with pytest.raises(wsemu.KernelError, match="needs sm_90 or later, and this launch is for sm_87"):
        wsemu.check(elected, 1, 32, (np.zeros(32, np.float32),), arch=later)
    assert ctas_per_multiprocessor(later, 512, 0) == (3, "threads")


MULTIPLIES = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { wgmma.fence.sync.aligned; ret; }
"""


def test_wgmma_ends_with_hopper() -> None:
    kernel = wsemu.load_ptx(MULTIPLIES)["k"]
    assert wsemu.check(kernel, 1, 128, (), arch="sm_90").verdict == "verified"
    with pytest.raises(UsageError, match="compiled for sm_90a"):
        wsemu.check(kernel, 1, 128, (), arch="sm_100")


def test_a_kernel_of_tensor_memory_runs_on_its_architecture() -> None:
    result = np.zeros((256, 16), np.float32)
    kernel = wsemu.load_ptx(PAIR)["k"]
    arguments = np.ones(16384 // 2, np.float16), result
    assert wsemu.check(kernel, 2, 128, arguments, cluster=2, arch="sm_100").verdict == "verified"
    assert wsemu.check(kernel, 2, 128, arguments, cluster=2).verdict == "verified"
    with pytest.raises(UsageError, match="compiled for sm_100a"):
        wsemu.check(kernel, 2, 128, arguments, cluster=2, arch="sm_90")


@pytest.mark.parametrize(
    ("arch", "operation", "lacks"),
    [("sm_100", "wgmma.fence", True), ("sm_120", "wgmma.fence", True), ("sm_120", "tcgen05.alloc", True),
     ("sm_120", "cluster.request", False), ("sm_100", "tcgen05.alloc", False)],
)  # fmt: skip
def test_later_hardware_lacks_some_instructions_again(arch: str, operation: str, lacks: bool) -> None:
    assert (number_of(arch) >= EFFECTS[operation].family.until) == lacks


def test_a_gpu_of_sm_120_has_no_tensor_memory() -> None:
    program = compile_entry(parse(PAIR, "pair.ptx"), parse(PAIR, "pair.ptx").entries["k"], ["address", "address"])
    with pytest.raises(wsemu.KernelError, match="sm_120 has no `tcgen05`, which sm_100 has"):
        check_instructions(program, "sm_120")
    check_instructions(program, "sm_100")


def test_a_launch_on_sm_120_has_less_shared_memory() -> None:
    configure(1, 32, None, 99 << 10, arch="sm_120")
    with pytest.raises(UsageError, match="at most 101,376 on sm_120"):
        configure(1, 32, None, 100 << 10, arch="sm_120")
