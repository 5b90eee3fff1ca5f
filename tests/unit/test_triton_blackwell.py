"""Triton's kernels for sm_100: results are right, and every launch is verified.

The PTX is in the repository; where Triton is installed, its compiler makes it again.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu

if TYPE_CHECKING:
    from wsemu.launch.result import Report

FOLDER = Path(__file__).parents[1] / "ptx" / "blackwell"
KERNELS = ("matmul", "described", "persistent", "persistent_specialized", "attention", "attention_specialized")
MAKE_MAPS = ("matmul", "described")
"""kernels that make their tensor maps"""
NAMED = {"proxy-war", "mbarrier-unfenced", "same-value-store", "commit-order", "setmaxnreg-repeated"}
"""what Triton leaves out, and hardware does not punish"""
UNUSED = np.zeros(16, np.uint8)


def random(rows: int, columns: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float16)


def described(array: Any, rows: int) -> list[Any]:
    """Return the parameters of a tensor descriptor: a map, extents and strides."""
    map_ = wsemu.TensorMap(array, [rows, 64], swizzle="128B")
    return [map_, *(np.int32(extent) for extent in array.shape), np.int64(array.shape[1]), np.int64(1)]


def launch(name: str, text: str) -> tuple[Report, Any, Any]:
    """Return the report on a launch of two CTAs, what it stores, and what is expected."""
    first, second, third = random(256, 64, 1), random(128, 64, 2), random(128, 64, 3)
    if name.startswith("attention"):
        result = np.zeros((256, 64), np.float16)
        arguments = [*described(first, 128), *described(second, 64), *described(third, 64), *described(result, 128)]
        arguments += [np.int32(128), np.float32(0.125)]
        p = np.exp2((first.astype(np.float64) @ second.astype(np.float64).T) * 0.125)
        expected = (p / p.sum(1, keepdims=True)) @ third.astype(np.float64)
    else:
        result = np.zeros((256, 128), np.float16)
        sizes = [np.int32(256), np.int32(128), np.int32(64)]
        if name in MAKE_MAPS:
            arguments = [first, second, result, *sizes, np.zeros(4 * 384, np.uint8), UNUSED]
        else:
            arguments = [*described(first, 128), *described(second, 64), *described(result, 128), *sizes]
        expected = first.astype(np.float64) @ second.astype(np.float64).T
    kernel, threads, shared = text.split("\n", 1)[0].removeprefix("// ").split()
    grid = (2, 2) if name == "matmul" else 2
    if name not in MAKE_MAPS:
        arguments += [UNUSED, UNUSED]
    report = wsemu.check(
        wsemu.load_ptx(text)[kernel], grid, int(threads), tuple(arguments), dynamic_shared=int(shared), arch="sm_100"
    )
    return report, result, expected


def check_kernel(name: str, text: str) -> None:
    report, result, expected = launch(name, text)
    assert report.verdict == "verified", report.notes or report.findings
    assert {finding.code for finding in report.findings} <= NAMED
    assert np.allclose(result, expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_of_triton_is_right_and_verified(name: str):
    check_kernel(name, (FOLDER / f"triton_{name}.sm_100.ptx").read_text("utf-8"))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_triton_compiles_now_is_right_and_verified(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where it is unset
    specification = importlib.util.spec_from_file_location("triton_kernels", FOLDER / "triton_kernels.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    check_kernel(name, module.compiled(name))


def test_a_forgotten_commit_is_found():
    text = (FOLDER / "triton_persistent_specialized.sm_100.ptx").read_text("utf-8")
    lines = text.splitlines(keepends=True)
    commits = [n for n, line in enumerate(lines) if "tcgen05.commit" in line]
    report, _, _ = launch("persistent_specialized", "".join(lines[: commits[-1]] + lines[commits[-1] + 1 :]))
    assert report.verdict == "failed"
