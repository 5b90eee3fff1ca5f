"""Run the examples of CuPy's user guide under `wsemu run`, a section of a page at a time, and print a table.

    python benchmarks/user_guide.py --python clients/bin/python cupy/docs/source/user_guide/kernel.rst

The examples of a section are a doctest: what they print is compared with what the page shows.  Sections that only
define kernels get calls of these.  The Python needs cupy, and packages with headers and NVRTC.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from programs import add_options, print_table

IMPORTS = ">>> import cupy, numpy\n>>> import cupy as cp, numpy as np\n"
EDITS = {
    "2 ** 22": "2 ** 14",
    "cp.random.random((256, 256, 256), dtype=cp.float32)": "cp.asarray(np.random.rand(16, 16, 16), cp.float32)",
    "cp.random.random((256, 1024))": "cp.asarray(np.random.rand(16, 64))",
    "cupy.random.normal(size=(size,), dtype=cupy.float32)": "cupy.asarray(numpy.random.normal(size=size), 'float32')",
}
"""expressions in examples, and those that replace them: smaller sizes, and NumPy's random numbers for cuRAND's"""
CALLS = {
    "Type-generic kernels": """
>>> x, y = cp.arange(10.0).reshape(2, 5), cp.arange(5.0)
>>> assert (squared_diff_generic(x, y) == (x - y) ** 2).all()
>>> z = cp.empty((2, 5), dtype=np.float32)
>>> assert (squared_diff_super_generic(x, y.astype(np.int32), z) == (x - y) ** 2).all()
""",
    "Raw argument specifiers": """
>>> x, y = cp.arange(10), cp.arange(10) ** 2
>>> assert (add_reverse(x, y) == x + y[::-1]).all()
""",
    "Kernel fusion": """
>>> assert (squared_diff(x_cp, y_cp) == (x_cp - y_cp) ** 2).all()
>>> assert int(sum_of_products(x_cp, y_cp)) == int((x_np * y_np).sum())
""",
    "Use CUB/cuTENSOR backends for reduction and other routines": """
>>> sums = [float(a.sum())]
>>> cp._core.set_routine_accelerators([])
>>> sums.append(float(a.sum()))
>>> assert max(abs(one - float(cp.asnumpy(a).sum())) for one in sums) < 1e-2
""",
    "Custom user types": """
>>> trace = cp.RawKernel('''struct Matrix { float value[5][5]; };
... extern "C" __global__ void trace(Matrix m, float *out) {
...     float sum = 0;
...     for (int n = 0; n < 5; n++) sum += m.value[n][n];
...     *out = sum;
... }''', "trace")
>>> out = cp.zeros(1, dtype=np.float32)
>>> trace((1,), (1,), (arg, out))
>>> assert abs(float(out[0]) - float(np.trace(arg["dummy"][0]))) < 1e-5
""",
}
"""calls that are added to a section, by its title"""
TITLE = re.compile(r"^(\S.*)\n([-=^~.]{4,})$", re.MULTILINE)


def read_sections(text: str) -> dict[str, str]:
    """Return the examples of a page by the titles of its sections."""
    parts = TITLE.split(text)
    titled = zip(parts[1::3], parts[3::3], strict=True)
    return {title: body for title, body in titled if ">>>" in body}


def edit(title: str, text: str) -> str:
    """Return the examples of a section with smaller sizes, and with its calls."""
    for old, new in EDITS.items():
        text = text.replace(old, new)
    return IMPORTS + text + CALLS.get(title, "")


def main() -> None:
    """Run the sections and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--python", required=True, help="a Python with the packages")
    add_options(parser)
    options = parser.parse_args()
    flags = ["-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE"]
    with tempfile.TemporaryDirectory() as top:
        commands: dict[Path, list[str]] = {}
        for page in options.pages:
            for title, body in read_sections(page.read_text()).items():
                made = Path(top) / f"{page.stem}-{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}"
                made.write_text(edit(title, body))
                commands[made] = [options.python, "-m", "doctest", *flags, str(made)]
        print_table(commands, options)


if __name__ == "__main__":
    main()
