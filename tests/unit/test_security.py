"""What SECURITY.md promises: each sentence of it stands in `SENTENCES`, with the tests that hold it."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu.app import doctor
from wsemu.app.array_file import read_array
from wsemu.campaign import spread
from wsemu.launch.replay.witness_file import WitnessError, load, program_path
from wsemu.machine import cache
from wsemu.model.errors import UsageError
from wsemu.model.own_files import find_below, read_regular

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="no pipes, and no links without rights")
PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry store(.param .u64 x)
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [x]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
st.global.u32 [%d0], %r0;
ret;
}
"""
RACING = """
import numpy as np
from numba import cuda
@cuda.jit
def racing(x):
    x[0] = cuda.threadIdx.x
racing[1, 64](np.zeros(1, np.int64))
"""


def launch_file(folder: Path, name: str = "launch.json", **more: Any) -> Path:
    said = {"ptx": "store.ptx", "grid": [1], "block": [32], "args": ["u32[32]:zeros"]}
    file = folder / name
    file.write_text(json.dumps(said | more), encoding="utf-8")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with PTX, and one beside it with an array and PTX that nothing in the first one may reach."""
    inside, outside = tmp_path / "launches", tmp_path / "outside"
    for place in (inside, outside):
        place.mkdir()
        (place / "store.ptx").write_text(PTX, encoding="utf-8")
        np.save(place / "x.npy", np.zeros(32, np.uint32))
    return inside


# -- launch files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".py", ".json", ".cubin", ""])
@pytest.mark.parametrize(
    "words", [["check"], ["run"], ["check", "--format", "sarif"], ["trace"], ["lean"], ["crosscheck"]]
)
def test_what_a_launch_file_names_is_never_run(folder: Path, suffix: str, words: list[str]) -> None:
    payload = f"payload{suffix}"
    (folder / payload).write_text('open("PWNED", "w").write("run")\n', encoding="utf-8")
    file = launch_file(folder, "launch.json" if suffix != ".json" else "launch.JSON", ptx=payload, args=[])
    for target in (file, folder) if words[0] == "check" and suffix != ".json" else (file,):
        done = command(*words, target, cwd=folder)
        assert done.returncode == 2, done.stdout
        assert "found `open` where `.version` belongs" in done.stdout
    assert not (folder / "PWNED").exists()


def test_ptx_of_any_suffix_is_launched(folder: Path) -> None:
    (folder / "store.ptx").rename(folder / "kernel.txt")
    assert command("check", launch_file(folder, ptx="kernel.txt")).returncode == 0


@POSIX
@pytest.mark.parametrize(
    "name", ["../outside/store.ptx", "{outside}/store.ptx", "link.ptx", "linked/store.ptx", "a\0b"]
)
@pytest.mark.parametrize("key", ["ptx", "link"])
def test_ptx_lies_below_the_folder_of_its_launch_file(folder: Path, key: str, name: str) -> None:
    outside = folder.parent / "outside"
    (folder / "link.ptx").symlink_to(outside / "store.ptx")
    (folder / "linked").symlink_to(outside)
    name = name.format(outside=outside)
    more: dict[str, Any] = {key: name if key == "ptx" else [name]}
    file = launch_file(folder, **more)
    with pytest.raises(UsageError, match=r"outside of its folder|is no name of a file"):
        wsemu.check_like(file)
    done = command("check", file)
    assert done.returncode == 2
    assert "names" in done.stdout


@POSIX
@pytest.mark.parametrize(
    "text",
    ["../outside/x.npy", "{outside}/x.npy", "link.npy", "linked/x.npy", "u32[32]:../outside/x.npy",
     "u32[32]:{outside}/x.npy", "{{../outside/x.npy}}", "[../outside/x.npy]", "view(../outside/x.npy, u32[4])",
     "../outside/ x.npy", "/ x.npy", "tmap(../outside/x.npy, box=[32])", "surf(../outside/x.npy)"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["args", "set"])
def test_arrays_lie_below_the_folder_of_their_launch_file(
    folder: Path, key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = folder.parent / "outside"
    (folder / "link.npy").symlink_to(outside / "x.npy")
    (folder / "linked").symlink_to(outside)
    text = text.format(outside=outside)
    file = launch_file(folder, **({"args": [text]} if key == "args" else {"set": {"v": text}}))
    with pytest.raises(UsageError, match="outside of its folder"):
        wsemu.check_like(file)
    monkeypatch.chdir(folder)
    for words in (["check", file], ["check", "store.ptx", "--like", file]):
        done = command(*words, cwd=folder)
        assert (done.returncode, "outside of its folder" in " ".join(done.stdout.split())) == (2, True)


def test_files_below_the_folder_are_read(folder: Path) -> None:
    (folder / "deep er").mkdir()
    np.save(folder / "deep er" / "x.npy", np.zeros(32, np.uint32))
    for text in ("x.npy", "deep er/x.npy", "u32[32]:deep er/x.npy"):
        assert command("check", launch_file(folder, args=[text])).returncode == 0
    assert command("check", folder / "store.ptx", "--like", folder / "launch.json", "--arg", "u32[32]").returncode == 0
    words = ["--grid", "1", "--block", "32", "--arg", folder.parent / "outside" / "x.npy"]
    assert command("check", folder / "store.ptx", *words).returncode == 0, "what the user names may lie anywhere"


@POSIX
def test_devices_pipes_and_sockets_are_not_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe.npy")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s.npy"))
        for name in ("pipe.npy", "s.npy"):
            with pytest.raises(UsageError, match="cannot be read"):
                wsemu.check_like(launch_file(folder, args=[name]))
    for device in ("/dev/zero", folder / "pipe.npy"):
        for read in (wsemu.load_ptx, load, lambda path: read_regular(path, 10)):
            with pytest.raises(UsageError, match=r"it is a (device|pipe), no ordinary file"):
                read(device)


def test_arrays_are_never_unpickled_and_no_larger_than_their_file(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "PWNED"), "w"))

    np.save(tmp_path / "o.npy", np.array([Payload()], object), allow_pickle=True)
    np.savez(tmp_path / "z.npz", x=np.zeros(3))
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    header = (
        b"\x93NUMPY\1\0\x76\0"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}".ljust(117)
        + b"\n"
    )
    (tmp_path / "claims.npy").write_bytes(header + bytes(64))
    (tmp_path / "nested.npy").write_bytes(b"\x93NUMPY\1\0\x76\0" + b"(" * 118)
    for name in ("o.npy", "z.npy", "claims.npy", "nested.npy"):
        with pytest.raises(UsageError, match="is no array of numbers"):
            read_array(tmp_path / name, 1 << 20)
    assert not (tmp_path / "PWNED").exists()
    np.save(tmp_path / "large.npy", np.zeros(1 << 17, np.uint8))
    with pytest.raises(UsageError, match="wsemu reads at most"):
        read_array(tmp_path / "large.npy", 1 << 10)
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "f.npy", fortran)
    assert np.array_equal(read_array(tmp_path / "f.npy", 1 << 10), fortran)


@pytest.mark.parametrize("name", ["", " ", "..", "a/../b", "a\0b", "/a"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"outside of its folder|is no name of a file"):
        find_below(tmp_path, name, "it")


# -- witnesses ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    (tmp_path / "racing.py").write_text(RACING, encoding="utf-8")
    command("check", "racing.py", "--save-witness", "w", cwd=tmp_path)
    return next((tmp_path / "w").iterdir())


def changed(file: Path, **fields: Any) -> Path:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields), encoding="utf-8")
    return file


def test_a_program_that_has_changed_is_not_run(witness: Path, tmp_path: Path) -> None:
    assert command("replay", witness, cwd=tmp_path).returncode == 1
    program = tmp_path / "racing.py"
    program.write_text(f"open('PWNED', 'w')\n{RACING}", encoding="utf-8")
    done = command("replay", witness, cwd=tmp_path)
    assert (done.returncode, "has changed since the witness was written" in " ".join(done.stdout.split())) == (2, True)
    assert not (tmp_path / "PWNED").exists()
    changed(witness, program_sha256="")
    assert "carries no hash of its program" in command("replay", witness, cwd=tmp_path).stdout
    assert not (tmp_path / "PWNED").exists()
    assert command("replay", witness, "--program", program, cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("place", "why"),
    [(".hidden/p.py", "hidden folder"), (".p.py", "hidden folder"), ("v/site-packages/p.py", "an installed package"),
     ("v/dist-packages/x/p.py", "an installed package"), ("p.sh", "has not the suffix .py"),
     ("p", "has not the suffix .py")],
)  # fmt: skip
def test_no_witness_has_a_program_run_there(
    witness: Path, tmp_path: Path, place: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / place
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(RACING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WitnessError, match=why):
        program_path(load(changed(witness, program=f"../{place}")), witness)


def test_the_standard_library_is_not_run(witness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(WitnessError, match="an installed package"):
        program_path(load(changed(witness, program=os.path.relpath(os.__file__, witness.parent))), witness)


def test_a_witness_of_ptx_reads_and_writes_no_file_elsewhere(folder: Path) -> None:
    racing = PTX.replace("st.global.u32 [%d0], %r0", "mov.u32 %r1, %ctaid.x; st.global.u32 [%d0], %r1")
    (folder / "store.ptx").write_text(racing, encoding="utf-8")
    words = ["--grid", "2", "--block", "32", "--arg", "x.npy"]
    assert command("check", "store.ptx", *words, "--save-witness", "w", cwd=folder).returncode == 1
    witness = next((folder / "w").iterdir())
    assert command("replay", witness, cwd=folder).returncode == 1
    given = json.loads(witness.read_text())["arguments"]
    changed(witness, arguments=[*given, "--out", "out.npz"])
    assert command("replay", witness, cwd=folder).returncode == 1
    assert not (folder / "out.npz").exists()
    for wrong in (
        [*given, "--link", "../outside/store.ptx"],
        [*given[:-1], "../outside/x.npy"],
        [*given[:-1], str(folder.parent / "outside" / "x.npy")],
        [*given, "--arg-folder", "../outside"],
    ):
        changed(witness, arguments=wrong)
        done = command("replay", witness, cwd=folder)
        assert (done.returncode, "outside of" in " ".join(done.stdout.split())) == (2, True)


# -- sources that PTX names --------------------------------------------------------------------------------------------

OUTSIDE = PTX.replace("st.global", ".loc 1 1 1\nst.global").replace("[%d0]", "[%d0+4096]")


def named(folder: Path, name: str) -> Path:
    """PTX with a finding at line 1 of the source that it names."""
    file = folder / "named.ptx"
    file.write_text(f'{OUTSIDE}.file 1 "{name}"\n', encoding="utf-8")
    return file


LAUNCH = ("--grid", 1, "--block", 1, "--arg", "u32[4]:zeros")


@POSIX
@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize(
    "name",
    ["{outside}/secret.cu", "../outside/secret.cu", "link.cu", "linked/secret.cu", "secret.env", "secret", "large.cu",
     "/proc/self/environ", "pipe.cu", "secret.cu/../secret.env", "renamed.cu"],
)  # fmt: skip
def test_ptx_has_no_file_shown_that_is_no_source_of_its_own(folder: Path, name: str, format_: str) -> None:
    outside, text = folder.parent / "outside", "a line of a SECRET\n"
    for place in (outside / "secret.cu", folder / "secret.env", folder / "secret"):
        place.write_text(text, encoding="utf-8")
    with (folder / "large.cu").open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.truncate((16 << 20) + 1)
    os.mkfifo(folder / "pipe.cu")
    (folder / "link.cu").symlink_to(outside / "secret.cu")
    (folder / "renamed.cu").symlink_to(folder / "secret.env")
    (folder / "linked").symlink_to(outside)
    file = named(folder, name.format(outside=outside))
    done = command("check", file, *LAUNCH, "--format", format_, cwd=folder, WSEMU_TEST_VARIABLE="a SECRET")
    assert done.returncode == 1
    assert "SECRET" not in done.stdout + done.stderr
    page = command("trace", file, *LAUNCH, "-o", "page.html", cwd=folder)
    assert page.returncode == 1
    assert "SECRET" not in (folder / "page.html").read_text(encoding="utf-8")


def test_sources_of_its_own_are_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = folder.parent / "outside" / "deep"
    outside.mkdir()
    (outside / "shown.cu").write_text("a line that is shown\n", encoding="utf-8")
    (folder / "shown.cu").write_text("a line that is shown\n", encoding="utf-8")

    def shows(name: str, cwd: Path, *words: object) -> bool:
        return "a line that is shown" in command("check", named(folder, name), *LAUNCH, *words, cwd=cwd).stdout

    assert shows("shown.cu", ROOT)
    assert shows(str(outside / "shown.cu"), outside.parent)
    assert not shows(str(outside / "shown.cu"), folder)
    hidden = command("check", named(folder, str(outside / "shown.cu")), *LAUNCH, "--format", "json", cwd=folder)
    assert f"`{outside / 'shown.cu'}` is not shown" in hidden.stdout
    assert f"`--source-root {outside}`" in hidden.stdout
    assert shows(str(outside / "shown.cu"), folder, "--source-root", folder, "--source-root", outside.parent)
    monkeypatch.setenv("WSEMU_SOURCE_ROOTS", f"{folder}{os.pathsep}{outside}")
    assert shows(str(outside / "shown.cu"), folder)


# -- machine code ------------------------------------------------------------------------------------------------------

PART = ("block_1", "needed", b"\x7fELF" + bytes(300))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with one block."""
    place = tmp_path / "cache"
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(place))
    cache.write_block("block_1", PART)
    assert cache.read_block("block_1") == PART
    return place


