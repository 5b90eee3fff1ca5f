"""NumPy's reductions of arrays, as loops of one thread over all elements in row order, as Numba computes them.

Each is the text of a function of `x`; a loop over `elements` becomes loops over its dimensions.
`zero`, `one` and `undefined` (nan) have the type of the result; `mean` and `var` call the reductions of these names;
`{relation}` compares `value` and `best`.
"""

SUM = """
total = zero
for value in elements:
    total += value
return total
"""
PRODUCT = """
total = one
for value in elements:
    total *= value
return total
"""
MEAN = """
total = zero
for value in elements:
    total += value
return total / x.size
"""
VARIANCE = """
middle = mean(x)
total = zero_float
for value in elements:
    away = value - middle
    total += away.real * away.real + away.imag * away.imag
return total / x.size
"""
DEVIATION = """
return math.sqrt(var(x))
"""
ALL = """
for value in elements:
    if not value:
        return False
return True
"""
ANY = """
for value in elements:
    if value:
        return True
return False
"""
COUNT = """
count = 0
for value in elements:
    if value:
        count += 1
return count
"""
EXTREME = """
best = x[{first}]
for value in elements:
    if value != value:
        return value
    if {relation}:
        best = value
return best
"""
PLACE = """
best = x[{first}]
place = 0
number = 0
for value in elements:
    if best == best and ({relation} or value != value):
        best = value
        place = number
    number += 1
return place
"""
NAN_SUM = """
total = zero
for value in elements:
    if value == value:
        total += value
return total
"""
NAN_PRODUCT = """
total = one
for value in elements:
    if value == value:
        total *= value
return total
"""
NAN_MEAN = """
total = zero
count = 0
for value in elements:
    if value == value:
        total += value
        count += 1
if count == 0:
    return undefined
return total / count
"""
NAN_VARIANCE = """
middle = nanmean(x)
total = zero_float
count = 0
for value in elements:
    if value == value:
        away = value - middle
        total += away.real * away.real + away.imag * away.imag
        count += 1
if count == 0:
    return undefined
return total / count
"""
NAN_DEVIATION = """
return math.sqrt(nanvar(x))
"""
NAN_EXTREME = """
best = x[{first}]
for value in elements:
    if {relation} or best != best:
        best = value
return best
"""
