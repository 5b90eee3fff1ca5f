"""Python packages that launch through the driver: the programs of the documentation, and what torch does on "cuda".

They need the packages in `$WSEMU_CLIENTS`, a Python, or in this one; a test whose packages are not there is skipped.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from wsemu.native.compiler import find_compiler, find_platform_problem

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "docs" / "programs" / "clients"
PYTHON = os.environ.get("WSEMU_CLIENTS", sys.executable)
pytestmark = pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)


@functools.cache
def has(package):
    """Return whether the Python of the clients has a package."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([PYTHON, "-c", code], check=False, capture_output=True).returncode == 0


def run(program, *packages, options=()):
    for package in packages:
        if not has(package):
            pytest.skip(f"needs {package}")
    command = [sys.executable, "-m", "wsemu", "run", *options, "--", PYTHON, "-W", "ignore", str(program)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=PROGRAMS)


@pytest.mark.parametrize(
    ("program", "page", "packages"),
    [
        ("softmax", "triton", ("torch", "triton")),
        ("total", "cupy", ("cupy",)),
        ("core_add", "cuda_core", ("cuda", "numpy")),
        ("cute_add", "cute", ("cutlass", "torch")),
    ],
)
def test_a_program_of_the_documentation_is_verified(program, page, packages):
    done = run(PROGRAMS / f"{program}.py", *packages)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.splitlines()[-1]
    assert summary in (ROOT / "docs" / f"{page}.md").read_text()


@pytest.mark.parametrize(
    ("program", "page", "packages"),
    [
        ("histogram", "triton", ("torch", "triton")),
        ("total_broken", "cupy", ("cupy",)),
        ("core_add_broken", "cuda_core", ("cuda", "numpy")),
        ("cute_add_broken", "cute", ("cutlass", "torch")),
    ],
)
def test_a_broken_program_of_the_documentation_is_reported_as_it_says(program, page, packages):
    done = run(PROGRAMS / f"{program}.py", *packages)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = re.findall(r"(?m)^error\[([\w-]+)\]", (ROOT / "docs" / f"{page}.md").read_text())
    assert shown
    assert all(f"error[{code}]" in done.stdout for code in shown)


def check_torch(tmp_path, text):
    """Run a program of torch, with a Triton kernel that makes one launch."""
    file = tmp_path / "program.py"
    file.write_text(KERNEL + text)
    return run(file, "torch", "triton")


KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2)

x, out = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
double[(1,)](x, out, BLOCK=64)
assert torch.equal(out, 2 * x) and out.is_cuda and str(out.device) == "cuda:0"
"""


def test_torch_trains_on_the_device(tmp_path):
    done = check_torch(
        tmp_path,
        """
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
data, labels = torch.randn(64, 8, device="cuda"), torch.randint(0, 2, (64,), device="cuda")
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
assert {str(p.grad.device) for p in model.parameters()} == {"cuda:0"}

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        made = torch.empty_like(value)
        double[(1,)](value, made, BLOCK=64)
        return made

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.is_cuda
        made = torch.empty(64, device="cuda")
        double[(1,)](gradient.contiguous(), made, BLOCK=64)
        return made

value = torch.ones(64, device="cuda", requires_grad=True)
Doubled.apply(value).sum().backward()
assert torch.equal(value.grad, torch.full((64,), 2.0, device="cuda"))
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 launches: 3 verified" in done.stdout


