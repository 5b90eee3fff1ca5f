"""The targets and versions of PTX that have an instruction, as ptxas 13 has them; what a launch does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from tests.unit.ptx_instructions import module, statements
from wsemu.frontend.ptx.availability import Requirement, instruction_requirement, parse_target
from wsemu.frontend.ptx.parser import parse_file
from wsemu.frontend.ptx.syntax import Block, Instruction

ANSWERS = json.loads((Path(__file__).parents[1] / "data" / "ptx_availability.json").read_text(encoding="utf-8"))
TARGETS = ANSWERS["targets"]
FIRST = (7, 1)
"""what had come before is not asked: no target from sm_80 on has an earlier version"""


def answers() -> dict[str, tuple[tuple[int, ...], list[str]]]:
    """Form -> (first version, targets that have it)."""
    found = {}
    for key, names in ANSWERS["forms"].items():
        version, _, targets = key.partition(": ")
        for name in names:
            found[name] = tuple(map(int, version.split("."))), targets.split()
    return found


def instructions(block: Block) -> list[Instruction]:
    found = []
    for statement in block.statements:
        if isinstance(statement, Instruction):
            found.append(statement)
        elif isinstance(statement, Block):
            found += instructions(statement)
    return found


def has(target: str, need: Requirement) -> bool:
    found = parse_target(target)
    assert found is not None
    return found.has(need)


def test_the_table_has_what_ptxas_answers():
    known, wrong = answers(), []
    for name, text in statements().items():
        version, targets = known.get(name, ((0, 0), TARGETS))
        if targets == ["none"]:
            continue
        body = parse_file(module([text], "sm_100a", "9.0"), "k.ptx").functions["k"].body
        assert body is not None
        needs = [instruction_requirement(instruction) for instruction in instructions(body)]
        found = [t for t in TARGETS if all(has(t, need) for need in needs)]
        first = max(need.version for need in needs)
        if found != targets or max(first, FIRST) != max(version, FIRST):
            wrong.append(f"{name}: {first} {found}, ptxas {version} {targets}")
    assert not wrong, wrong[:5]
    assert len(known) > 500


HEAD = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 out)\n"
REGISTERS = (
    "{{ .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 tile[64];"
    " mov.u32 %r3, tile; ld.param.u64 %rd1, [out]; {body} ret; }}"
)


def kernel(body: str, target: str, version: str = "9.0") -> wsemu.PtxKernel:
    return wsemu.load_ptx((HEAD + REGISTERS).format(version=version, target=target, body=body))["k"]


def check(body: str, target: str, version: str = "9.0", arch: str | None = None) -> wsemu.Report:
    return wsemu.check(kernel(body, target, version), 1, 32, (np.zeros(64, np.uint32),), arch=arch)


FOUR_ROWS = "[%rd1, {%r4, %r4, %r4, %r4, %r4}]"
SCATTER = f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group {FOUR_ROWS}, [%r3];"
GATHER = (
    f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r3], {FOUR_ROWS}, [%r3];"
)


@pytest.mark.parametrize(
    ("body", "target", "needs"),
    [
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "sm_80", "sm_90 or later"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], 7, [%r3];", "sm_80", "sm_90 or later"),
        ("mapa.shared::cluster.u32 %r4, %r3, 0;", "sm_89", "sm_90 or later"),
        ("cp.async.ca.shared.global [%r3], [%rd1], 4;", "sm_75", "sm_80 or later"),
        ("mov.u32 %r4, %cluster_ctarank;", "sm_80", "sm_90 or later"),
        ("wgmma.fence.sync.aligned;", "sm_100a", "sm_90a"),
        ("wgmma.fence.sync.aligned;", "sm_90", "sm_90a"),
        ("setmaxnreg.dec.sync.aligned.u32 24;", "sm_90", "sm_90a or sm_100f"),
        ("st.bulk.weak.shared::cta [%rd1], 8, 0;", "sm_90", "sm_100 or later"),
        (SCATTER, "sm_120a", "sm_100f"),
        (SCATTER, "sm_100", "sm_100f"),
        (GATHER.replace("::cta", "::cluster"), "sm_120f", "sm_100f"),
        (GATHER, "sm_90a", "sm_100 or later"),
    ],
)  # fmt: skip
def test_an_instruction_that_the_target_does_not_have(body, target, needs):
    with pytest.raises(wsemu.KernelError, match=re.escape(f"needs {needs}")) as caught:
        check(body, target)
    assert f"the file is for {target}" in str(caught.value)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("body", "target", "version", "first"),
    [
        ("elect.sync %r4|%p1, -1;", "sm_90", "7.8", "8.0"),
        ("ld.shared::cta.u32 %r4, [%r3];", "sm_80", "7.7", "7.8"),
        ("fence.mbarrier_init.release.cluster;", "sm_90", "7.8", "8.0"),
    ],
)
def test_an_instruction_that_the_version_does_not_have(body, target, version, first):
    with pytest.raises(wsemu.KernelError, match=f"needs PTX {first} or later, and the file has `.version {version}`"):
        check(body, target, version)


def test_a_version_that_does_not_have_the_target():
    with pytest.raises(wsemu.KernelError, match=r"`.target sm_90` needs PTX 7.8 or later"):
        check("", "sm_90", "7.7")
    assert check("", "sm_90", "7.8").verdict == "verified"


@pytest.mark.parametrize(
    ("target", "arch", "loads"),
    [
        ("sm_90", "sm_80", False), ("sm_90a", "sm_90", True), ("sm_90a", "sm_89", False), ("sm_75", "sm_90", True),
        ("sm_80", "sm_80", True), ("sm_100a", "sm_90", False), ("sm_120", "sm_90", False), ("sm_120f", None, True),
        ("sm_100a", None, True), ("sm_75", "sm_70", False),
    ],
)  # fmt: skip
def test_a_gpu_loads_what_is_compiled_for_it_or_an_earlier_one(target, arch, loads):
    if loads:
        assert check("", target, arch=arch).verdict == "verified"
        return
    with pytest.raises(
        wsemu.UsageError, match=f"`k` is compiled for {target} and needs .*: a GPU of {arch} does not load it"
    ):
        check("", target, arch=arch)


def test_the_command_names_the_target(tmp_path):
    file = tmp_path / "k.ptx"
    file.write_text((HEAD + REGISTERS).format(version="9.0", target="sm_100a", body=""), encoding="utf-8")
    shape = ("--grid", "1", "--block", "32", "--arg", "u32[64]:zeros")
    assert command("check", *shape, str(file)).returncode == 0
    done = command("check", "--arch", "sm_90", *shape, str(file))
    assert done.returncode == 2
    text = " ".join((done.stderr + done.stdout).split())
    assert "compiled for sm_100a and needs sm_100: a GPU of sm_90 does not load it" in text


def test_another_kernel_of_the_file_is_not_asked():
    other = ".visible .entry other() { .reg .b32 %r<9>; barrier.cluster.arrive; ret; }"
    text = (HEAD + REGISTERS).format(version="8.0", target="sm_80", body="") + "\n" + other
    assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (np.zeros(4, np.uint32),)).verdict == "verified"
