"""PTX text to a tree: what the parser makes of the grammar's forms, and its messages for text that is none."""

from __future__ import annotations

import contextlib
import random
import re

import pytest

from wsemu.frontend.ptx import parse
from wsemu.frontend.ptx.literals import literal, literal_bits
from wsemu.frontend.ptx.parser import parse_file
from wsemu.frontend.ptx.source import Source
from wsemu.frontend.ptx.syntax import (
    Address,
    Block,
    Both,
    Instruction,
    Label,
    Location,
    Name,
    Not,
    Number,
    Sink,
    Symbol,
    Targets,
    Variable,
    Vector,
)
from wsemu.frontend.ptx.tokens import tokens
from wsemu.model.errors import KernelError, WsemuError

HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n"


def module(text: str):
    return parse_file(HEADER + text, "k.ptx")


def statements(body: str):
    return module(f".entry k() {{\n{body}\n}}").functions["k"].body.statements


def instruction(text: str) -> Instruction:
    found: Instruction
    (found,) = statements(text)
    return found


def shape(operand):
    """An operand without its place."""
    match operand:
        case Name():
            return operand.text
        case Number():
            return (operand.value, operand.is_float_bits) if operand.is_float_bits else operand.value
        case Address():
            return ["at", shape(operand.base), operand.offset]
        case Vector():
            return tuple(shape(item) for item in operand.items)
        case Both():
            return ["both", shape(operand.first), shape(operand.second)]
        case Not():
            return ["not", operand.name.text]
        case Sink():
            return None


# -- header and declarations -----------------------------------------------------------------------------------------
def test_header():
    file = parse_file(".version 9.0 // newest\n.target sm_90a, texmode_independent\n.address_size 64", "k.ptx")
    assert (file.version, file.target, file.address_size) == ("9.0", "sm_90a", 64)


def test_kernels_and_their_parameters():
    file = module(
        ".visible .entry _Z1kPf(\n.param .u64 .ptr .global .align 1 p_0,\n.param .align 8 .b8 p_1[24]\n)\n"
        ".maxntid 256, 1, 1\n.minnctapersm 2\n.maxnreg 64\n{ ret; }\n.weak .entry other { }"
    )
    kernel = file.functions["_Z1kPf"]
    assert kernel.is_entry
    assert kernel.linkage == "visible"
    assert [(p.name, p.type, p.shape, p.alignment) for p in kernel.parameters] == [
        ("p_0", "u64", (), 1),
        ("p_1", "b8", (24,), 8),
    ]
    assert {name: d.values for name, d in kernel.directives.items()} == {
        "maxntid": (256, 1, 1),
        "minnctapersm": (2,),
        "maxnreg": (64,),
    }
    assert file.functions["other"].body.statements == ()


def test_functions_with_results_and_declarations():
    file = module(
        ".extern .func (.param .b32 func_retval0) vprintf(.param .b64 a, .param .b64 b)\n;\n"
        ".extern .func __assertfail(.param .b64 a) .noreturn;\n"
        ".func (.reg .b32 r) f(.reg .b32 a, .reg .pred p) { ret; }\n.func g { }"
    )
    functions = file.functions
    assert functions["vprintf"].body is None
    assert functions["f"].results[0].space == "reg"
    assert [p.type for p in functions["f"].parameters] == ["b32", "pred"]
    assert "noreturn" in functions["__assertfail"].directives
    assert functions["g"].parameters == ()


def test_a_definition_replaces_its_declaration():
    file = module(".func f(.param .b32 a);\n.func f(.param .b32 a) { ret; }\n.func f(.param .b32 a);")
    assert file.functions["f"].body is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".shared .align 4 .b8 a[64];", ("shared", "b8", (64,), 4, "")),
        (".extern .shared .align 16 .b8 a[];", ("shared", "b8", (0,), 16, "extern")),
        (".visible .const .align 4 .f32 a[2][3];", ("const", "f32", (2, 3), 4, "visible")),
        (".global .attribute(.managed) .v4 .u32 a;", ("global", "u32", (), 0, "")),
    ],
)
def test_variables(text, expected):
    variable = module(text).variables["a"]
    assert (variable.space, variable.type, variable.shape, variable.alignment, variable.linkage) == expected