def test_torch_moves_and_mixes_as_on_a_gpu(tmp_path):
    done = check_torch(
        tmp_path,
        """
import io
def raises(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")

assert "two devices" in raises(RuntimeError, lambda: x + torch.ones(64))
assert "cuda:0 device type tensor" in raises(TypeError, x.numpy)
assert not x.cpu().is_cuda and x.cpu().numpy().shape == (64,)
for made in (torch.zeros(3, device="cuda"), torch.tensor([1, 2]).cuda(), torch.ones(2).to("cuda:0"), x[:3], x.T,
             torch.full((2,), 3.0, device=0), torch.arange(4, device="cuda") + 1, torch.empty(0, device="cuda"),
             torch.stack([x, x]), x.to(torch.float16), torch.cat([x, out])):
    assert made.is_cuda, made
with torch.device("cuda"):
    assert torch.zeros(3).is_cuda
assert torch.randn(2, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1)).is_cuda
buffer = io.BytesIO()
torch.save({"x": x}, buffer)
buffer.seek(0)
assert torch.load(buffer, map_location="cuda")["x"].is_cuda
buffer.seek(0)
assert not torch.load(buffer, map_location="cpu")["x"].is_cuda
import threading
found = []
thread = threading.Thread(target=lambda: found.append(torch.ones(2, device="cuda").is_cuda))
thread.start(); thread.join()
assert found == [True]
for _ in range(300):
    kept = [torch.ones(100, device="cuda") for _ in range(3)]
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    double[(1,)](x, out, BLOCK=64)
torch.cuda.current_stream().wait_stream(stream)
torch.cuda.synchronize()
def move(*args, **kwargs):
    return torch.nn.Linear(2, 3).to(*args, **kwargs).weight
for moved in (move("cuda"), move(x.device), move(0), move(device=0), move(device="cuda", dtype=torch.float16), move(x)):
    assert moved.is_cuda and moved.device == x.device
assert move("cuda", torch.float16).dtype is torch.float16
assert not torch.nn.Linear(2, 3).cuda().to("cpu").weight.is_cuda and not move(torch.float64).is_cuda
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 launches: 2 verified" in done.stdout


def test_memory_of_torch_empty_is_unwritten_until_something_writes_it(tmp_path):
    done = check_torch(
        tmp_path,
        """
filled = torch.empty(64, device="cuda")
filled.copy_(x)
double[(1,)](filled, out, BLOCK=64)
view = torch.empty(2, 64, device="cuda")
view[0] = 1
double[(1,)](view[0], out, BLOCK=64)
double[(1,)](torch.empty(64, device="cuda"), out, BLOCK=64)
""",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "double: 1 of 4 launches failed (uninitialized-read)" in done.stdout


def test_a_program_that_profiles_itself_runs(tmp_path):
    done = check_torch(
        tmp_path,
        """
import triton.profiler as proton

proton.start("times", hook="triton")
with proton.scope("doubled", {"bytes": 512}):
    double[(1,)](x, out, BLOCK=64)
proton.deactivate(0)
proton.activate(0)
proton.finalize()
assert out.tolist() == (x * 2).tolist()
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 launches: 2 verified" in done.stdout


def test_autotuning_takes_one_configuration(tmp_path):
    done = check_torch(
        tmp_path,
        """
@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=[])
@triton.jit
def tuned(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2)

tuned[lambda meta: (64 // meta["BLOCK"],)](x, out)
assert tuned.best_config.kwargs["BLOCK"] == 64
assert triton.testing.do_bench(lambda: double[(1,)](x, out, BLOCK=64)) == 1.0
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 launches: 3 verified" in done.stdout


def test_machine_code_that_cute_dsl_keeps_in_a_folder_of_the_program_is_loaded(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        """
import tempfile
import cuda.bindings.driver as driver
import cutlass.cute as cute

@cute.kernel
def empty():
    return

@cute.jit
def start():
    empty().launch(grid=[1, 1, 1], block=[1, 1, 1])

def call(function, *arguments):
    error, *found = function(*arguments)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return found[0] if found else None

call(driver.cuInit, 0)
call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, 0))
with tempfile.TemporaryDirectory() as folder:
    compiled = cute.compile(start, options=f"--dump-dir={folder} --keep-cubin")
    library = call(driver.cuLibraryLoadData, compiled.artifacts.CUBIN, None, None, 0, None, None, 0)
(kernel,) = call(driver.cuLibraryEnumerateKernels, 1, library)
function = call(driver.cuKernelGetFunction, kernel)
start()
print("blocks:", call(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, function, 128, 0))
"""
    )
    done = run(file, "cutlass", "cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "blocks: 16" in done.stdout


def test_code_for_the_linker_runs_together_with_ptx(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        """
import numpy as np
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

