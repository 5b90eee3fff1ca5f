"""Each row of `wsemu.model.input_limits` has an input beyond it, which ends with a message and exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as run
from wsemu.app.ptx_launch import argument
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n"
DOCS = Path(__file__).parents[2] / "docs" / "limits.md"


def _kernel(body: str, before: str = "") -> str:
    return f"{HEADER}{before}.visible .entry k()\n{{\n.reg .b32 %r<4>;\n{body}\nret;\n}}\n"


def _chain(count: int, *, calls: int = 1, closed: bool = False) -> str:
    """Functions that call the next one; the last one calls none, or the first one."""
    declared = "".join(f".func f{n}();\n" for n in range(count))
    bodies = [f".func f{n}()\n{{ {f'call.uni f{n + 1};' * calls} ret; }}\n" for n in range(count - 1)]
    last = f".func f{count - 1}()\n{{ {'call.uni f0;' if closed else ''} ret; }}\n"
    return _kernel("call.uni f0;", declared + "".join(bodies) + last)


def _locations(count: int) -> str:
    """Code of a function that was inlined into one that was inlined, and so on."""
    lines = "".join(
        f".loc 1 {n + 1} 1, function_name L, inlined_at 1 {n} 1\nadd.u32 %r1, %r1, 1;\n" for n in range(1, count)
    )
    return _kernel(".loc 1 1 1\n" + lines, '.file 1 "nowhere.cu"\n')


def _most(name: str) -> int:
    return INPUT_LIMITS[name].most


def _ptx(text: str) -> Callable[[], object]:
    return lambda: wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, ())


PTX: dict[str, Callable[[int], str]] = {
    "ptx-digits": lambda n: _kernel(f"mov.u32 %r1, {'0' * (n - 1)}7;"),
    "ptx-nesting": lambda n: _kernel("{" * (n - 1) + "}" * (n - 1)),
    "ptx-extents": lambda n: _kernel("", f".global .b8 a{'[1]' * n};\n"),
    "ptx-registers": lambda n: _kernel(f".reg .b32 %x<{n}>;"),
    "ptx-targets": lambda n: _kernel(f"t: .branchtargets {', '.join(['L'] * n)};\nL:"),
    "ptx-call-depth": lambda n: _chain(n),
    "ptx-recursion": lambda n: _chain(n, closed=True),
    "ptx-inlined-at": _locations,
}
"""row -> a kernel with so many of what it counts; as many as the limit are good, but for what has other limits"""


@pytest.mark.parametrize("name", PTX)
def test_one_more_in_ptx_is_an_error_that_names_limit_and_place(name: str) -> None:
    with pytest.raises(KernelError, match=f"at most {_most(name):,}") as caught:
        _ptx(PTX[name](_most(name) + 1))()
    assert caught.value.span is not None
    assert caught.value.remedy == INPUT_LIMITS[name].remedy


@pytest.mark.parametrize("name", sorted(set(PTX) - {"ptx-registers", "ptx-recursion"}))
def test_as_many_as_the_limit_are_good(name: str) -> None:
    text = PTX[name](_most(name))
    assert wsemu.load_ptx(text)["k"] is not None
    if name != "ptx-targets":
        assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, ()).verdict in ("verified", "incomplete")


def test_calls_that_double_are_bounded() -> None:
    with pytest.raises(KernelError, match=f"calls in a kernel .*: at most {_most('ptx-calls'):,}"):
        _ptx(_chain(16, calls=2))()


def test_initial_values_and_variables_are_bounded() -> None:
    inner = "{" * 2 + "1" + "}" * 2
    with pytest.raises(KernelError, match=f"at most {_most('ptx-initial'):,}"):
        _ptx(_kernel("", f".global .b8 a[2][{_most('ptx-initial')}] = {inner};\n"))()
    each = 1 << 28
    names = range(_most("ptx-variables-bytes") // each + 1)
    used = "".join(f"mov.u64 %d, a{n};\n" for n in names)
    declared = "".join(f".global .b8 a{n}[{each}];\n" for n in names)
    with pytest.raises(KernelError, match=f"at most {_most('ptx-variables-bytes'):,}"):
        _ptx(_kernel(f".reg .b64 %d;\n{used}", declared))()


def test_a_file_of_more_bytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.ptx"
    with file.open("wb") as out:
        out.truncate(_most("ptx-bytes") + 1)  # sparse
    with pytest.raises(UsageError, match=f"at most {_most('ptx-bytes'):,}"):
        wsemu.load_ptx(file)


ARGUMENTS = {
    "arg-bytes": "u8[4294967297]",
    "arg-text": "[" + "i32:1," * 20_000 + "i32:1]",
    "arg-nesting": "[" * 40 + "i32:1" + "]" * 40,
    "arg-digits": "i32:" + "9" * 5000,
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_one_more_in_an_argument_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match=f"at most {_most(name):,}"):
        argument(ARGUMENTS[name])


@pytest.mark.parametrize(
    "text", ["[" * 2000 + "]" * 2000, "(" * 2000, "f32:" + "1" * 2000, "f32[4]:random:" + "9" * 200]
)
def test_long_arguments_have_a_message_of_some_lines(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        argument(text)
    assert len(str(caught.value)) < 400 or "understood" in str(caught.value)


def test_the_heap_is_bounded() -> None:
    text = _kernel("call.uni (p), malloc, (s);", ".extern .func (.param .b64 p) malloc (.param .b64 s);\n").replace(
        ".reg .b32 %r<4>;", ".reg .b32 %r<4>;\n.param .b64 p;\n.param .b64 s;\nst.param.b64 [s], 8;"
    )
    kernel = wsemu.load_ptx(text)["k"]
    with pytest.raises(UsageError, match=f"at most {_most('heap-bytes'):,}"):
        wsemu.check(kernel, 1, 1, (), heap=2**70)
    without = wsemu.load_ptx(_kernel(""))["k"]
    with pytest.raises(UsageError, match="heap of -5 bytes: give 1 or more"):
        wsemu.check(without, 1, 1, (), heap=-5)


def test_every_row_has_a_test_and_stands_in_the_documentation() -> None:
    elsewhere = {"ptx-bytes", "ptx-calls", "ptx-initial", "ptx-variables-bytes", "heap-bytes"}
    assert {*PTX, *ARGUMENTS, *elsewhere} == set(INPUT_LIMITS)
    text = DOCS.read_text(encoding="utf-8")
    for row in INPUT_LIMITS.values():
        assert f"| {row.of} | {row.most:,} {row.unit} |" in text


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "9" * 5000, "0b" + "1" * 5000])
@pytest.mark.parametrize("where", ["mov.u32 %r1, {};", "bar.sync {};", ".loc {} 1 1", ".maxntid {}"])
def test_numbers_of_many_digits_are_errors_of_the_file(tmp_path: Path, text: str, where: str) -> None:
    body = where.format(text)
    ptx = _kernel(body) if not where.startswith(".maxntid") else HEADER + f".visible .entry k()\n{body}\n{{ ret; }}\n"
    file = tmp_path / "long.ptx"
    file.write_text(ptx)
    result = run("check", str(file), "--grid", "1", "--block", "1")
    assert result.returncode == 2
    assert f"at most {_most('ptx-digits'):,}" in " ".join((result.stdout + result.stderr).split())


def test_arrays_of_numpy_have_no_such_limit() -> None:
    assert argument("u8[1000]").nbytes == np.uint8().nbytes * 1000


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "loop.ptx"
    link.symlink_to(link)
    for command in (("check", link), ("check", tmp_path)):
        result = run(*command, "--grid", "1", "--block", "1")
        assert result.returncode == 2
        assert "internal error" not in result.stdout + result.stderr


def test_separators_of_text_around_a_number_are_no_error_of_python() -> None:
    assert str(argument("tmap(f16[64,64], box=[\x1d8, 64])")) == "TensorMap(float16[64,64], box=[8, 64])"
