"""Provide a CUDA device for torch's CPU build: its tensors are CPU tensors in memory that the emulator shares.

The address of a tensor's memory determines its device.  While torch creates a tensor for "cuda", its allocator gets
memory from the driver.  Operators run on the CPU, and kernels of other packages get the same addresses.
"""

import contextlib
import ctypes
import functools
import threading
import time

import wsemu_extensions
import wsemu_first_tensor
import wsemu_operators

FIRST, LAST = 16 << 40, 84 << 40
"""addresses of memory that host and device share"""
HOST, WRITTEN, UNWRITTEN = 0, 1, 2
"""memory of new tensors: of the host; of the device, initialized; of the device, uninitialized"""
_EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
_VIEWS = {
    "__get__", "__getitem__", "__len__", "as_strided", "contiguous", "cuda", "data_ptr", "detach", "dim",
    "element_size", "expand", "expand_as", "flatten", "get_device", "is_contiguous", "is_floating_point", "narrow",
    "ndimension", "numel", "permute", "reshape", "select", "size", "split", "squeeze", "storage_offset", "stride",
    "t", "to", "transpose", "unbind", "unflatten", "unsqueeze", "untyped_storage", "view", "view_as", *_EMPTY,
}  # fmt: skip
"""functions that access no elements if they return the same memory"""
_TRUE = ("is_available", "is_initialized", "is_bf16_supported")
_NOTHING = (
    "empty_cache", "ipc_collect", "reset_peak_memory_stats",
    "reset_max_memory_allocated",
)  # fmt: skip
_ZERO = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
"""functions of `torch.cuda` that return True, nothing, or 0"""
_MIXED = {"copy_", "to", "__get__", "__set__", "cpu", "cuda", "backward", "set_"}
"""functions that take tensors of several devices"""
_NO_ARRAY = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
)
_TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


class Driver:
    """The interface to wsemu's driver, which torch itself does not use."""

    def __init__(self):
        self.library = library = ctypes.CDLL("libcuda.so.1")
        library.wsemu_mark_tensor.argtypes = [ctypes.c_void_p]
        self.place = library.wsemu_place_tensors
        self.mark = library.wsemu_mark_tensor

    def start(self):
        """Make the device's context current, as torch's CUDA build does at the first use of the device: processes that
        are forked earlier may use it themselves."""
        context = ctypes.c_void_p()
        self.check(self.library.cuInit(0))
        self.check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.check(self.library.cuCtxSetCurrent(context))

    def check(self, code):
        """Raise torch's exception for an error of CUDA."""
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"CUDA error: {(text.value or b'unknown error').decode()}")

    def attribute(self, number):
        """Return an attribute of the device."""
        self.check(self.library.cuInit(0))
        value = ctypes.c_int()
        self.check(self.library.cuDeviceGetAttribute(ctypes.byref(value), number, 0))
        return value.value

    def new(self, create, *words):
        """Return a new handle."""
        handle = ctypes.c_void_p()
        self.check(getattr(self.library, create)(ctypes.byref(handle), *words))
        return handle

    @contextlib.contextmanager
    def placing(self, where):
        """Let torch allocate new tensors from `where` inside the block."""
        before = self.place(where)
        try:
            yield
        finally:
            self.place(before)


