"""`cmath` on complex128, with C99's values at infinities and nans (ISO C, annex G); Kahan's formulas for the inverses.

Written for kernels: `inlined` walks these functions, and Python never calls them.
"""

import math

LARGE = 4.49423283715579e307
"""half of the largest float64: the sum of two larger numbers may overflow"""
SMALL = 1.4916681462400413e-154
"""root of the smallest normal float64"""
LN2 = 0.6931471805599453
LN10 = 2.302585092994046


def exp(z):
    x, y = z.real, z.imag
    size = math.exp(x)
    if y == 0.0:
        return complex(size, y)
    if math.isinf(x) and not math.isfinite(y):
        if x > 0.0:
            return complex(x, math.nan)
        return complex(0.0, 0.0)
    return complex(size * math.cos(y), size * math.sin(y))


def log(z):
    x, y = z.real, z.imag
    return complex(math.log(math.hypot(x, y)), math.atan2(y, x))


def log_of_base(z, base):
    return log(z) / log(base)


def log10(z):
    value = log(z)
    return complex(value.real / LN10, value.imag / LN10)


def log2(z):
    value = log(z)
    return complex(value.real / LN2, value.imag / LN2)


def phase(z):
    return math.atan2(z.imag, z.real)


def polar(z):
    return math.hypot(z.real, z.imag), math.atan2(z.imag, z.real)


def rect(size, angle):
    if not math.isfinite(angle):
        if size == 0.0:
            return complex(abs(size), 0.0)
        if math.isinf(size):
            return complex(size, angle)
    x, y = math.cos(angle), math.sin(angle)
    if math.isinf(size):
        if x != 0.0:
            x = x * size
        if y != 0.0:
            y = y * size
        elif size < 0.0:
            y = -y
        return complex(x, y)
    return complex(size * x, size * y)


def sqrt(z):
    x, y = z.real, z.imag
    if x == 0.0 and y == 0.0:
        return complex(abs(x), y)
    if math.isinf(y):
        return complex(abs(y), y)
    if math.isnan(x):
        return complex(x, x)
    if math.isinf(x):
        if x < 0.0:
            return complex(abs(y - y), math.copysign(x, y))
        return complex(x, math.copysign(y - y, y))
    scaled = abs(x) >= LARGE or abs(y) >= LARGE
    if scaled:
        x, y = x * 0.25, y * 0.25
    if x >= 0.0:
        root = math.sqrt((x + math.hypot(x, y)) * 0.5)
        real, imag = root, y / (2.0 * root)
    else:
        root = math.sqrt((math.hypot(x, y) - x) * 0.5)
        real, imag = abs(y) / (2.0 * root), math.copysign(root, y)
    if scaled:
        return complex(real * 2.0, imag * 2.0)
    return complex(real, imag)


def cosh(z):
    x, y = z.real, z.imag
    if math.isnan(x) and y == 0.0:
        return z
    if math.isinf(x):
        if math.isnan(y):
            return complex(abs(x), y)
        if y == 0.0:
            return complex(abs(x), y if x > 0.0 else -y)
        real, imag = math.copysign(x, math.cos(y)), math.copysign(x, math.sin(y))
        if x < 0.0:
            imag = -imag
        return complex(real, imag)
    return complex(math.cos(y) * math.cosh(x), math.sin(y) * math.sinh(x))


def sinh(z):
    x, y = z.real, z.imag
    if math.isnan(x) and y == 0.0:
        return z
    if math.isinf(x):
        if math.isnan(y):
            return complex(x, y)
        if y == 0.0:
            return complex(x, y)
        real, imag = math.copysign(x, math.cos(y)), math.copysign(x, math.sin(y))
        if x < 0.0:
            real = -abs(x) if math.cos(y) > 0.0 else abs(x)
        return complex(real, imag)
    return complex(math.cos(y) * math.sinh(x), math.sin(y) * math.cosh(x))


