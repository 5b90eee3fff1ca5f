"""Run torch's C++ extensions with CUDA sources: their tensors are CUDA tensors in the memory that CPU tensors have.

C++ code reads a tensor's device from the tensor, not from its address.  So tensors on the device become tensors of
torch's CUDA backend when a function of an extension is called, and its results become CPU tensors again.  The CPU wheel
has no operators for that backend: they run on the CPU, on the same memory.
"""

import contextlib
import ctypes
import functools
import glob
import hashlib
import importlib.machinery
import importlib.util
import inspect
import math
import os
import re
import shutil
import subprocess
import tempfile
import threading
import types
import typing

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch")
LIBRARY, EMPTY = "libc10_cuda.so", "libtorch_cuda.so"
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden")
DIGEST_BYTES = hashlib.sha256().digest_size
_HOST_TENSOR, _DEVICE_TENSOR = (1, 0), (2, 0)
"""device types of DLPack, and the number of the device"""
_SYMBOL = re.compile(r"undefined symbol: (_ZN(?:K)?(?:2at4cuda|3c104cuda)\w*)")
_MISSING = re.compile(r"libc10_cuda\.so|libtorch_cuda\.so|" + _SYMBOL.pattern)
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_NO_ACCESS = {
    "_reshape_alias", "alias", "as_strided", "detach", "diagonal", "expand", "permute", "resize_", "select", "slice",
    "split", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", *_EMPTY,
}  # fmt: skip
"""operators that access no elements"""
_NOTHING = ("record_stream",)
_FORKED = (
    'wsemu: a forked process has no CUDA device: start processes by `spawn`, as in multiprocessing.get_context("spawn")'
)
_NO_GRADIENTS = (
    "wsemu: C++ code of extensions gets no gradients: call it in a `torch.autograd.Function` in Python, whose "
    "`backward` computes them"
)
_OF_EACH_BACKEND = ("copy_",)
"""operators with one implementation for all backends that calls a kernel of the backend"""