class Devices:
    """Decides which device a tensor is on."""

    def __init__(self, torch):
        self.torch = torch
        self.cpu, self.cuda = torch.device("cpu"), torch.device("cuda", 0)

    def address(self, tensor):
        """Return the address of a tensor's memory; 0 if it has no memory."""
        try:
            with self.torch._C.DisableTorchFunction():
                return tensor.untyped_storage().data_ptr() if tensor.layout is self.torch.strided else 0
        except Exception:  # a tensor without memory, such as that of a trace
            return 0

    def is_on_device(self, tensor):
        """Return whether a tensor is on the CUDA device."""
        address = self.address(tensor)
        return FIRST <= address < LAST or (not address and getattr(tensor, "_wsemu_on_device", False))

    def device_type(self, value):
        """Return the type of a device that a value names; None if the value names no device."""
        if isinstance(value, self.torch.device):
            return value.type
        if isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu"):
            return value.split(":")[0]
        return None

    def tensors(self, values):
        """Yield the tensors among values and in lists of them."""
        for value in values:
            if isinstance(value, self.torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from self.tensors(value)


def install(torch):
    """Give torch a CUDA device; return the border to its extensions."""
    driver, devices = Driver(), Devices(torch)
    driver.library.wsemu_hook_torch()
    border = wsemu_extensions.install(torch, driver, devices)
    calls = _Calls(torch, driver, devices, border)
    mode = _mode(calls)
    replace_attributes = functools.partial(_replace_attributes, torch, driver, devices)
    first = wsemu_first_tensor.FirstTensor(torch, driver, calls, mode, replace_attributes)
    border.first = calls.first = first
    wsemu_operators.install(torch, driver, devices, border, mode)
    _replace_cuda(torch, driver, devices, first)
    _register_storages(torch, driver, first)
    wsemu_first_tensor.create_pinned_on_host(torch, driver)
    _enter_in_autograd(torch, driver, devices, first)
    _enter_in_threads(first)
    _keep_mode_lowest(first)
    first.start()
    return border


def _enter_in_autograd(torch, driver, devices, first):
    """Enter the mode in autograd's engine, which runs Python code of the program inside of a torch function."""
    run = torch.autograd._engine_run_backward

    def run_with_mode(outputs, *args, **kwargs):
        if not first.is_used:
            try:
                return run(outputs, *args, **kwargs)
            finally:
                first.restore_mode()
        on_device = any(devices.is_on_device(tensor) for tensor in devices.tensors([outputs]))
        entered = first.mode() if not torch._C._len_torch_function_stack() else contextlib.nullcontext()
        with entered, driver.placing(WRITTEN if on_device else HOST):
            return run(outputs, *args, **kwargs)

    torch.autograd._engine_run_backward = run_with_mode


def _enter_in_threads(first):
    """Enter the mode in new threads as well, since a mode applies to one thread."""
    run = threading.Thread._bootstrap_inner

    def run_with_mode(self):
        first.enter()
        run(self)

    threading.Thread._bootstrap_inner = run_with_mode


def _keep_mode_lowest(first):
    """Keep the mode below the one of `torch.set_default_device`, which expects to be the lowest."""
    from torch.utils._device import DeviceContext

    def keep(method):
        def run(self, *args):
            with first.leaving_mode():
                return method(self, *args)

        return run

    DeviceContext.__enter__, DeviceContext.__exit__ = keep(DeviceContext.__enter__), keep(DeviceContext.__exit__)


# -- functions of torch ------------------------------------------------------------------------------------------------
class _Calls:
    """Calls of torch's functions, which run on the CPU with results in memory of the device."""

    def __init__(self, torch, driver, devices, border):
        self.torch, self.driver, self.devices, self.border = torch, driver, devices, border
        self.pending = set()  # threads whose operators are redirected

    def run(self, func, args, kwargs, is_part=False):
        """Run a function, or an operator that is part of one, with devices in its arguments replaced by the CPU."""
        devices = self.devices
        name = "" if is_part else getattr(func, "__name__", "")
        if "." in name:
            name = name.partition(".")[0]
        if func is self.torch.device or name in ("device", "DeviceContext", "__get__"):
            return func(*args, **kwargs)
        if name == "_parse_to":
            return self.read_target(func, args, kwargs)
        if names := self.border.operators.names(func):
            return self.border.operators.call(names, func, args, kwargs)
        if name in ("backward", "grad"):
            found = devices.tensors((*args, *kwargs.values()))
            with self.driver.placing(WRITTEN if any(map(devices.is_on_device, found)) else HOST):
                return func(*args, **kwargs)
        if name == "to" and len(args) > 1 and type(args[1]) is int:
            args = (args[0], devices.cuda, *args[2:])
        wanted = self.find_device(args, kwargs)
        args = tuple(devices.cpu if devices.device_type(value) == "cuda" else value for value in args)
        kwargs = {key: devices.cpu if devices.device_type(v) == "cuda" else v for key, v in kwargs.items()}
        first = args[0] if args and isinstance(args[0], self.torch.Tensor) else None
        if first is not None and name in ("cuda", "cpu", "to"):
            return self.move(name, func, wanted, args, kwargs)
        return self.call(name, func, wanted, args, kwargs)

    def read_target(self, func, args, kwargs):
        """Return the device, the type and the options that the arguments of `Module.to` name."""
        values = (*args, *kwargs.values())
        if type(kwargs.get("device")) is int:
            kwargs["device"] = self.devices.cuda
        if args and type(args[0]) is int:
            args = (self.devices.cuda, *args[1:])
        device, *others = func(*args, **kwargs)
        on_device = any(map(self.devices.is_on_device, self.devices.tensors(values)))
        return (self.devices.cuda if on_device else device, *others)

    def find_device(self, args, kwargs):
        """Return the type of the device that a call names, if any."""
        device = kwargs.get("device")
        if isinstance(device, int) and not isinstance(device, bool):
            kwargs["device"] = self.devices.cpu
            return "cuda"
        return next((t for v in (*args, *kwargs.values()) if (t := self.devices.device_type(v)) is not None), None)

    def move(self, name, func, wanted, args, kwargs):
        """Return a tensor on the device that a call moves it to."""
        tensor, before = args[0], self.devices.is_on_device(args[0])
        if name == "cuda":
            wanted, func, args, kwargs = "cuda", self.torch.Tensor.to, (tensor, self.devices.cpu), {}
        elif name == "cpu":
            wanted, func, args, kwargs = "cpu", self.torch.Tensor.to, (tensor, self.devices.cpu), {}
        elif wanted is None and len(args) > 1 and isinstance(args[1], self.torch.Tensor):
            wanted = "cuda" if self.devices.is_on_device(args[1]) else "cpu"
        after = before if wanted is None else wanted == "cuda"
        kwargs.pop("non_blocking", None)
        if before != after or kwargs.get("copy"):
            self._mark([tensor])
        with self.driver.placing(WRITTEN if after else HOST):
            out = func(*args, **kwargs)
            if self.devices.is_on_device(out) != after:
                out = self.torch.Tensor.clone(out)
        return _declare(out, after)

    def call(self, name, func, wanted, args, kwargs):
        """Run a function on the CPU, with its result in memory of the device that it belongs to."""
        found = [*self.devices.tensors((*args, *kwargs.values()))]
        on_device = [tensor for tensor in found if self.devices.is_on_device(tensor)]
        result = wanted == "cuda" or (wanted is None and bool(on_device))
        if on_device and name not in _MIXED and not name.startswith("_"):
            self._check_devices(found)
        if name == "numpy" and on_device:
            raise TypeError(_NO_ARRAY)
        if kwargs.pop("pin_memory", False):
            wanted = wanted or "cpu"
        if name not in _VIEWS:
            self._mark(on_device)
        with self.driver.placing((UNWRITTEN if name in _EMPTY else WRITTEN) if result else HOST):
            out = func(*args, **kwargs)
            if result and isinstance(out, self.torch.Tensor) and not name.startswith("_"):
                out = self._put_on_device(out)
        return out

    def _check_devices(self, found):
        """Reject CPU tensors together with device tensors, except numbers."""
        if any(tensor.dim() and not self.devices.is_on_device(tensor) for tensor in found):
            raise RuntimeError(_TWO_DEVICES)

    def _put_on_device(self, out):
        """Return a result in memory of the device."""
        if self.devices.is_on_device(out) or out.layout is not self.torch.strided:
            return out
        if not out.numel():
            return _declare(out, True)
        return self.torch.Tensor.clone(out)

    def _mark(self, tensors):
        """Mark memory as initialized that torch may have written."""
        for tensor in tensors:
            self.driver.mark(self.devices.address(tensor))


def _mode(calls):
    """Return the class of the torch function mode that redirects functions to the device."""
    from torch.overrides import TorchFunctionMode

    pending = calls.pending

    class DeviceMode(TorchFunctionMode):
        """Runs functions for "cuda" on the CPU, with results in memory of the device."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if pending:
                calls.first.end_call()
            if not calls.first.is_used:
                return func(*args, **(kwargs or {}))
            return calls.run(func, args, dict(kwargs or {}))

    return DeviceMode


def _declare(tensor, on_device):
    """Record the device of a tensor without elements."""
    if not tensor.numel():
        with contextlib.suppress(AttributeError, RuntimeError):
            tensor._wsemu_on_device = on_device
    return tensor


def _replace_attributes(torch, driver, devices):
    """Replace attributes of tensors that depend on the device; the replacements also apply where the mode is off, as in
    autograd's engine."""
    of_device = torch.Tensor.device.__get__
    tensor = torch.Tensor
    tensor.device = property(lambda self: devices.cuda if devices.is_on_device(self) else of_device(self))
    tensor.is_cuda = property(devices.is_on_device)
    tensor.is_cpu = property(lambda self: not devices.is_on_device(self))
    tensor.get_device = lambda self: 0 if devices.is_on_device(self) else -1
    pack, place = tensor.__dlpack__, tensor.__dlpack_device__

    def pack_for_device(self, **options):
        capsule = pack(self.detach() if self.requires_grad else self)
        if devices.is_on_device(self):
            driver.mark(devices.address(self))
            _set_device_of_capsule(capsule)
        return capsule

    tensor.__dlpack__ = pack_for_device
    tensor.__dlpack_device__ = lambda self: (2, 0) if devices.is_on_device(self) else place(self)
    tensor.__cuda_array_interface__ = property(functools.partial(_array_interface, devices))


def _set_device_of_capsule(capsule):
    """Write the CUDA device into the tensor of a DLPack capsule: its second field."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = ctypes.cast(pointer_of(capsule, b"dltensor") + 8, ctypes.POINTER(ctypes.c_int32))
    place[0], place[1] = 2, 0


def _array_interface(devices, tensor):
    if not devices.is_on_device(tensor):
        raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {tensor.type()}")
    import numpy

    with devices.torch._C.DisableTorchFunction():
        typestr = numpy.dtype(str(tensor.dtype).removeprefix("torch.")).str
        strides = None if tensor.is_contiguous() else tuple(n * tensor.element_size() for n in tensor.stride())
        data = (tensor.data_ptr() if tensor.numel() else 0, False)
        return {"typestr": typestr, "shape": tuple(tensor.shape), "strides": strides, "data": data, "version": 2}


# -- torch.cuda --------------------------------------------------------------------------------------------------------
class Properties:
    """The result of `torch.cuda.get_device_properties`."""

    name, total_memory = "wsemu", 16 << 30

    def __init__(self, driver):
        number = driver.attribute
        self.major, self.minor = number(75), number(76)
        self.multi_processor_count = number(16)
        self.warp_size = number(10)
        self.max_threads_per_multi_processor = number(39)
        self.max_threads_per_block = number(1)
        self.regs_per_multiprocessor = number(82)
        self.shared_memory_per_block = number(8)
        self.shared_memory_per_block_optin = number(97)
        self.shared_memory_per_multiprocessor = number(81)
        self.L2_cache_size = number(38)
        self.is_integrated = self.is_multi_gpu_board = 0
        self.gcnArchName = ""
        self.uuid = "00000000-0000-0000-0000-000000000000"


class InDevice:
    """`torch.cuda.device(0)`."""

    def __init__(self, device=None):
        self.idx = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def _define_event_class(cuda, driver, first):
    """Return the class of events."""
    library = driver.library

    class Event:
        """An event of the driver."""

        def __init__(self, *_, **__):
            first.begin()
            self._handle = driver.new("cuEventCreate", 0)
            self.cuda_event = self._handle.value
            self._time = 0.0

        def record(self, stream=None):
            stream = stream or cuda.current_stream()
            driver.check(library.cuEventRecord(self._handle, stream._handle))
            self._time = time.perf_counter()

        def wait(self, stream=None):
            (stream or cuda.current_stream()).wait_event(self)

        def synchronize(self):
            driver.check(library.cuEventSynchronize(self._handle))

        def query(self):
            return True

        def elapsed_time(self, other):
            return (other._time - self._time) * 1e3

    return Event


def _define_stream_class(cuda, driver, devices, current, event_class, first):
    """Return the class of streams; `current` has the stream of each thread."""
    library, made = driver.library, []

    class Stream:
        """A stream of the driver."""

        device = devices.cuda

        def __init__(self, device=None, priority=0, stream_ptr=None, **_):
            if stream_ptr is None:
                first.begin()
            if stream_ptr is None and not made:  # torch's operators are not recorded, so assume that they have waited
                driver.check(library.cuCtxSynchronize())
                made.append(True)
            self._handle = ctypes.c_void_p(stream_ptr) if stream_ptr is not None else driver.new("cuStreamCreate", 1)
            self.cuda_stream = self._handle.value or 0

        def synchronize(self):
            first.begin()
            driver.check(library.cuStreamSynchronize(self._handle))

        def is_capturing(self):
            return False

        def query(self):
            return True

        def wait_event(self, event):
            driver.check(library.cuStreamWaitEvent(self._handle, event._handle, 0))

        def wait_stream(self, stream):
            self.wait_event(stream.record_event())

        def record_event(self, event=None):
            event = event or event_class()
            event.record(self)
            return event

        def __eq__(self, other):
            return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

        def __hash__(self):
            return hash(self.cuda_stream)

        def __enter__(self):
            self._before = cuda.current_stream()
            current.stream = self
            return self

        def __exit__(self, *_):
            current.stream = self._before

    return Stream


def _replace_cuda(torch, driver, devices, first):
    """Replace the functions of `torch.cuda`."""
    library, cuda, generator = driver.library, torch.cuda, torch.default_generator
    current = threading.local()
    Event = _define_event_class(cuda, driver, first)
    Stream = _define_stream_class(cuda, driver, devices, current, Event, first)
    default = Stream(stream_ptr=0)

    def set_stream(stream):
        current.stream = stream

    def synchronize(device=None):
        first.begin()
        driver.check(library.cuCtxSynchronize())

    properties = functools.cache(lambda: Properties(driver))

    def capability(device=None):
        return properties().major, properties().minor

    def give(value):
        """Return a new function that returns a value: torch's compiler distinguishes functions by identity."""
        return lambda *_, **__: value

    replaced = {
        "get_device_capability": capability, "get_device_properties": lambda device=None: properties(),
        "get_device_name": give(Properties.name), "synchronize": synchronize, "set_stream": set_stream,
        "mem_get_info": give((Properties.total_memory, Properties.total_memory)),
        "get_arch_list": lambda: ["sm_{}{}".format(*capability())],
        "current_stream": lambda device=None: getattr(current, "stream", default), "default_stream": give(default),
        "stream": lambda stream: stream or default, "Stream": Stream, "Event": Event, "device": InDevice,
        "device_of": type("device_of", (InDevice,), {}), "is_current_stream_capturing": give(False),
        "ExternalStream": lambda pointer, device=None: Stream(stream_ptr=pointer),
        "manual_seed": lambda seed: generator.manual_seed(int(seed)),
        "manual_seed_all": lambda seed: generator.manual_seed(int(seed)),
        "seed": lambda: generator.seed(), "seed_all": lambda: generator.seed(),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    }  # fmt: skip
    for name in _TRUE:
        replaced[name] = give(True)
    for name in _NOTHING:
        replaced[name] = give(None)
    for name in _ZERO:
        replaced[name] = give(0)
    replaced["device_count"] = give(1)
    replaced["set_device"] = lambda device: first.begin()
    for name, value in replaced.items():
        setattr(cuda, name, value)
    torch._C._cuda_getCurrentRawStream = lambda device: cuda.current_stream().cuda_stream
    torch._C._cuda_getDeviceCount = lambda: 1
    torch.version.cuda = "13.0"
    _replace_accelerator(torch)
    _replace_generator(torch, devices)
    _replace_autocast(torch)


def _replace_accelerator(torch):
    """Replace the functions below `torch.accelerator`, whose only device is that of CUDA: with new functions, since
    torch's compiler distinguishes functions by identity."""
    of_cuda = {
        "getDeviceIndex": lambda: 0, "setDeviceIndex": lambda index: None, "exchangeDevice": lambda index: 0,
        "maybeExchangeDevice": lambda index: 0, "getStream": lambda index: torch.cuda.current_stream(),
        "setStream": lambda stream: torch.cuda.set_stream(stream),
        "synchronizeDevice": lambda index: torch.cuda.synchronize(),
        "emptyCache": lambda: None, "getMemoryInfo": lambda index: torch.cuda.mem_get_info(),
        "hooks_device_count": lambda: 1, "hooks_get_current_device": lambda: 0,
        "hooks_set_current_device": lambda index: None, "hooks_exchange_device": lambda index: 0,
        "hooks_maybe_exchange_device": lambda index: 0,
    }  # fmt: skip
    for name, function in of_cuda.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            setattr(torch._C, f"_accelerator_{name}", function)
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True  # optimizers call the two in each step
        torch.accelerator.current_stream = lambda device=None: torch.cuda.current_stream()


def _replace_generator(torch, devices):
    """Make random number generators for "cuda" be the CPU's."""
    of_cpu = torch.Generator

    class Generator(of_cpu):
        """A generator for either device."""

        def __new__(cls, device="cpu"):
            return of_cpu.__new__(cls, devices.cpu)

    torch.Generator = Generator


def _replace_autocast(torch):
    """Let `autocast("cuda")` choose types for operators of the CPU."""
    autocast = torch.amp.autocast_mode.autocast
    begin = autocast.__init__

    def begin_on_cpu(self, device_type, dtype=None, *more, **options):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype, *more, **options)

    autocast.__init__ = begin_on_cpu


def _register_storages(torch, driver, first):
    """Let `torch.save` and `torch.load` support storages of the device."""

    def tag(storage):
        return "cuda:0" if FIRST <= storage.data_ptr() < LAST else None

    def copy_to_device(storage, location):
        if not str(location).startswith("cuda"):
            return None
        first.begin()
        with driver.placing(WRITTEN):
            return storage.clone()

    torch.serialization.register_package(5, tag, copy_to_device)
