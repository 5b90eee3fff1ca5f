"""`examples/dgemm.py` against NumPy, and the numbers that its paper gives (Tan et al., SC 2011), section by section.

An iteration is a block of 16 columns of A and 16 rows of B; its counts are those of a launch with one more of them.
What the paper reads off its assembler code (13 integer instructions, Table 3) or its clock has no counterpart here.
"""

from __future__ import annotations

import runpy
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import python
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.machine import run as execution
from wsemu.model.isa import NAMES
from wsemu.model.program import Program

PATH = Path(__file__).parents[2] / "examples" / "dgemm.py"
EXAMPLE = runpy.run_path(str(PATH))
KERNELS = dict(zip(("1", "2", "3", "3_dma", "3_bulk", "3_ring"), EXAMPLE["KERNELS"], strict=True))
"""of each algorithm: the kernel, the threads of a CTA"""
LOADING = ("1", "2", "3", "3_dma")
"""where threads load the blocks: copies are no accesses of warps"""
BLOCK, DEPTH, WARPS = EXAMPLE["BLOCK"], EXAMPLE["DEPTH"], EXAMPLE["THREADS"] // 32
algorithms = pytest.mark.parametrize("algorithm", KERNELS)
loading = pytest.mark.parametrize("algorithm", LOADING)


def check(algorithm: str, a: Any, b: Any, **options: Any) -> tuple[wsemu.Report, Any]:
    """The report of a product and its result."""
    kernel, threads = KERNELS[algorithm]
    arguments = EXAMPLE["arguments"](a, b)
    grid = (a.shape[0] // BLOCK, b.shape[1] // BLOCK)
    return wsemu.check(kernel, grid, threads, arguments, **options), arguments[2].T


def zeros(m: int, n: int, k: int) -> tuple[Any, Any]:
    return np.zeros((m, k), order="F"), np.zeros((k, n), order="F")


def program_of(algorithm: str) -> Program:
    return compile_for_types(KERNELS[algorithm][0], EXAMPLE["arguments"](*zeros(BLOCK, BLOCK, DEPTH)), True).program


def executed(algorithm: str, k: int) -> Counter[tuple[str, str | None]]:
    """(operation, array) -> executions by warps, in a product of 64 x k and k x 64."""
    kernel, threads = KERNELS[algorithm]
    arguments = EXAMPLE["arguments"](*zeros(BLOCK, BLOCK, k))
    program, names, _ = compile_for_types(kernel, arguments, True)
    rows, memory, _ = bind(program, arguments, names)
    outcome = execution.run(program, (1, 1, 1), (threads, 1, 1), rows, memory.segments)
    found: Counter[tuple[str, str | None]] = Counter()
    for operation, array, n in zip(program.code[:, 0].tolist(), program.array_of, outcome.executions, strict=True):
        found[NAMES[operation], array] += n
    return found


def an_iteration(algorithm: str) -> dict[tuple[str, str | None], float]:
    """(operation, array) -> executions in an iteration, for each of the warps that compute."""
    more, fewer = executed(algorithm, 3 * DEPTH), executed(algorithm, 2 * DEPTH)
    return {key: (n - fewer[key]) / WARPS for key, n in more.items()}


def mix(algorithm: str) -> dict[str, float]:
    """The paper's instructions of an iteration: global and shared memory accesses by threads, fused multiply-adds."""
    spaces = {"a": "global", "b": "global", "a_tile": "shared", "b_tile": "shared"}
    widths = {"b64": "64", "v2.b64": "128"}
    found: dict[str, float] = defaultdict(float)
    for (operation, array), n in an_iteration(algorithm).items():
        what, _, type_ = operation.partition(".")
        if array in spaces and type_ in widths:
            found[f"{what}.{spaces[array]}.{widths[type_]}"] += n
        elif type_ == "f64":
            found[f"d{what}"] += n
    return {name: n for name, n in found.items() if n}


# -- the results ------------------------------------------------------------------------------------------------------
@algorithms
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 16), (128, 64, 48), (64, 192, 32)])
def test_products_of_small_integers_are_exact(algorithm, m, n, k):
    random = np.random.default_rng(m + n + k)
    a = np.asfortranarray(random.integers(-100, 101, (m, k)).astype(np.float64))
    b = np.asfortranarray(random.integers(-100, 101, (k, n)).astype(np.float64))
    report, c = check(algorithm, a, b)
    assert (report.verdict, report.findings) == ("verified", [])
    assert (c == a @ b).all()