def tanh(z):
    x, y = z.real, z.imag
    if math.isnan(x) and y == 0.0:
        return z
    if math.isinf(x):
        real = math.copysign(1.0, x)
        if math.isinf(y):
            return complex(real, 0.0)
        return complex(real, math.copysign(0.0, math.sin(2.0 * y)))
    tx, ty = math.tanh(x), math.tan(y)
    inverse = 1.0 / math.cosh(x)
    product = tx * ty
    below = 1.0 + product * product
    return complex(tx * (1.0 + ty * ty) / below, ty / below * inverse * inverse)


def cos(z):
    return cosh(complex(-z.imag, z.real))


def sin(z):
    turned = sinh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def tan(z):
    turned = tanh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def large_log(x, y):
    return math.log(math.hypot(x * 0.5, y * 0.5)) + LN2


def acos(z):
    x, y = z.real, z.imag
    if abs(x) > LARGE or abs(y) > LARGE:
        return complex(math.atan2(abs(y), x), math.copysign(large_log(x, y), -y))
    one, other = sqrt(complex(1.0 - x, -y)), sqrt(complex(1.0 + x, y))
    return complex(2.0 * math.atan2(one.real, other.real), math.asinh(other.real * one.imag - other.imag * one.real))


def acosh(z):
    x, y = z.real, z.imag
    if abs(x) > LARGE or abs(y) > LARGE:
        return complex(large_log(x, y), math.atan2(y, x))
    one, other = sqrt(complex(x - 1.0, y)), sqrt(complex(x + 1.0, y))
    return complex(math.asinh(one.real * other.real + one.imag * other.imag), 2.0 * math.atan2(one.imag, other.real))


def asinh(z):
    x, y = z.real, z.imag
    if abs(x) > LARGE or abs(y) > LARGE:
        return complex(math.copysign(large_log(x, y), x), math.atan2(y, abs(x)))
    one, other = sqrt(complex(1.0 + y, -x)), sqrt(complex(1.0 - y, x))
    return complex(
        math.asinh(one.real * other.imag - other.real * one.imag),
        math.atan2(y, one.real * other.real - one.imag * other.imag),
    )


def asin(z):
    turned = asinh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def atanh(z):
    x, y = z.real, z.imag
    below = x < 0.0 or (x == 0.0 and math.copysign(1.0, x) < 0.0)
    if below:
        x, y = -x, -y
    size = abs(y)
    if x == 0.0 and math.isnan(y):
        real, imag = x, y
    elif math.isnan(x):
        real, imag = (
            math.copysign(0.0, x) if math.isinf(y) else x,
            math.copysign(math.pi / 2, y) if math.isinf(y) else x,
        )
    elif x > 1e153 or size > 1e153:
        far = math.hypot(x * 0.5, y * 0.5)
        real, imag = x / 4.0 / far / far, math.copysign(math.pi / 2, y)
        if math.isinf(far):
            real = 0.0
        if math.isnan(y):
            imag = y
            real = 0.0 if math.isinf(x) else y
    elif x == 1.0 and size < SMALL:
        real, imag = math.inf, y
        if size != 0.0:
            real = -math.log(math.sqrt(size) / math.sqrt(math.hypot(size, 2.0)))
            imag = math.copysign(math.atan2(2.0, -size) / 2.0, y)
    else:
        rest = 1.0 - x
        real = math.log1p(4.0 * x / (rest * rest + size * size)) / 4.0
        imag = -math.atan2(-2.0 * y, rest * (1.0 + x) - size * size) / 2.0
    if below:
        return complex(-real, -imag)
    return complex(real, imag)


def atan(z):
    turned = atanh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def isnan(z):
    return math.isnan(z.real) or math.isnan(z.imag)


def isinf(z):
    return math.isinf(z.real) or math.isinf(z.imag)


def isfinite(z):
    return math.isfinite(z.real) and math.isfinite(z.imag)