device = Device()
device.set_current()
arch = f"sm_{device.arch}"
kernel = 'extern "C" __device__ int twice(int); extern "C" __global__ void k(int *x) { *x = twice(*x); }'
function = 'extern "C" __device__ int twice(int x) { return 2 * x; }'
first = Program(kernel, "c++", ProgramOptions(arch=arch, link_time_optimization=True)).compile("ltoir")
second = Program(function, "c++", ProgramOptions(arch=arch, relocatable_device_code=True)).compile("ptx")
options = LinkerOptions(arch=arch, link_time_optimization=True)
linked = Linker(first, second, options=options).link("cubin").get_kernel("k")
stream = device.create_stream()
x = device.allocate(4, stream=stream)
value = np.array([21], np.int32)
from cuda.bindings import driver
driver.cuMemcpyHtoD(int(x.handle), value.ctypes.data, 4)
launch(stream, LaunchConfig(grid=1, block=1), linked, x)
stream.sync()
driver.cuMemcpyDtoH(value.ctypes.data, int(x.handle), 4)
print("x =", value[0])
"""
    )
    done = run(file, "cuda", "numpy")
    assert "x = 42" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_code_for_the_linker_runs_together_with_a_file_of_ptx(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        """
import numpy as np
from cuda.bindings import driver, nvjitlink
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

device = Device()
device.set_current()
arch = f"sm_{device.arch}"
kernel = 'extern "C" __device__ int twice(int); extern "C" __global__ void k(int *x) { *x = twice(21); }'
function = 'extern "C" __device__ int twice(int x) { return 2 * x; }'
code = Program(kernel, "c++", ProgramOptions(arch=arch, link_time_optimization=True)).compile("ltoir").code
text = Program(function, "c++", ProgramOptions(arch=arch, relocatable_device_code=True)).compile("ptx").code
open("FILE", "wb").write(text)
link = nvjitlink.create(2, [f"-arch={arch}", "-lto"])
nvjitlink.add_data(link, nvjitlink.InputType.LTOIR, code, len(code), "kernel")
nvjitlink.add_file(link, nvjitlink.InputType.PTX, "FILE")
nvjitlink.complete(link)
linked = bytearray(nvjitlink.get_linked_cubin_size(link))
nvjitlink.get_linked_cubin(link, linked)
stream = device.create_stream()
x = device.allocate(4, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), ObjectCode.from_cubin(bytes(linked)).get_kernel("k"), x)
stream.sync()
value = np.zeros(1, np.int32)
driver.cuMemcpyDtoH(value.ctypes.data, int(x.handle), 4)
print("x =", value[0])
""".replace("FILE", str(tmp_path / "twice.ptx"))
    )
    done = run(file, "cuda", "numpy")
    assert "x = 42" in done.stdout, done.stdout + done.stderr


def has_toolkit():
    """Return whether extensions with CUDA sources can be built."""
    return all(map(shutil.which, ("nvcc", "c++", "ninja")))


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_an_extension_of_torch_is_built_and_runs_on_cuda_tensors(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    done = run(PROGRAMS / "reverse.py", "torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 kernel, 1 launch: 1 verified"


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_a_race_in_an_extension_of_torch_is_reported_at_its_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    done = run(PROGRAMS / "reverse_broken.py", "torch")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error[race]" in done.stdout
    assert "reverse_broken.cu:6:20" in done.stdout


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_operators_in_an_extension_run_on_the_memory_of_its_arguments(tmp_path):
    """A Python function takes the place of the extension, since C++ calls the same operators."""
    done = check_torch(
        tmp_path,
        """
import sitecustomize

border = sitecustomize._BORDER[0]
def operate(x, values, host):
    y = values["y"][0]
    assert border.is_cuda(x) and border.is_cuda(y) and not border.is_cuda(host)
    made = torch.zeros(4, device="cuda") + x
    assert border.is_cuda(made) and made.tolist() == [0, 1, 2, 3] and made.cpu().device.type == "cpu"
    grown = torch.empty(0, device="cuda")
    torch.add(made, y, out=grown)
    assert border.is_cuda(grown) and grown.tolist() == [1, 2, 3, 4] and grown.sum().item() == 10
    x.mul_(2)
    x[1:3] = host
    assert made.to("cuda", torch.float16).dtype is torch.float16 and torch.arange(3, device="cuda").max().item() == 2
    assert made.reshape(2, 2).t().contiguous().tolist() == [[0, 2], [1, 3]]
    return x, [made, grown], made.cpu(), torch.empty((0, 2), device="cuda")