def test_several_variables_of_one_directive():
    first, second, range_ = statements(".reg .b32 %a, %b, %r<12>;")
    assert (first.name, second.name, range_.name, range_.count) == ("%a", "%b", "%r", 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .b8 a[8] = {1, 0x02, 3U, -1};", [1, 2, 3, -1]),
        (".global .u32 a[2][3] = {{1}, {2, 3}};", [1, 0, 0, 2, 3, 0]),
        (".global .f32 a = 0f3F800000;", [0x3F800000]),
        (".global .u64 a[3] = {b, generic(c)+8, d-4};", [("b", 0), ("c", 8), ("d", -4)]),
    ],
)
def test_initializers(text, expected):
    initial = module(text).variables["a"].initial
    assert [(i.name, i.offset) if isinstance(i, Symbol) else i.value for i in initial] == expected


def test_sources_and_what_is_passed_over():
    file = module(
        '.file 1 "a.cu"\n.file 2 "b.cuh", 1700000000, 345\n.func g { }\n.func f;\n.alias f, g;\n.pragma "nounroll";\n'
        ".section .debug_str\n{\n$L__info_string0:\n.b8 97,0\n.b32 .debug_abbrev\n}\n.unheard of 1 2\n"
    )
    assert file.sources == {1: "a.cu", 2: "b.cuh"}
    assert list(file.functions) == ["g", "f"]


def test_the_tokens_in_a_section_are_left_out_but_still_checked() -> None:
    body = ".b8 97,0x1F,0 // text\n$L__a:\n.b32 .debug_abbrev+4\n"
    made = tokens(Source(HEADER + ".section .debug_str\n{\n" + body.replace(" // text", "") + "}\n.file 1", "x"))
    assert made.texts[-6:] == [".section", "{", "}", ".file", "1", ""]
    slow = tokens(Source(HEADER + ".section .debug_str\n{\n" + body + "}\n.file 1", "x"))
    assert "$L__a" in slow.texts
    for text in ("{ .b8 1x }", "{ .b8 \\ }"):
        with pytest.raises(KernelError):
            tokens(Source(HEADER + ".section .debug_str " + text, "x"))


# -- instructions ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "name", "operands"),
    [
        ("add.rn.ftz.f32 %f1, %f2, 0f3F800000;", "add.rn.ftz.f32", ["%f1", "%f2", (0x3F800000, 32)]),
        ("mov.f64 %fd1, 0d3FF0000000000000;", "mov.f64", ["%fd1", (0x3FF0000000000000, 64)]),
        ("mov.f64 %fd1, -1.5;", "mov.f64", ["%fd1", (0xBFF8000000000000, 64)]),
        ("add.s32 %r1, %r2, -0x10;", "add.s32", ["%r1", "%r2", -16]),
        ("mov.u32 %r1, %tid.x;", "mov.u32", ["%r1", "%tid.x"]),
        ("mov.u64 %rd1, table+8;", "mov.u64", ["%rd1", ["at", "table", 8]]),
        ("ld.global.nc.v2.f32 {%f1,%f2}, [%rd1+-256];", "ld.global.nc.v2.f32", [("%f1", "%f2"), ["at", "%rd1", -256]]),
        ("ld.global.L1::no_allocate.L2::128B.b32 %r1, [ %rd1 + 0 ];", "ld.global.L1::no_allocate.L2::128B.b32",
         ["%r1", ["at", "%rd1", 0]]),
        ("ld.shared::cta.b32 %r1, [64];", "ld.shared::cta.b32", ["%r1", ["at", 64, 0]]),
        ("setp.lt.s32 %p1|%p2, %r1, 5;", "setp.lt.s32", [["both", "%p1", "%p2"], "%r1", 5]),
        ("shfl.sync.down.b32 %r1|%p1, %r2, 16, 31, -1;", "shfl.sync.down.b32",
         [["both", "%r1", "%p1"], "%r2", 16, 31, -1]),
        ("bar.red.popc.u32 %r1, 0, !%p1;", "bar.red.popc.u32", ["%r1", 0, ["not", "%p1"]]),
        ("mov.b64 {%r1, _}, %rd1;", "mov.b64", [("%r1", None), "%rd1"]),
        ("call.uni (r0), f, (a0, a1);", "call.uni", [("r0",), "f", ("a0", "a1")]),
        ("call.uni \n(r0), \n%rd1, \n(a0\n)\n, proto;", "call.uni", [("r0",), "%rd1", ("a0",), "proto"]),
        ("call f, ();", "call", ["f", ()]),
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f5,%f6}];", "tex.2d.v4.f32.f32",
         [("%f1", "%f2", "%f3", "%f4"), (["at", "t", 0], ("%f5", "%f6"))]),
        ("ret;", "ret", []),
    ],
)  # fmt: skip
def test_instructions(text, name, operands):
    found = instruction(text)
    assert ".".join((found.opcode, *found.modifiers)) == name
    assert [shape(operand) for operand in found.operands] == operands
    assert found.guard is None


