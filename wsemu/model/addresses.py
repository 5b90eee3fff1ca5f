"""What front end and analysis share of addresses: how those of functions look, and what is looked up by an address."""

FIRST_FUNCTION, FUNCTION_STEP = 1 << 54 | 0x1000, 0x10
"""addresses of functions, in a segment that there is not: no number that a program computes with is one of them"""
WORKSPACE = 0x105E_ED13_5EED_1000
"""the address of the workspace of a cooperative grid, where no segment is; no program computes with its halves"""
LOOKED_UP = "%address"
"""`Program.array_of` of arithmetic by which the front end looks up where an address leads: its result is the same
wherever memory lies"""
ALLOCATED = "%block"
"""the same of what gives the address of a new block of the heap"""
SAVED = "%saved"
"""the same, with a number for the call behind it, of what saves registers before a call and restores them behind it"""


def is_function(value: int) -> bool:
    """Return whether a number of 64 bits is the address of a function."""
    return value >> 32 == FIRST_FUNCTION >> 32
