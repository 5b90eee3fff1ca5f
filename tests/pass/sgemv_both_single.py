"""No false alarm: the SGEMV of the CudaDMA paper with DMA warps for vector and matrix, one buffer each (`both_single`).

`compute-sanitizer --tool racecheck` (CUDA 13.0, on an H200) reports 144 errors in CudaDMA's own SGEMV of this kind with
n = 1024, in 40.7 s against 0.3 s without it.  The kernel is correct.
"""

import runpy
import sys
from pathlib import Path

import numpy as np

N = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "sgemv.py"))
matrix = np.ones((N, N), np.float32, order="F")
x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
example["sgemv"][N // example["COMPUTE_THREADS"], example["BLOCK"]](N, np.float32(0.75), matrix, x, y)
assert (y == 0.75 * N).all()
