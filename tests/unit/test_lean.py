"""`wsemu lean`: what the proofs of a program's launches do not need."""

from __future__ import annotations

from tests.commands import wsemu as command

PROGRAM = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def reversed(x, y, total):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[63 - t]
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(total, 0, 1)

for ctas in {ctas}:
    x = np.arange(64, dtype=np.float32)
    reversed[ctas, 64](x, np.zeros(64 * ctas, np.float32)[:64], np.zeros(1, np.int32))
"""


def lean(tmp_path, text):
    (tmp_path / "program.py").write_text(text)
    return command("lean", "program.py", cwd=tmp_path)


def test_what_a_proof_does_not_need_is_told_with_the_steps_saved(tmp_path):
    said = " ".join(lean(tmp_path, PROGRAM.format(ctas=[1])).stdout.split())
    assert "reversed: 3 barriers, fences and atomics, left out one by one in 1 verified launch (1 x 64" in said
    assert "program.py:11: `cuda.syncthreads()` is not needed: 2 fewer warp instructions" in said
    assert "program.py:9:" not in said
    assert "`total[0] += 1` in its place is enough" in said


def test_what_one_launch_needs_is_needed(tmp_path):
    atomic = PROGRAM.replace("    y[t] = tile[63 - t]\n", "    y[t + 64 * cuda.blockIdx.x] = tile[63 - t]\n")
    atomic = atomic.replace("[:64]", "")
    said = " ".join(lean(tmp_path, atomic.format(ctas=[1, 2])).stdout.split())
    assert "in 2 verified launches (1 x 64 threads, 2 x" in said
    assert "cuda.atomic.add" not in said
    assert "program.py:11:" in said


def test_nothing_is_taken_from_what_is_not_verified(tmp_path):
    racing = PROGRAM.replace("    y[t] = tile[63 - t]\n", "    y[t] = tile[63 - t] + cuda.blockIdx.x\n")
    done = lean(tmp_path, racing.format(ctas=[2]))
    assert done.returncode == 1
    assert "no launch is verified" in done.stdout


TRANSPOSED = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def transposed(x, y):
    tile = cuda.shared.array((32, 32), np.float32)
    t = cuda.threadIdx.x
    for k in range(32):
        tile[k, t] = x[k, t]
    cuda.syncwarp()
    for k in range(32):
        y[k, t] = tile[t, k]

transposed[1, 32](np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32))
"""


def test_a_padding_that_saves_wavefronts_is_told(tmp_path):
    said = " ".join(lean(tmp_path, TRANSPOSED).stdout.split())
    assert "program.py:6: write `33` in place of `32` in line 6: 992 fewer wavefronts of shared memory" in said


ONE = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def reversed(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
{barrier}
    y[t] = tile[{read}]

reversed[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
"""


def test_one_thing_is_told_in_the_singular(tmp_path):
    said = lean(tmp_path, ONE.format(barrier="    cuda.syncthreads()", read="63 - t")).stdout
    assert "that holds for these launches" not in said
    assert (
        "reversed: 1 barrier, fence or atomic, left out in 1 verified launch (1 x 64\n  threads)\n  it is needed\n"
        in said
    )
    said = lean(tmp_path, ONE.format(barrier="    cuda.syncthreads()", read="t")).stdout
    assert "program.py:9: `cuda.syncthreads()` is not needed: 2 fewer warp instructions" in said
    assert "reversed: no barrier, fence or atomic in 1 " in lean(tmp_path, ONE.format(barrier="", read="t")).stdout


IN_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry reversed(.param .u64 x, .param .u64 y)
{
.reg .b32 %r<5>; .reg .b64 %rd<9>; .shared .b32 tile[64];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3; ld.global.u32 %r2, [%rd4];
mov.u64 %rd5, tile; add.u64 %rd6, %rd5, %rd3; st.shared.u32 [%rd6], %r2;
bar.sync 0;
sub.u64 %rd7, %rd5, %rd3; ld.shared.u32 %r3, [%rd7+252];
fence.acq_rel.gpu;
add.u64 %rd8, %rd2, %rd3; st.global.u32 [%rd8], %r3;
bar.sync 0;
ret;
}
"""


def test_what_a_proof_of_ptx_does_not_need_is_told(tmp_path):
    (tmp_path / "k.ptx").write_text(IN_PTX)
    launch = "--grid 1 --block 64 --arg i32[64]:arange --arg i32[64]:empty".split()
    done = command("lean", "k.ptx", *launch, cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, said
    assert "reversed: 3 barriers and fences, left out one by one in 1 verified launch (1 x 64 threads)" in said
    assert "k.ptx:14: `__threadfence()` is not needed: 2 fewer warp instructions" in said
    assert "k.ptx:16: `__syncthreads()` is not needed: 2 fewer warp instructions" in said
    assert "k.ptx:12:" not in said
