"""PTX files that were cut off or changed anywhere: a message, or a run, and never an error of wsemu itself."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

import wsemu
from wsemu.app import program
from wsemu.app.ptx_launch import Options
from wsemu.frontend.ptx import compile_entry
from wsemu.model.errors import WsemuError
from wsemu.model.settings import Settings

FOLDER = Path(__file__).resolve().parents[1] / "ptx"
FILE = Path(__file__).resolve().parents[1] / "ptx" / "launching.sm_90.ptx"
TEXT = FILE.read_text()
TOKEN = re.compile(r"[\w.$%]+|\s+|.", re.S)
LAUNCHES = [
    Options("saxpy", "2", "32", ("f32[64]:random", "f32[64]:ones", "f32:2", "i32:60")),
    Options("scale<float", "1", "64", ("f32[64]:random", "{f32:2,i32:64}")),
    Options("reverse", "1", "64", ("i32[64]",)),
    Options("_Z6recordPd6Record", "1", "1", ("f64[7]", "{i16:1, {{i8:1, f64:2}, {i8:3, f64:4}}, i32[2]:ones, u8:9}")),
    Options("turned", "1", "32", ("f32[32]:random", "i32:0"), "128"),
    Options("waits", "1", "64", ("i32:1", "i32:64")),
]
JUNK: list[str] = [
    *'{}()[];,.@%!|<>"', "/*", "//", "0x", "0f3f80", "99999999999999999999", "\0", "é", ".entry", ".reg .b32 %r1;",
    "bra $L__BB0_2;", "call f;", ".shared .b8 x[1099511627776];", ".local .b8 y[99999999];", "%r<1000000000>", "ret",
    "exit;", "-1", "add.s32", "ld.global.v4.f32", ".loc 99 1 1", "@%p1", "mad.lo.s32 %r1, %r1;", "bar.sync 16, 31;",
]  # fmt: skip


def cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text))]


def without_a_token(text: str, draw: random.Random) -> str:
    tokens: list[str] = TOKEN.findall(text)
    at = draw.randrange(len(tokens))
    return "".join(tokens[:at] + tokens[at + 1 :])


def with_two_tokens_exchanged(text: str, draw: random.Random) -> str:
    tokens: list[str] = TOKEN.findall(text)
    one, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def with_junk(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text))
    return text[:at] + draw.choice(JUNK) + text[at:]


def with_another_character(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text))
    return text[:at] + chr(draw.randrange(32, 127)) + text[at + 1 :]


def with_another_number(text: str, draw: random.Random) -> str:
    numbers = [*re.finditer(r"\d+", text)]
    at = draw.choice(numbers)
    number = draw.choice(["0", "1", "31", "255", "65536", "4294967296", "18446744073709551616", "9" * 400])
    return text[: at.start()] + number + text[at.end() :]


def with_lines_moved(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    line = lines.pop(draw.randrange(len(lines)))
    for _ in range(draw.randrange(3)):
        lines.insert(draw.randrange(len(lines)), line)
    return "".join(lines)


CHANGES = [
    cut, without_a_token, with_two_tokens_exchanged, with_junk, with_another_character, with_another_number,
    with_lines_moved,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_file(change, tmp_path, capsys):
    for seed in range(20):
        draw = random.Random(f"{change.__name__} {seed}")
        launch = draw.choice(LAUNCHES)
        file = tmp_path / f"{seed}.ptx"
        file.write_text(change(TEXT, draw), encoding="utf-8")
        code = program.run(file, launch.words(), Settings(budget=20_000))
        said = capsys.readouterr().out
        assert code in (0, 1, 2, 3), f"seed {seed}: {said}"
        assert code == 0 or said.strip(), f"seed {seed}"
        assert "Traceback" not in said, f"seed {seed}: {said}"


def test_changes_reach_the_launch(tmp_path):
    """The file as it is runs: the changes above have something to break."""
    file = tmp_path / "launching.ptx"
    file.write_text(TEXT)
    for launch in LAUNCHES:
        assert program.run(file, launch.words(), Settings()) == (1 if launch.entry == "reverse" else 0), launch


# -- asynchronous operations and tensor cores -------------------------------------------------------------------------
ASYNCHRONOUS = re.compile(r"mbarrier|cp\.|mma|matrix|wgmma|elect|setmaxnreg|fence|st\.bulk|tensormap|griddep")
WORDS = re.compile(r"[A-Za-z_%$][\w$]*|\.[\w:]+|\d[\w.]*|\S")
OPERANDS = ["0", "-1", "16", "33", "18446744073709551616", "%r1", "%rd1", "%f1", "%p1", "{%r1}", "[%rd1]", "x", "_"]
SAMPLE = ["mbarriers.sm_90", "bulk.sm_90a", "tensor_copies.sm_90a", "wgmma_ring.sm_90a", "wmma.sm_90a", "matmul.sm_90"]


def with_a_line_changed(line: str, words: list[str], draw: random.Random) -> str:
    """A word is left out, put in, replaced, or exchanged for another one of the line, up to three times."""
    own = WORDS.findall(line)
    for _ in range(draw.choice((1, 1, 2, 3))):
        at, other = draw.randrange(len(own)), draw.randrange(len(own))
        how = draw.randrange(4)
        if how == 0 and len(own) > 1:
            del own[at]
        elif how == 1:
            own.insert(at, draw.choice([*words, *OPERANDS]))
        elif how == 2:
            own[at] = draw.choice([*words, *OPERANDS])
        else:
            own[at], own[other] = own[other], own[at]
    return re.sub(r" (?=[.:])", "", " ".join(own))


def compile_all(text: str) -> None:
    """Compile all kernels of a text; what cannot be compiled is told by an error of wsemu's own."""
    with suppress(WsemuError):
        for kernel in wsemu.load_ptx(text).values():
            kinds = tuple("address" if p.bytes == 8 else "value" for p in kernel.entry.parameters)
            compile_entry(kernel._module, kernel.entry, kinds, fma=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SAMPLE)