# -- the library -------------------------------------------------------------------------------------------------------
class Library:
    """The functions of torch's CUDA libraries that extensions call, compiled for the program's torch."""

    def __init__(self, torch):
        self.torch = torch
        self.lock = threading.Lock()
        self.loaded = None

    def folder(self):
        """Return the folder of the compiled libraries, which are compiled if necessary."""
        headers = os.path.join(_find_toolkit(), "include")
        build = self.torch.__version__, self.torch.version.git_version, _cuda_version(headers), FLAGS
        digest = hashlib.sha256(repr(build).encode())
        with open(os.path.join(SOURCES, "c10_cuda.cpp"), "rb") as stream:
            digest.update(stream.read())
        base = os.environ["WSEMU_CACHE"]
        folder = os.path.join(base, f"torch-{digest.hexdigest()[:16]}")
        if _find_problem(folder):
            self._compile(folder, headers)
        if problem := _find_problem(folder):
            raise ImportError(f"wsemu: its CUDA functions for this torch are not loaded: {problem}")
        return folder

    def _compile(self, folder, headers):
        compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
        if compiler is None:
            raise ImportError("wsemu: extensions of torch need a C++ compiler: `apt install g++`")
        root = os.path.dirname(self.torch.__file__)
        own_headers = os.path.join(SOURCES, "include")
        include = ("-I", os.path.join(root, "include"), "-isystem", headers, "-isystem", own_headers)
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        place = tempfile.mkdtemp(prefix=".torch-", dir=os.path.dirname(folder))
        try:
            libraries = ("-L", os.path.join(root, "lib"), "-lc10")
            source = os.path.join(SOURCES, "c10_cuda.cpp")
            _run(compiler, *FLAGS, *include, source, *_link_options(place, LIBRARY), *libraries)
            libraries = ("-L", place, "-Wl,--no-as-needed", "-lc10_cuda", "-Wl,-rpath,$ORIGIN")
            _run(compiler, *FLAGS, "-x", "c++", os.devnull, "-x", "none", *_link_options(place, EMPTY), *libraries)
            for name in (LIBRARY, EMPTY):
                with open(os.path.join(place, name), "r+b") as stream:
                    stream.write(_digest(os.path.join(folder, name), stream.read()))
                os.chmod(os.path.join(place, name), 0o700)
            try:
                os.rename(place, folder)
            except OSError:  # a folder is there, which may be that of a process that was faster
                if _find_problem(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    os.rename(place, folder)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def load(self):
        """Load the libraries, so that extensions find them, and return them."""
        with self.lock:
            if self.loaded is None:
                folder = self.folder()
                self.loaded = ctypes.CDLL(os.path.join(folder, LIBRARY), ctypes.RTLD_GLOBAL)
                ctypes.CDLL(os.path.join(folder, EMPTY), ctypes.RTLD_GLOBAL)
                self.loaded.wsemu_set_current_stream.argtypes = [ctypes.c_void_p]
        return self.loaded

    def is_needed(self, path):
        """Return whether a file is an extension for CUDA; without an earlier build or import of one, none has been
        loaded, and its bytes are not read."""
        return self.loaded is not None and _names_library(path)

    def load_extension(self, load, *arguments):
        """Return the result of a function that loads an extension, with the libraries if it needs them."""
        if self.loaded is None:
            try:
                return load(*arguments)
            except (ImportError, OSError) as error:
                if not _MISSING.search(str(error)):
                    raise
        with _explaining():
            self.load()
            return load(*arguments)


def _digest(path, data):
    """Return the digest at the end of a library's file: of its bytes, its name, and its folder's name, which has the
    key."""
    return hashlib.sha256(os.sep.join(path.split(os.sep)[-2:]).encode() + b"\0" + data).digest()


def _find_problem(folder):
    """Return why the libraries of a folder must not be loaded; empty if they may be."""
    trust = _private_folder()
    for path in (os.path.join(folder, name) for name in (LIBRARY, EMPTY)):
        try:
            if not trust.is_trusted(os.stat(path)):
                return f"`{path}` belongs to another user, or others may write to it"
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError as error:
            return f"`{path}`: {error.strerror}"
        if data[-DIGEST_BYTES:] != _digest(path, data[:-DIGEST_BYTES]):
            return f"`{path}` is damaged"
    return trust.find_problem(folder)


@functools.cache
def _private_folder():
    """Return the emulator's module of this name, from its file: this Python may have no wsemu."""
    path = os.path.join(os.path.dirname(os.path.dirname(SOURCES)), "machine", "private_folder.py")
    spec = importlib.util.spec_from_file_location("wsemu_private_folder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _link_options(folder, name):
    return ("-o", os.path.join(folder, name), f"-Wl,-soname,{name}")


def _run(*words):
    # without the driver of wsemu, whose libraries a compiler does not need
    clean = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_AUDIT")}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=clean)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line][:5]
        raise ImportError("wsemu: cannot compile its CUDA functions for this torch: " + "\n".join(errors))


def _find_toolkit():
    """Return the folder of the CUDA toolkit, whose headers are needed."""
    for place in filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _toolkit_of_nvcc())):
        if os.path.isfile(os.path.join(place, "include", "cuda_runtime_api.h")):
            return place
    raise ImportError(
        "wsemu: extensions of torch with CUDA sources need the headers of a CUDA toolkit: install one, and set "
        "CUDA_HOME to its folder, the one that has `include/cuda_runtime_api.h`"
    )


