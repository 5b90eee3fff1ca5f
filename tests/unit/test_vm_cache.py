"""The compiled VM's cache: what its key depends on, what is taken from it, and how much it holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wsemu
from wsemu import native, vm_cache

PACKAGE = Path(wsemu.__file__).parent
PARTS = {"run": ("symbol", "needed", b"\x7fELF" + bytes(300)), "other": ("", "", b"")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder."""
    place = tmp_path / "cache"
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(place))
    return place


def kept_in() -> Path:
    """The file that the compiled VM of the current key is kept in."""
    file = vm_cache.path()
    assert file is not None
    return file


# -- the key ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled_from() -> set[str]:
    """The package's modules that a process loads which compiles a part of the VM, and has loaded nothing else."""
    code = (
        "import sys; from wsemu import vm, native; vm.compile_part('trace_entry');"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'wsemu'))"
    )
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_an_edit_of_any_module_that_the_vm_is_compiled_from_changes_the_key(compiled_from, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "wsemu", ignore=shutil.ignore_patterns("__pycache__"))
    before = vm_cache.key_of(vm_cache.sources(tmp_path))
    assert len(compiled_from) > 15
    for name in sorted(compiled_from):
        file = vm_cache._file(tmp_path, name)
        text = file.read_bytes()
        file.write_bytes(text + b"\n")
        assert vm_cache.key_of(vm_cache.sources(tmp_path)) != before, name
        file.write_bytes(text)
    assert vm_cache.key_of(vm_cache.sources(tmp_path)) == before == vm_cache.key()


def test_an_edit_of_any_other_module_does_not(compiled_from):
    assert set(vm_cache.sources()) == compiled_from


def test_imports_are_followed_in_every_form_and_into_folders(tmp_path):
    files = {
        "__init__": "if TYPE_CHECKING:\n    from wsemu import cli\n",
        "native": "import os\nfrom wsemu import bytecode  # the first\n",
        "vm": "from wsemu.machine import (\n    clocks,  # (all) of them\n    cells as c,\n)\n"
        "def f():\n    from wsemu import cli\n",
        "bytecode": "import wsemu.codes as codes, wsemu.limits\n",
        "codes": "from wsemu.machine.model.barrier import STOPS as BARRIER_STOPS\n",
        "limits": "",
        "machine/__init__": "",
        "machine/clocks": "import numpy as np\nimport wsemux\n",
        "machine/cells": "from wsemu.vm import run\n",
        "machine/model/__init__": "",
        "machine/model/barrier": "",
        "machine/model/fence": "",
        "cli": "",
    }
    for name, text in files.items():
        path = tmp_path / "wsemu" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = {name.removeprefix("wsemu").removeprefix(".") for name in vm_cache.sources(tmp_path)}
    wanted = {name.replace("/", ".").removesuffix("__init__").rstrip(".") for name in files}
    assert found == wanted - {"cli", "machine.model.fence"}


def test_a_module_that_moves_changes_the_key():
    assert vm_cache.key_of({"wsemu.a": b"", "wsemu.b": b"x"}) != vm_cache.key_of({"wsemu.a": b"x", "wsemu.b": b""})


# -- what is taken ----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(folder):
    assert vm_cache.read() is None
    assert vm_cache.write(PARTS)
    assert vm_cache.read() == PARTS
    assert os.listdir(folder) == [f"vm-{vm_cache.key()}.bin"]


def test_a_torn_file_is_not_used(folder):
    vm_cache.write(PARTS)
    file = kept_in()
    whole = file.read_bytes()
    for length in (0, 1, len(vm_cache.MAGIC), 100, len(whole) - 33, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert vm_cache.read() is None, length
    for at in (0, 30, 60, 200, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert vm_cache.read() is None, at
    vm_cache.write(PARTS)
    assert vm_cache.read() == PARTS


def test_a_file_of_another_key_is_not_used_under_this_name(folder, monkeypatch):
    vm_cache.write(PARTS)
    old = kept_in().read_bytes()
    monkeypatch.setattr(vm_cache, "key", lambda: "0" * 32)
    kept_in().write_bytes(old)
    assert vm_cache.read() is None


def test_what_was_compiled_while_a_source_was_edited_is_not_kept(folder, monkeypatch, capsys):
    monkeypatch.setattr(native, "_compile", lambda: PARTS)
    monkeypatch.setattr(vm_cache, "sources", lambda: {"wsemu.vm": b"edited"})
    assert native._object_code() == PARTS
    assert not folder.exists()
    assert capsys.readouterr().err == f"{native.COMPILING}\n"


# -- how much it holds ------------------------------------------------------------------------------------------------


def test_the_newest_files_stay_and_older_ones_go(folder, monkeypatch):
    keys = [f"{number:032x}" for number in range(vm_cache.KEPT + 3)]
    for number, name in enumerate(keys):
        monkeypatch.setattr(vm_cache, "key", lambda name=name: name)
        vm_cache.write(PARTS)
        os.utime(kept_in(), (number, number))
    monkeypatch.setattr(vm_cache, "key", lambda: keys[4])
    assert vm_cache.read() == PARTS  # which makes it the newest
    monkeypatch.setattr(vm_cache, "key", lambda: "f" * 32)
    (folder / "notes.txt").write_text("not ours", encoding="utf-8")
    vm_cache.write(PARTS)
    kept = sorted(file.name for file in folder.glob("vm-*"))
    assert kept == sorted(f"vm-{name}.bin" for name in [keys[4], *keys[-vm_cache.KEPT + 2 :], "f" * 32])
    assert (folder / "notes.txt").exists()


def test_a_half_written_file_goes_once_its_writer_must_be_dead(folder):
    folder.mkdir()
    young, old = folder / "vm-young.tmp", folder / "vm-old.tmp"
    for file in (young, old):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * vm_cache.ABANDONED,) * 2)
    vm_cache.write(PARTS)
    assert young.exists()
    assert not old.exists()


# -- where it lies ----------------------------------------------------------------------------------------------------


def test_it_lies_in_the_cache_folder_of_the_user_and_not_beside_the_package(tmp_path, monkeypatch):
    monkeypatch.delenv("WSEMU_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("WIN_PD_OVERRIDE_LOCAL_APPDATA", str(tmp_path))
    assert tmp_path in kept_in().parents
    assert PACKAGE not in kept_in().parents


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(native, "_compile", lambda: PARTS)
    assert native._object_code() == PARTS
    said = capsys.readouterr().err
    assert said.splitlines() == [native.COMPILING, f"{native.CANNOT_KEEP} ({tmp_path / 'file' / 'folder'})"]


def test_two_writers_leave_one_whole_file(folder):
    code = (
        "from wsemu import vm_cache\n"
        "for _ in range(50):\n"
        "    assert vm_cache.write({'run': ('s', 'n', bytes(100_000))})\n"
        "    assert vm_cache.read() is not None\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(os.listdir(folder)) == 1
