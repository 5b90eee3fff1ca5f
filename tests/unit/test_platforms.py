"""Windows and macOS, as far as a machine with another system can tell: paths, processes, consoles."""

from __future__ import annotations

import io
import multiprocessing
import ntpath
import sys
import types
from pathlib import PureWindowsPath

import pytest

from wsemu.backends import gpu_process
from wsemu.campaign import spread
from wsemu.launch.replay import witness_file
from wsemu.model.errors import UsageError
from wsemu.report import diagnostic, json
from wsemu.report.terminal import Printer


@pytest.fixture
def windows(monkeypatch):
    """Paths of Windows in modules that show or write them: the working folder is `C:\\work`."""
    system = types.SimpleNamespace(path=ntpath, sep="\\", getcwd=lambda: r"C:\work")
    monkeypatch.setattr(ntpath, "realpath", lambda path: ntpath.normpath(ntpath.join(r"C:\work", path)))
    for module in (diagnostic, json, witness_file):
        monkeypatch.setattr(module, "os", system)


def test_windows_paths_are_shown_as_windows_has_them(windows):
    assert diagnostic.display_path(r"C:\work\kernels\copy.py") == r"kernels\copy.py"
    assert diagnostic.display_path(r"D:\other\copy.py") == r"D:\other\copy.py"


def test_files_for_other_machines_have_slashes(windows, tmp_path):
    assert json._relative({"file": r"C:\work\kernels\copy.py"}) == {"file": "kernels/copy.py"}
    for program, name in ((r"C:\work\kernels\copy.py", "../kernels/copy.py"), (r"D:\copy.py", "copy.py")):
        saver = witness_file.Saver.__new__(witness_file.Saver)
        saver.folder, saver.program = PureWindowsPath(r"C:\work\found"), PureWindowsPath(program)  # type: ignore[assignment]
        assert saver._relative() == name


def test_in_the_root_of_a_drive_paths_are_relative_too(monkeypatch):
    monkeypatch.chdir("/")
    assert diagnostic.display_path("/nowhere/copy.py") == "nowhere/copy.py"


def test_where_processes_cannot_fork_the_gpu_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(UsageError, match="this system does not have: use Linux, or WSL"):
        gpu_process.call(lambda: True, 1.0)
    with pytest.raises(UsageError, match="use Linux, or WSL"):
        gpu_process.run([object()], 1.0)  # type: ignore[list-item]


def test_ctrl_c_does_not_reach_the_processes_of_a_campaign():
    """A group or a session of their own: the command decides when they end."""
    key = "creationflags" if sys.platform == "win32" else "start_new_session"
    assert spread._ALONE[key]


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "utf-8"])
def test_a_console_of_any_code_page_takes_every_text(encoding):
    console = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Printer(console).text("tile: \N{GREEK SMALL LETTER MU} \N{SNOWMAN} and plain text")
    console.flush()
    assert console.buffer.getvalue().endswith(b" and plain text\n")