@algorithms
def test_products_of_any_numbers_are_within_the_bound_of_their_sums(algorithm):
    """A sum of k products in any order, with or without fma, is off by at most k u / (1 - k u) times the sum of their
    absolute values, u = 2^-53 (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1); NumPy's too."""
    m, n, k = 64, 128, 96
    random = np.random.default_rng(3)
    a, b = np.asfortranarray(random.standard_normal((m, k))), np.asfortranarray(random.standard_normal((k, n)))
    report, c = check(algorithm, a, b)
    assert report.verdict == "verified"
    unit = k * 2.0**-53
    bound = unit / (1 - unit) * (np.abs(a) @ np.abs(b)) * (1 + 2 * unit)  # its own rounding included
    assert (np.abs(c - a @ b) <= 2 * bound).all()


@pytest.mark.parametrize("algorithm", ["2", "3_dma", "3_ring"])
def test_both_engines_agree(algorithm):
    """Accesses of 8 bytes and of 16, without DMA warps and with them; a block takes the reference engine seconds."""
    a, b = (np.asfortranarray(np.random.default_rng(5).standard_normal(shape)) for shape in ((64, 16), (16, 64)))
    found = [check(algorithm, a, b, engine=engine) for engine in ("vm", "reference")]
    (report, c), (other, same) = found
    assert report.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})
    assert report.verdict == "verified"
    assert (c == same).all()


def test_all_algorithms_add_in_the_same_order() -> None:
    random = np.random.default_rng(4)
    a, b = np.asfortranarray(random.standard_normal((64, 48))), np.asfortranarray(random.standard_normal((48, 64)))
    first, *others = (check(algorithm, a, b)[1] for algorithm in KERNELS)
    assert all((c == first).all() for c in others)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["64", "64"], "64 64: give m, n and k, such as 128 64 64\n"),
        (["64", "64", "x"], "64 64 x: give m, n and k, such as 128 64 64\n"),
        (["64", "65", "16"], "n is 65: give a positive multiple of 64, such as 128\n"),
        (["64", "64", "0"], "k is 0: give a positive multiple of 16, such as 16\n"),
    ],
)
def test_the_program_says_which_sizes_it_takes(given, message):
    done = python(PATH, *given)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


# -- the paper's numbers ----------------------------------------------------------------------------------------------
@loading
def test_section_2_2_words_through_the_memory_hierarchy(algorithm):
    m, n, k = 128, 192, 32
    counters = check(algorithm, *zeros(m, n, k))[0].counters
    assert counters.global_load_sectors * 32 == 8 * m * n * k * (1 / 64 + 1 / 64)
    assert counters.global_store_sectors * 32 == 8 * m * n


@loading
def test_section_3_1_sixteen_threads_use_one_region_of_128_bytes(algorithm):
    counters = check(algorithm, *zeros(BLOCK, 2 * BLOCK, 2 * DEPTH), arch="sm_20")[0].counters
    assert counters.coalesced == 1  # an access of sm_20 moves whole lines of 128 bytes


@loading
def test_section_3_1_two_blocks_and_their_next_ones_fit_in_48_kb_twice(algorithm):
    program = program_of(algorithm)
    assert program.shared_bytes == 2 * 64 * 16 * 8
    assert 2 * program.shared_bytes < 48 * 1024