def test_a_block_is_loaded_under_its_own_name_alone(kept: Path) -> None:
    os.replace(kept / "vm-block_1.bin", kept / "vm-block_2.bin")
    assert cache.read_block("block_2") is None
    assert cache.write("run", PART)
    os.replace(next(kept.glob("vm-run-*")), cache.path("bits") or "")
    assert cache.read("bits") is None


def test_what_was_changed_in_a_file_of_machine_code_is_found(kept: Path) -> None:
    file = kept / "vm-block_1.bin"
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert cache.read_block("block_1") is None
    for fields in ((), (b"",) * 4, (b"",) * 6, (b"block_1", cache._blocks_key(), b"\xff", b"", b"")):
        body = cache.MAGIC + b"".join(struct.pack("<Q", len(field)) + field for field in fields)
        for data in (body, body + b"\x01", cache.MAGIC + struct.pack("<Q", 1 << 63)):
            file.write_bytes(data + cache.sha256_digest(data))
            assert cache.read_block("block_1") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users have no numbers here")
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_no_machine_code_is_taken_from_a_folder_where_others_may_write(kept: Path, mode: int) -> None:
    kept.chmod(mode)
    assert cache.folder() is None
    assert cache.read_block("block_1") is None
    assert not cache.write("run", PART)
    item = doctor._cache()
    assert item.state == "bad"
    assert "others may write to" in item.text
    assert "no machine code is loaded from there" in item.text
    kept.chmod(0o755)
    assert cache.read_block("block_1") == PART
    (kept / "vm-block_1.bin").chmod(0o666)
    assert cache.read_block("block_1") is None
    (kept / "vm-block_1.bin").chmod(0o600)
    kept.parent.chmod(mode)
    assert (cache.folder() is None) == (mode != 0o1777), "above it a sticky folder will do"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users have no numbers here")
