"""The first CUDA tensor of a torch program: until then torch runs without wsemu's mode, which costs time.

Each way to get a first CUDA tensor runs in a forked process of one program, because a process has one first tensor.
"""

from __future__ import annotations

import pytest

from tests.unit.test_clients import pytestmark as needs_driver
from tests.unit.test_clients import run

pytestmark = needs_driver

PROGRAM = r'''
import functools, io, os, sys, threading, warnings
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack as modes
import sitecustomize

warnings.simplefilter("ignore")
first = sitecustomize._BORDER[0].first
assert not modes() and not first.is_used
x = torch.ones(2, 3)

def load(kind):
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    return torch.load(buffer, map_location=kind)

def by_default():
    torch.set_default_device("cuda")
    made = torch.ones(2)
    torch.set_default_device(None)
    assert not torch.ones(2).is_cuda
    return made

def in_context():
    with torch.device("cuda"):
        made = torch.tensor([1, 2])
        assert torch.ones(2).is_cuda
    assert not torch.ones(2).is_cuda
    return made

class Plain(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

def below_modes():
    with Plain(), Plain():
        made = torch.ones(2, device="cuda")
        assert len(modes()) == 3 and torch.ones(3, device="cuda").is_cuda
    return made

def in_thread(make):
    made = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    assert (made[0] + 1).is_cuda
    return made[0]

class Step(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value * 2

    @staticmethod
    def backward(context, gradient):
        made = torch.ones(3, device="cuda")
        assert (made + 1).is_cuda
        return gradient + made.cpu()

def in_backward():
    Step.apply(torch.ones(3, requires_grad=True)).sum().backward()
    return torch.zeros(2, device="cuda")

def after_error():
    try:
        torch.ones(-1, device="cuda")
    except RuntimeError:
        pass
    assert not torch.ones(3).is_cuda
    return torch.ones(3, device="cuda")

def with_gradients():
    value = torch.ones(3, requires_grad=True)
    moved = value.to("cuda")
    moved.sum().backward()
    assert value.grad.tolist() == [1, 1, 1]
    return moved

def below(context, make):
    with context():
        return make()

SCRIPT = "def make():\n    return torch.zeros([2], device='cuda')\n"
linear, ones = torch.nn.Linear, lambda: torch.ones(2, device="cuda")
ENTRIES = {
    "to": lambda: x.to("cuda"), "to(0)": lambda: x.to(0), "cuda": lambda: x.cuda(), "cuda(0)": lambda: x.cuda(0),
    "to(device)": lambda: x.to(device=torch.device("cuda", 0), dtype=torch.float16),
    "device(0)": lambda: x.to(torch.device(0)), "module.cuda": lambda: linear(3, 3).cuda().weight,
    "module.to": lambda: linear(3, 3).to("cuda").weight, "module.to(0)": lambda: linear(3, 3).to(0).weight,
    "module": lambda: linear(3, 3, device="cuda").weight, "default": by_default, "context": in_context,
    "load": lambda: load("cuda"), "load(0)": lambda: load(torch.device("cuda:0")), "modes": below_modes,
    "thread": lambda: in_thread(ones), "thread, to": lambda: in_thread(lambda: x.to("cuda")),
    "backward": in_backward, "error": after_error, "gradients": with_gradients,
    "operator": lambda: torch.ops.aten.zeros([2], device="cuda"),
    "operator, copy": lambda: torch.ops.aten._to_copy(x, device=torch.device("cuda")),
    "script": lambda: torch.jit.CompilationUnit(SCRIPT).make(),
    "no functions": lambda: below(torch._C.DisableTorchFunction, ones),
    "inference": lambda: below(torch.inference_mode, ones), "no gradients": lambda: below(torch.no_grad, ones),
    "pinned": lambda: torch.empty(3, pin_memory=True).fill_(1).pin_memory().cuda(non_blocking=True),
    "accelerator": lambda: torch.ones(2).to(torch.accelerator.current_accelerator()),
    "vmap": lambda: torch.vmap(lambda row: row.to("cuda"))(x),
}
ARGUMENTS = (
    (), (3,), ((2, 3),), ([1.0, 2.0],), (x,), ((2, 3), 1.0), (0, 3, 4), (3, 3), (5, (2, 3)), (x, 5), ((2, 3), (3, 1)),
    ((2, 3), (0, 1)), (0.0, 1.0, (2, 3)),
)
CREATE = torch.utils._device._device_constructors()
missing = set(CREATE)
OTHERS = ("cuda", "from_dlpack", "range", "set_default_device")  # above, for other devices, deprecated, above

def find_arguments(function, *given):
    """Return arguments with which a function that takes a device creates a tensor."""
    for more in ARGUMENTS:
        try:
            made = function(*given, *more, device="cpu")
        except Exception:
            continue
        if isinstance(made, torch.Tensor) and made.layout is torch.strided:
            return (*given, *more)
    return None

def add_functions(owner, *given):
    for name in sorted(set(dir(owner)) - set(OTHERS)):
        function = getattr(owner, name)
        kind = type(function).__name__
        if name.startswith("_") or kind not in ("builtin_function_or_method", "function", "method_descriptor"):
            continue
        takes_device = "device" in str(function.__doc__) or function in CREATE
        if takes_device and (arguments := find_arguments(function, *given)):
            assert not first.is_used, name
            for device in ("cuda", torch.device("cuda:0"), 0):
                missing.discard(function)
                ENTRIES[f"{owner.__name__}.{name}, {device!r}"] = functools.partial(function, *arguments, device=device)

add_functions(torch)
add_functions(torch.fft)
add_functions(torch.Tensor, x)
failed = []
for name, make in ENTRIES.items():
    sys.stdout.flush()
    assert not first.is_used and not modes()
    process = os.fork()
    if not process:
        try:
            made = make()
            assert made.is_cuda and made.device.type == "cuda" and first.is_used
            assert (made + 1).is_cuda and torch.ones_like(made).is_cuda and made.cpu().device.type == "cpu"
            assert len(modes()) == 1
            os._exit(0)
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
    if os.waitpid(process, 0)[1]:
        failed.append(name)
print(len(ENTRIES), "entries", failed, "without", sorted(one.__name__ for one in missing))
'''


