"""Operators with a kernel for CUDA, in an extension or in Python: torch calls it for tensors on the device.

Tensors on the device are CPU tensors, so torch calls the kernel for the CPU.  Here, that kernel calls the
one for CUDA if an argument is on the device.  Autograd, which is above it, records the call as on a GPU.
"""

import contextlib
import functools
import warnings

_OWN = ("aten::", "prim", "_::")
_FOR_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


class Operators:
    """The operators whose kernel for the CPU chooses between the device and the host."""

    def __init__(self, torch, driver, devices, border, mode):
        self.torch, self.driver, self.devices, self.border, self.mode = torch, driver, devices, border, mode
        self.on_device, self.on_host, self.is_python, self.libraries = {}, {}, set(), {}
        self.register = torch.library.Library.impl
        self.has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key

    def add_compiled(self):
        """Add the operators whose kernel for CUDA is in an extension."""
        for name in self.torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
            if name not in self.on_device and not name.startswith(_OWN):
                self._add(name, functools.partial(self._run_compiled, name))

    def follow_registrations(self):
        """Add the operators whose kernel for CUDA a program registers in Python."""
        register = self.register

        def register_and_add(library, op_name, fn, dispatch_key="", **options):
            key = dispatch_key or library.dispatch_key
            name = self._full_name(library, op_name)
            is_known = name in self.on_device and not options.get("with_keyset")
            if key == "CPU" and is_known:  # it would replace the one that chooses
                self.on_host[name] = lambda _, *args, **kwargs: fn(*args, **kwargs)
                return
            register(library, op_name, fn, dispatch_key, **options)
            if key == "CUDA" and not name.startswith(_OWN) and not options.get("with_keyset"):
                self.is_python.add(name)
                self._add(name, functools.partial(self._run_python, fn))

        self.torch.library.Library.impl = register_and_add

    def _full_name(self, library, operator):
        name = operator._name if isinstance(operator, self.torch._ops.OpOverload) else str(operator)
        return name if "::" in name else f"{library.ns}::{name}"

    def _add(self, name, run):
        is_new = name not in self.on_device
        self.on_device[name] = run
        if not is_new:
            return
        self.on_host[name] = None
        if any(self.has_kernel(name, key) for key in _FOR_CPU):
            self.on_host[name] = self.torch.library.get_kernel(name, "CPU").call_boxed
        namespace = name.partition("::")[0]
        if namespace not in self.libraries:
            self.libraries[namespace] = self.torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():  # torch warns that it replaces a kernel
            warnings.simplefilter("ignore")
            choose = functools.partial(self._choose, name)
            self.register(self.libraries[namespace], name, choose, "CPU", with_keyset=True)

    def _choose(self, name, keys, *args, **kwargs):
        """Run the kernel for CUDA if a tensor is on the device, and the one for the CPU otherwise."""
        found = self.devices.tensors((*args, *kwargs.values()))
        if any(map(self.devices.is_on_device, found)):
            return self.on_device[name](*args, **kwargs)
        if self.on_host[name] is None:
            raise NotImplementedError(f"Could not run '{name}' with arguments from the 'CPU' backend: it is for CUDA")
        return self.on_host[name](keys, *args, **kwargs)

    def _run_compiled(self, name, *args, **kwargs):
        with self.torch.no_grad():
            return self.border.call(self._find_overload(name), args, kwargs)

    def _run_python(self, function, *args, **kwargs):
        is_off = not self.torch._C._len_torch_function_stack()  # inside of another function, or of autograd's engine
        with self.mode() if is_off else contextlib.nullcontext():
            return function(*args, **kwargs)

    def _find_overload(self, name):
        namespace, _, rest = name.partition("::")
        operator, _, overload = rest.partition(".")
        return getattr(getattr(getattr(self.torch.ops, namespace), operator), overload or "default")

    # -- calls from programs -------------------------------------------------------------------------------------------
    def names(self, function):
        """Return the names of these operators that a function of `torch.ops` may call."""
        if isinstance(function, self.torch._ops.OpOverloadPacket):
            name = function._qualified_op_name
            found = [f"{name}.{one}".removesuffix(".default") for one in function.overloads()]
        elif isinstance(function, self.torch._ops.OpOverload):
            found = [function._name]
        else:
            return []
        return [name for name in found if name in self.on_device]

    def call(self, names, function, args, kwargs):
        """Call an operator."""
        found = [*self.devices.tensors((*args, *kwargs.values()))]
        needs_gradients = self.torch.is_grad_enabled() and any(tensor.requires_grad for tensor in found)
        keys = ("AutogradCUDA",) if needs_gradients else ("AutogradCUDA", "Autograd")
        if any(map(self.devices.is_on_device, found)) and any(self._has_compiled(name, keys) for name in names):
            return self.border.call(function, args, kwargs)
        with self.driver.placing(0):
            return function(*args, **kwargs)

    def _has_compiled(self, name, keys):
        """Return whether C++ code may be above the kernel, which may check that tensors are CUDA tensors."""
        return name not in self.is_python and any(self.has_kernel(name, key) for key in keys)


def install(torch, driver, devices, border, mode):
    """Let torch call kernels for CUDA; return the operators that have one."""
    operators = Operators(torch, driver, devices, border, mode)
    operators.follow_registrations()
    border.operators = operators
    return operators