x, y = torch.arange(4.0, device="cuda"), torch.ones(4, device="cuda")
out, (made, grown), host, none = border.call(operate, (x, {"y": [y]}), {"host": torch.full((2,), 7.0)})
assert out is x and x.tolist() == [0, 7, 7, 6] and not border.is_cuda(x)
assert made.is_cuda and not border.is_cuda(made) and grown.tolist() == [1, 2, 3, 4]
assert not host.is_cuda and none.is_cuda and none.shape == (0, 2)
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_memory_that_an_extension_allocates_is_uninitialized(tmp_path):
    done = check_torch(
        tmp_path,
        """
import sitecustomize

def operate(x):
    made = torch.empty(64, device="cuda")
    torch.empty_like(made.view(8, 8)[1:])
    return made

double[(1,)](sitecustomize._BORDER[0].call(operate, (x,), {}), out, BLOCK=64)
""",
    )
    assert "error[uninitialized-read]" in done.stdout, done.stdout + done.stderr


def call_border(tmp_path, text):
    """Run a program in which Python functions take the place of an extension's."""
    return check_torch(tmp_path, f"import sitecustomize\n\nborder = sitecustomize._BORDER[0]\n{text}")


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_views_keep_their_layout_and_their_conjugate_and_negative_bits(tmp_path):
    """They lost the bits: results were those of the tensors without the conjugation."""
    done = call_border(
        tmp_path,
        """
def meet(x, scalar, none):
    assert border.is_cuda(x) and x.is_conj() and x.stride() == (1, 4) and scalar.shape == () and none.shape == (0, 4)
    return x.resolve_conj(), x + 1, x.imag + 0, x.conj(), scalar + 1, none + 1

c = torch.complex(torch.arange(12.0, device="cuda"), torch.arange(12.0, device="cuda")).reshape(3, 4)
x, scalar, none = c.t().conj(), c.real[2, 3], c.real[:0]
out = border.call(meet, (x, scalar, none), {})
wanted = x.resolve_conj(), x + 1, x.imag + 0, x.conj(), scalar + 1, none + 1
assert all(torch.equal(one, other) and one.is_cuda for one, other in zip(out, wanted))
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_an_argument_gets_the_shape_and_memory_that_the_extension_gives_it(tmp_path):
    """It kept its own: an empty tensor stayed empty, and a larger one had the results in its first elements."""
    done = call_border(
        tmp_path,
        """
def resize(out, y, x):
    y.t_()
    out.resize_(6).copy_(x)
    return torch.nn.functional.mse_loss(x, x + 2)

x = torch.arange(6.0, device="cuda")
for count in (0, 2, 20):
    out, y = torch.empty(count, device="cuda"), torch.zeros(2, 3, device="cuda")
    loss = border.call(resize, (out, y, x), {})
    assert torch.equal(out, x) and out.is_cuda and y.shape == (3, 2) and loss.item() == 4
grown = torch.ones(2, device="cuda")
border.call(lambda out: out.resize_(3), (grown,), {})
assert grown[:2].tolist() == [1, 1]
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_memory_that_an_extension_gets_by_a_resize_is_uninitialized(tmp_path):
    done = call_border(
        tmp_path,
        """
resized = torch.empty(0, device="cuda")
border.call(lambda out: out.resize_(64), (resized,), {})
double[(1,)](resized, out, BLOCK=64)
""",
    )
    assert "error[uninitialized-read]" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_gradients_through_an_extension_are_an_error_and_not_missing(tmp_path):
    """They were None, or those of the tensor before it was changed in place, without a message."""
    done = call_border(
        tmp_path,
        """
def raises(call):
    try:
        call()
    except NotImplementedError as error:
        return "gets no gradients" in str(error)

w = torch.ones(64, device="cuda", requires_grad=True)
scaled = border.call(lambda w: [w * 2], (w,), {})[0]
assert scaled.requires_grad and scaled.tolist() == [2] * 64
assert raises((scaled * w).sum().backward) and w.grad is None
assert raises(lambda: border.call(lambda w: w.mul_(2), (w * 1,), {}))
assert not border.call(torch.empty_like, (w,), {}).requires_grad
with torch.no_grad():
    assert not border.call(lambda w: w * 2, (w,), {}).requires_grad

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        return border.call(lambda w: w * 2, (w,), {})

    @staticmethod
    def backward(ctx, gradient):
        return border.call(lambda g: g * 2, (gradient,), {})

Scaled.apply(w).sum().backward()
assert w.grad.tolist() == [2] * 64
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_threads_call_extensions_with_their_streams_and_a_forked_process_calls_none(tmp_path):
    """In a forked process, launches failed: an extension that does not check them returned uninitialized memory."""
    done = call_border(
        tmp_path,
        """
import os, threading

results = []
def work(n):
    with torch.cuda.stream(torch.cuda.Stream()):
        results.append(border.call(lambda x: x * n, (torch.ones(64, device="cuda"),), {}).sum().item() == 64 * n)

threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert results == [True] * 4
child = os.fork()
if not child:
    try:
        border.call(torch.ones_like, (x,), {})
    except RuntimeError as error:
        os._exit(7 if "forked process has no CUDA device" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_a_tensor_that_an_extension_cannot_get_is_named(tmp_path):
    done = call_border(tmp_path, "border.call(lambda x: x.to_sparse() * 2, (x,), {})")
    assert "extensions get dense tensors only, and no sparse_coo ones" in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(not has_toolkit(), reason="needs nvcc, a C++ compiler and ninja")
def test_an_operator_with_kernels_for_both_devices_runs_the_one_for_cuda_also_in_backward(tmp_path):
    """It ran the kernel for the CPU, without a launch, and gradients through one for CUDA alone were an error."""
    done = call_border(
        tmp_path,
        """
library, ran = torch.library.Library("extension", "DEF"), []
library.define("scale(Tensor x, float by=2.0) -> Tensor")

def on_cuda(x, by=2.0):
    assert border.is_cuda(x)
    ran.append("cuda")
    return x * by

def on_cpu(x, by=2.0):
    ran.append("cpu")
    return x * by

def in_extension(function, key):
    border.operators.register(library, "scale", function, key)

in_extension(on_cpu, "CPU")
in_extension(on_cuda, "CUDA")
border.library.load()
border.operators.add_compiled()
scale = torch.ops.extension.scale
setup = lambda ctx, inputs, output: None
torch.library.register_autograd("extension::scale", lambda ctx, g: (scale.default(g), None), setup_context=setup)
w = torch.ones(64, device="cuda", requires_grad=True)
scale(w).sum().backward()
assert w.grad.tolist() == [2] * 64 and ran == ["cuda", "cuda"]
with torch.no_grad():
    assert scale(w, by=3.0).tolist() == [3] * 64 and scale(w[:0]).is_cuda
assert ran == ["cuda"] * 4
assert scale(torch.ones(2)).tolist() == [2, 2] and ran[4:] == ["cpu"]
print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr


def test_an_operator_that_a_program_defines_for_cuda_needs_no_toolkit(tmp_path):
    """It got tensors of another backend, through libraries that need a toolkit."""
    done = check_torch(
        tmp_path,
        """
@torch.library.custom_op("mine::double", mutates_args=(), device_types="cuda")
def double_op(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    assert x.is_cuda and out.is_cuda and torch.zeros(1, device="cuda").is_cuda
    double[(1,)](x, out, BLOCK=64)
    return out

double_op.register_autograd(lambda ctx, gradient: double_op(gradient.contiguous()))

@torch.library.custom_op("mine::either", mutates_args=())
def either(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@either.register_kernel("cuda")
def _(x):
    return double_op(x)

w = torch.ones(64, device="cuda", requires_grad=True)
double_op(w).sum().backward()
assert w.grad.tolist() == [2] * 64
assert torch.ops.mine.either(w.detach()).tolist() == [2] * 64
assert either(torch.ones(2)).tolist() == [3, 3]
try:
    double_op(torch.ones(2))
except NotImplementedError as error:
    assert "Could not run 'mine::double'" in str(error)
    print("ok")
""",
    )
    assert "ok" in done.stdout, done.stdout + done.stderr
    assert "4 launches: 4 verified" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def extensions(monkeypatch):
    """The module that adapts extensions, which imports nothing of torch."""
    monkeypatch.syspath_prepend(str(ROOT / "wsemu" / "native" / "start"))
    monkeypatch.delitem(sys.modules, "wsemu_extensions", raising=False)
    return importlib.import_module("wsemu_extensions")


def test_a_missing_function_of_torch_is_named(extensions):
    symbol = "_ZNK3c104cuda20CUDACachingAllocator4nameEv"
    with pytest.raises(ImportError, match="`c10::cuda::CUDACachingAllocator::name`"), extensions._explaining():
        raise ImportError(f"x.so: undefined symbol: {symbol}")
    with pytest.raises(ImportError, match="other"), extensions._explaining():
        raise ImportError("x.so: undefined symbol: other")


def test_a_missing_toolkit_is_named(extensions, monkeypatch, tmp_path):
    monkeypatch.setattr(extensions, "_toolkit_of_nvcc", lambda: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(ImportError, match="set CUDA_HOME"):
        extensions._find_toolkit()
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda_runtime_api.h").write_text("#define CUDART_VERSION 13000\n")
    assert extensions._find_toolkit() == str(tmp_path)
    assert extensions._cuda_version(str(tmp_path / "include")) == 13000


def test_the_runtime_of_a_toolkit_from_pypi_is_found_by_the_linker(extensions, monkeypatch, tmp_path):
    """Builds of extensions ended with "cannot find -lcudart": its wheel has `libcudart.so.13` alone."""
    monkeypatch.setenv("WSEMU_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lib").mkdir()
    assert extensions._link_runtime(str(tmp_path)) is None
    (tmp_path / "lib" / "libcudart.so.13").write_bytes(b"library")
    for _ in range(2):
        made = Path(extensions._link_runtime(str(tmp_path)))
        assert (made / "libcudart.so").read_bytes() == b"library"
    (tmp_path / "lib" / "libcudart.so").write_bytes(b"library")
    assert extensions._link_runtime(str(tmp_path)) is None


def test_functions_methods_and_properties_of_an_extension_are_wrapped(extensions):
    """Static methods and properties were not: they got and returned tensors of the other device."""

    class Border:
        def call(self, function, args, kwargs):
            return "border", function(*args, **kwargs)

    def method(self):
        return 1

    instance_method = ctypes.pythonapi.PyInstanceMethod_New
    instance_method.restype, instance_method.argtypes = ctypes.py_object, [ctypes.py_object]
    box = type("pybind11_type", (type,), {})("Box", (), {})
    box.method, box.static, box.value = instance_method(method), staticmethod(lambda: 2), property(lambda self: 3)
    module = types.ModuleType("extension")
    vars(module).update(Box=box, length=len)
    extensions.wrap_module(Border(), module)
    one = module.Box()
    assert [one.method(), module.Box.static(), one.value] == [("border", 1), ("border", 2), ("border", 3)]
    assert module.length("abcd") == ("border", 4)


def keep_libraries(extensions, folder):
    """Store libraries as a compilation does."""
    folder.mkdir(mode=0o700)
    for path in (folder / extensions.LIBRARY, folder / extensions.EMPTY):
        path.write_bytes(b"code" + extensions._digest(str(path), b"code"))
        path.chmod(0o700)


def test_libraries_for_extensions_are_loaded_only_as_they_were_compiled_for_their_key(extensions, tmp_path):
    folder = tmp_path / "torch-1"
    assert "No such file" in extensions._find_problem(str(folder))
    keep_libraries(extensions, folder)
    assert extensions._find_problem(str(folder)) == ""
    for data in (b"", b"short", b"other" + bytes(extensions.DIGEST_BYTES)):
        (folder / extensions.EMPTY).write_bytes(data)
        assert extensions._find_problem(str(folder)).endswith("is damaged")
    shutil.rmtree(folder)
    keep_libraries(extensions, folder)
    folder.rename(tmp_path / "torch-2")
    assert extensions._find_problem(str(tmp_path / "torch-2")).endswith("is damaged")


def test_libraries_for_extensions_are_not_loaded_if_others_may_write_to_them(extensions, tmp_path):
    folder = tmp_path / "torch-1"
    keep_libraries(extensions, folder)
    (folder / extensions.LIBRARY).chmod(0o777)
    assert "others may write to it" in extensions._find_problem(str(folder))
    (folder / extensions.LIBRARY).chmod(0o700)
    folder.chmod(0o777)
    assert "others may write to" in extensions._find_problem(str(folder))