def test_no_machine_code_is_taken_from_a_folder_of_another_user(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    if os.stat(kept).st_uid == 0:  # root's may always be used
        os.chown(kept, 3_999_999, -1)
    assert cache.folder() is None
    assert "belongs to another user" in doctor._cache().text


def test_sources_of_other_machines_go_to_a_folder_that_nobody_guesses() -> None:
    bundle = spread.Bundle("sweep", "a.py", "f", (("a.py", b"A = 1\n"), ("p/b.py", b"B = 2\n")))
    folder = Path(spread._unpack_sources(bundle) or "")
    assert spread._unpack_sources(bundle) == str(folder)
    assert (folder / "p" / "b.py").read_bytes() == b"B = 2\n"
    assert str(os.getpid()) not in folder.name
    assert bundle.digest not in folder.name
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="lies outside"):
        spread._unpack_sources(spread.Bundle("sweep", "a.py", "f", (("../a.py", b""),)))


# -- text --------------------------------------------------------------------------------------------------------------

COMMAND = "\n::error::OWNED\r::warning::OWNED\n##[error]OWNED\x1b[31mOWNED"
"""what becomes a command of GitHub, and of a terminal, wherever a newline or an escape gets through"""
NAMED = {
    "no such file": (["none{0}.py"], {}),
    "a program": (["a{0}.py"], {"a{0}.py": RACING}),
    "a kernel": (["a.py", "--kernel", "{0}"], {"a.py": RACING}),
    "a checker": (["a.py", "--only", "{0}"], {"a.py": RACING}),
    "an architecture": (["a.py", "--arch", "{0}"], {"a.py": RACING}),
    "a message": (["a.py"], {"a.py": "raise ValueError({0!r})"}),
    "an exit": (["a.py"], {"a.py": "import sys; sys.exit({0!r})"}),
    "a kernel's name": (["a.py"], {"a.py": RACING.replace("racing[1", "racing.__name__ = {0!r}\nracing[1")}),
    "an argument": (["a.ptx", "--grid", "1", "--block", "1", "--arg", "{0}"], {"a.ptx": PTX}),
    "ptx": (["a{0}.ptx"], {"a{0}.ptx": "no PTX"}),
    "a launch file": (["a{0}.json"], {"a{0}.json": "{{"}),
    "a key": (["a.json"], {"a.json": '{{"grid": [1], {1}: 1}}'}),
    "ptx of a launch file": (["a.json"], {"a.json": '{{"grid": [1], "ptx": {1}}}'}),
    "an argument of a launch file": (
        ["a.json"],
        {"a.ptx": PTX, "a.json": '{{"grid": [1], "block": [1], "ptx": "a.ptx", "args": [{1}]}}'},
    ),
    "a witness": (["--save-witness", "w{0}", "a{0}.py"], {"a{0}.py": RACING}),
}


