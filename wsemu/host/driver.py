"""Numba-CUDA's host functions on a machine without a GPU: work runs at once, and the emulator is the only listed
device.

They let ordinary scripts run unchanged.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wsemu.between.order import Event as OrderEvent
from wsemu.host.recorder import recorder
from wsemu.language.markers import NotModelled, unknown
from wsemu.model import settings
from wsemu.model.arch import limits, number_of
from wsemu.model.data import NamedTuple
from wsemu.model.device_array import DeviceArray as DeviceArray
from wsemu.model.device_array import DeviceNDArray as DeviceNDArray
from wsemu.model.device_array import In as In
from wsemu.model.device_array import InOut as InOut
from wsemu.model.device_array import Out as Out
from wsemu.model.device_array import as_cuda_array as as_cuda_array
from wsemu.model.device_array import auto_device as auto_device
from wsemu.model.device_array import device_array as device_array
from wsemu.model.device_array import device_array_like as device_array_like
from wsemu.model.device_array import from_cuda_array_interface as from_cuda_array_interface
from wsemu.model.device_array import is_cuda_array as is_cuda_array
from wsemu.model.device_array import is_cuda_ndarray as is_cuda_ndarray
from wsemu.model.device_array import managed_array as managed_array
from wsemu.model.device_array import mapped as mapped
from wsemu.model.device_array import mapped_array as mapped_array
from wsemu.model.device_array import mapped_array_like as mapped_array_like
from wsemu.model.device_array import observers as array_observers
from wsemu.model.device_array import pinned_array as pinned_array
from wsemu.model.device_array import pinned_array_like as pinned_array_like
from wsemu.model.device_array import pinning
from wsemu.model.device_array import to_device as to_device
from wsemu.model.device_array import wrap_arg as wrap_arg
from wsemu.model.errors import UsageError
from wsemu.model.numba_library import load_numba

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from wsemu.between.order import Stream as OrderStream
    from wsemu.between.order import StreamKind
    from wsemu.model.arch import Limits


class Stream:
    """A stream: the emulator runs its work at once, and records in which order a GPU may run it."""

    def __init__(self, kind: StreamKind = "blocking", name: str = "", handle: int = 0, device: int = 0) -> None:
        self.handle = handle
        self._device = device
        self._kind: StreamKind = kind
        self._name = name
        self._order: OrderStream | None = None
        self._epoch: object = None

    @property
    def order(self) -> OrderStream:
        """Return the stream in the recording of the current program."""
        if self._order is None or self._epoch is not recorder.epoch:
            recorder.arm()
            self._order = recorder.make_stream(self._kind, self._name, self._device)
            self._epoch = recorder.epoch
        return self._order

    def synchronize(self) -> None:
        """Wait for the work of the stream."""
        if recorder.armed:
            recorder.synchronize(self.order)
        else:
            recorder.wait_early()

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Wait for the work of the stream at the end of the block."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Stream, int, Any], object], arg: Any = None) -> None:
        """Call a function after all work of the stream so far."""
        with recorder.host_function(self.order):
            callback(self, 0, arg)

    def async_done(self) -> asyncio.Future[Stream]:
        """Return a future whose result is this stream.  It waits for the work of the stream so far once control returns
        to the event loop."""
        import asyncio  # importing this takes longer than importing all modules that use this one

        loop, reached = asyncio.get_running_loop(), Event()
        future: asyncio.Future[Stream] = loop.create_future()
        reached.record(self)

        def complete() -> None:
            if not future.cancelled():
                reached.synchronize()
                future.set_result(self)

        loop.call_soon(complete)
        return future

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return self.handle


class Event:
    """The work of a stream up to a moment, captured by `record`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._order = OrderEvent()
        self._epoch: object = recorder.epoch

    @property
    def order(self) -> OrderEvent:
        """Return the event in the recording of the current program."""
        if self._epoch is not recorder.epoch:
            self._order, self._epoch = OrderEvent(), recorder.epoch
        return self._order

    def record(self, stream: object = 0) -> None:
        """Capture the work of a stream so far."""
        self.seconds = time.perf_counter()
        recorder.record(self.order, stream)

    def query(self) -> bool:
        """Return whether the work is complete.  The first query returns false unless something has waited for the
        event."""
        if recorder.armed:
            return recorder.query(self.order)
        recorder.synchronize_early(self.order)
        return True

    def wait(self, stream: object = 0) -> None:
        """Let later work of a stream wait for the event."""
        if recorder.armed:
            recorder.wait(self.order, stream)

    def synchronize(self) -> None:
        """Wait for the event."""
        if recorder.armed:
            recorder.synchronize(self.order)
        else:
            recorder.synchronize_early(self.order)

    def elapsed_time(self, later: Event) -> float:
        """Return the milliseconds between two events, in time of the emulator, not of a GPU."""
        return 1000 * (later.seconds - self.seconds)


