"""Out of bounds: a table of pointers that the host stored still leads to a row that it has freed.

Hardware: the memory may belong to another allocation, or to none: an illegal address.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
memory = wsemu.DeviceMemory()
rows = [memory.allocate(128, name) for name in ("first", "second")]
table, out = memory.allocate(16, "table"), memory.allocate(128, "out")
for n, row in enumerate(rows):
    memory.write(row, np.arange(32, dtype=np.int32) * n)
memory.write(table, np.array(rows, np.uint64))
memory.free(rows[1])
wsemu.check(kernel, 1, 32, (table, out), memory=memory)