def _toolkit_of_nvcc():
    """Return the folder that nvcc names: the command may be a script elsewhere."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    words = (nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull)
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    except OSError:
        return None
    found = re.search(r"(?m)^#\$ TOP=(.+)$", done.stderr)
    return os.path.realpath(found[1]) if found else None


def _cuda_version(headers):
    with open(os.path.join(headers, "cuda_runtime_api.h"), encoding="utf-8", errors="replace") as stream:
        found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", stream.read())
    return int(found[1]) if found else 0


# -- tensors -----------------------------------------------------------------------------------------------------------
class _Argument(typing.NamedTuple):
    """A tensor that the program passes to an extension, and the tensor that the extension gets."""

    outside: object
    inside: object
    layout: tuple
    step: object
    """the last step that autograd had recorded for the inner tensor"""


def _layout(tensor):
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def _grows(tensor, shape):
    """Return whether a tensor of another shape needs more memory."""
    room = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return math.prod(shape) > room


class Border:
    """Converts tensors where Python code calls an extension, and runs its operators on the CPU."""

    def __init__(self, torch, driver, devices, library):
        self.torch, self.driver, self.devices, self.library = torch, driver, devices, library
        self.device_of = torch._C.TensorBase.device.__get__
        self.lock = threading.Lock()
        self.registered = self.steps = self.operators = self.first = None
        self.process = os.getpid()

    def is_cuda(self, value):
        """Return whether a value is a tensor of torch's CUDA backend."""
        with self.torch._C.DisableTorchFunction():  # a mode would ask for the device that programs see
            return isinstance(value, self.torch.Tensor) and self.device_of(value).type == "cuda"

    def load_extension(self, load, *arguments):
        """Return the result of a function that loads an extension, and redirect its operators."""
        out = self.library.load_extension(load, *arguments)
        if self.library.loaded is not None:
            self.operators.add_compiled()
        return out

    def start(self):
        """Register the backend's operators."""
        if os.getpid() != self.process:
            raise RuntimeError(_FORKED)
        with self.lock:
            if self.registered is None:
                self.library.load()
                self.first.begin()
                self.first.leave_backends()
                self.steps = _define_steps(self.torch, self)
                self.registered = self._register()

    def _register(self):
        """Let the CPU run the operators; return what has to be kept for that."""
        library = self.torch.library.Library
        all_names, aten = library("_", "IMPL"), library("aten", "IMPL")
        all_names.fallback(self.run_operator, "CUDA")
        for name in _OF_EACH_BACKEND:
            operator = getattr(self.torch.ops.aten, name).default
            aten.impl(name, functools.partial(self.run_operator, operator), "CUDA")
        return all_names, aten

    def alias(self, tensor, device):
        """Return a tensor of another backend with the same memory."""
        if tensor.layout is not self.torch.strided or tensor.is_quantized:
            kind = "quantized" if tensor.is_quantized else str(tensor.layout).rpartition(".")[2]
            raise NotImplementedError(f"wsemu: extensions get dense tensors only, and no {kind} ones")
        capsule = self.torch._C._to_dlpack(tensor.detach())
        place = ctypes.cast(_pointer_of(capsule, b"dltensor") + 8, ctypes.POINTER(ctypes.c_int32))
        place[0], place[1] = device
        made = self.torch._C._from_dlpack(capsule)
        for is_set, set_bit in (  # DLPack has no bits for conjugate and negative views
            (tensor.is_conj(), self.torch._C._set_conj),
            (tensor.is_neg(), self.torch._C._set_neg),
        ):
            if is_set:
                set_bit(made, True)
        return made

    def enter(self, tensor):
        """Return a tensor on the device as one of the CUDA backend; another one as it is."""
        if not self.devices.is_on_device(tensor) or self.is_cuda(tensor):
            return tensor
        if tensor.requires_grad and self.torch.is_grad_enabled():
            return self.steps[0].apply(tensor)
        return self.alias(tensor, _DEVICE_TENSOR)

    def leave(self, tensor, arguments=()):
        """Return a tensor of the CUDA backend as a CPU tensor, and an argument as itself; another one as it is."""
        if not self.is_cuda(tensor):
            return tensor
        for one in arguments:
            if one.inside is tensor:
                return one.outside
        out = self.steps[1].apply(tensor) if tensor.requires_grad else self.alias(tensor, _HOST_TENSOR)
        if not out.numel():
            out._wsemu_on_device = True
        return out

    def call(self, function, args, kwargs):
        """Call a function of an extension."""
        self.start()
        stream = self.torch.cuda.current_stream().cuda_stream
        arguments = []

        def enter(tensor):
            inside = self.enter(tensor)
            arguments.append(_Argument(tensor, inside, _layout(inside), inside.grad_fn))
            return inside

        with self.torch._C.DisableTorchFunction(), self.driver.placing(0):
            self.library.loaded.wsemu_set_current_stream(stream)
            args = _map(self.torch.Tensor, args, enter)
            kwargs = _map(self.torch.Tensor, kwargs, enter)
            out = function(*args, **kwargs)
            for one in arguments:
                self._update(one)
            return _map(self.torch.Tensor, out, lambda tensor: self.leave(tensor, arguments))

    def _update(self, argument):
        """Give an argument the memory and shape that the extension has given to its CUDA tensor."""
        outside, inside, layout, step = argument
        if outside is inside:
            return
        if inside.grad_fn is not step:
            raise NotImplementedError(_NO_GRADIENTS)
        if _layout(inside) != layout:
            outside.data = self.leave(inside.detach())
            outside._wsemu_on_device = True

    def run_operator(self, operator, *args, **kwargs):
        """Run an operator of the CUDA backend on the CPU, with its results in memory of the device."""
        name = operator._schema.name.partition("::")[2]
        if name in _NOTHING:
            return None
        pairs = []

        def to_host(tensor, is_resized=False):
            if not self.is_cuda(tensor):
                return tensor
            host = self.alias(tensor, _HOST_TENSOR)
            if is_resized or not tensor.numel():  # memory from DLPack cannot grow
                with self.driver.placing(1):
                    host = host.clone()
            pairs.append((tensor, host, None if is_resized else _layout(host)))
            return host

        with self.torch._C.DisableTorchFunction():
            on_device = self._names_device(args, kwargs)
            if name == "resize_" and _grows(*args[:2]):
                args = (to_host(args[0], is_resized=True), *args[1:])
            outputs = {one.name for one in operator._schema.arguments if one.is_out}
            args = _map(self.torch.Tensor, args, to_host)
            kwargs = {
                key: _map(self.torch.Tensor, value, functools.partial(to_host, is_resized=key in outputs))
                for key, value in kwargs.items()
            }
            for tensor, _, _ in pairs if name not in _NO_ACCESS else ():
                self.driver.mark(tensor.data_ptr())
            args, kwargs = (_replace_devices(self.torch, value) for value in (args, kwargs))
            kwargs.pop("pin_memory", None)
            is_unwritten = name in _EMPTY or (name == "resize_" and not pairs[0][0].numel())
            with self.driver.placing((2 if is_unwritten else 1) if on_device else 0):
                out = operator(*args, **kwargs)
                self._follow(pairs)
                return _map(self.torch.Tensor, out, lambda tensor: self._to_backend(tensor, pairs, on_device))

    def _names_device(self, args, kwargs):
        """Return whether results are on the device: the named one, or that of the arguments."""
        named = [v for v in (*args, *kwargs.values()) if isinstance(v, self.torch.device)]
        return named[0].type == "cuda" if named else True

    def _follow(self, pairs):
        """Give tensors the memory and shape that an operator has given to their CPU tensors."""
        for tensor, host, before in pairs:
            if before is None and host.shape == tensor.shape:
                self.alias(tensor, _HOST_TENSOR).copy_(host)
            elif _layout(host) != before:
                tensor.data = self.alias(host, _DEVICE_TENSOR)

    def _to_backend(self, tensor, pairs, on_device):
        for original, host, _ in pairs:
            if host is tensor:
                return original
        return self.alias(tensor, _DEVICE_TENSOR) if on_device else tensor


