"""Functions of `cuda.libdevice` that are not operations of the machine, in float64. NVIDIA's libdevice User's Guide
defines their results, also for zeros, infinities and nans.

Written for kernels: `inlined` walks these functions, and Python never calls them.
"""

import math

import numpy as np

WIDE = frozenset(
    "erfinv erfcinv erfcx normcdf normcdfinv j0 j1 y0 y1 jn yn logb ilogb sincos sincospi remquo powi llrint llround "
    "signbit".split()
)
"""functions that are defined on float64, and used for float32 as well"""
LEAST, MOST = np.int32(-(2**31)), np.int32(2**31 - 1)
EULER = 0.5772156649015329
ROOT_OF_PI = 1.772453850905516
TWO_OVER_PI = 0.6366197723675814


# -- the error function and the normal distribution ------------------------------------------------------------------
def _central(y):
    """Return erfinv for |y| of at most 0.5, by Newton's method."""
    x = y * 0.886226925452758
    for _ in range(5):
        x -= (math.erf(x) - y) * (0.5 * ROOT_OF_PI) * math.exp(x * x)
    return x


def _upper(y):
    """Return erfcinv for 0 < y <= 0.5, by Halley's method."""
    t = math.sqrt(-2.0 * math.log(y / 2.0))
    x = -0.70711 * ((2.30753 + t * 0.27061) / (1.0 + t * (0.99229 + t * 0.04481)) - t)
    for _ in range(4):
        excess = (math.erfc(x) - y) / ((2.0 / ROOT_OF_PI) * math.exp(-x * x))
        x += excess / (1.0 - x * excess)
    return x


def erfcinv(y):
    if not (y >= 0.0 and y <= 2.0):
        return math.nan
    if y == 0.0:
        return math.inf
    if y == 2.0:
        return -math.inf
    if y < 0.5:
        return _upper(y)
    if y > 1.5:
        return -_upper(2.0 - y)
    return _central(1.0 - y)


def erfinv(y):
    if not abs(y) <= 1.0:
        return math.nan
    if abs(y) <= 0.5:
        return _central(y)
    return math.copysign(erfcinv(1.0 - abs(y)), y)


def erfcx(x):
    if x > 25.0:
        s = 1.0 / (2.0 * x * x)
        series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
        return series / (x * ROOT_OF_PI)
    if x < -27.0:
        return math.inf
    near = np.float64(np.float32(x))  # the square of `near` is exact
    return math.exp(near * near) * math.exp((x - near) * (x + near)) * math.erfc(x)


def normcdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


def normcdfinv(p):
    return -1.4142135623730951 * erfcinv(2.0 * p)


# -- Bessel functions ------------------------------------------------------------------------------------------------
def _small(x):
    """Return J0, J1, Y0, Y1 for 0 < x < 25, from the downward recurrence (Miller) and Neumann's series of Y."""
    after, value = 0.0, 1e-250
    total, even, odd, first = 0.0, 0.0, 0.0, 0.0
    for step in range(100):
        order = 100 - step  # `value` is J of this order, up to a factor
        half = order // 2
        sign = 1.0 if half % 2 else -1.0
        if order % 2 == 0:
            total += 2.0 * value
            even += sign * value / half
        elif order > 1:
            odd -= sign * value * order / (half * (half + 1.0))
        else:
            first = value
        before = 2.0 * order / x * value - after
        after, value = value, before
        if abs(value) > 1e150:
            after, value, total, even, odd = after * 1e-200, value * 1e-200, total * 1e-200, even * 1e-200, odd * 1e-200
            first *= 1e-200
    total += value
    zero, one = value / total, first / total
    log = math.log(0.5 * x) + EULER
    second_zero = TWO_OVER_PI * (log * zero + 2.0 * even / total)
    second_one = TWO_OVER_PI * ((log - 1.0) * one - zero / x - odd / total)
    return zero, one, second_zero, second_one