@pytest.mark.parametrize("algorithm", ["1", "2"])
def test_section_3_1_64_bit_shared_memory_accesses_have_no_conflict(algorithm):
    report, _ = check(algorithm, *zeros(BLOCK, BLOCK, 2 * DEPTH), arch="sm_20")
    assert (report.verdict, report.findings, report.counters.bank_conflicts) == ("verified", [], 0)


@pytest.mark.parametrize("algorithm", ["3", "3_dma"])
def test_section_3_1_128_bit_shared_memory_accesses_conflict_two_ways_at_least(algorithm):
    """With these mappings not more than two: loads and stores alike, which costs as much as two passes of 64 bits."""
    report, _ = check(algorithm, *zeros(BLOCK, BLOCK, 2 * DEPTH), arch="sm_20")
    counters = report.counters
    assert report.verdict == "verified"
    assert {finding.code for finding in report.findings} == {"bank-conflict"}
    assert counters.shared_load_wavefronts == 2 * counters.ideal_shared_load_wavefronts
    assert counters.shared_store_wavefronts == 2 * counters.ideal_shared_store_wavefronts


@pytest.mark.parametrize("algorithm", ["1", "2"])
def test_section_3_2_instructions_of_algorithms_1_and_2(algorithm):
    assert mix(algorithm) == {"ld.global.64": 8, "st.shared.64": 8, "ld.shared.64": 128, "dfma": 256}


def test_section_3_2_rule_of_thumb_for_64_bits() -> None:
    found = mix("1")
    assert found["dfma"] / sum(found.values()) == 256 / (128 + 8 + 8 + 256) == 0.64


def test_section_3_2_rule_of_thumb_for_128_bits() -> None:
    found = mix("3")
    assert found["dfma"] / sum(found.values()) == 256 / (64 + 4 + 4 + 256)
    assert round(100 * found["dfma"] / sum(found.values())) == 78


@pytest.mark.parametrize("algorithm", ["1", "2", "3"])
def test_section_3_2_no_local_memory(algorithm):
    """Algorithm 2 has 8 registers more, which the paper's compiler spilled; here registers do not run out."""
    assert program_of(algorithm).local_bytes == 0


def test_section_4_2_one_half_is_filled_while_the_other_is_used() -> None:
    """The first synchronisation of an iteration says that the second half is there, the second one that the first half
    of the next block is."""
    assert {array.shape for array in program_of("3").shared} == {(2, 8, 64)}
    assert an_iteration("3")["bar.sync", None] == 2


def test_section_4_3_instruction_mix_of_algorithm_3() -> None:
    """Table 3, and the stores that belong to its loads."""
    assert mix("3") == {"ld.global.128": 4, "st.shared.128": 4, "ld.shared.128": 64, "dfma": 256}


def test_section_4_3_instruction_mix_with_dma_warps() -> None:
    """What the compute warps execute is the inner loop; the DMA warps move the same data in as many instructions."""
    found, same = an_iteration("3_dma"), an_iteration("3")
    for array in ("a", "b"):
        tile = f"{array}_tile"
        assert found["ld.v2.b64", tile] == same["ld.v2.b64", tile] == 32
        assert found["ld.v4.b32", array] == same["ld.v2.b64", array] == 2
        assert found["st.v4.b32", tile] == same["st.v2.b64", tile] == 2
    assert found["fma.f64", None] == 256


@pytest.mark.parametrize("algorithm", ["3_bulk", "3_ring"])
def test_section_4_3_instruction_mix_with_copies(algorithm):
    """The inner loop stays; nobody loads a block or stores it."""
    assert mix(algorithm) == {"ld.shared.128": 64, "dfma": 256}


def test_section_5_3_ratio_within_the_inner_loop() -> None:
    wide, narrow = mix("3"), mix("1")
    assert wide["dfma"] / (wide["dfma"] + wide["ld.shared.128"]) == 16 / (16 + 4) == 0.8
    assert narrow["dfma"] / (narrow["dfma"] + narrow["ld.shared.64"]) == 16 / (16 + 8)
