"""Enter the mode that redirects torch's functions when a program first names the CUDA device.

A mode costs time in every function of torch, so a program on the CPU runs without it.  torch calls
`torch.cuda._lazy_init` where a call first names the device, before the call's operators run.  This enters the mode,
which does not see the call itself.  So a key of the dispatcher that has no other use redirects the call's operators.
Operators that C++ code calls without `_lazy_init` reach the backend for CUDA.
"""

import contextlib
import ctypes
import functools
import sys
import threading

_KEY = "TESTING_ONLY_GenericMode"
"""a key of the dispatcher that is above all others and that no program uses"""
_BACKENDS = ("CUDA", "SparseCUDA", "SparseCsrCUDA", "NestedTensorCUDA", "QuantizedCUDA")
_PINNED = (
    "arange", "empty", "empty_like", "empty_strided", "empty_permuted", "eye", "full", "full_like", "linspace",
    "logspace", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "scalar_tensor", "tensor", "zeros", "zeros_like",
)  # fmt: skip
"""functions of torch that create pinned memory, which the CPU wheel rejects before an operator runs"""
_PINNED_OF_TENSORS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
_OFFSET_IN_FUNCTION = object.__basicsize__
_OFFSET_IN_METHOD = _OFFSET_IN_FUNCTION + 3 * ctypes.sizeof(ctypes.c_void_p)
"""offsets of the pointer to its definition in a function of C and in a method"""
PACKAGES = ("cuda.core", "cupy", "numba.cuda", "numba_cuda", "numba_cuda_mlir", "pycuda")
"""packages that share memory with torch's tensors"""


class _NamedError(Exception):
    """A call named the device."""


