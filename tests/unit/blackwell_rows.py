"""The 60 bugs of the list in the reference of Blackwell (its section 11), and the tests that show each.

    python -m tests.unit.blackwell_rows            prints the table
    pytest $(python -m tests.unit.blackwell_rows --tests)   runs the tests of all rows

A line is a row's number, the code that its program gets, and its test: `FILE::FUNCTION` in `tests/unit`.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

BUGS, ROWS = "test_tensor_bugs.py::test_a_bug_is_found", "test_tensor_rows.py::test_a_bug_has_its_code_at_its_line"
TWINS = {
    BUGS: "test_tensor_bugs.py::test_a_ring_of_accumulators_is_verified",
    ROWS: "test_tensor_rows.py::test_the_repaired_twin_is_verified",
    "test_cancellation.py::test_a_bug_of_a_pair_is_found": "test_cancellation.py::test_every_assignment_is_verified",
    "test_cancellation.py::test_a_request_after_a_failure_is_found":
        "test_cancellation.py::test_a_request_before_the_failure_is_seen_is_not",
}  # fmt: skip
"""test of a row -> that of its repaired twin, where it is another one"""
PAIRS, VALUES = "test_tensor_bugs.py::test_pipelined_pairs_are_of_one_warp", "test_tensor_rows.py::test_row_"
TABLE = {
    1: ("tmem-read-unfinished", BUGS), 2: ("dsmem-after-exit", ROWS), 3: ("dsmem-before-start", ROWS),
    4: ("tmem-unallocated", BUGS), 5: ("tmem-address-unpublished", BUGS),
    6: ("tcgen05-fence", "test_tensor_memory.py::test_a_relaxed_wait_needs_a_fence"),
    7: ("tmem-read-unfinished", ROWS), 8: ("race", VALUES + "8_a_map_changes_after_the_copies_that_read_it"),
    9: ("scope", ROWS), 10: ("deadlock", ROWS), 11: ("race", "test_cancellation.py::test_a_bug_of_a_pair_is_found"),
    12: ("deadlock", BUGS), 13: ("race", ROWS), 14: ("values", VALUES + "14_a_swizzled_tile_begins_at_its_pattern"),
    15: ("tmem-race", ROWS), 16: ("tmem-race", ROWS), 17: ("tmem-race", ROWS), 18: ("over-arrival", ROWS),
    19: ("deadlock", ROWS), 20: ("mbarrier-reinit", ROWS), 21: ("phase-alias", ROWS), 22: ("proxy", ROWS),
    23: ("tmem-race", ROWS), 24: ("dsmem-after-exit", ROWS), 25: ("mbarrier-lifetime", BUGS),
    26: ("phase-alias", ROWS), 27: ("race", ROWS), 28: ("tmem-double-free", BUGS), 29: ("invalid-barrier", ROWS),
    30: ("tmem-race", BUGS), 31: ("tmem-address-unpublished", ROWS), 32: ("phase-alias", ROWS), 33: ("race", ROWS),
    34: ("tmem-race", ROWS), 35: ("over-arrival", BUGS), 36: ("tmem-bounds", BUGS), 37: ("race", ROWS),
    38: ("proxy", ROWS), 39: ("tcgen05-issued-by-many", ROWS), 40: ("race", BUGS), 41: ("tmem-race", BUGS),
    42: ("tmem-race", PAIRS), 43: ("tmem-race", PAIRS), 44: ("tmem-race", ROWS), 45: ("tmem-wrong-quarter", BUGS),
    46: ("tmem-wrong-quarter", ROWS), 47: ("values", VALUES + "47_sums_of_16_bits_have_a_column_each"),
    48: ("tmem-uninitialized", VALUES + "48_factors_have_a_copy_in_each_quarter"), 49: ("tmem-uninitialized", BUGS),
    50: ("deadlock", BUGS), 51: ("tmem-leak", BUGS),
    52: ("incomplete", "test_tensor_memory.py::test_ctas_that_wait_for_each_other_give_up_the_permit"),
    53: ("clc-after-failure", "test_cancellation.py::test_a_request_after_a_failure_is_found"),
    54: ("deadlock", "test_cancellation.py::test_a_bug_of_a_pair_is_found"), 55: ("tmem-cta-group-mixed", ROWS),
    56: ("collector-without-fill", ROWS), 57: ("values", VALUES + "57_k_goes_on_in_the_next_swizzle_atom"),
    58: ("deadlock", VALUES + "58_the_leader_of_a_pair_expects_the_bytes_of_both"), 59: ("tcgen05-descriptor", BUGS),
    60: ("proxy", ROWS),
}  # fmt: skip
"""row -> code, and test; `values`: the results differ from those of the repaired program, which no code shows"""


class BugRow(NamedTuple):
    """A row: its number, its code, its test, and that of its repaired twin."""

    number: int
    code: str
    test: str
    twin: str


def list_rows() -> list[BugRow]:
    return [BugRow(number, code, test, TWINS.get(test, test)) for number, (code, test) in sorted(TABLE.items())]


def main() -> None:
    rows = list_rows()
    if "--tests" in sys.argv[1:]:
        print(" ".join(sorted({f"tests/unit/{test}" for row in rows for test in (row.test, row.twin)})))
        return
    for row in rows:
        print(f"{row.number:2}  {row.code:26}{row.test}" + (f", twin {row.twin}" if row.twin != row.test else ""))


if __name__ == "__main__":
    main()
