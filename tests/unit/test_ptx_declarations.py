"""Declarations that ptxas 13 rejects are rejected with their line, those beside them are accepted."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
ENTRY = ".visible .entry k(.param .u64 out)"


def module(before: str = "", body: str = "", directives: str = "", head: str = HEAD) -> str:
    return (
        f"{head}{before}\n{ENTRY} {directives}\n{{ .reg .b32 %r<9>; .reg .b64 %x<9>; mov.u32 %r1, 1;\n"
        f"{body}\nld.param.u64 %x1, [out]; cvta.to.global.u64 %x1, %x1; st.global.u32 [%x1], %r1; ret; }}\n"
    )


def verdict(text: str) -> str:
    found = {
        wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (np.zeros(64, np.uint32),), engine=engine).verdict
        for engine in ("vm", "reference")
    }
    (answer,) = found
    return answer


OUTSIDE = {
    ".func (.reg .b32 %o) f() .noreturn { exit; }": "`f` has `.noreturn` and a result",
    ".func g();\n.alias g, f;": "`f`, which `g` stands for, is not defined here",
    ".weak .func f() { ret; }\n.func g();\n.alias g, f;": "`f`, which `g` stands for, is a weak function",
    ".extern .global .u32 v = 4;": "`v` is extern and has an initial value",
    ".global .v4 .f64 v;": "`v` is a vector of 256 bits",
    ".global .pred v;": "`v` is a predicate in .global memory",
    ".reg .b32 %m;": "`%m` in .reg is declared outside of functions",
    ".local .b32 m;": "`m` in .local is declared outside of functions",
    ".global .align 3 .b8 v[16];": "an alignment of 3: only powers of two are valid",
    ".global .align 0 .b8 v[16];": "an alignment of 0: only powers of two are valid",
    ".global .attribute(.frozen) .b32 v;": "`.attribute` has no .frozen",
    ".func f(.reg .b32 %a); .func f() { ret; }": "`f` was declared before with other parameters",
    ".func f() .maxntid 32 { ret; }": "`.maxntid` of a device function",
    ".const .b8 v[70000];": "70,000 bytes of constants",
    ".const .b32 v[2] = {1, 2, 3};": "`v` has 2 elements and 3 initial values",
    ".global .u32 v = 1.5;": "a floating-point value for `v` of type .u32",
    ".global .f32 v = 1;": "an integer for `v` of type .f32",
    ".global .b32 f; .func f() { ret; }": "`f` is a variable and a function",
}
INSIDE = {
    ".reg .u32 %r1;": "`%r1` is declared twice",
    ".reg .u32 %q1; .reg .u32 %q<3>;": "`%q1` is declared twice",
    "L: L: bra.uni E; E:": "the label `L` is there twice",
    ".shared .b32 v = 1;": "`v` in .shared memory has an initial value",
    ".local .b32 v = 1;": "`v` in .local memory has an initial value",
    ".shared .attribute(.managed) .b32 v;": "a variable in .shared memory has no attribute .managed",
    "call f, (%r1);": "`%r1` has 32 bits, `%a` of `f` 64",
    "call (%r2), h;": "`%r2` has 32 bits, `%o` of `h` 64",
    "call e;": "`e` is a kernel",
}
DIRECTIVES = {
    ".reqntid 32 .maxntid 32": "`.reqntid` and `.maxntid` exclude each other",
    ".reqnctapercluster 2 .maxclusterrank 2": "`.reqnctapercluster` and `.maxclusterrank` exclude each other",
    ".maxnreg 0": "`.maxnreg` of 0 registers",
    ".noreturn": "`.noreturn` of a kernel",
    ".abi_preserve 8": "`.abi_preserve` of a kernel",
}
FUNCTIONS = """
.func f(.reg .b64 %a) { ret; }
.func (.reg .b64 %o) h() { mov.u64 %o, 1; ret; }
.entry e() { ret; }
"""
TARGETS = {"sm_95": "`.target` does not know sm_95", "sm_90a, frozen": "`.target` has no option frozen"}
ACCEPTED = (
    module(".global .align 16 .b8 v[16];"),
    module(".global .attribute(.managed) .b32 v;"),
    module(".func f() { ret; }\n.func g();\n.alias g, f;"),
    module(".func f(.reg .b32 %a); .func f(.reg .b32 %a) { ret; }", "call f, (%r1);"),
    module(".const .b8 v[65536];"),
    module(".extern .const .b8 v[70000];"),
    module(".global .f32 v[2] = {1.5, 0f3F800000};"),
    module(body="{ .reg .b32 %r1; mov.u32 %r1, 2; }"),
    module(body="L: { L: bra.uni E; E: }"),
    module(FUNCTIONS, "call f, (%x1); call (%x2), h;"),
    module(directives=".maxntid 32 .minnctapersm 2"),
    module(head=HEAD.replace("sm_90a", "sm_90a, texmode_unified")),
)


def rejects(text: str, message: str) -> bool:
    with pytest.raises(wsemu.KernelError) as caught:
        verdict(text)
    return message in str(caught.value)


@pytest.mark.parametrize("before", OUTSIDE)
def test_a_declaration_outside_of_functions_is_rejected(before: str) -> None:
    assert rejects(module(before), OUTSIDE[before])


@pytest.mark.parametrize("body", INSIDE)
def test_a_statement_that_contradicts_a_declaration_is_rejected(body: str) -> None:
    assert rejects(module(FUNCTIONS, body), INSIDE[body])


@pytest.mark.parametrize("directives", DIRECTIVES)
def test_directives_that_exclude_each_other_are_rejected(directives: str) -> None:
    assert rejects(module(directives=directives), DIRECTIVES[directives])


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_does_not_exist_is_rejected(target: str) -> None:
    assert rejects(module(head=HEAD.replace("sm_90a", target)), TARGETS[target])


@pytest.mark.parametrize("text", ACCEPTED)
def test_declarations_that_agree_are_accepted(text: str) -> None:
    assert verdict(text) == "verified"