def _define_steps(torch, border):
    """Return the steps that autograd records if a tensor with gradients enters or leaves an extension."""

    class Enter(torch.autograd.Function):
        """Records what C++ code does with a tensor, so that a result that needs gradients is known."""

        @staticmethod
        def forward(_, tensor):
            return border.alias(tensor, _DEVICE_TENSOR)

    class Leave(torch.autograd.Function):
        """Raises an error if gradients are needed: autograd's threads have no CUDA device."""

        @staticmethod
        def forward(_, tensor):
            return border.alias(tensor, _HOST_TENSOR)

        @staticmethod
        def backward(_, *gradients):
            raise NotImplementedError(_NO_GRADIENTS)

    return Enter, Leave


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _map(kind, value, convert):
    """Return a value with the objects of a kind converted, also in lists, tuples and dictionaries."""
    if isinstance(value, kind):
        return convert(value)
    if type(value) in (list, tuple):
        return type(value)(_map(kind, one, convert) for one in value)
    if type(value) is dict:
        return {key: _map(kind, one, convert) for key, one in value.items()}
    return value


def _replace_devices(torch, value):
    return _map(torch.device, value, lambda device: torch.device("cpu") if device.type == "cuda" else device)


# -- modules -----------------------------------------------------------------------------------------------------------
def install(torch, driver, devices):
    """Adapt the loading of extensions, and return the border that converts their tensors."""
    border = Border(torch, driver, devices, Library(torch))
    loader = importlib.machinery.ExtensionFileLoader
    create, run = loader.create_module, loader.exec_module

    def create_with_library(self, spec):
        return border.load_extension(create, self, spec)

    def run_and_wrap(self, module):
        run(self, module)
        if border.library.is_needed(module.__spec__.origin):
            wrap_module(border, module)

    loader.create_module, loader.exec_module = create_with_library, run_and_wrap
    load = torch.ops.load_library

    def load_with_library(path):
        return border.load_extension(load, path)

    torch.ops.load_library = load_with_library
    return border