def test_guards():
    plain, negated = statements("@%p1 bra $L1;\n@ !%p2 st.global.u32 [%rd1], 7;")
    assert (plain.guard.text, plain.negated, negated.guard.text, negated.negated) == ("%p1", False, "%p2", True)


def test_blocks_labels_and_lines():
    body = statements(
        '.loc 1 12 5\n$L__BB0_1:\n.pragma "nounroll";\n{ // callseq\n.reg .b32 %temp;\n.param .b64 p;\n}\n'
        ".loc 2 103 5, function_name $L__info_string0, inlined_at 1 7 197\nret;\n"
        "t: .branchtargets $A, $B;\nq: .callprototype (.param .b32 _) _ (.param .b64 _);"
    )
    assert [type(s) for s in body] == [Location, Label, Block, Location, Instruction, Targets, Targets]
    assert [type(s) for s in body[2].statements] == [Variable, Variable]
    assert (body[3].file, body[3].line, body[3].column, body[3].inlined_at) == (2, 103, 5, (1, 7, 197))
    assert body[5].labels == ("$A", "$B")


@pytest.mark.parametrize(
    ("text", "value", "bits"),
    [
        ("0", 0, 0), ("017", 15, 0), ("0b101", 5, 0), ("0xFFu".upper().replace("X", "x"), 255, 0), ("12U", 12, 0),
        ("0f00000001", 1, 32), ("0D8000000000000000", 1 << 63, 64), ("1.0", 0x3FF0000000000000, 64),
        ("2e1", 0x4034000000000000, 64),
    ],
)  # fmt: skip
def test_literals(text, value, bits):
    assert literal(text) == (value, bits)


def test_literals_take_the_size_of_their_type():
    def bits(value: int, kind, size: int, *, is_float: bool) -> int:
        return literal_bits(Number(value, kind, 0), size, is_float=is_float)

    assert bits(-1, 0, 16, is_float=False) == 0xFFFF
    assert bits(0x3FF0000000000000, 64, 32, is_float=True) == 0x3F800000
    assert bits(0x3F800000, 32, 64, is_float=True) == 0x3FF0000000000000
    assert bits(0x7FE0000000000000, 64, 32, is_float=True) == 0x7F800000
    assert bits(2, 0, 1, is_float=False) == 1


def test_comments_and_line_ends():
    text = ".version 8.4\r\n/* one\n * two */\n.target sm_90 // three\n.address_size 64\r\n.func f { /**/ ret; }"
    assert list(parse_file(text, "k.ptx").functions) == ["f"]


# -- kernels of a module ---------------------------------------------------------------------------------------------
def test_entries():
    text = HEADER + ".entry k(\n.param .f32 a,\n.param .align 8 .b8 b[24]\n)\n.maxntid 128\n{\nret;\n}\n.func f { }\n"
    found = parse(text, "k.ptx").entries
    assert list(found) == ["k"]
    entry = found["k"]
    assert [(p.name, p.type, p.bytes, p.alignment) for p in entry.parameters] == [
        ("a", "f32", 4, 4),
        ("b", "b8", 24, 8),
    ]
    assert (entry.maxntid, entry.reqntid, entry.line, entry.end_line) == ((128,), (), 4, 11)


