"""The form of addresses that the front end and the analyses share: addresses of functions, and data that a program
looks up by an address."""

FIRST_FUNCTION, FUNCTION_STEP = 1 << 54 | 0x1000, 0x10
"""addresses of functions, in a segment that does not exist, so that no number that a program computes equals one of
them"""
WORKSPACE = 0x105E_ED13_5EED_1000
"""address of the workspace of a cooperative grid, in no segment; no program computes with its halves"""
LOOKED_UP = "%address"
"""value of `Program.array_of` for arithmetic that looks up which memory an address is in: its result does not depend on
where memory is located"""
ALLOCATED = "%block"
"""value of `Program.array_of` for the operation that returns the address of a new heap block"""
RELATIVE, HALF_RELATIVE = "%relative", "%half relative"
"""value of `Program.array_of` for arithmetic with two addresses that may be relative to their state space, and with one
that may be: as a number, such an address may be 0, and differs between GPUs"""
WATCHED = "%watched"
"""start of the value of `Program.array_of` for a comparison of addresses before which the kernel tests whether one of
them is the end of its allocation and the other one the start of another allocation"""
WATCHED_GLOBAL = WATCHED + " global"
"""start of the value for a comparison before which the kernel tests only allocations in global memory"""
SAVED = "%saved"
"""value of `Program.array_of`, followed by the number of the call, for operations that save registers before a call and
restore them after it"""


def is_function(value: int) -> bool:
    """Return whether a number of 64 bits is the address of a function."""
    return value >> 32 == FIRST_FUNCTION >> 32