class FirstTensor:
    """The state of a process: whether a tensor on the device may exist."""

    def __init__(self, torch, driver, calls, mode, replace_attributes):
        self.torch, self.driver, self.calls, self.mode = torch, driver, calls, mode
        self.replace_attributes = replace_attributes
        self.is_used, self.pending = False, calls.pending
        self.own = threading.local()
        self.lock = threading.RLock()
        self.include = getattr(torch._C, "_dispatch_tls_set_dispatch_key_included", None)
        self.backends, self.libraries = [], []

    # -- the mode --------------------------------------------------------------------------------------------------
    def enter(self):
        """Enter the mode in this thread, below the modes of the program."""
        if not self._has_mode():
            self.own.is_entered = True
            above = self._pop_modes()
            self._push_modes([self.mode(), *above])

    def _has_mode(self):
        return getattr(self.own, "is_entered", False)

    def _pop_modes(self):
        """Take all modes from this thread's stack, and return them from the lowest one."""
        length, pop = self.torch._C._len_torch_function_stack, self.torch._C._pop_torch_function_stack
        return [pop() for _ in range(length())][::-1]

    def _push_modes(self, modes):
        for one in modes:
            self.torch._C._push_on_torch_function_stack(one)

    @contextlib.contextmanager
    def leaving_mode(self):
        """Leave the mode inside the block."""
        modes = self._pop_modes()
        others = [one for one in modes if not isinstance(one, self.mode)]
        self._push_modes(others)
        try:
            yield
        finally:
            if len(others) < len(modes):
                self._push_modes([self.mode(), *self._pop_modes()])

    def restore_mode(self):
        """Enter the mode again after autograd's engine, which restores the stack of modes that it has found."""
        if self._has_mode():
            modes = self._pop_modes()
            is_missing = not any(isinstance(one, self.mode) for one in modes)
            self._push_modes([self.mode(), *modes] if is_missing and self.is_used else modes)

    def begin(self):
        """Redirect functions from now on: in this thread and in the main one; other threads have the mode."""
        if self.is_used:
            return
        with self.lock:
            if self.is_used:
                return
            self.driver.start()
            self.replace_attributes()
            self.is_used = True
        if threading.get_ident() == threading.main_thread().ident:
            self.enter()
        else:
            ctypes.pythonapi.Py_AddPendingCall(self._enter_main, None)

    def _enter_in_main(self, _):
        """Enter the mode in the main thread, which Python interrupts for that."""
        self.driver.start()
        self.enter()
        return 0

    # -- calls that name the device ---------------------------------------------------------------------------------
    def start(self):
        """Redirect the operators of the first call for the device, or all functions at once if torch does not
        announce this call."""
        self._enter_main = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._enter_in_main)
        can_wait = self._announces_calls() and self._redirect_operators()
        self.torch.cuda._lazy_init = self._name_device if can_wait else self.begin
        self.torch.cuda.init = self.begin
        if threading.get_ident() != threading.main_thread().ident:
            self.enter()
        if can_wait:
            self._redirect_callers()
        if not can_wait or any(name in sys.modules for name in PACKAGES):
            self.begin()

    def _announces_calls(self):
        """Return whether torch calls `_lazy_init` where a call names the device, by a name and by a number."""

        def announce():
            raise _NamedError

        self.torch.cuda._lazy_init = announce
        return all(self._announces(device) for device in ("cuda", 0))

    def _announces(self, device):
        try:
            self.torch.empty(0, device=device)
        except _NamedError:
            return True
        except Exception:  # torch rejects the device
            return False
        return False

    def _redirect_operators(self):
        """Redirect operators to this; return whether torch can."""
        library = self.torch.library.Library
        if self.include is None or not hasattr(library, "fallback"):
            return False
        self.libraries, self.backends = [library("_", "IMPL")], [library("_", "IMPL")]
        try:
            self.libraries[0].fallback(self._run_first, _KEY)
            for name in _BACKENDS:
                self.backends[0].fallback(self._run_on_backend, name)
        except RuntimeError:  # torch has no such key
            self.leave_backends()
            return False
        return True

    def _redirect_callers(self):
        """Redirect functions of Python that call operators without `_lazy_init`."""
        for kind in (self.torch._ops.OpOverload, self.torch._ops.OpOverloadPacket):
            kind.__call__ = self._watch_function(kind.__call__)

    def _watch_function(self, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            if not self.is_used and self._names_device(args, kwargs):
                self._name_device()
            return function(*args, **kwargs)

        return run

    def _names_device(self, args, kwargs):
        """Return whether a call names the device."""
        kind = self.calls.devices.device_type
        return any(kind(value) == "cuda" for value in (*args, *kwargs.values())) or type(kwargs.get("device")) is int

    def leave_backends(self):
        """Leave the backend's operators to another owner."""
        while self.backends:
            self.backends.pop()._destroy()

    def _name_device(self):
        """Redirect the operators of the call that named the device."""
        self.begin()
        self.include(_KEY, True)
        self.pending.add(threading.get_ident())

    def end_call(self):
        """Redirect no operators: the call has ended, perhaps by an error."""
        if threading.get_ident() in self.pending:
            self.pending.discard(threading.get_ident())
            self.include(_KEY, False)

    def _run_first(self, operator, *args, **kwargs):
        """Run an operator of the first call for the device."""
        self.include(_KEY, False)
        if self._names_device(args, kwargs):
            self.pending.discard(threading.get_ident())
            with self.torch._C.DisableTorchFunction():
                return self.calls.run(operator, args, kwargs)
        try:
            return operator(*args, **kwargs)
        finally:
            if threading.get_ident() in self.pending:
                self.include(_KEY, True)

    def _run_on_backend(self, operator, *args, **kwargs):
        """Run a part of another operator, which may write the memory: so it counts as written."""
        self.begin()
        with self.torch._C.DisableTorchFunction():
            return self.calls.run(operator, args, kwargs, is_part=True)


# -- pinned memory -----------------------------------------------------------------------------------------------------
class _Method(ctypes.Structure):
    """The definition of a function of C, in Python's interface for C."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p))


def create_pinned_on_host(torch, driver):
    """Let functions that create pinned memory create plain one, in their definitions: torch compares the functions."""
    tensor = torch._C.TensorBase
    found = [(getattr(torch, name, None), _OFFSET_IN_FUNCTION, name) for name in _PINNED]
    found += [(vars(tensor).get(name), _OFFSET_IN_METHOD, name) for name in _PINNED_OF_TENSORS]
    for function, offset, name in found:
        if type(function).__name__ in ("builtin_function_or_method", "method_descriptor"):
            place = ctypes.POINTER(_Method).from_address(id(function) + offset)
            if place[0].name == name.encode():
                driver.library.wsemu_ignore_pinning(place)
    torch.Tensor.pin_memory = lambda self, device=None: self.clone()