def _large(x, order):
    """Return J and Y of order 0 or 1 for x of at least 25: Hankel's expansion."""
    p, q, term = 1.0, 0.0, 1.0
    for k in range(1, 26):
        term *= (4.0 * order * order - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (k * 8.0 * x)
        if k % 4 == 1:
            q += term
        elif k % 4 == 2:
            p -= term
        elif k % 4 == 3:
            q -= term
        else:
            p += term
    sine, cosine = math.sin(x), math.cos(x)
    scale = 0.5641895835477563 / math.sqrt(x)  # factor of sine and cosine of x - pi / 4, and of x - 3 pi / 4
    c, s = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -(cosine + sine))
    return scale * (p * c - q * s), scale * (p * s + q * c)


def _all(x):
    """Return J0, J1, Y0, Y1 for x > 0."""
    if math.isinf(x):
        return 0.0, 0.0, 0.0, 0.0
    if x < 1e-8:
        return 1.0, 0.5 * x, TWO_OVER_PI * (math.log(0.5 * x) + EULER), -TWO_OVER_PI / x
    if x < 25.0:
        return _small(x)
    zero, second_zero = _large(x, 0)
    one, second_one = _large(x, 1)
    return zero, one, second_zero, second_one


def j0(x):
    if x == 0.0 or math.isnan(x):
        return x + 1.0
    return _all(abs(x))[0]


def j1(x):
    if x == 0.0 or math.isnan(x):
        return x
    return math.copysign(1.0, x) * _all(abs(x))[1]


def y0(x):
    if x == 0.0:
        return -math.inf
    if not x > 0.0:
        return math.nan
    return _all(x)[2]


def y1(x):
    if x == 0.0:
        return -math.inf
    if not x > 0.0:
        return math.nan
    return _all(x)[3]