def test_sources_are_found_beside_the_ptx(tmp_path):
    (tmp_path / "k.cu").write_text("")
    module_ = parse(HEADER + '.file 1 "k.cu"\n.file 2 "gone.cu"\n', str(tmp_path / "k.ptx"))
    assert module_.paths == {1: str(tmp_path / "k.cu"), 2: None}


# -- what is no PTX --------------------------------------------------------------------------------------------------
BODY = HEADER + ".entry k()\n{\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 0, "the text ends where `.version` belongs"),
        ("hello", 1, 0, "found `hello` where `.version` belongs"),
        (".version 8.4\n.targit sm_90\n", 2, 0, "found `.targit` where `.target` belongs"),
        (HEADER + "add.s32 %r1, %r2, 1;", 4, 0, "found `add.s32` where a function or variable belongs"),
        (HEADER + ".visible .file 1", 4, 9, "found `.file` where a function or variable belongs"),
        (HEADER + ".global .b32 a[2", 4, 16, "the text ends where `]` belongs"),
        (HEADER + ".global .b32 a = {1, };", 4, 21, "found `}` where a number, a name or `{` belongs"),
        (HEADER + ".global .b33 a;", 4, 8, "found `.b33` where a type belongs"),
        (HEADER + ".global .b8 a[-4];", 4, 14, "found `-` where an extent or `]` belongs"),
        (HEADER + ".entry k(.param .u64 a .param .u64 b) { }", 4, 23, "found `.param` where `,` or `)` belongs"),
        (HEADER + ".entry k(.u64 a) { }", 4, 9, "found `.u64` where `.param` belongs"),
        (BODY + ".reg .b32 %r<4>;\nadd.s32 %r1, %r2\nret;\n}", 7, 16, "`;` is missing"),
        (BODY + "add.s32 %r1, , %r2;\n}", 6, 13, "found `,` where an operand belongs"),
        (BODY + "ld.global.b32 %r1, [%rd1+%rd2];\n}", 6, 25, "found `%rd2` where a number of bytes belongs"),
        (BODY + "ld.global.b32 %r1, [%rd1;\n}", 6, 24, "found `;` where `]` belongs"),
        (BODY + "@%p1 { ret; }\n}", 6, 5, "found `{` where an instruction belongs"),
        (BODY + ".reg .b32 %r<x>;\n}", 6, 13, "found `x` where how many registers belongs"),
        (BODY + "mov.f32 %f1, 0f3F80;\n}", 6, 13, "`0f3F80` is no number"),
        (BODY + "mov.u32 %r1, 0x;\n}", 6, 13, "`0x` is no number"),
        (BODY + "mov.u32 %r1, #1;\n}", 6, 13, "'#' does not belong in PTX"),
        (BODY + '.pragma "nounroll;\n}', 6, 8, "this string does not end on its line"),
        (BODY + "/* never\n}", 6, 0, "this comment does not end"),
        (BODY + "ret;\n", 5, 0, "this `{` is never closed"),
        (HEADER + ".section .debug_str {\n.b8 1\n", 4, 20, "this `{` is never closed"),
        (HEADER + ".func f { }\n.func f { }", 5, 6, "`f` is defined twice"),
        (BODY + "{" * 5000, 6, None, "129 levels in braces, parentheses or signs"),
        (BODY + "mov.u32 %r1, " + "-" * 5000 + "1;\n}", 6, None, "129 levels in braces, parentheses or signs"),
    ],
)
def test_errors_name_line_and_column(text, line, column, message):
    with pytest.raises(KernelError, match=re.escape(message)) as caught:
        parse_file(text, "k.ptx")
    span = caught.value.span
    assert span is not None
    assert span.file == "k.ptx"
    assert span.line == line
    assert column is None or span.column == column
    assert span.end_line > line or span.end_column >= span.column


