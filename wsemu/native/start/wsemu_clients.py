"""Adaptations of packages that launch through the driver: cuda.bindings, CuTe DSL and Triton."""

import ctypes
import os

AUTOTUNE = "WSEMU_AUTOTUNE"
"""environment variable; with `all`, autotuning runs every configuration"""


def redirect_runtime(module):
    """Redirect the CUDA runtime that is linked into cuda.bindings, through the table in which Cython keeps its
    functions."""
    redirect = ctypes.CDLL("libcuda.so.1").wsemu_redirect
    redirect.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name, capsule in module.__pyx_capi__.items():
        plain = name.lstrip("_")
        if plain.startswith("cuda"):
            redirect(pointer_of(capsule, name_of(capsule)), plain.encode())


def keep_ptx_of_cute(module):
    """Make CuTe DSL keep the PTX of each compilation in wsemu's folder, even if the program names another folder."""
    apply = module.CompileOptions.apply_envar_settings

    def apply_and_keep(self, *arguments, **named):
        apply(self, *arguments, **named)
        kept = self.options[module.KeepPTX]
        for name in ("dump_path", "full_ptx_path"):
            path = getattr(kept, name, "")
            if path:
                setattr(kept, name, os.path.join(os.environ["CUTE_DSL_DUMP_DIR"], os.path.basename(path)))

    module.CompileOptions.apply_envar_settings = apply_and_keep


def tune_with_first_configuration(module):
    """Make autotuning take the first configuration that is valid for a kernel, because times of an emulator mean
    nothing."""
    tuner = module.Autotuner
    prune = tuner.prune_configs

    def prune_to_first(self, kwargs):
        configurations = prune(self, kwargs)
        return configurations if os.environ.get(AUTOTUNE) == "all" else list(configurations)[:1]

    tuner.prune_configs = prune_to_first


def run_benchmarks_once(module):
    """Let benchmarks run their function once, and return one millisecond."""

    def bench(fn, *_, quantiles=None, return_mode="mean", **__):
        fn()
        count = len(quantiles) if quantiles else 0
        return [1.0] * count if count > 1 or return_mode == "all" else 1.0

    module.do_bench = module.do_bench_cudagraph = bench


def profile_nothing(module):
    """Make Proton measure nothing, because it needs CUPTI, which needs NVIDIA's driver."""
    for name in ("start", "activate", "deactivate", "finalize"):
        setattr(module, name, lambda *_, **__: None)


def show_no_profile(module):
    """Make Proton's viewer print a line instead of the missing profile."""
    module.parse = lambda metrics, *_, **__: (None, metrics)
    module.print_tree = lambda *_, **__: print("wsemu: no profile, as times of an emulator say nothing")
