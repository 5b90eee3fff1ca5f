"""The compiled VM's cache: what its key depends on, what is taken from it, and how much it holds."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wsemu
from wsemu.machine import build as native
from wsemu.machine import cache
from wsemu.machine.lowering import Module
from wsemu.machine.parts import ALL_PARTS, ALWAYS, OF_WIDTH, PARTS, RACES, needed_parts
from wsemu.machine.tier import hot
from wsemu.model import IMPORTED_STATES
from wsemu.model.errors import UsageError
from wsemu.model.isa import OPCODE

PACKAGE = Path(wsemu.__file__).parent
PART = ("symbol", "needed", b"\x7fELF" + bytes(300))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder."""
    place = tmp_path / "cache"
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(place))
    return place


def kept_in(part: str = "run") -> Path:
    """The file that a part of the compiled VM is kept in."""
    file = cache.path(part)
    assert file is not None
    return file


# -- the key ----------------------------------------------------------------------------------------------------------

COMPILED_ALONE = ("trace_entry", "run", "library")
"""the parts that a process of its own compiles, to see what it loads"""


@pytest.fixture(scope="module")
def compiled_from() -> dict[str, set[str]]:
    """Part -> the package's modules that a process loads which compiles it, and has loaded nothing else."""
    code = (
        "import sys; from wsemu.machine import parts; parts.compile_part(sys.argv[1]);"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'wsemu'))"
    )
    processes = {
        part: subprocess.Popen([sys.executable, "-c", code, part], stdout=subprocess.PIPE, text=True)
        for part in COMPILED_ALONE
    }
    return {part: set(process.communicate()[0].split()) for part, process in processes.items()}


def test_an_edit_of_any_module_that_a_part_is_compiled_from_changes_its_key(compiled_from, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "wsemu", ignore=shutil.ignore_patterns("__pycache__"))

    def key(part: str) -> str:
        return cache.key_of(part, cache.sources(part, tmp_path))

    before = {part: key(part) for part in COMPILED_ALONE}
    for part, modules in compiled_from.items():
        assert len(modules) > 10
        texts = cache.sources(part, tmp_path)
        for name in modules:
            assert texts[name] == cache.module_file(name, tmp_path).read_bytes()
            assert cache.key_of(part, {**texts, name: texts[name] + b"\n"}) != before[part], name
        file = cache.module_file(min(modules), tmp_path)
        file.write_bytes(texts[min(modules)] + b"\n")
        assert key(part) != before[part]
        file.write_bytes(texts[min(modules)])
    assert {part: key(part) for part in COMPILED_ALONE} == before
    assert before == {part: cache.keys()[part] for part in COMPILED_ALONE}


def test_an_edit_of_any_other_module_does_not(compiled_from):
    assert {part: set(cache.sources(part)) for part in COMPILED_ALONE} == compiled_from


def test_every_part_has_a_key_of_its_own():
    assert len(set(cache.keys().values())) == len(ALL_PARTS)
    assert "wsemu.machine.arithmetic.operations" not in cache.sources("shadow_entry")
    assert "wsemu.machine.scheduler" not in cache.sources("narrow")


def test_keys_are_noted_until_a_file_changes(folder, monkeypatch):
    monkeypatch.setattr(cache, "SETTLED", -(1 << 62))
    made = cache.keys.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "current_keys", dict)
        assert cache.keys.__wrapped__() == made
        states = cache._states
        patch.setattr(cache, "_states", lambda paths: {path: [0, *state[1:]] for path, state in states(paths).items()})
        assert cache.keys.__wrapped__() == {}


def test_keys_are_not_noted_of_files_that_were_just_written(folder, monkeypatch):
    monkeypatch.setattr(cache, "SETTLED", 1 << 62)
    cache.keys.__wrapped__()
    assert not folder.exists() or not [name for name in os.listdir(folder) if name.startswith("vm-keys-")]