LEGACY, PER_THREAD = 1, 2
"""handles of default streams; handle 0 is one of the two, as `NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM` selects"""
_default_streams: dict[tuple[int, int], Stream] = {}
_external_streams: dict[int, Stream] = {}


def stream() -> Stream:
    """Return a new stream, for which the legacy default stream waits."""
    recorder.arm()
    return Stream(device=_current.device.id)


def default_stream() -> Stream:
    """Return the default stream of this thread, as configured."""
    return per_thread_default_stream() if config.CUDA_PER_THREAD_DEFAULT_STREAM else legacy_default_stream()


def legacy_default_stream() -> Stream:
    """Return the default stream that all threads share."""
    device = _current.device.id
    if (LEGACY, device) not in _default_streams:
        _default_streams[LEGACY, device] = Stream("legacy", "default stream", LEGACY, device)
    return _default_streams[LEGACY, device]


def per_thread_default_stream() -> Stream:
    """Return the default stream that only this thread uses."""
    recorder.arm()
    thread, device = threading.get_ident(), _current.device.id
    name = f"default stream of {threading.current_thread().name}"
    key = (PER_THREAD + device, thread)
    return _default_streams.setdefault(key, Stream("blocking", name, PER_THREAD, device))


def external_stream(ptr: int) -> Stream:
    """Return a stream of another library.  The legacy default stream may not wait for it."""
    if ptr in (0, LEGACY):
        return legacy_default_stream()
    if ptr == PER_THREAD:
        return per_thread_default_stream()
    recorder.arm()
    return _external_streams.setdefault(ptr, Stream("nonblocking", f"stream {ptr:#x}", ptr, _current.device.id))


def resolve_stream(given: Any) -> Stream:
    """Return the stream that an argument names: a stream, a handle, or nothing."""
    if isinstance(given, Stream):
        return given
    if not given:
        return default_stream()
    if isinstance(given, int):
        return external_stream(given)
    names = ("__cuda_stream__", "cuda_stream", "ptr")
    handle: Any = next((value for name in names if (value := getattr(given, name, None)) is not None), 0)
    handle = handle() if callable(handle) else handle
    return external_stream(int(handle[-1] if isinstance(handle, tuple) else handle))


def event(timing: bool = True) -> Event:
    """Return a new event."""
    return Event()


def event_elapsed_time(start: Event, end: Event) -> float:
    """Return the milliseconds between two events."""
    return start.elapsed_time(end)


def synchronize() -> None:
    """Wait for the work of all streams of the current device."""
    if recorder.armed:
        recorder.synchronize(None, _current.device.id)
    else:
        recorder.wait_early()


def _do_nothing() -> None:
    """Change nothing."""


profile_start = profile_stop = _do_nothing
close = synchronize


class MemoryInfo(NamedTuple):
    """Bytes of device memory."""

    free: int
    total: int


