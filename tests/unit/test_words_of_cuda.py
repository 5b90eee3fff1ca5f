"""What findings of CUDA C++ say: the cause in the source's terms, and a help that mends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.checkers.causes import group_by_edge
from wsemu.model.toolkit import is_toolkit_header
from wsemu.report.terminal import summary

if TYPE_CHECKING:
    from wsemu.launch.result import Report

SOURCE = Path(__file__).parents[1] / "data" / "words" / "words.cu"
WORDS = wsemu.load_ptx(SOURCE.with_suffix(".ptx"))


def checked(name: str, grid: int, block: int, *arguments: Any) -> Report:
    return wsemu.check(WORDS[name], grid, block, arguments)


def test_one_mask_is_one_cause():
    report = checked("quarters", 1, 32, np.ones(32, np.float32), np.zeros(32, np.float32))
    assert {finding.code for finding in report.errors} == {"barrier-divergence", "undefined-shuffle"}
    (group,) = group_by_edge(report.errors)
    first = report.errors[group[0]]
    assert first.code == "barrier-divergence"
    assert first.sites[0].text.endswith("mask 0x000000ff leaves out lanes 8-31")
    assert first.help is not None
    assert first.help.startswith("lanes 8-31 should name their own group in the mask; or use the mask of all lanes")


def test_a_lock_between_lanes_lacks_fences():
    report = checked("spin_lock", 2, 2, np.zeros(1, np.int32), np.zeros(1, np.int32))
    (finding,) = report.errors
    assert finding.code == "intra-warp-race"
    assert finding.help == (
        "a `__threadfence()` is missing before line 16, where an atomic publishes (1), and one after line 14, where an "
        "atomic sees that"
    )
    shown = [line.split()[-1] if line.endswith(")") else line.rsplit(":", 1)[-1].strip() for line in finding.schedule]
    assert shown.index("(1)") < len(shown) - 3, finding.schedule  # before the lock is released and taken again
    assert shown[-1] == "(2)"


def test_a_nan_that_is_compared_with_itself():
    (finding,) = checked("largest", 1, 1, np.full(1, np.nan, np.float32), np.float32(2)).errors
    assert (finding.help or "").startswith("a nan differs from itself")
    found = checked("largest", 1, 1, np.ones(1, np.float32), np.float32(2))
    assert found.verdict == "verified"


def test_an_index_that_wraps():
    (finding,) = checked("row_major", 1, 32, np.zeros(64, np.float32), 50_000, 1).errors
    assert finding.message == "store of 4 bytes outside `x`"
    assert finding.notes[0].startswith("the index has wrapped in 32 bits: it is -1,794,967,296, for 2,500,000,000; ")
    assert "`size_t` before the multiplication" in (finding.help or "")
    (near,) = checked("row_major", 1, 32, np.zeros(64, np.float32), 9, 1).errors
    assert "32 bits" not in near.notes[0]


def test_forgotten_dynamic_shared_memory():
    finding = checked("pooled", 1, 32, np.ones(32, np.float32)).errors[0]
    assert finding.message == "store of 4 bytes outside `pool`: this launch has 0 bytes of dynamic shared memory"
    assert "`--dynamic-shared BYTES`" in (finding.help or "")


def test_a_barrier_is_called_as_in_the_source():
    messages = [finding.message for finding in checked("halves", 1, 64, np.ones(64, np.float32)).errors]
    assert "only part of a warp executes `__syncthreads()` (barrier 0)" in messages


def test_names_of_variables_and_fields_and_copies_of_a_statement():
    x = np.ones(64, np.float32), np.int32(64)
    report = checked("unrolled", 1, 64, x, 1)
    named = {finding.message.split("`")[1] for finding in report.errors if finding.code == "race"}
    assert {name.split("[")[0] for name in named} == {"buffer<float>::tile", "x"}
    groups = group_by_edge(report.errors)
    arrays = [{report.errors[n].message.split("`")[1].split("[")[0] for n in group} for group in groups]
    assert arrays == [{"buffer<float>::tile"}, {"x"}]


@pytest.mark.parametrize(
    ("path", "is_header"),
    [
        ("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/sm_30_intrinsics.hpp", True),
        ("/usr/local/cuda/include/cuda_fp16.hpp", True),
        ("/venv/lib/python3.12/site-packages/nvidia/cu13/include/cooperative_groups.h", True),
        ("/opt/conda/include/cuda/std/barrier", True),
        ("/usr/include/cuda_bf16.hpp", True),
        ("/home/me/cuda/kernels.cu", False),
        ("/home/me/project/cuda/include/ring.cuh", False),
        ("/home/me/cuda_samples/reduce.cu", False),
        ("/home/me/include/cute/tensor.hpp", False),
    ],
)
def test_headers_of_the_toolkit(path, is_header):
    assert is_toolkit_header(path) == is_header


def test_the_verdict_of_a_long_name_has_a_line_of_its_own():
    report = checked("pooled", 1, 32, np.ones(32, np.float32))
    report = report.model_copy(update={"kernel": "a_long_name_" * 8, "notes": []})
    first, second, *_ = summary(report).split("\n")
    assert first == f"{report.kernel}[grid 1, block 32]"
    assert second.startswith("  failed: ")


def test_a_parity_that_does_not_flip():
    report = checked("one_parity", 1, 64, np.ones(256, np.float32), np.zeros(256, np.float32), 8)
    finding = next(finding for finding in report.errors if finding.code == "phase-alias")
    assert finding.message.startswith("`r.empty[0]`: ")
    line = next(n for n, text in enumerate(SOURCE.read_text().split("\n"), 1) if "wait(&r.full[k % 2], 0)" in text)
    assert finding.notes[0].startswith("warp 1 has already observed phase 0 of `r.full[0]`")
    assert f"on line {line} returns" in finding.notes[0]
    assert finding.help == (
        f"change the parity of the wait on line {line} each time that the mbarrier is used again, as "
        "`(k / stages) & 1` does"
    )


def test_an_mbarrier_in_forgotten_dynamic_shared_memory():
    finding = checked("pooled_barrier", 1, 32).errors[0]
    assert finding.message.endswith("reaches outside shared memory: this launch has 0 bytes of dynamic shared memory")
    assert "`--dynamic-shared BYTES`" in (finding.help or "")
