"""`wsemu check --fix` inserts waits into host programs, and tries each by a run of the edited program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.commands import wsemu
from wsemu.app.order_fixes import Rerun

HEAD = """import numpy as np
from numba import cuda


@cuda.jit
def fill(x, v):
    x[cuda.grid(1)] = v


@cuda.jit
def scale(x, f):
    x[cuda.grid(1)] *= f


"""
RACES = """a, b = cuda.stream(), cuda.stream()
d = cuda.device_array(64, np.float32)
h = cuda.pinned_array(64, np.float32)
fill[2, 32, a](d, 3.0)
scale[2, 32, b](d, 2.0)
d.copy_to_host(h, stream=b)
print(h[0])
b.synchronize()
"""
MAPPED = """def work(s, x):
    with cuda.mapped(x, stream=s) as m:
        fill[2, 32, s](m, 3.0)


work(cuda.stream(), np.zeros(64, np.float32))
"""
BY_NUMBER = """s = [cuda.stream() for _ in range(2)]
h = cuda.pinned_array(64, np.float32)
d = [cuda.device_array(64, np.float32) for _ in range(2)]
for n in range(2):
    h[:] = n
    d[n].copy_to_device(h, stream=s[n])
fill[2, 32, s[1]](d[1], 3.0)
cuda.synchronize()
"""


def fix(tmp_path: Path, body: str, *options: str) -> tuple[Path, str]:
    """Return the file of a program, and the patch that is printed for it."""
    file = tmp_path / "program.py"
    file.write_text(HEAD + body)
    said = wsemu("check", "--fix", *options, file.name, cwd=tmp_path).stdout
    return file, said[said.index("--- a/") :] if "--- a/" in said else said


def added(patch: str) -> list[str]:
    return [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]


def test_an_event_orders_two_streams_and_a_wait_the_host(tmp_path: Path) -> None:
    file, patch = fix(tmp_path, RACES)
    assert added(patch) == [
        "ordered = cuda.event()", "ordered.record(a)", "ordered.wait(b)", "b.synchronize()",
    ]  # fmt: skip
    lines = file.read_text().splitlines()
    lines.insert(lines.index("scale[2, 32, b](d, 2.0)"), "\n".join(added(patch)[:3]))
    lines.insert(lines.index("print(h[0])"), added(patch)[3])
    file.write_text("\n".join(lines) + "\n")
    assert wsemu("check", file.name, cwd=tmp_path).returncode == 0


def test_a_wait_goes_to_the_end_of_a_block_whose_end_ends_memory(tmp_path: Path) -> None:
    _, patch = fix(tmp_path, MAPPED)
    (line,) = added(patch)
    assert line in ("        s.synchronize()", "        cuda.synchronize()")


def test_a_wait_for_the_stream_of_another_iteration_is_none_and_the_next_one_is_tried(tmp_path: Path) -> None:
    _, patch = fix(tmp_path, BY_NUMBER)
    assert added(patch) == ["    cuda.synchronize()"]


def test_no_wait_cures_a_program_that_reads_what_nothing_wrote(tmp_path: Path) -> None:
    body = (
        "d = cuda.device_array(64, np.float32)\ns = cuda.stream()\nfill[1, 32](d, 1.0)\nprint(d.copy_to_host()[40])\n"
    )
    _, said = fix(tmp_path, body)
    assert "no fix: no wait that was tried in `program.py` is a cure" in said


def test_lines_of_a_file_that_has_changed_are_read_again(tmp_path: Path) -> None:
    file, lines = tmp_path / "program.py", "fill[1, 32](d, 1.0)\nh = d.copy_to_host()\n"
    for last in ("pass", "print(h[40])"):
        file.write_text(f"{HEAD}d = cuda.device_array(64, np.float32)\n{lines}{last}\n")
        said = wsemu("check", file.name, cwd=tmp_path).stdout
        assert ("uninitialised-device-read" in said) == (last != "pass")


def test_a_module_that_the_program_imports_is_neither_edited_nor_run_as_the_program(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        HEAD + "def work(a, b, d):\n    fill[2, 32, a](d, 3.0)\n    scale[2, 32, b](d, 2.0)\n\n\n"
        "if __name__ == '__main__':\n    open('started', 'w').close()\n"
    )
    body = "from beside import work\nwork(cuda.stream(), cuda.stream(), cuda.device_array(64, np.float32))\n"
    _, said = fix(tmp_path, body + "cuda.synchronize()\n")
    assert "no fix: no wait that was tried in `program.py` is a cure" in said
    assert not (tmp_path / "started").exists()


def test_a_program_in_another_encoding_is_run_again_in_it(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + (HEAD + RACES).encode())
    said = wsemu("check", "--fix", file.name, cwd=tmp_path).stdout
    assert "+ordered.wait(b)" in said


def test_runs_of_edited_programs_have_the_settings_but_write_no_files_and_read_no_input(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.wsemu]\nskip = ["coalescing"]\nlimit = 1\n')
    rerun = Rerun(tmp_path / "program.py", [], {"certificate": "c.txt", "strict": True, "kernel": ["f*", "\\"]})
    (tmp_path / "program.py").touch()
    assert rerun("print(input())\n") is None
    assert rerun._settings() == {
        "skip": ["coalescing"], "strict": True, "kernel": ["f*", "\\"], "format": "json", "fix-budget": 0
    }  # fmt: skip
    assert rerun(HEAD + "fill[2, 32](cuda.device_array(64, np.float32), 3.0)\n") == Counter()


@pytest.mark.parametrize("options", [["--limit", "1"], ["--certificate", "c.txt"]])
def test_options_of_the_output_change_no_fix(tmp_path: Path, options: list[str]) -> None:
    _, patch = fix(tmp_path, RACES, *options)
    assert len(added(patch)) == 4


def test_a_new_event_has_a_name_of_its_own(tmp_path: Path) -> None:
    _, patch = fix(tmp_path, "ordered = 3\n" + RACES + "print(ordered)\n")
    assert added(patch)[0] == "ordered1 = cuda.event()"


def test_a_run_returns_the_errors_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    file.touch()
    rerun = Rerun(file, ["word"], {"format": "short", "strict": True})
    assert rerun("from beside import FACTOR\n" + HEAD + RACES.replace("2.0", "FACTOR")) == Counter(
        {
            (
                "between launches",
                "stream-race",
                f"read-after-write hazard on `d` between the launch of `fill` and {what}",
            ): 1
            for what in ("the launch of `scale`", "the copy")
        }
        | {("between launches", "host-race", "read-after-write hazard on `h` between the copy and the host"): 1}
    )
    assert rerun("import nothing_of_this_name\n") is None
