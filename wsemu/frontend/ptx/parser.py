"""Parse PTX text to a tree, by recursive descent.  The grammar is that of the PTX ISA, chapters 4, 5, 6 and 11.

The parser skips directives that do not affect a run, such as `.section` and `.pragma`.  It does not interpret names and
operands of instructions.  It keeps unknown directives, so that a launch can be rejected if it depends on one.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.constants import WARP_SIZE
from wsemu.frontend.ptx.declarations import (
    check_alignment,
    check_attributes,
    check_file,
    check_function,
    check_module_variable,
    check_redeclared,
    check_target,
    check_variable,
)
from wsemu.frontend.ptx.operands import Operands
from wsemu.frontend.ptx.source import Source
from wsemu.frontend.ptx.syntax import (
    Block,
    Directive,
    File,
    Function,
    Instruction,
    Label,
    Location,
    Name,
    Number,
    Operand,
    Prototype,
    Statement,
    Symbol,
    Targets,
    UnknownDirective,
    UsedBytes,
    Variable,
)
from wsemu.frontend.ptx.tokens import DIRECTIVE, END, NAME, NUMBER, STRING
from wsemu.model.data import replace
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACES = {".reg": "reg", ".param": "param", ".shared": "shared", ".global": "global", ".const": "const"}
SPACES |= {".local": "local", ".sreg": "sreg", ".tex": "tex"}
LINKAGE = frozenset({".extern", ".visible", ".weak", ".common"})
VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
TYPES = frozenset(
    ".b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f16 .f16x2 .bf16 .bf16x2 .tf32 .f32 .f64 .pred "
    ".texref .samplerref .surfref .e4m3 .e5m2 .e4m3x2 .e5m2x2 .e2m1x2 .e2m3x2 .e3m2x2 .ue8m0x2".split()
)
MEANINGLESS = frozenset({".section", ".pragma", ".loc", ".file"})
"""directives for debuggers and compilers, which do not affect a run"""
_ELEMENTS, _EXTENTS = INPUT_LIMITS["ptx-initial"].most, INPUT_LIMITS["ptx-extents"].most
_TARGETS = INPUT_LIMITS["ptx-targets"].most
_USED_BYTES = re.compile(r'"used_bytes_mask\s+(0[xX][0-9a-fA-F]{1,64}|[1-9]\d{0,63}|0)"')


def parse_file(text: str, path: str) -> File:
    """Return the tree of a PTX file; raise KernelError with the location of a syntax error."""
    return _Parser(Source(text, path)).file()


class _Parser(Operands):
    """Reads declarations and statements."""

    # -- the file -----------------------------------------------------------------------------------------------------
    def file(self) -> File:
        """Parse a file: header, then variables and functions."""
        file = self._header()
        self.aliases: list[tuple[str, str, int]] = []
        while self.kinds[self.i] != END:
            self._parse_top_level(file)
        check_file(self.source, file, self.aliases)
        return file

    def _header(self) -> File:
        if self.texts[self.i] != ".version":
            self.fail("`.version`", "PTX starts with `.version`, `.target` and `.address_size`")
        self.i += 1
        version = self.word(NUMBER, "a version such as 8.4")
        self.take(".target")
        at = self.starts[self.i]
        target = self.word(NAME, "an architecture such as sm_90")
        options: list[str] = []
        while self.accept(","):
            options.append(self.word(NAME, "a target"))
        check_target(self.source, at, target, options)
        debug = "debug" in options
        size = 32
        if self.accept(".address_size"):
            size = self.integer("32 or 64")
        return File(self.source.path, self.source.text, version, target, size, debug)

    def _parse_top_level(self, file: File) -> None:
        """Parse one declaration, or skip a directive."""
        start = self.i
        text = self.texts[start]
        linkage = ""
        while self.texts[self.i] in LINKAGE:
            linkage = self.texts[self.i][1:]
            self.i += 1
        text = self.texts[self.i]
        if text in (".entry", ".func"):
            function = self._function(linkage)
            check_function(self.source, function)
            known = file.functions.get(function.name)
            if known is not None:
                check_redeclared(self.source, known, function)
            if known is not None and known.body is not None and function.body is not None:
                raise self.source.error(
                    function.at, f"`{function.name}` is defined twice", "remove one of the definitions"
                )
            if known is None or known.body is None:
                file.functions[function.name] = function
        elif text in SPACES:
            for variable in self._variables(linkage):
                check_module_variable(self.source, variable, file.version)
                known_variable = file.variables.get(variable.name)
                if known_variable is None or known_variable.linkage == "extern":
                    file.variables[variable.name] = variable
        elif text == ".file" and not linkage:
            self.i += 1
            number = self.integer("the number of a file")
            file.sources[number] = self.word(STRING, "a file name in quotes")[1:-1]
            while self.accept(","):
                self.integer("a time stamp or size")
        elif text == ".alias" and not linkage:
            self._parse_alias()
        elif self.kinds[self.i] == DIRECTIVE and self.i == start:
            file.unknown.extend(self._passed_over())
        else:
            self.fail("a function or variable", "outside functions there are only declarations")

    def _parse_alias(self) -> None:
        """Parse `.alias name, function;`: `name` is also declared as a function without a body."""
        at = self.starts[self.i]
        self.i += 1
        alias = self.word(NAME, "a name")
        self.take(",")
        self.aliases.append((alias, self.word(NAME, "the name of a function"), at))
        self.take(";")

    def _passed_over(self) -> Iterator[UnknownDirective]:
        """Skip a directive; yield it if it may affect a run."""
        start = self.i
        self._skip()
        if self.texts[start] not in MEANINGLESS:
            yield UnknownDirective(self._words(start), self.starts[start])

    def _words(self, start: int) -> str:
        """Return the tokens from `start` to the current one as text on one line, without the last `;`."""
        end = self.starts[self.i - 1] + len(self.texts[self.i - 1])
        return " ".join(self.source.text[self.starts[start] : end].split()).removesuffix(";")

    def _skip(self) -> None:
        """Skip a directive without effect: to its `;`, its `}` or the end of its line."""
        line = self.source.position(self.starts[self.i])[0]
        section = self.texts[self.i] == ".section"
        while self.kinds[self.i] != END:
            if self.texts[self.i] == "{":
                self._skip_braces()
                return
            if self.accept(";"):
                return
            self.i += 1
            if not section and self.source.position(self.starts[self.i])[0] > line and self.texts[self.i] != "{":
                return

    def _skip_braces(self) -> None:
        start = self.i
        depth = 0
        while self.kinds[self.i] != END:
            depth += (self.texts[self.i] == "{") - (self.texts[self.i] == "}")
            self.i += 1
            if depth == 0:
                return
        self.i, end = start, self.i
        raise self.source.error(
            self.starts[start], "this `{` is never closed", "is the file cut off?", self.starts[end]
        )

    # -- variables ----------------------------------------------------------------------------------------------------
    def _variables(self, linkage: str = "") -> list[Variable]:
        """Parse a declaration such as `.shared .align 4 .b8 a[64], b[64];`."""
        made = self._parse_declarations(linkage)
        if not self.accept(";"):
            self.fail("`;`")
        return made

    def _parse_declarations(self, linkage: str = "", *, single: bool = False) -> list[Variable]:
        """Parse variables of one space and type, without the `;`."""
        space = SPACES[self.texts[self.i]]
        self.i += 1
        alignment, vector, type_ = 0, 1, ""
        while self.kinds[self.i] == DIRECTIVE:
            text = self.texts[self.i]
            self.i += 1
            if text == ".align":
                alignment = self.size("an alignment in bytes")
                check_alignment(self.source, self.starts[self.i - 1], alignment)
            elif text in VECTORS:
                vector = VECTORS[text]
            elif text in TYPES:
                type_ = text[1:]
            elif text == ".attribute":
                self._parse_attributes(space)
            elif text not in (".ptr", ".global", ".shared", ".const", ".local", ".param", ".noftz"):
                self.i -= 1
                self.fail("a type", "a type is .b8 to .b64, .u8 to .u64, .s8 to .s64, .f16, .f32, .f64 or .pred")
        if not type_:
            self.fail("a type such as .b32")
        made = [self._variable(space, type_, vector, alignment, linkage)]
        while not single and self.accept(","):
            made.append(self._variable(space, type_, vector, alignment, linkage))
        return made

    def _parse_attributes(self, space: str) -> None:
        """Parse `(.managed)` or `(.unified(19, 95))`."""
        at = self.starts[self.i]
        self.take("(")
        depth, names = 1, []
        while depth:
            if self.kinds[self.i] == END:
                self.fail("`)`")
            if self.kinds[self.i] == DIRECTIVE:
                names.append(self.texts[self.i])
            depth += (self.texts[self.i] == "(") - (self.texts[self.i] == ")")
            self.i += 1
        check_attributes(self.source, at, space, names)

    def _variable(self, space: str, type_: str, vector: int, alignment: int, linkage: str) -> Variable:
        at = self.starts[self.i]
        name = self.word(NAME, "a name")
        count = 0
        if self.accept("<"):
            count = self.size("how many registers")
            self.take(">")
        shape: list[int] = []
        while self.accept("["):
            shape.append(0 if self.texts[self.i] == "]" else self.extent("an extent or `]`"))
            self.take("]")
            if len(shape) > _EXTENTS:
                raise self.excess("ptx-extents", len(shape), at)
        initial: list[Number | Symbol] = []
        if self.accept("="):
            self._initial(initial, tuple(shape))
        made = Variable(space, type_, name, at, vector, tuple(shape), alignment, count, tuple(initial), linkage)
        check_variable(self.source, made)
        return made

    def _initial(self, into: list[Number | Symbol], shape: tuple[int, ...], *, inner: bool = False) -> None:
        """Parse an initializer; a short inner list is padded with zeros."""
        if not self.accept("{"):
            into.append(self._initial_value())
            return
        before, at = len(into), self.starts[self.i]
        self.deepen()
        self.parse_comma_list(lambda: self._initial(into, shape[1:], inner=True), "}")
        self.deepen(-1)
        if math.prod(shape) > _ELEMENTS:
            raise self.excess("ptx-initial", math.prod(shape), at)
        if inner:
            into.extend([Number(0, 0, at)] * (math.prod(shape) - (len(into) - before)))

    def _initial_value(self) -> Number | Symbol:
        at = self.starts[self.i]
        if self.kinds[self.i] == NAME and self.texts[self.i] != WARP_SIZE:
            name = self.texts[self.i]
            self.i += 1
            if name == "generic" and self.accept("("):
                name = self.word(NAME, "a name")
                self.take(")")
            return Symbol(name, self.offset(), at)
        number = self.expression("a number, a name or `{`")
        if number.is_float_bits:
            return number
        if self.accept("("):
            self.deepen()
            masked = self._initial_value()
            self.deepen(-1)
            self.take(")")
            return replace(masked, mask=number.value) if isinstance(masked, Symbol) else masked
        return Number(number.value, 0, at)

    # -- functions ----------------------------------------------------------------------------------------------------
    def _function(self, linkage: str) -> Function:
        is_entry = self.texts[self.i] == ".entry"
        self.i += 1
        results: list[Variable] = []
        directives: dict[str, Directive] = {}
        if not is_entry and self.texts[self.i] == "(":
            results = self._parameters()
        if self.texts[self.i] == ".noreturn":
            self._performance(directives)
        at = self.starts[self.i]
        name = self.word(NAME, "the name of a function")
        parameters = self._parameters() if self.texts[self.i] == "(" else []
        while self.kinds[self.i] == DIRECTIVE:
            self._performance(directives)
        body = None
        if self.texts[self.i] == "{":
            body = self.block()
        elif not self.accept(";"):
            self.fail("`{` or `;`")
        return Function(
            name,
            is_entry,
            tuple(results),
            tuple(parameters),
            body,
            directives,
            linkage,
            at,
            self.starts[self.i - 1] + 1,
        )

    def _performance(self, directives: dict[str, Directive]) -> None:
        """Parse performance directives, such as `.maxntid 256, 1, 1` and `.pragma "...";` (11.4)."""
        start = self.i
        name = self.texts[start][1:]
        self.i += 1
        values = []
        while self.kinds[self.i] in (NUMBER, STRING):
            if self.kinds[self.i] == NUMBER:
                values.append(self.integer("a number"))
            else:
                self.i += 1
            if not self.accept(","):
                break
        if name == "pragma":
            self.accept(";")
        directives[name] = Directive(tuple(values), self._words(start), self.starts[start])

    def _parameters(self) -> list[Variable]:
        """Parse parameters, such as `(.param .u64 a, .param .align 8 .b8 b[24])`."""
        self.take("(")
        made: list[Variable] = []

        def one() -> None:
            if self.texts[self.i] not in (".param", ".reg"):
                self.fail("`.param`")
            made.extend(self._parse_declarations(single=True))

        self.parse_comma_list(one, ")")
        return made

    # -- statements ---------------------------------------------------------------------------------------------------
    def block(self) -> Block:
        """Parse a block, `{ ... }`."""
        opened = self.i
        at = self.starts[opened]
        self.take("{")
        self.deepen()
        statements: list[Statement] = []
        append = statements.append
        kinds, texts = self.kinds, self.texts
        while True:
            kind, text = kinds[self.i], texts[self.i]
            if kind == NAME:
                append(self._parse_label() if texts[self.i + 1] == ":" else self._instruction(None, False))
            elif text == "}":
                self.i += 1
                self.deepen(-1)
                return Block(tuple(statements), at)
            elif text == "@":
                append(self._parse_guarded())
            elif text in SPACES:
                statements.extend(self._variables())
            elif text == ".loc":
                if (location := self._location()) is not None:
                    append(location)
            elif text == "{":
                append(self.block())
            elif text == ".pragma":
                statements.extend(self._pragma())
            elif kind == DIRECTIVE:
                statements.extend(self._passed_over())
            elif kind == END:
                raise self.source.error(at, "this `{` is never closed", "is the file cut off?", at + 1)
            elif text == ";":
                self.i += 1
            else:
                self.fail("an instruction")

    def _pragma(self) -> Iterator[UsedBytes]:
        """Yield the relevant parts of `.pragma "...", "...";`."""
        start = self.i
        self._skip()
        for text in self.texts[start + 1 : self.i]:
            if found := _USED_BYTES.fullmatch(text):
                yield UsedBytes(int(found[1], 0))

    def _parse_label(self) -> Statement:
        at = self.starts[self.i]
        name = self.texts[self.i]
        self.i += 2
        if self.texts[self.i] in (".branchtargets", ".calltargets"):
            self.i += 1
            labels = [self.word(NAME, "a name")]
            while self.accept(","):
                labels.append(self.word(NAME, "a name"))
                if len(labels) > _TARGETS:
                    raise self.excess("ptx-targets", len(labels), at)
            self.take(";")
            return Targets(name, tuple(labels), at)
        if self.accept(".callprototype"):
            return Targets(name, (), at, self._prototype())
        return Label(name, at)

    def _prototype(self) -> Prototype:
        """Parse a prototype, such as `(.param .b32 _) _ (.param .b64 _, .param .b8 _[12]);`."""
        results = self._parameters() if self.texts[self.i] == "(" else []
        self.word(NAME, "`_`")
        parameters = self._parameters() if self.texts[self.i] == "(" else []
        while not self.accept(";"):  # .noreturn, .abi_preserve 4
            if self.kinds[self.i] == END:
                self.fail("`;`")
            self.i += 1
        return Prototype(tuple(results), tuple(parameters))

    def _location(self) -> Location | None:
        """Parse a location, such as `.loc 2 103 5, function_name $L__info_string0, inlined_at 1 7 197`.  In inline
        assembly, return None for all locations except the first."""
        at = self.starts[self.i]
        self.i += 1
        file, line, column = (self.integer(what) for what in ("the number of a file", "a line", "a column"))
        inlined_at = None
        while self.accept(","):
            what = self.word(NAME, "`function_name` or `inlined_at`")
            if what == "function_name":
                self.word(NAME, "a label")
                self.offset()
            elif what == "inlined_at":
                inlined_at = (self.integer("the number of a file"), self.integer("a line"), self.integer("a column"))
            else:
                self.i -= 1
                self.fail("`function_name` or `inlined_at`")
        return None if self.source.is_inside_assembly(at) else Location(file, line, column, inlined_at, at)

    def _parse_guarded(self) -> Instruction:
        at = self.starts[self.i]
        self.i += 1
        negated = self.accept("!")
        guard = Name(self.word(NAME, "a predicate register"), self.starts[self.i - 1])
        if self.kinds[self.i] != NAME:
            self.fail("an instruction")
        return self._instruction(guard, negated, at)

    def _instruction(self, guard: Name | None, negated: bool, at: int = -1) -> Instruction:
        i = self.i
        opcode, *modifiers = self.texts[i].split(".")
        start = self.starts[i]
        self.i = i + 1
        self.opcode = opcode
        texts = self.texts
        while self.kinds[self.i] == DIRECTIVE:  # `xor  .b32`, in handwritten PTX
            modifiers.append(texts[self.i][1:])
            self.i += 1
        if texts[self.i] == ";":
            operands: list[Operand] = []
        else:
            operands = [self.operand()]
            while texts[self.i] == ",":
                self.i += 1
                operands.append(self.operand())
            if texts[self.i] != ";":
                self.fail("`;`")
        self.i += 1
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, negated, start if at < 0 else at)
