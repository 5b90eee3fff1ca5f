"""The file of durations names tests that exist, and marks them."""

from __future__ import annotations

from pathlib import Path

from tests import durations

ROOT = Path(__file__).resolve().parents[2]


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid, self.marks = nodeid, list[str]()

    def add_marker(self, mark: object) -> None:
        self.marks.append(mark.name)  # type: ignore[attr-defined]


def test_files_of_slow_tests_exist() -> None:
    files = {test.partition("::")[0] for test in durations.known()}
    assert files
    assert not [file for file in files if not (ROOT / file).is_file()], "run `pytest -p tests.durations` on what moved"


def test_slow_tests_and_files_are_marked() -> None:
    known = durations.known()
    test = next(name for name in known if "::" in name)
    function = next(name for name in known if "::" in name and "[" not in name)
    slow, of_function = _Item(test), _Item(f"{function}[1-vm]")
    quick = _Item(f"{Path(test).parent}/test_none.py::test_nothing")
    durations.mark([slow, of_function, quick])  # type: ignore[list-item]
    assert (slow.marks, of_function.marks, quick.marks) == (["slow"], ["slow"], [])