def test_imports_are_followed_in_every_form_and_into_folders(tmp_path):
    files = {
        "__init__": "if TYPE_CHECKING:\n    from wsemu import cli\n",
        "machine/parts": "import os\nfrom wsemu import isa  # the first\n",
        "machine/lowering": "",
        "machine/build": "",
        "machine/scheduler": "from wsemu.machine import (\n    clocks,  # (all) of them\n    cells as c,\n)\n"
        "def f():\n    from wsemu import cli\n",
        "isa": "import wsemu.codes as codes, wsemu.limits\n",
        "codes": "from wsemu.machine.sync.barrier import STOPS as BARRIER_STOPS\n",
        "limits": "",
        "machine/__init__": "",
        "machine/clocks": "import numpy as np\nimport wsemux\n",
        "machine/cells": "from wsemu.machine.scheduler import run\n",
        "machine/sync/__init__": "",
        "machine/sync/barrier": "",
        "machine/sync/fence": "",
        "cli": "",
    }
    for name, text in files.items():
        path = tmp_path / "wsemu" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = {name.removeprefix("wsemu").removeprefix(".") for name in cache.sources("run", tmp_path)}
    wanted = {name.replace("/", ".").removesuffix("__init__").rstrip(".") for name in files}
    assert found == wanted - {"cli", "machine.build", "machine.sync.fence"}


def test_a_module_that_moves_changes_the_key():
    modules = {"wsemu.a": b"", "wsemu.b": b"x"}
    assert cache.key_of("run", modules) != cache.key_of("run", {"wsemu.a": b"x", "wsemu.b": b""})


# -- what is compiled -------------------------------------------------------------------------------------------------


def parts_of(*operations: str, races: bool = True, **looked_for: bool) -> set[str]:
    """The parts that a launch with these operations needs beside those that every launch does."""
    chosen = {"exact": False, "noted": False, **looked_for}
    found = needed_parts((OPCODE[name] for name in operations), races=races, **chosen)
    assert found >= set(ALWAYS)
    return set(found) - set(ALWAYS) - (set(RACES) if races else set())


def test_integers_and_single_precision_need_no_family():
    assert parts_of("add.b32", "mov.b64", "fma.f32", "setp.lt.s32", "bar.sync", "exit") == set()


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("sin.f32", {"library"}), ("add.f64", {"double"}), ("div.s32", {"division"}), ("fma.rz.f32", {"directed"}),
        ("add.b8", {"narrow"}), ("popc.b32", {"bits"}), ("shfl.idx.b32", {"exchange_entry"}),
    ],
)  # fmt: skip
def test_an_operation_brings_its_family_and_no_other(operation, part):
    assert parts_of("add.b32", operation) == part


def test_atomics_bring_what_they_do_and_cost():
    atomic = next(name for name in OPCODE if name.startswith("atom."))
    assert parts_of(atomic) == {"atomic_entry", "atomic_cost_entry"}


def test_only_tcgen05_compiles_the_code_of_tensor_memory():
    part = "tensor_memory_entry"
    assert part in parts_of("tcgen05.mma")
    assert part not in parts_of(*(name for name in OPCODE if not name.startswith("tcgen05.")))


def test_what_is_looked_for_brings_its_parts():
    assert parts_of(races=False) == set()
    assert parts_of(exact=True) == {"lanes_entry"}
    assert parts_of(noted=True) == {"noted_entry"}
    assert parts_of(ordered=True) == {"ordered_entry"}
    assert parts_of(joined=True) == {"joined_entry"}


def test_some_launch_needs_each_part_or_its_blocks_do():
    everything = needed_parts(
        OPCODE.values(), races=True, exact=True, noted=True, grouped=True, ordered=True, joined=True, sums=True
    )
    of_predictions = {"logged_entry", "multiprocessor"}
    assert everything | {*hot.ACCESSES, *hot.SECTIONS} | of_predictions == set(PARTS)


def test_parts_that_look_at_clocks_are_compiled_for_each_width():
    def text(name, width):
        made = PARTS[name]
        function = getattr(importlib.import_module(f"wsemu.machine.{made.module}"), made.function)
        module = Module(name, width)
        module.define(function(made.family) if made.family else function, name)
        return str(module.ir)

    others = ("access_entry", "window_entry", "guarded_entry", "ordered_entry", "bits")
    assert all(text(name, 0) == text(name, 2) for name in others)
    assert all(text(name, 0) != text(name, 2) for name in ("run", "warp_entry", "known_entry", "cluster_entry"))
    assert {f"{name}.1024" for name in OF_WIDTH} < set(ALL_PARTS)


def test_a_launch_loads_what_it_needs_and_compiles_only_what_is_missing(folder, monkeypatch, capsys):
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "_load", lambda name, part: native._loaded.__setitem__(name, len(part[2])))
    made: list[str] = []

    def make(names, done):
        made.extend(names)
        return dict.fromkeys(names, PART)

    monkeypatch.setattr(native, "_compile", make)
    native.load_parts(("run", "report_entry"))
    native.load_parts(("run", "report_entry", "bits"))
    assert made == ["report_entry", "run", "bits"]
    assert {file.name.split("-")[1] for file in folder.iterdir()} - {"keys"} == {"run", "report_entry", "bits"}
    assert native.load_parts(()) == {"report_entry": len(PART[2])}
    monkeypatch.setattr(native, "_loaded", {})
    native.load_parts(("run", "bits"))
    assert len(made) == 3
    assert capsys.readouterr().err == f"{native.COMPILING}\n" * 2