@pytest.mark.skipif(os.name == "nt", reason="names of files have no newlines")
@pytest.mark.parametrize("format_", ["text", "github", "json", "sarif"])
@pytest.mark.parametrize("what", NAMED)
def test_names_and_messages_start_no_line_and_no_command(tmp_path: Path, what: str, format_: str) -> None:
    words, files = NAMED[what]
    for name, text in files.items():
        text = text.format(COMMAND, json.dumps(COMMAND)) if "{" in text and text != PTX else text
        (tmp_path / name.format(COMMAND)).write_text(text, encoding="utf-8")
    done = command("check", "--format", format_, *(word.format(COMMAND) for word in words), cwd=tmp_path)
    assert "OWNED" in done.stdout or what in ("a kernel's name", "a program", "a witness"), "it is named"
    for line in re.split("[\r\n]", done.stdout + done.stderr):
        assert not line.lstrip().startswith(("::error::OWNED", "::warning::OWNED"))
        assert "##[" not in line or line.startswith("::error")
        assert "\x1b" not in line


def test_what_python_prints_of_an_error_holds_no_command() -> None:
    for text in (f"`{COMMAND}`", "::error::x", "a\n  ::error::x", "x ##[group]"):
        for line in str(UsageError(text)).split("\n"):
            assert not line.lstrip().startswith("::")
            assert "##[" not in line