class Device:
    """An emulated GPU with the properties that scripts query: those of an H200, with the limits of the current `arch`.

    It also represents its own context and context manager: `with cuda.gpus[0]:`.
    """

    name = "wsemu"
    WARP_SIZE = 32
    MULTIPROCESSOR_COUNT = 132
    MAX_THREADS_PER_MULTI_PROCESSOR = 2048
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 228 * 1024
    MAX_REGISTERS_PER_BLOCK = MAX_REGISTERS_PER_MULTIPROCESSOR = 64 * 1024
    TOTAL_CONSTANT_MEMORY = 64 * 1024
    L2_CACHE_SIZE = 50 * 1024 * 1024
    CLOCK_RATE = 1_980_000
    MEMORY_CLOCK_RATE = 3_201_000
    GLOBAL_MEMORY_BUS_WIDTH = 6144
    SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 2
    ASYNC_ENGINE_COUNT = 3
    CONCURRENT_KERNELS = UNIFIED_ADDRESSING = MANAGED_MEMORY = CAN_MAP_HOST_MEMORY = 1
    COOPERATIVE_LAUNCH = INTEGRATED = KERNEL_EXEC_TIMEOUT = TCC_DRIVER = PCI_BUS_ID = PCI_DEVICE_ID = 0
    COMPUTE_MODE = PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = IS_MULTI_GPU_BOARD = PCI_DOMAIN_ID = 0
    STREAM_PRIORITIES_SUPPORTED = GLOBAL_L1_CACHE_SUPPORTED = LOCAL_L1_CACHE_SUPPORTED = ECC_ENABLED = 1
    CONCURRENT_MANAGED_ACCESS = HOST_NATIVE_ATOMIC_SUPPORTED = PAGEABLE_MEMORY_ACCESS = GPU_OVERLAP = 1
    MAX_BLOCKS_PER_MULTIPROCESSOR = 32
    MAX_PITCH = 2**31 - 1
    TEXTURE_ALIGNMENT = 512
    supports_float16 = True
    supports_bfloat16 = True
    supports_fp8 = True

    def __init__(self, number: int = 0) -> None:
        self.id = number
        self.uuid = f"GPU-00000000-0000-0000-0000-{number:012}"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Return the compute capability of the `arch` in the settings: (9, 0) for sm_90."""
        return divmod(number_of(settings.current().arch), 10)

    @property
    def COMPUTE_CAPABILITY_MAJOR(self) -> int:
        return self.compute_capability[0]

    @property
    def COMPUTE_CAPABILITY_MINOR(self) -> int:
        return self.compute_capability[1]

    def __getattr__(self, name: str) -> Any:
        """Return a limit that depends on the architecture."""
        found = _OF_LIMITS.get(name)
        if found is None:
            if name in _OF_DRIVER:
                return NotModelled(f"device.{name}")
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(unknown("the emulated device", name, {*vars(Device), *_OF_LIMITS}))
        return found(limits(settings.current().arch))

    @property
    def device(self) -> Device:
        return self

    def get_primary_context(self) -> Device:
        return self

    def reset(self) -> None:
        """Do nothing: the device holds no resources."""

    prepare_for_use = release_primary_context = reset

    def push(self) -> None:
        """Make this device the current one of the thread."""
        _current.enter(self)

    def pop(self) -> None:
        """Make the previous device the current one again."""
        _current.leave()

    def synchronize(self) -> None:
        """Wait for the work of all its streams."""
        with self:
            synchronize()

    def get_device_identity(self) -> dict[str, int]:
        """Return the device's position on the bus."""
        return {"pci_domain_id": 0, "pci_bus_id": 0, "pci_device_id": 0}

    def from_identity(self, identity: object) -> Device:
        return self

    def can_access_peer(self, peer_device: Any) -> bool:
        """Return True for another device."""
        number: int = getattr(peer_device, "id", peer_device)
        return number != self.id

    def enable_peer_access(self, peer_context: object, flags: int = 0) -> None:
        """Do nothing: devices access each other's memory here."""

    def create_stream(self) -> Stream:
        with self:
            return stream()

    def get_default_stream(self) -> Stream:
        with self:
            return default_stream()

    def get_legacy_default_stream(self) -> Stream:
        with self:
            return legacy_default_stream()

    def get_per_thread_default_stream(self) -> Stream:
        with self:
            return per_thread_default_stream()

    def create_external_stream(self, ptr: int) -> Stream:
        return external_stream(ptr)

    def create_event(self, timing: bool = True) -> Event:
        return Event()

    def defer_cleanup(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def get_memory_info(self) -> MemoryInfo:
        """Return the free and total bytes of memory, those of an H200."""
        return MemoryInfo(141 * 10**9, 141 * 10**9)

    def __enter__(self) -> Device:
        self.push()
        return self

    def __exit__(self, *_: object) -> None:
        self.pop()

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.name}'>"


_OF_LIMITS: dict[str, Callable[[Limits], int]] = {
    "MAX_THREADS_PER_BLOCK": lambda limit: limit.threads,
    "MAX_SHARED_MEMORY_PER_BLOCK": lambda limit: limit.static_shared,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": lambda limit: limit.shared,
    **{f"MAX_BLOCK_DIM_{axis}": lambda limit, n=n: limit.block[n] for n, axis in enumerate("XYZ")},  # type: ignore[misc]
    **{f"MAX_GRID_DIM_{axis}": lambda limit, n=n: limit.grid[n] for n, axis in enumerate("XYZ")},  # type: ignore[misc]
}


_OF_DRIVER = frozenset(
    """
    create_module_image create_module_ptx get_active_blocks_per_multiprocessor get_ipc_handle
    get_max_potential_block_size memalloc memallocmanaged memhostalloc mempin open_ipc_handle unload_module
    """.split()
)
"""functions of the driver that handle memory and code of a GPU"""


class _Current(threading.local):
    """The devices that a thread has made current, the most recent one last."""

    def __init__(self) -> None:
        self._devices = [gpus[0]]
        self._epoch: object = recorder.epoch

    @property
    def device(self) -> Device:
        if self._epoch is not recorder.epoch:
            self._devices, self._epoch = [gpus[0]], recorder.epoch
        return self._devices[-1]

    def enter(self, device: Device) -> None:
        if self.device is not device:
            recorder.arm()
        self._devices.append(device)

    def leave(self) -> None:
        if len(self._devices) > 1:
            self._devices.pop()

    def select(self, device: Device) -> None:
        if self.device is not device:
            recorder.arm()
        self._devices[-1] = device