WITHOUT = (  # the deprecated one, and those of tensors that are not dense
    "empty_quantized", "nested_tensor", "range", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor",
    "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
)  # fmt: skip


def test_each_way_to_the_first_cuda_tensor_is_found(tmp_path):
    file = tmp_path / "entries.py"
    file.write_text(PROGRAM)
    done = run(file, "torch")
    last = [line for line in done.stdout.splitlines() if " entries " in line]
    assert last, done.stdout + done.stderr
    count, _, rest = last[0].partition(" entries ")
    assert rest == f"[] without {list(WITHOUT)}", done.stdout
    assert int(count) > 120, last[0]


WITHOUT_KEY = 'wsemu_first_tensor._KEY = "Missing"'
SILENT = "wsemu_first_tensor.FirstTensor._announces = lambda self, device: False"
AT_ONCE = """
import wsemu_first_tensor
{}
import torch
from torch.overrides import _get_current_function_mode_stack as modes

assert len(modes()) == 1
made = torch.ones(3, device="cuda")
assert (made + 1).is_cuda and torch.ones(2).to("cuda").is_cuda and torch.nn.Linear(2, 2, device=0).weight.is_cuda
assert torch.nn.Linear(2, 2).to("cuda").weight.is_cuda and not torch.ones(2).is_cuda
print("all on the device")
"""


@pytest.mark.parametrize("change", [WITHOUT_KEY, SILENT])
def test_a_torch_that_does_not_announce_the_first_call_runs_in_the_mode_from_the_start(tmp_path, change):
    file = tmp_path / "program.py"
    file.write_text(AT_ONCE.format(change))
    done = run(file, "torch")
    assert "all on the device" in done.stdout, done.stdout + done.stderr


LOADER = """
import sitecustomize, torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(32.0).reshape(16, 2))
first = sitecustomize._BORDER[0].first
for is_moved in (False, True):
    for workers in (0, 2):
        batches = [one for (one,) in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)]
        assert not any(one.is_cuda for one in batches) and first.is_used is is_moved
        assert torch.cat(batches).sum() == 496
        if is_moved:
            assert sum(one.to("cuda", non_blocking=True).sum().item() for one in batches) == 496
    torch.ones(2, device="cuda")
print("all loaded")
"""


COMPILED = """
import torch

for device in ("cpu", "cuda"):
    grown = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")(torch.ones(3, device=device))
    assert grown.device.type == device and grown.tolist() == [2, 2, 2]
print("all compiled")
"""


@pytest.mark.parametrize(("text", "last"), [(LOADER, "all loaded"), (COMPILED, "all compiled")])
def test_a_program_runs_before_and_after_its_first_cuda_tensor(text, last, tmp_path):
    """Batches in pinned memory, and compiled functions."""
    file = tmp_path / "program.py"
    file.write_text(text)
    done = run(file, "torch")
    assert last in done.stdout, done.stdout + done.stderr
