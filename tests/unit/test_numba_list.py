"""The list: what Numba-CUDA kernels may use, feature by feature by its name.

Each entry of `numba_features.txt` runs as a kernel of one thread and as plain Python on NumPy's arrays, and has to
leave the same in them.
"""

from __future__ import annotations

import cmath
import collections
import enum
import math
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch.check import check


class Kind(enum.Enum):
    ROUND = 1
    FLAT = 2


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


Pair = collections.namedtuple("Pair", "x y")
TABLE = (1, 2.5, 3)
CONSTANT = np.arange(6.0).reshape(2, 3)
RECORD = np.dtype([("a", "f8"), ("n", "i4", (3,)), ("inner", [("p", "f4"), ("q", "i4")])], align=True)

LIST = Path(__file__).resolve().parents[1] / "data" / "numba_features.txt"
_, *_PARTS = re.split(r"^# ", LIST.read_text(encoding="utf-8"), flags=re.MULTILINE)
FEATURES = {name: body.rstrip() for name, _, body in (part.partition("\n") for part in _PARTS)}


def arguments() -> dict[str, Any]:
    return {
        "a": np.arange(12.0).reshape(3, 4) / 7 + 0.1,
        "f": np.arange(8) - 2.5,
        "n": np.array([7, -3, 2, 100, 0, 5]),
        "z": np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j]),
        "r": np.zeros(2, RECORD).view(np.recarray),
        "o": np.zeros(8),
    }


NAMES = {
    "cuda": cuda, "np": np, "math": math, "cmath": cmath, "operator": operator, "Kind": Kind, "Level": Level,
    "Pair": Pair, "TABLE": TABLE, "CONSTANT": CONSTANT,
}  # fmt: skip


@pytest.mark.parametrize("name", FEATURES)
def test_feature(name: str) -> None:
    given, wanted = arguments(), arguments()
    given["r"] = given["r"].view(np.ndarray)
    lines = "\n".join(f"    {line}" for line in FEATURES[name].splitlines())
    text = f"def made({', '.join(given)}):\n{lines}\n"
    space = dict(NAMES)
    exec(text, space)
    function: Any = space["made"]
    function.__source__ = text
    check(cuda.jit(function), 1, 1, tuple(given.values())).assert_clean()
    function(**wanted)
    for key, array in given.items():
        if array.dtype.names:
            assert array.tobytes() == wanted[key].tobytes()
        else:
            assert np.allclose(array, wanted[key], rtol=1e-13), key