def test_errors_show_the_line(tmp_path, capsys):
    from wsemu.report.terminal import Printer

    path = tmp_path / "k.ptx"
    path.write_text(BODY + "mov.u32 %r1, #1;\n}\n")
    with pytest.raises(KernelError) as caught:
        parse_file(path.read_text(), str(path))
    Printer().error(caught.value)
    shown = capsys.readouterr()
    assert "mov.u32 %r1, #1;" in shown.out + shown.err
    assert "k.ptx:6:14" in shown.out + shown.err


def test_mutated_text_gives_messages():
    text = BODY + (
        '.reg .b32 %r<4>;\n.loc 1 2 3\n.shared .align 4 .b8 a[16];\n$L1:\n@!%p1 bra $L1;\n{ .param .b32 p0;\n'
        "st.param.b32 [p0+0], %r1;\ncall (r), f, (p0);\n}\nld.global.v2.f32 {%f1, %f2}, [%rd1+8];\nret;\n}\n"
        '.global .u64 g[2] = {a, generic(b)+4};\n.file 1 "x.cu"\n'
    )  # fmt: skip
    draw = random.Random(7)
    for _ in range(400):
        at, end = sorted(draw.randrange(len(text)) for _ in range(2))
        changed = draw.choice([
            text[:at],
            text[:at] + text[min(end, at + 9) :],
            text[:at] + draw.choice('{}[]();,.@!|%$09abfx-+"/\n\x00é') + text[at:],
        ])  # fmt: skip
        with contextlib.suppress(WsemuError):
            parse(changed, "k.ptx")


def test_blanks_may_stand_before_modifiers() -> None:
    text = HEADER + ".func f\n{ .reg .b32 %r<3>; xor  .b32 %r2, %r1, 3; lop3\n.b32 %r2, %r2, 8, 0, 252; ret; }\n"
    body = parse_file(text, "k.ptx").functions["f"].body
    assert body is not None
    assert [(i.opcode, i.modifiers) for i in body.statements if isinstance(i, Instruction)] == [
        ("xor", ("b32",)),
        ("lop3", ("b32",)),
        ("ret", ()),
    ]


EXPRESSIONS = {
    "(3 + 4) * 2 << 1 | 1": 29, "-5 / 2": -2, "-5 % 2": -1, "5 > 3 ? 100 : 7": 100, "~(-1) + !0": 1,
    "WARP_SZ * 2 + 1": 65,
    "(.s64) 0xffffffffffffffff >> 4": -1, "0xffffffffffffffff >> 60": 15, "1 + 2 == 3 && 4 != 4 || 0": 0,
    "2 - 3 - 4": -5, "0x7fffffffffffffff * 2": -2, "(.u64) -1 / 2": (1 << 63) - 1, "6 & 3 ^ 5 | 8": 15, "-(2 - 5)": 3,
}  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_constant_expressions(text: str) -> None:
    (instruction,) = statements(f"mov.s64 %rd1, {text};")
    assert instruction.operands[1].value == EXPRESSIONS[text]
    (made,) = module(f".global .u64 a[8 * (1 + 1)] = {{{text}}};").variables.values()
    assert (made.shape, made.initial[0].value) == ((16,), EXPRESSIONS[text])


def test_an_offset_may_be_a_product() -> None:
    (instruction,) = statements("ld.u32 %r1, [%rd1 + 4 * 3 - (1 + 1) * 8];")
    assert instruction.operands[1].offset == -4


def test_operands_of_a_call_are_no_expressions() -> None:
    (instruction,) = statements("call (%r1), f, (3, %r2);")
    assert [shape(operand) for operand in instruction.operands] == [("%r1",), "f", (3, "%r2")]


@pytest.mark.parametrize("text", ["1 / 0", "1 +", "(1 + 2", "5 ? 1", "(.s32) 1", "1 << 1.5"])
def test_what_is_no_constant_expression(text: str) -> None:
    with pytest.raises(KernelError):
        statements(f"mov.s64 %rd1, {text};")