# -- the page ----------------------------------------------------------------------------------------------------------

SENTENCES = {
    "run a Python program with your rights": (),  # what is promised is nothing
    "The installation and the folder of its machine code are trusted": (),
    "is loaded only under its own name and key": (
        "test_a_block_is_loaded_under_its_own_name_alone",
        "test_what_was_changed_in_a_file_of_machine_code_is_found",
        "test_vm_cache.py::test_a_file_of_another_part_or_key_is_not_used_under_this_name",
    ),
    "No machine code is taken from a folder": (
        "test_no_machine_code_is_taken_from_a_folder_where_others_may_write",
        "test_no_machine_code_is_taken_from_a_folder_of_another_user",
    ),
    "a campaign sends to another machine": ("test_sources_of_other_machines_go_to_a_folder_that_nobody_guesses",),
    "nothing in them is executed": (
        "test_what_a_launch_file_names_is_never_run",
        "test_arrays_are_never_unpickled_and_no_larger_than_their_file",
        "test_malformed.py::test_malformed_inputs_end_with_a_message",
    ),
    "is read as PTX or as an array": (
        "test_what_a_launch_file_names_is_never_run",
        "test_ptx_of_any_suffix_is_launched",
    ),
    "names only files below its folder": (
        "test_ptx_lies_below_the_folder_of_its_launch_file",
        "test_arrays_lie_below_the_folder_of_their_launch_file",
        "test_files_below_the_folder_are_read",
        "test_names_that_lead_out_are_refused",
        "test_hostile_data.py::test_every_input_ends_with_a_value_or_a_message",
    ),
    "has the hash that the witness carries": ("test_a_program_that_has_changed_is_not_run",),
    "of no installed package": (
        "test_no_witness_has_a_program_run_there",
        "test_the_standard_library_is_not_run",
        "test_replay.py::test_a_program_elsewhere_is_not_run",
    ),
    "A witness of PTX has no file read outside": ("test_a_witness_of_ptx_reads_and_writes_no_file_elsewhere",),
    "Reports show lines of a source that PTX names only if": (
        "test_ptx_has_no_file_shown_that_is_no_source_of_its_own",
        "test_sources_of_its_own_are_shown",
    ),
    "Devices and pipes are not read": ("test_devices_pipes_and_sockets_are_not_read",),
    "An array is no larger than its file": ("test_arrays_are_never_unpickled_and_no_larger_than_their_file",),
    "gets a message and exit code 2": (
        "test_malformed.py::test_malformed_inputs_end_with_a_message",
        "test_config.py::test_a_wrong_file_has_a_message",
        "test_replay.py::test_what_has_no_end_is_no_witness",
    ),
    "are shown as text": (
        "test_names_and_messages_start_no_line_and_no_command",
        "test_what_python_prints_of_an_error_holds_no_command",
        "test_timeline.py::test_names_are_escaped",
        "test_malformed.py::test_malformed_inputs_end_with_a_message",
    ),
    "A file whose name begins with": ("test_integrations.py::test_files_of_any_name_are_files",),
    "A check in which nothing is checked does not pass": (
        "test_integrations.py::test_a_check_of_nothing_does_not_pass",
    ),
    "The GitHub Action saves machine code before": (
        "test_integrations.py::test_the_action_saves_machine_code_before_a_program_runs_and_never_after",
        "test_integrations.py::test_the_action_installs_what_it_is_part_of",
    ),
    "Launches are limited before memory is allocated": (
        "test_bad_input.py::test_a_grid_that_takes_too_much_memory_is_refused",
        "test_bad_input.py::test_an_endless_loop_ends_at_the_step_budget",
    ),
    "is not sent to a GPU, unless forced": ("test_crosscheck.py::test_what_is_not_verified_is_refused_unless_forced",),
    "Launches run in a child process with a time limit": (
        "test_crosscheck.py::test_a_child_that_takes_too_long_is_given_up",
    ),
}
"""what a sentence of SECURITY.md has in it -> the tests that hold it, here or in another file"""


def promises() -> list[str]:
    """The sentences of SECURITY.md, one an item of its lists."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    return [" ".join(item.split()) for item in re.findall(r"(?ms)^- (.*?)(?=^- |^\S|\Z)", text)]


def test_each_sentence_of_the_page_is_held_by_tests() -> None:
    found = promises()
    assert len(found) == len(SENTENCES)
    for sentence in found:
        assert len([words for words in SENTENCES if words in sentence]) == 1, sentence
    for name in {name for names in SENTENCES.values() for name in names}:
        file, _, function = name.rpartition("::")
        text = (Path(__file__).parent / (file or Path(__file__).name)).read_text(encoding="utf-8")
        assert f"\ndef {function}(" in text, name
