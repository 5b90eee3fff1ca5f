"""Programs as they are, on the driver of wsemu: memory, errors, and how the command ends."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wsemu
from wsemu.app import native_program
from wsemu.app.launch_file import check_like
from wsemu.app.launches import Launches
from wsemu.app.program_kind import find_command
from wsemu.model.errors import UsageError
from wsemu.native import build, fat_binary
from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler, find_platform_problem, library_names
from wsemu.native.images import Images
from wsemu.native.program import check_program
from wsemu.native.server import Ended
from wsemu.report.terminal import Printer

DATA = Path(__file__).resolve().parents[1] / "data"
PTX = DATA / "driver_client.ptx"
needs_driver = pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The program of `driver_client.c`."""
    libraries, program = find_libraries(), tmp_path_factory.mktemp("client") / "client"
    source, driver = str(DATA / "driver_client.c"), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


def run(client, *words, options=()):
    command = [sys.executable, "-m", "wsemu", "run", *options, "--", str(client), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@needs_driver
@pytest.mark.parametrize(
    ("what", "printed"),
    [
        ("sums", "0 528"),
        ("managed", "0 32"),
        ("registered", "0 0\n0 32"),
        ("table", "0 7"),
        ("constant", "0 4 21"),
        ("link", "0 0 0 0 0 0 400 0 42"),
    ],
)
def test_a_program_computes_what_a_gpu_does(client, what, printed):
    done = run(client, str(PTX), what)
    assert f"load 0\n{printed}\n" in done.stdout
    assert "1 kernel, 1 launch: 1 verified" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@needs_driver
def test_freed_memory_is_reported_and_every_later_call_fails(client):
    done = run(client, str(PTX), "freed")
    assert "error[out-of-bounds]" in done.stdout
    assert "0 700\n" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_memory_that_nothing_wrote_is_uninitialized(client):
    done = run(client, str(PTX), "unwritten")
    assert "error[uninitialized-read]" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_after_a_launch_that_was_cut_off_every_later_call_fails(client):
    """A launch with an error continues the program, but not without the rest of its results."""
    assert "0 0\n" in run(client, str(PTX), "race").stdout
    done = run(client, str(PTX), "race", options=["--budget", "9000"])
    assert "error[race]" in done.stdout
    assert "0 702\n" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_a_verified_launch_has_results_although_its_initial_run_was_cut_off(client):
    done = run(client, str(PTX), "meet")
    assert "0 0 2 2 2\n" in done.stdout
    assert "1 kernel, 1 launch: 1 verified" in done.stdout
    assert done.returncode == 0


@needs_driver
def test_wrong_calls_get_errors_of_cuda_and_the_program_continues(client):
    done = run(client, str(PTX), "errors")
    assert "1 1 1 1 1 1 400 400 0 1\n0 528\n" in done.stdout
    assert "the launch of `add` does not run: invalid configuration argument: grid 1 x 1 x 1, block 2048" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


@needs_driver
def test_a_crash_of_the_program_fails(client):
    done = run(client, str(PTX), "crash")
    assert "the program was ended by SIGSEGV" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_nothing_stays_behind(client, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    assert run(client, str(PTX), "sums").returncode == 0
    assert not list(tmp_path.glob("wsemu-*"))


@needs_driver
def test_json_has_every_launch(client):
    command = [sys.executable, "-m", "wsemu", "check", "--format", "json", str(client), str(PTX), "sums"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["verdicts"]["verified"] == 1
    assert "0 528" in done.stderr


@needs_driver
@pytest.mark.parametrize(
    ("options", "summary", "code"),
    [
        ([], "2 kernels, 12 launches: 11 verified, 1 failed", 1),
        (["--kernel", "read_*"], "1 kernel, 5 launches: 5 verified", 0),
        (["--kernel", "regex:^a.d$"], "1 kernel, 7 launches: 6 verified, 1 failed", 1),
        (["--launch-skip", "2", "--launch-count", "3"], "2 kernels, 3 launches: 3 verified", 0),
        (["--kernel", "add", "--launch-skip", "6"], "1 kernel, 1 launch: 1 failed", 1),
        (["--skip", "uninitialized-read"], "2 kernels, 12 launches: 12 verified", 0),
    ],
)
def test_options_select_the_launches_that_are_checked(client, options, summary, code):
    done = run(client, str(PTX), "many", options=options)
    assert summary in done.stdout
    assert done.returncode == code, done.stdout + done.stderr
    assert "0\n" in done.stdout


@needs_driver
def test_the_end_names_the_kernels_that_failed(client):
    assert "add: 1 of 7 launches failed (uninitialized-read)\n" in run(client, str(PTX), "many").stdout


@needs_driver
def test_a_selection_of_nothing_is_wrong_usage(client):
    done = run(client, str(PTX), "many", options=["--launch-skip", "50"])
    assert "12 launches ran unchecked" in done.stdout
    assert "none is selected" in done.stdout
    assert done.returncode == 2
    assert run(client, str(PTX), "many", options=["--kernel", "regex:("]).returncode == 2


@needs_driver
def test_a_saved_launch_gives_the_same_report_alone(client, tmp_path):
    folder = tmp_path / "saved"
    done = run(client, str(PTX), "many", options=["--save-launches", str(folder), "--launch-skip", "9"])
    assert done.returncode == 1
    table, plain, unwritten = sorted(folder.glob("*.json"))
    assert [json.loads(file.read_text())["entry"] for file in (table, plain, unwritten)] == ["read_table", "add", "add"]
    for file, code, text in ((table, 0, "verified"), (plain, 0, "verified"), (unwritten, 1, "uninitialized-read")):
        found = wsemu("check", str(file))
        assert (found.returncode, text in found.stdout) == (code, True), found.stdout
    assert check_like(unwritten).findings[0].code == "uninitialized-read"
    assert check_like(table).verdict == "verified"
    assert run(client, str(PTX), "many", options=["--save-launches", str(folder)]).returncode == 2


@needs_driver
def test_a_failed_assertion_ends_the_device(client):
    done = run(client, str(PTX), "claim")
    assert "0 710\n" in done.stdout
    assert "error[" in done.stdout
    assert "t < 1:7: t < 1: block: [0,0,0], thread: [1,0,0] Assertion `t < 1` failed.\n" in done.stderr
    assert done.returncode == 1


@needs_driver
def test_what_kernels_print_comes_out_when_the_host_waits(client):
    done = run(client, str(PTX), "say")
    assert "load 0\n0 thread 0\nthread 1\n0\n" in done.stdout


@needs_driver
@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, ""), (signal.SIGHUP, "")]
)
def test_a_signal_ends_the_program_and_the_command(client, tmp_path, number, said):
    command = [sys.executable, "-m", "wsemu", "run", str(client), str(PTX), "spin"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # Under `nohup` a child ignores SIGHUP, as it should: this one has the signal's default.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as ran:
        assert ran.stderr is not None
        assert ran.stderr.readline() == "spinning\n"
        ran.send_signal(number)
        text, errors = ran.communicate(timeout=60)
    assert said in text
    assert "Traceback" not in errors
    assert ran.returncode == 128 + number
    assert not list(tmp_path.glob("wsemu-*"))


def elf(*sections_):
    """An ELF file of 64 bits with these (name, data) sections."""
    names, body, rows = b"\0", bytes(64), [bytes(64)]
    for name, data in (*sections_, (b".shstrtab", b"")):
        start = len(names)
        names += name + b"\0"
        data = data or names
        rows.append(struct.pack("<IIQQQQIIQQ", start, 1, 0, 0, len(body), len(data), 0, 0, 1, 0))
        body += data
    head = bytearray(body)
    head[:4] = b"\x7fELF"
    struct.pack_into("<Q", head, 0x28, len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(rows), len(rows) - 1)
    return bytes(head) + b"".join(rows)


def test_a_stripped_program_is_refused_with_the_line_that_mends_it(tmp_path):
    code = container((1, 90, 0, ptx(90)))
    file = tmp_path / "app"
    file.write_bytes(elf((b".nv_fatbin", code)))
    with pytest.raises(UsageError, match=r"NVCC_APPEND_FLAGS.*-cudart shared"):
        check_program(file)
    for kept in (b".strtab", b".dynstr"):
        file.write_bytes(elf((b".nv_fatbin", code), (kept, b"\0__cudaRegisterFatBinary\0")))
        check_program(file)
    file.write_bytes(elf((b".text", b"\0")))
    check_program(file)


def container(*entries):
    """A fat binary of (kind, target, flags, data)."""
    body = b""
    for kind, target, flags, data in entries:
        padded = data + bytes(-len(data) % 8)
        head = struct.pack(
            "<HHIQIIIIIIQQQ", kind, 0x101, 64, len(padded), 0, 0, 0x80000, target, 64, 0, flags, 0, len(data)
        )
        body += head + padded
    return struct.pack("<IHHQ", fat_binary.MAGIC, 1, 16, len(body)) + body


def ptx(target):
    return f".version 8.0\n.target sm_{target}\n.address_size 64\n".encode()


def test_a_fat_binary_gives_the_newest_ptx_that_the_device_runs(tmp_path):
    image = container((1, 75, 0, ptx(75)), (2, 90, 0, b"\x7fELF"), (1, 80, 0, ptx(80)), (1, 120, 0, ptx(120)))
    (text,) = Images(os.getpid(), tmp_path, 90).find_ptx(image)
    assert ".target sm_80" in text


def test_machine_code_alone_is_refused_with_the_line_that_mends_it(tmp_path):
    image = container((2, 90, 0, b"\x7fELF" + bytes(60)))
    with pytest.raises(UsageError, match="NVCC_APPEND_FLAGS"):
        Images(os.getpid(), tmp_path, 90).find_ptx(image)


def test_damaged_fat_binaries_end_in_an_error(tmp_path):
    image = container((1, 90, 0x8000, b"no zstd at all"))
    for end in range(16, len(image), 7):
        with pytest.raises(UsageError):
            Images(os.getpid(), tmp_path, 90).find_ptx(image[:end])


def test_a_missing_package_is_a_set_up_that_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(fat_binary.MissingPackageError, match="`zstandard` is not installed") as missing:
        Images(os.getpid(), tmp_path, 90).find_ptx(container((1, 90, 0x8000, b"zstd")))

    def run_program(command, watched):
        for _ in range(2):
            watched.note_refusal("module", missing.value)
        return Ended(1)

    monkeypatch.setattr(native_program, "run_program", run_program)
    monkeypatch.setattr(native_program, "check_program", lambda _: None)
    launches = Launches(Printer())
    assert native_program.run(["./app"], tmp_path / "app", launches, "") == 2
    assert (launches.verdicts, capsys.readouterr().out.count("zstandard")) == ([], 1)


def test_what_runs_as_it_is(tmp_path):
    def kind(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return find_command(path, ["a"])

    assert kind("app", b"\x7fELF....") == [str(tmp_path / "app"), "a"]
    assert kind("script", b"#!/bin/sh\n") == [str(tmp_path / "script"), "a"]
    assert kind("train.py", b"import torch\nimport triton\n") == [sys.executable, str(tmp_path / "train.py"), "a"]
    assert kind("line.py", b"import sys, triton as t") == [sys.executable, str(tmp_path / "line.py"), "a"]
    assert kind("own.py", b"import torch; import sys, wsemu\n") is None
    assert kind("numba.py", b"import cupy\nfrom numba import cuda\n") is None
    assert kind("plain.py", b"from wsemu import cuda\n") is None
    assert kind("kernel.ptx", b".version 8.0\n") is None


SESSION = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
words = [ctypes.c_void_p() for _ in range(3)]
context, module, add = words
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuModuleLoad(ctypes.byref(module), {ptx!r})
assert not cuda.cuModuleGetFunction(ctypes.byref(add), module, b"add")

def launch(is_written, size=128):
    x = ctypes.c_uint64()
    assert not cuda.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(size))
    if is_written:
        assert not cuda.cuMemsetD32_v2(x, 5, ctypes.c_size_t(size // 4))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(x))
    assert not cuda.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
    return x

def test_right():
    launch(True)

def test_wrong():
    launch(False)

def test_right_afterwards():
    launch(True)

def test_out_of_bounds():
    x = launch(True, 64)
    error = cuda.cuCtxSynchronize()
    cuda.wsemu_clear_error()
    assert not cuda.cuMemFree_v2(x)
    assert not error

def test_right_after_an_error():
    launch(True)
"""


@needs_driver
def test_a_session_of_pytest_on_the_driver_fails_the_tests_whose_launches_fail(tmp_path):
    file = tmp_path / "test_session.py"
    file.write_text(SESSION.replace("{ptx!r}", repr(str(PTX).encode())))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--wsemu-cuda", "-q", str(file)]
    usual = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=usual)
    assert "2 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    wrong, out_of_bounds = done.stdout.split("_ test_out_of_bounds _")
    assert "error[uninitialized-read]" in wrong
    assert "assert not 700" in out_of_bounds
    assert "error[out-of-bounds]" in out_of_bounds
    assert "which has 64;" in " ".join(out_of_bounds.split())  # as at the launch, and not as one that is freed
    assert done.returncode == 1


def test_incomplete_launches_displace_no_failed_one():
    from types import SimpleNamespace

    from wsemu.native.session import MAX_KEPT_REPORTS, _latest_reports

    failed, incomplete = (SimpleNamespace(verdict=verdict) for verdict in ("failed", "incomplete"))
    reports: list[Any] = [failed, *[incomplete] * 30]
    kept = _latest_reports(reports)
    assert [report.verdict for report in kept] == ["failed", *["incomplete"] * MAX_KEPT_REPORTS]


def test_doctor_names_the_driver_and_its_clients():
    from wsemu.app.doctor import examine

    names = [item.name for item in examine()]
    assert "CUDA driver" in names
    assert "zstandard" in names or find_platform_problem()


def test_the_runtime_in_a_linked_library_is_replaced_before_its_constructors_run(tmp_path):
    library, source = tmp_path / "library.c", tmp_path / "client.c"
    library.write_text("""
static int counted = -1;
__attribute__((visibility("hidden"), noinline)) int cudaGetDeviceCount(int *count) {
    for (volatile int n = 0; n < 3; n++) *count = 40 + n;
    return 0;
}
__attribute__((constructor)) static void count_devices(void) { cudaGetDeviceCount(&counted); }
int devices(void) { return counted; }
""")
    source.write_text(r"""
int devices(void), printf(const char *, ...);
int main() { printf("devices %d\n", devices()); }
""")
    compiler, own = str(find_compiler()), str(tmp_path / "libown.so")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", str(library), "-o", own], check=True)
    program = tmp_path / "client"
    subprocess.run([compiler, "-w", str(source), own, f"-Wl,-rpath,{tmp_path}", "-o", str(program)], check=True)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "devices 1\n" in done.stdout, done.stdout + done.stderr


def test_a_function_of_the_runtime_is_replaced_where_the_library_that_exports_it_calls_it_itself(tmp_path):
    library, source = tmp_path / "library.c", tmp_path / "client.c"
    library.write_text(r"""
__attribute__((used, noinline)) static int own_count(int *count) {
    for (volatile int n = 0; n < 3; n++) *count = 40 + n;
    return 0;
}
__asm__(".text\n.p2align 4\n.globl _cudaGetDeviceCount\n.type _cudaGetDeviceCount, @function\n_cudaGetDeviceCount:\n"
        ".byte 0xe9\n.long own_count - . - 4\n.size _cudaGetDeviceCount, . - _cudaGetDeviceCount\n.p2align 4\n");
int devices(void) { int count = 0; own_count(&count); return count; }
""")
    source.write_text(r"""
int devices(void), printf(const char *, ...);
int main() { printf("devices %d\n", devices()); }
""")
    compiler, own = str(find_compiler()), str(tmp_path / "libown.so")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-s", str(library), "-o", own], check=True)
    program = tmp_path / "client"
    subprocess.run([compiler, "-w", str(source), own, f"-Wl,-rpath,{tmp_path}", "-o", str(program)], check=True)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "devices 1\n" in done.stdout, done.stdout + done.stderr


PLUGIN = """
__attribute__((visibility("hidden"), noinline)) int cudaGetDeviceCount(int *count) {
    for (volatile int n = 0; n < 3; n++) *count = 40 + n;
    return 0;
}
int devices(void) { int count = 0; cudaGetDeviceCount(&count); return count; }
"""
OPENS = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    for (int n = 0; n < 2; n++) {
        void *library = dlopen(words[1], RTLD_NOW);
        printf("devices %d\n", ((int (*)(void))dlsym(library, "devices"))());
        dlclose(library);
    }
}
"""


def run_opened(folder: Path, edit: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that opens and closes a library twice, after an edit of the library's bytes."""
    sources = {"plugin.c": PLUGIN, "opens.c": OPENS}
    for name, text in sources.items():
        (folder / name).write_text(text)
    compiler, library, program = str(find_compiler()), folder / "libplugin.so", folder / "opens"
    subprocess.run([compiler, "-w", "-shared", "-fPIC", folder / "plugin.c", "-o", library], check=True)
    subprocess.run([compiler, "-w", folder / "opens.c", "-ldl", "-o", program], check=True)
    data = bytearray(library.read_bytes())
    edit(data)
    library.write_bytes(data)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program), str(library)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_the_runtime_in_a_library_is_replaced_each_time_that_it_is_opened(tmp_path):
    done = run_opened(tmp_path, lambda data: None)
    assert done.stdout.count("devices 1\n") == 2, done.stdout + done.stderr


SECTION, SYMBOL = "<IIQQQQIIQQ", "<IBBHQQ"
"""layouts of a section header and of a symbol"""
SYMTAB = 2
"""type of the section with all symbols"""


def damage_header(data: bytearray) -> None:
    struct.pack_into("<Q", data, 0x28, 2**64 - 64)


def section_headers(data: bytearray) -> range:
    (start,), (count,) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<H", data, 0x3C)
    return range(start, start + 64 * count, 64)


def set_columns(data: bytearray, layout: str, at: int, values: dict[int, int]) -> None:
    row = [*struct.unpack_from(layout, data, at)]
    for column, value in values.items():
        row[column] = value
    struct.pack_into(layout, data, at, *row)


def damage_section(data: bytearray, values: dict[int, int]) -> None:
    """Set columns of the header of the section with all symbols."""
    for at in section_headers(data):
        if struct.unpack_from(SECTION, data, at)[1] == SYMTAB:
            set_columns(data, SECTION, at, values)


def damage_symbols(data: bytearray, values: dict[int, int]) -> None:
    """Set columns of all symbols."""
    for header in section_headers(data):
        _, kind, _, _, offset, size, *_ = struct.unpack_from(SECTION, data, header)
        for at in range(offset, offset + size, struct.calcsize(SYMBOL)) if kind == SYMTAB else ():
            set_columns(data, SYMBOL, at, values)


@pytest.mark.parametrize(
    "edit",
    [
        damage_header,
        lambda data: damage_section(data, {4: 2**64 - 4096, 5: 4096}),
        lambda data: damage_section(data, {6: 60_000}),
        lambda data: damage_symbols(data, {0: 2**32 - 16}),
        lambda data: damage_symbols(data, {4: 2**40, 5: 3}),
    ],
    ids=["offset of the headers", "offset of the symbols", "section of the names", "names", "addresses"],
)
def test_a_library_with_damaged_sections_runs(tmp_path, edit):
    """The loader reads no sections; the program was ended by SIGSEGV."""
    done = run_opened(tmp_path, edit)
    assert done.stdout.count("devices 42\n") == 2, done.stdout + done.stderr


@needs_driver
@pytest.mark.parametrize(("age", "is_run"), [(0, True), (100, False)])
def test_machine_code_in_a_file_is_run_as_the_ptx_beside_it_unless_that_is_older(tmp_path, age, is_run):
    cubin, text = tmp_path / "kernel.cubin", tmp_path / "kernel.ptx"
    cubin.write_bytes(b"\x7fELF" + bytes(60))
    text.write_bytes(PTX.read_bytes())
    os.utime(text, (cubin.stat().st_mtime - age,) * 2)
    file = tmp_path / "program.py"
    file.write_text(SESSION.replace("{ptx!r}", repr(str(cubin).encode())) + "test_right()\n")
    command = [sys.executable, "-m", "wsemu", "run", "--", sys.executable, str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ("1 launch: 1 verified" in done.stdout) is is_run, done.stdout + done.stderr
    assert (done.returncode == 0) is is_run


def test_libraries_that_others_may_write_to_are_compiled_again(tmp_path, monkeypatch):
    """They were loaded into the program from a folder to which the user's mask let a group write."""

    def compile_empty(folder):
        folder.mkdir(parents=True)
        for name in library_names():
            (folder / name).write_bytes(b"compiled")
            (folder / name).chmod(0o777)

    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setattr(build, "compile_libraries", compile_empty)
    folder = build.find_libraries()
    library = folder / library_names()[0]
    assert build.is_built()
    assert library.stat().st_mode & 0o077 == 0
    library.write_bytes(b"of another")
    assert build.find_libraries() == folder
    assert library.read_bytes() == b"of another"
    library.chmod(0o777)
    assert not build.is_built()
    assert build.find_libraries() == folder
    assert library.read_bytes() == b"compiled"
    assert build.is_built()


@pytest.fixture
def script(tmp_path):
    """A program that prints its words, uses no device, and ends with exit code 7."""
    path = tmp_path / "build"
    path.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    path.chmod(0o700)
    return path


def run_words(*words):
    command = [sys.executable, "-m", "wsemu", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@needs_driver
@pytest.mark.parametrize(
    ("words", "given", "noted"),
    [
        (["--strict", "--limit=3", "--help", "-x", "--", "y"], "--strict --limit=3 --help -x -- y", "--strict --limit"),
        (["--", "--strict", "--", "y"], "--strict -- y", ""),
        (["a", "--format"], "a --format", "--format"),
    ],
)
def test_words_after_a_program_that_runs_as_it_is_belong_to_it(script, words, given, noted):
    done = run_words("run", "--strict", script, *words)
    assert done.stdout.splitlines()[0] == given
    of_wsemu = (f"note: `{word}` is an argument of {script}; " for word in noted.split())
    assert done.stderr.splitlines() == [f"{note}options of wsemu precede the program" for note in of_wsemu]


QUERY = 'import ctypes, sys; sys.exit(3 + ctypes.CDLL("libcuda.so.1").cuInit(0))'
"""a program that queries the device, as a build does, and ends with exit code 3"""


@needs_driver
@pytest.mark.parametrize(("program", "code"), [("exit 7", 7), ("exit 0", 0), (f"{sys.executable} -c '{QUERY}'", 3)])
def test_a_program_that_uses_no_device_ends_with_its_own_exit_code(script, program, code):
    script.write_text(f"#!/bin/sh\n{program}\n")
    done = run_words("run", script)
    assert (done.returncode, done.stderr) == (code, "")
    assert "used no memory and no kernel of the device: nothing was checked" in done.stdout.replace("\n  ", " ")
    done = run_words("check", script)
    assert done.returncode == 2, "`wsemu check` is for launches"


@needs_driver
def test_an_exit_code_of_a_program_is_no_incomplete_launch(script):
    script.write_text("#!/bin/sh\nexit 3\n")
    assert run_words("run", "--allow-incomplete", script).returncode == 1


@needs_driver
@pytest.mark.parametrize(
    ("text", "given"),
    [("import sys; print(sys.argv[1:])", "['a']"), ("import sys, cupy; print(sys.argv[1:])", "['--limit', '3', 'a']")],
)
def test_a_module_is_not_the_command_of_its_name(text, given, tmp_path, monkeypatch):
    """`ls` is also a command; words after a module with CuPy belong to it."""
    (tmp_path / "ls.py").write_text(text)
    (tmp_path / "cupy.py").touch()
    monkeypatch.chdir(tmp_path)
    assert run_words("run", "-m", "ls", "--limit", "3", "a").stdout.splitlines()[0] == given