def test_a_changed_line_of_an_asynchronous_operation(name):
    head, *entries = re.split(r"(?m)^(?=(?:\.visible |\.weak )?\.entry )", (FOLDER / f"{name}.ptx").read_text())
    draw = random.Random(name)
    entries = [entry for entry in entries if ASYNCHRONOUS.search(entry) and len(entry) < 40_000]
    words = sorted(
        {w for e in entries for line in e.splitlines() if ASYNCHRONOUS.search(line) for w in WORDS.findall(line)}
    )
    for _ in range(25):
        lines = draw.choice(entries).splitlines()
        at = draw.choice([n for n, line in enumerate(lines) if ASYNCHRONOUS.search(line)])
        lines[at] = with_a_line_changed(lines[at], words, draw)
        compile_all(head + "\n".join(lines))


def test_a_copy_without_its_kind_and_an_offset_beyond_64_bits():
    text = """
.version 8.0
.target sm_90
.address_size 64
.shared .align 16 .b8 tile[64];
.visible .entry k(.param .u64 a) {
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [a];
    mov.u32 %r1, tile;
    cp.async.ca.shared.global [%r1], [%rd1], 16;
    ld.shared.u32 %r2, [tile+16];
    ret;
}
"""
    for changed in (text, text.replace(".async.ca", ""), text.replace("tile+16", "tile+18446744073709551632")):
        compile_all(changed)


@pytest.mark.parametrize("number", [1 << 32, 1 << 63, -(1 << 31) - 1])
def test_a_number_that_no_instruction_has_room_for(number):
    for line in (
        f"setmaxnreg.inc.sync.aligned.u32 {number};",
        f"cp.async.wait_group {number};",
        f"cp.async.bulk.wait_group {number};",
        f"wgmma.wait_group.sync.aligned {number};",
        f"pmevent {number};",
    ):
        text = f".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n{line}\nret;\n}}\n"
        report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128)
        assert report.verdict == "incomplete", line
