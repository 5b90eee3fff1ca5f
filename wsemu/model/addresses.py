"""Addresses in front end and analysis: the form of functions' addresses, and data that is looked up by an address."""

FIRST_FUNCTION, FUNCTION_STEP = 1 << 54 | 0x1000, 0x10
"""addresses of functions, in a segment that there is not: no number that a program computes with is one of them"""
WORKSPACE = 0x105E_ED13_5EED_1000
"""the address of the workspace of a cooperative grid, where no segment is; no program computes with its halves"""
LOOKED_UP = "%address"
"""`Program.array_of` of arithmetic by which the front end looks up where an address leads: its result is the same
wherever memory lies"""
ALLOCATED = "%block"
"""likewise for the operation that returns the address of a new heap block"""
SAVED = "%saved"
"""likewise, with a number for the call between them, for the operations that save registers before a call and restore
them after it"""


def is_function(value: int) -> bool:
    """Return whether a number of 64 bits is the address of a function."""
    return value >> 32 == FIRST_FUNCTION >> 32
