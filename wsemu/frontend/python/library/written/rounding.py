"""`round` in float64 to a number of digits that only the run determines.

The functions are kernel code: `inlined` lowers them, and Python never calls them.
"""

import math


def to_digits(x, digits):
    if not math.isfinite(x):
        return x
    first, second = 1.0, 1.0
    if digits > 22:
        first, second = 10.0 ** (digits - 22), 1e22
    elif digits >= 0:
        first = 10.0**digits
    else:
        first = 10.0 ** (-digits)
    scaled = x * first * second if digits >= 0 else x / first
    if math.isinf(scaled):
        return x
    whole = float(round(scaled))
    if abs(scaled - whole) == 0.5:
        whole = 2.0 * round(scaled / 2.0)
    return whole / second / first if digits >= 0 else whole * first