def _downwards(n, x):
    """Return J of order n > x > 0, by the downward recurrence from a much higher order."""
    start = 2 * ((n + 60 + int(x)) // 2)
    after, value, total, found = 0.0, 1e-250, 0.0, 0.0
    for step in range(start):
        order = start - step
        if order % 2 == 0:
            total += 2.0 * value
        if order == n:
            found = value
        before = 2.0 * order / x * value - after
        after, value = value, before
        if abs(value) > 1e150:
            after, value, total, found = after * 1e-200, value * 1e-200, total * 1e-200, found * 1e-200
    return found / (total + value)


def jn(n, x):
    if n < 0 or math.isnan(x):
        return math.nan
    if n == 0:
        return j0(x)
    if x == 0.0 or math.isinf(x):
        return 0.0
    size = abs(x)
    sign = -1.0 if x < 0.0 and n % 2 else 1.0
    if n > size:
        return sign * _downwards(n, size) if size > 1e-8 else 0.0 if n > 1 else 0.5 * x
    before, value = j0(size), j1(size)
    for order in range(1, n):
        before, value = value, 2.0 * order / size * value - before
    return sign * value


def yn(n, x):
    if n < 0:
        return math.nan
    if n == 0 or not x > 0.0:
        return y0(x)
    before, value = y0(x), y1(x)
    for order in range(1, n):
        before, value = value, 2.0 * order / x * value - before
    return value


# -- parts of numbers --------------------------------------------------------------------------------------------------
def ilogb(x):
    if math.isinf(x):
        return MOST
    if x == 0.0 or math.isnan(x):
        return LEAST
    return np.int32(math.frexp(x)[1] - 1)


def logb(x):
    if x == 0.0:
        return -math.inf
    if not math.isfinite(x):
        return abs(x)
    return float(math.frexp(x)[1] - 1)


def signbit(x):
    return np.int32(x.view(np.int64) < 0)


def llrint(x):
    return np.int64(round(x)) if abs(x) < 4503599627370496.0 else np.int64(x)


def llround(x):
    whole = np.int64(x)
    if abs(x) < 4503599627370496.0 and abs(x - whole) >= 0.5:
        whole += 1 if x > 0.0 else -1
    return whole


def sincos(x):
    return math.sin(x), math.cos(x)


def sincospi(x):
    rest = math.fmod(x, 2.0)  # remove whole turns
    size = abs(rest)
    sign = math.copysign(1.0, -rest if size > 1.0 else rest)
    size = 2.0 - size if size > 1.0 else size
    near = size if size < 0.5 else 1.0 - size
    return sign * math.sin(math.pi * near), math.sin(math.pi * (0.5 - size))


def powi(x, n):
    return math.pow(x, float(n))


def remquo(x, y):
    rest = math.remainder(x, y)
    size = abs(y)
    quotient = 0
    if math.isfinite(x) and math.isfinite(y) and y != 0.0:
        part = math.fmod(abs(x), 8.0 * size)
        quotient = int((part - math.copysign(1.0, x) * rest) / size + 0.5) & 7
    if (x < 0.0) != (y < 0.0):
        quotient = -quotient
    return rest, quotient


def float2half(x):
    return np.float16(x).view(np.int16)


def half2float(x):
    return np.float32(x.view(np.float16))


def hiloint2double(high, low):
    return ((np.int64(high) << 32) | (np.int64(low) & 0xFFFFFFFF)).view(np.float64)


def double2hiint(x):
    return np.int32(x.view(np.int64) >> 32)


def double2loint(x):
    return np.int32(x.view(np.int64))


def hadd(x, y):
    return np.int32((np.int64(x) + np.int64(y)) >> 1)


def rhadd(x, y):
    return np.int32((np.int64(x) + np.int64(y) + 1) >> 1)


def sad(x, y, z):
    return np.int32(abs(np.int64(x) - np.int64(y)) + np.int64(z))


def byte_perm(x, y, selector):
    both = (np.int64(y) << 32) | (np.int64(x) & 0xFFFFFFFF)
    result = np.int64(0)
    for n in range(4):
        place = (np.int64(selector) >> (4 * n)) & 7
        result |= ((both >> (8 * place)) & 0xFF) << (8 * n)
    return np.int32(result)


# -- directed rounding -------------------------------------------------------------------------------------------------
def double2float_rz(x):
    near = np.float32(x)
    return math.nextafter(near, np.float32(0.0)) if abs(near) > abs(x) else near


def double2float_rd(x):
    near = np.float32(x)
    return math.nextafter(near, np.float32(-math.inf)) if near > x else near


def double2float_ru(x):
    near = np.float32(x)
    return math.nextafter(near, np.float32(math.inf)) if near < x else near


def _beyond(near, x):
    """Return whether the float nearest to an integer lies above (1) or below (-1) it; numbers of 64 bits are compared
    as such."""
    wide = np.float64(near)
    if wide >= 9223372036854775808.0:
        rest = np.uint64(wide - 9223372036854775808.0) if wide < 18446744073709551616.0 else np.uint64(1 << 63)
        above = np.uint64(x) - np.uint64(1 << 63)
        if x < 0 or np.uint64(x) < np.uint64(1 << 63) or rest > above:
            return 1
        return -1 if rest < above else 0
    whole = np.int64(wide)
    if np.uint64(x) >= np.uint64(1 << 63) and x > 0:
        return -1
    return 1 if whole > np.int64(x) else -1 if whole < np.int64(x) else 0


def to_float_rd(x):
    near = np.float32(x)
    return math.nextafter(near, np.float32(-math.inf)) if _beyond(near, x) > 0 else near


def to_float_ru(x):
    near = np.float32(x)
    return math.nextafter(near, np.float32(math.inf)) if _beyond(near, x) < 0 else near


def to_float_rz(x):
    return to_float_rd(x) if x > 0 else to_float_ru(x)


def to_double_rd(x):
    near = np.float64(x)
    return math.nextafter(near, -math.inf) if _beyond(near, x) > 0 else near


def to_double_ru(x):
    near = np.float64(x)
    return math.nextafter(near, math.inf) if _beyond(near, x) < 0 else near


def to_double_rz(x):
    return to_double_rd(x) if x > 0 else to_double_ru(x)