MAX_DEVICES = 8
"""maximum number of GPUs of a host"""


class _Devices:
    """`cuda.gpus`: only one device is listed, but a program can access others by their numbers."""

    def __init__(self) -> None:
        self._made: dict[int, Device] = {}

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __getitem__(self, number: int) -> Device:
        if not 0 <= number < MAX_DEVICES:
            raise IndexError(f"device {number} does not exist: the emulator has devices 0 to {MAX_DEVICES - 1}")
        return self._made.setdefault(number, Device(number))

    @property
    def lst(self) -> list[Device]:
        return [self[number] for number in range(len(self))]

    @property
    def current(self) -> Device:
        return _current.device

    def __repr__(self) -> str:
        return ", ".join(map(repr, self))


gpus = _Devices()
_current = _Current()


def list_devices() -> _Devices:
    return gpus


def get_current_device() -> Device:
    return _current.device


def current_context(devnum: int | None = None) -> Device:
    return _current.device if devnum is None else gpus[devnum]


def select_device(device_id: int) -> Device:
    """Make a device the current one of this thread."""
    if not 0 <= device_id < MAX_DEVICES:
        raise UsageError(f"device {device_id} does not exist: the emulator has devices 0 to {MAX_DEVICES - 1}")
    _current.select(gpus[device_id])
    return _current.device


class Runtime:
    """`cuda.runtime`"""

    def get_version(self) -> tuple[int, int]:
        return 13, 0

    def is_supported_version(self) -> bool:
        return True


runtime = Runtime()


class CudaSupportError(RuntimeError):
    """Never raised: there is an emulator."""


class CudaDriverError(Exception):
    """Never raised."""


class KernelRuntimeError(RuntimeError):
    """An error that Numba-CUDA once raised for kernels; for `except` clauses."""


class CudaAPIError(CudaDriverError):
    """Never raised: wrong launches raise `wsemu.UsageError`."""


def is_available() -> bool:
    """Return True: kernels run in the emulator."""
    return True


is_supported_version = driver_is_available = is_available
is_float16_supported = is_bfloat16_supported = is_fp8_supported = is_available


class Config:
    """`cuda.config`: the settings of Numba and of Numba-CUDA. Numba-CUDA enables warnings about small grids and about
    host arrays as arguments by default.

    Here, without a GPU, they are off unless the program or `NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS` and
    `NUMBA_CUDA_WARN_ON_IMPLICIT_COPY` enable them.
    """

    CUDA_DEBUGINFO_DEFAULT = 0
    CUDA_ENABLE_PYNVJITLINK = CUDA_ENABLE_NRT = CUDA_NRT_STATS = CUDA_LOG_SIZE = CUDA_SHOW_LTO = 0
    CUDA_USE_NVIDIA_BINDING = CUDA_ENABLE_MINOR_VERSION_COMPATIBILITY = 0
    CUDA_MEMORY_MANAGER = "default"
    DISABLE_CUDA = ENABLE_CUDASIM = 0

    def __init__(self) -> None:
        for name in (
            "CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY", "CUDA_PER_THREAD_DEFAULT_STREAM",
        ):  # fmt: skip
            given = os.environ.get(f"NUMBA_{name}", "0")
            setattr(self, name, int(given) if given.isdecimal() else 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(load_numba("numba.core.config"), name)


config = Config()


def _devicearray() -> ModuleType:
    made = ModuleType("numba.cuda.cudadrv.devicearray")
    for name in ("DeviceNDArray", "MappedNDArray", "ManagedNDArray", "DeviceNDArrayBase"):
        setattr(made, name, DeviceNDArray)
    for function in (auto_device, is_cuda_ndarray):
        setattr(made, function.__name__, function)
    made.from_array_like = lambda obj, stream=0, gpu_data=None: device_array_like(obj)  # type: ignore[attr-defined]
    made.verify_cuda_ndarray_interface = made.require_cuda_ndarray = _require  # type: ignore[attr-defined]
    return made


def _require(obj: object) -> None:
    """Raise ValueError for an object that is not a device array."""
    if not is_cuda_ndarray(obj):
        raise ValueError("require an cuda ndarray object")


devicearray = _devicearray()
"""the module `devicearray`, with the interface of Numba-CUDA's"""


def detect() -> bool:
    """Print the available devices."""
    names = "".join(f"\nid {device.id}: wsemu, an emulator" for device in gpus)
    print(f"Found {len(gpus)} CUDA devices{names}")
    return True


@contextlib.contextmanager
def _empty_context(*_: object) -> Iterator[None]:
    yield


profiling = defer_cleanup = _empty_context
pinned = pinning
array_observers[:] = [recorder]
recorder.resolve_stream = resolve_stream