@functools.cache
def _names_library(path):
    """Return whether a file is an extension for torch's CUDA build."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (OSError, TypeError):
        return False
    return b"libc10_cuda.so" in data or b"libtorch_cuda.so" in data or b"_ZN3c104cuda" in data


@contextlib.contextmanager
def _explaining():
    """Name a function of torch's CUDA libraries that wsemu does not have."""
    try:
        yield
    except (ImportError, OSError) as error:
        if found := _SYMBOL.search(str(error)):
            raise ImportError(
                f"wsemu: this extension calls `{_demangle(found[1])}` of torch's CUDA libraries, which wsemu does not "
                "have; it has streams, devices, guards, checks and device properties"
            ) from error
        raise


def _demangle(symbol):
    """Return the qualified name of a C++ symbol."""
    words, rest = [], symbol.removeprefix("_ZN").lstrip("K")
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        words.append(rest[found.end() : end])
        rest = rest[end:]
    return "::".join(words)


def wrap_module(border, module):
    """Wrap the functions of an extension, of its submodules and of its classes."""
    for name, value in [*vars(module).items()]:
        if isinstance(value, types.BuiltinFunctionType):
            setattr(module, name, _wrap(border, value))
        elif isinstance(value, types.ModuleType) and value.__name__.startswith(f"{module.__name__}."):
            wrap_module(border, value)
        elif inspect.isclass(value) and type(value).__name__ == "pybind11_type":
            for key, method in [*vars(value).items()]:
                if type(method).__name__ == "instancemethod":
                    setattr(value, key, _wrap(border, method.__func__))
                elif type(method) is staticmethod:
                    setattr(value, key, staticmethod(_wrap(border, method.__func__)))
                elif type(method) is property:
                    parts = (one and _wrap(border, one) for one in (method.fget, method.fset, method.fdel))
                    setattr(value, key, property(*parts, method.__doc__))


def _wrap(border, function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return border.call(function, args, kwargs)

    return run


# -- builds ------------------------------------------------------------------------------------------------------------
def prepare_builds(torch, border, module):
    """Let torch.utils.cpp_extension build extensions: with the library, the missing headers, PTX and line numbers."""
    if module.CUDA_HOME is None:
        return
    with contextlib.suppress(ImportError):
        module.CUDA_HOME = _find_toolkit()
        version = _cuda_version(os.path.join(module.CUDA_HOME, "include"))
        torch.version.cuda = f"{version // 1000}.{version % 1000 // 10}"
    find_flags = module._get_cuda_arch_flags

    def find_flags_with_ptx(cflags=None):
        border.library.load()
        _add_path("LIBRARY_PATH", border.library.folder())
        if runtime := _link_runtime(module.CUDA_HOME):
            _add_path("LIBRARY_PATH", runtime)
        _add_path("CPLUS_INCLUDE_PATH", os.path.join(SOURCES, "include"))
        flags = find_flags(cflags)
        given = " ".join([*flags, *(cflags or ())])
        targets = re.findall(r"\bsm_(\d+[af]?)", given)
        missing = sorted({one for one in targets if f"code=compute_{one}" not in given})
        added = [f"-gencode=arch=compute_{one},code=compute_{one}" for one in missing]
        return [*flags, *added, *(() if "lineinfo" in given else ("-lineinfo",))]

    module._get_cuda_arch_flags = find_flags_with_ptx


def _link_runtime(toolkit):
    """Return a folder that has the runtime under the name by which linkers find it, `libcudart.so`, if the toolkit has
    it under no such name, as the one from PyPI."""
    folders = [os.path.join(toolkit, name) for name in ("lib64", "lib")]
    if any(os.path.exists(os.path.join(folder, "libcudart.so")) for folder in folders):
        return None
    found = sorted(
        path for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), "libcudart.so.*"))
    )
    if not found:
        return None
    key = hashlib.sha256(found[-1].encode()).hexdigest()[:16]
    made = os.path.join(os.environ["WSEMU_CACHE"], f"cudart-{key}")
    os.makedirs(made, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(found[-1], os.path.join(made, "libcudart.so"))
    return made


def _add_path(name, folder):
    known = os.environ.get(name, "")
    if folder not in known.split(os.pathsep):
        os.environ[name] = os.pathsep.join(filter(None, (known, folder)))