def test_a_second_process_compiles_what_it_is_asked_for():
    parts = native._compile(["trace_entry", "known_entry", "report_entry"], lambda: None)
    assert set(parts) == {"trace_entry", "known_entry", "report_entry"}
    assert all(code.startswith(parts["trace_entry"][2][:4]) for _, _, code in parts.values())


def test_what_the_second_process_fails_at_is_compiled_here(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false") or sys.executable)
    assert set(native._compile(["trace_entry", "known_entry"], lambda: None)) == {"trace_entry", "known_entry"}


def test_a_terminal_is_told_how_far_it_is_and_how_long_it_took(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with native._Progress(2) as progress:
        progress.step()
        progress.step()
    last = capsys.readouterr().err.rpartition("\r")[2]
    assert last.startswith(f"{native.COMPILING}: 2 of 2 parts, 0.")
    assert last.endswith(" s\n")


# -- what is taken ----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(folder):
    assert cache.read("run") is None
    assert cache.write("run", PART)
    assert cache.read("run") == PART
    assert cache.read("bits") is None
    assert list(cache.cached_files()) == ["run"]
    assert os.listdir(folder) == [f"vm-run-{cache.keys()['run']}.bin"]


def test_a_torn_file_is_not_used(folder):
    cache.write("run", PART)
    file = kept_in()
    whole = file.read_bytes()
    for length in (0, 1, len(cache.MAGIC), 100, len(whole) - 33, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert cache.read("run") is None, length
    for at in (0, 30, 60, 200, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.read("run") is None, at
    cache.write("run", PART)
    assert cache.read("run") == PART


def test_a_file_of_another_part_or_key_is_not_used_under_this_name(folder, monkeypatch):
    cache.write("run", PART)
    old = kept_in().read_bytes()
    kept_in("bits").write_bytes(old)
    assert cache.read("bits") is None
    monkeypatch.setattr(cache, "keys", lambda: {"run": "0" * 32})
    kept_in().write_bytes(old)
    assert cache.read("run") is None


def test_what_was_compiled_while_a_source_was_edited_is_not_used(folder, monkeypatch, capsys):
    edited = str(cache.module_file("wsemu.machine.state"))

    def compile_and_edit(names, done):
        monkeypatch.setitem(IMPORTED_STATES, edited, [0, 0, 0])
        return dict.fromkeys(names, PART)

    cache.keys()
    monkeypatch.setattr(native, "_compile", compile_and_edit)
    with pytest.raises(UsageError, match=r"^`wsemu/machine/state.py` changed after this process imported it: start "):
        native._object_code(("run", "bits"))
    assert list(cache.cached_files()) == []
    assert capsys.readouterr().err == f"{native.COMPILING}\n"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package, in a folder of its own."""
    shutil.copytree(PACKAGE, tmp_path / "copy" / "wsemu", ignore=shutil.ignore_patterns("__pycache__", "shipped.bin"))
    return tmp_path / "copy"


EDITED = """
import sys, pathlib
from wsemu.machine import cache, parts, state
from wsemu.machine.build import load_parts
if sys.argv[1:]:
    file = pathlib.Path(state.__file__)
    file.write_text(file.read_text() + "# edited\\n")
{action}
"""


def run_copied(copied: Path, folder: Path, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script that imports the copied package; with an argument, it edits a source after the import."""
    environment = {**os.environ, "PYTHONPATH": str(copied), "WSEMU_CACHE_DIR": str(folder)}
    command = [sys.executable, "-P", "-c", EDITED.format(action=action), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=copied)


def test_a_process_whose_sources_changed_after_their_import_stores_no_part(copied, folder):
    edited = run_copied(copied, folder, "load_parts(['trace_entry'])", "edit")
    assert edited.stderr.endswith(
        "`wsemu/machine/state.py` changed after this process imported it: start the process again\n"
    )
    fresh = run_copied(copied, folder, "print(cache.__file__, cache.read('trace_entry'))")
    assert fresh.stdout == f"{copied / 'wsemu/machine/cache.py'} None\n", fresh.stderr


def test_a_process_whose_sources_changed_after_their_import_stores_no_block_and_no_program(copied, folder):
    block = f"cache.write_program('one', b'data'); cache.write_block('block_1', {PART})"
    assert "changed after this process imported it" in run_copied(copied, folder, block, "edit").stderr
    assert not folder.exists()
    read = "print(cache.read_block('block_1') is not None, cache.read_program('one'))"
    assert run_copied(copied, folder, f"{block}; {read}").stdout == "True b'data'\n"


def test_a_link_to_a_source_is_no_change(copied, folder):
    action = "import os; os.link(state.__file__, 'link'); print(len(cache.keys()) == len(parts.ALL_PARTS))"
    linked = run_copied(copied, folder, action)
    assert linked.stdout == "True\n", linked.stderr


# -- how much it holds ------------------------------------------------------------------------------------------------


def test_the_newest_files_stay_and_older_ones_go(folder, monkeypatch):
    keys = [f"{number:032x}" for number in range(cache.KEPT + 3)]
    for number, name in enumerate(keys):
        monkeypatch.setattr(cache, "keys", lambda name=name: {"run": name})
        cache.write("run", PART)
        os.utime(kept_in(), (number, number))
    monkeypatch.setattr(cache, "keys", lambda: {"run": keys[4]})
    assert cache.read("run") == PART  # which makes it the newest
    monkeypatch.setattr(cache, "keys", lambda: {"run": "f" * 32, "bits": "e" * 32})
    cache.write("bits", PART)  # does not count
    (folder / "notes.txt").write_text("not ours", encoding="utf-8")
    cache.write("run", PART)
    kept = sorted(file.name for file in folder.glob("vm-run-*"))
    assert kept == sorted(f"vm-run-{name}.bin" for name in [keys[4], *keys[-cache.KEPT + 2 :], "f" * 32])
    assert (folder / "notes.txt").exists()


def test_a_half_written_file_goes_once_its_writer_must_be_dead(folder):
    folder.mkdir()
    young, old = folder / "vm-young.tmp", folder / "vm-old.tmp"
    for file in (young, old):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * cache.ABANDONED,) * 2)
    cache.write("run", PART)
    assert young.exists()
    assert not old.exists()


def test_the_newest_blocks_stay_in_their_number_and_bytes(folder, monkeypatch):
    def kept() -> list[str]:
        return sorted(file.stem.removeprefix("vm-block_") for file in cache.kept_blocks())

    assert kept() == []
    monkeypatch.setattr(cache, "MOST_BLOCKS", 3)
    for number in range(5):
        cache.write_block(f"block_{number}", PART)
        os.utime(folder / f"vm-block_{number}.bin", (number, number))
    assert kept() == ["2", "3", "4"]
    assert cache.read_block("block_2") == PART  # which makes it the newest
    cache.write("run", PART)  # does not count
    cache.write_block("block_5", PART)
    assert kept() == ["2", "4", "5"]
    os.utime(folder / "vm-block_2.bin", (100, 100))
    size = max(state.st_size for state in cache.kept_blocks().values())
    monkeypatch.setattr(cache, "BLOCK_BYTES", 2 * size)
    cache.write_block("block_6", PART)
    assert kept() == ["5", "6"]
    monkeypatch.setattr(cache, "BLOCK_BYTES", 0)
    cache.write_block("block_7", PART)
    assert kept() == ["7"]  # a block is kept however large


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
    monkeypatch.setattr(native, "_compile", lambda names, done: dict.fromkeys(names, PART))
    assert native._object_code(("run", "bits")) == {"run": PART, "bits": PART}
    said = capsys.readouterr().err
    assert said.splitlines() == [native.COMPILING, f"{native.CANNOT_KEEP} ({tmp_path / 'file' / 'folder'})"]


def test_two_writers_leave_one_whole_file(folder):
    code = (
        "from wsemu.machine import cache\n"
        "for _ in range(50):\n"
        "    assert cache.write('run', ('s', 'n', bytes(100_000)))\n"
        "    assert cache.read('run') is not None\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len([name for name in os.listdir(folder) if name.startswith("vm-run-")]) == 1


def test_a_launch_on_a_compiled_machine_imports_no_compiler() -> None:
    """The modules that the machine is written in import llvmlite, which takes longer than a small launch."""
    modules = "{'llvmlite', 'wsemu.machine.lowering'}"
    script = f"import sys, wsemu.machine.run; sys.exit(bool({modules} & sys.modules.keys()))"
    command, folder = [sys.executable, "-c", script], Path(wsemu.__file__).parents[1]
    assert subprocess.run(command, check=False, cwd=folder).returncode == 0
