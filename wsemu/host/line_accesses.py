"""Detect accesses of a Python program to arrays that the device may be using, from its source lines as they run.

While an operation in flight touches memory of the host, the program's lines are traced.  A line accesses an array if an
expression in it uses the array's elements: an index, arithmetic, a method such as `sum`, an argument of a function that
is not the program's own.  An index of names, constants and arithmetic selects its elements exactly.  Views are followed
because memory is compared, not names.

Not seen: accesses inside of libraries to arrays that no line of the program names, and lines that ran in another
tracer.  Reference for events of lines: Python, `sys.settrace`.
"""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib.array_utils import byte_bounds

from wsemu.between.operations import Ranges, Where, merge_ranges
from wsemu.between.session import Undefined
from wsemu.launch.between import report_undefined
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.own import is_library, is_own

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from wsemu.between.operations import Operation
    from wsemu.host.recorder import Recorder

Kind = Literal["read", "write"]
Position = tuple[int, int, int, int]
"""line, column, end line, end column of an expression"""
METADATA = frozenset(
    """
    alloc_size base bind copy_to_device copy_to_host ctypes data dtype flags is_c_contiguous is_f_contiguous itemsize
    nbytes ndim setflags shape size split stream strides __array_interface__ __cuda_array_interface__
    """.split()
)
"""attributes of arrays that do not access elements"""
VIEWS = frozenset("T asanyarray asarray ravel real reshape squeeze swapaxes transpose view".split())
"""methods and functions of NumPy that return a view"""
UNUSED = frozenset(
    """
    dict getattr hasattr id isinstance len type
    empty_like full_like iscomplexobj isrealobj may_share_memory ndim ones_like result_type shape shares_memory size
    zeros_like
    """.split()
)
"""functions of Python and NumPy that do not access elements of arrays"""
MAX_ELEMENTS = 1 << 16
"""maximum number of elements of a non-contiguous array whose bytes are listed"""


_RESUMES = frozenset(
    dis.opmap[name] for name in ("FOR_ITER", "CALL", "PRECALL", "KW_NAMES", "CALL_KW") if name in dis.opmap
)
"""instructions at which a line begins again after its expressions are evaluated: a loop, or a call over several
lines"""
_LEAVES = frozenset(dis.opmap[name] for name in ("LOAD_CONST", "PUSH_EXC_INFO") if name in dis.opmap)
"""instructions at which the line of a `with` begins again at the end of its block"""


class Use(NamedTuple):
    """An expression that may access an array's elements."""

    node: ast.expr
    kind: Kind
    used: bool
    """False: a single element is accessed, a view is not"""
    callee: ast.expr | None = None
    """function that receives the expression as an argument"""
    of_lambda: bool = False
    """True in the body of a lambda, which runs in a frame of its own"""


@dataclass(slots=True)
class Lines:
    """The uses in a file, by line."""

    uses: dict[int, list[Use]] = field(default_factory=dict)
    calls: dict[Position, tuple[bool, ast.expr | None]] = field(default_factory=dict)
    """a call -> whether its result is used at once, and the index if the line uses only that element or part"""
    blocks: set[int] = field(default_factory=set)
    """numbers of the lines of `with` statements"""


class _Reader(ast.NodeVisitor):
    """Collects the uses of a file."""

    def __init__(self) -> None:
        self.lines = Lines()
        self._in_lambda = False

    def _add(self, node: ast.expr, kind: Kind, used: bool, callee: ast.expr | None = None) -> None:
        self.lines.uses.setdefault(node.lineno, []).append(Use(node, kind, used, callee, self._in_lambda))

    # -- statements ----------------------------------------------------------------------------------------------------
    def visit_Assign(self, node: ast.Assign) -> None:
        stored = [self._store(target) for target in node.targets]
        if len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        else:
            unpacked = any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets)
            self.read(node.value, unpacked or any(stored))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        """Read a value that is assigned: elements are used if they are unpacked, or stored in an array."""
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            starred = any(isinstance(one, ast.Starred) for one in (*target.elts, *parts))
            if len(parts) == len(target.elts) and not starred:
                for one, part in zip(target.elts, parts, strict=True):
                    self._assign(one, part)
            else:
                self.read(value, True)
        else:
            self.read(value, isinstance(target, ast.Subscript))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.read(node.value, self._store(node.target))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node.target, "write", True)
        self.read(node.value, True)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.read(node.value, False)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.read(node.value, False)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_With(self, node: ast.With) -> None:
        self.lines.blocks.add(node.lineno)
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.read(child, True)
            else:
                self.visit(child)

    def _store(self, target: ast.expr) -> bool:
        """Add a target of an assignment; return whether elements of an array may be stored."""
        if isinstance(target, (ast.Tuple, ast.List)):
            stored = [self._store(one) for one in target.elts]
            return any(stored)
        if isinstance(target, ast.Subscript):
            self._add(target, "write", True)
            self.read(target.slice, True)
            return True
        return False

    # -- expressions ---------------------------------------------------------------------------------------------------
    def read(self, node: ast.expr, used: bool, callee: ast.expr | None = None) -> None:
        """Add the uses of an expression whose value is used, or only named."""
        match node:
            case ast.Name():
                if used and isinstance(node.ctx, ast.Load):
                    self._add(node, "read", used, callee)
            case ast.Attribute():
                self._attribute(node, used, callee)
            case ast.Subscript():
                self._add(node, "read", used, callee)
                self._note_call(node.value, used, node.slice)
                self.read(node.value, False)
                self.read(node.slice, True)
            case ast.Call():
                self._note_call(node, used, None)
                self._call(node, used)
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                pass
            case ast.Starred(value=ast.Tuple() | ast.List()):
                self.read(node.value, used, callee)
            case ast.Starred():
                self.read(node.value, True)  # the line iterates over it, whatever gets its elements
            case ast.Tuple() | ast.List() | ast.IfExp() | ast.NamedExpr():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.read(child, used, callee)
            case ast.Lambda():
                outer, self._in_lambda = self._in_lambda, True
                self.read(node.body, False)
                self._in_lambda = outer
            case _:
                self.generic_visit(node)

    def _note_call(self, node: ast.expr, used: bool, index: ast.expr | None) -> None:
        if isinstance(node, ast.Call):
            place = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
            self.lines.calls.setdefault(place, (used or index is not None, index))

    def _attribute(self, node: ast.Attribute, used: bool, callee: ast.expr | None) -> None:
        if node.attr in VIEWS:
            self.read(node.value, used, callee)
        elif node.attr not in METADATA:
            if used:
                self._add(node, "read", used, callee)
            self.read(node.value, not isinstance(node.value, ast.Name) or used)
        else:
            self.read(node.value, False)

    def _call(self, node: ast.Call, used: bool) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr in VIEWS:
                for one in (function.value, *node.args):
                    self.read(one, used)
                return
            self.read(function.value, function.attr not in METADATA)
        elif not isinstance(function, ast.Name):
            self.read(function, False)
        for one in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.read(one, True, function)


class Unknown(Exception):
    """The value of an expression is unknown without running it."""


def evaluate(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression that has no effects; Unknown for any other."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            for names in (frame.f_locals, frame.f_globals):
                if name in names:
                    return names[name]
            builtins = frame.f_builtins
            if name in builtins:
                return builtins[name]
        case ast.Attribute(inner, attr):
            return _attribute_value(evaluate(inner, frame), attr)
        case ast.Subscript(inner, index):
            return _element(evaluate(inner, frame), evaluate(index, frame))
        case ast.Slice(lower, upper, step):
            return slice(*(None if part is None else evaluate(part, frame) for part in (lower, upper, step)))
        case ast.Tuple(parts):
            return tuple(evaluate(part, frame) for part in parts)
        case ast.UnaryOp(ast.USub(), inner):
            return -_number(evaluate(inner, frame))
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_number(evaluate(left, frame)), _number(evaluate(right, frame)))
        case ast.Call(ast.Attribute(inner, attr), args, []) if attr in VIEWS:
            return _call_view(inner, attr, args, frame)
    raise Unknown


def _call_view(owner: ast.expr, name: str, args: list[ast.expr], frame: FrameType) -> Any:
    """Return the view of an array that a method or function of NumPy returns."""
    if name.startswith("as") and len(args) == 1:  # `np.asarray(x)`
        array, given = evaluate(args[0], frame), []
    else:
        array, given = evaluate(owner, frame), [evaluate(one, frame) for one in args]
    if not isinstance(array, np.ndarray):
        raise Unknown
    plain = array.view(np.ndarray)
    if name.startswith("as"):
        return plain
    try:
        view = getattr(plain, name)(*given)
    except (TypeError, ValueError, AttributeError):
        raise Unknown from None
    return view if np.may_share_memory(view, plain) else array  # a copy of all elements


_OPERATORS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _number(value: Any) -> int:
    if isinstance(value, (int, np.integer)):
        return int(value)
    raise Unknown


def _attribute_value(owner: Any, name: str) -> Any:
    if isinstance(owner, ModuleType):
        own = owner.__name__.startswith("wsemu")
        found = getattr(owner, name, Unknown) if own else vars(owner).get(name, Unknown)
    elif isinstance(owner, np.ndarray):
        found = owner.T if name == "T" else getattr(owner, name) if name in ("shape", "size", "ndim") else Unknown
    else:
        found = Unknown if isinstance(owner, type) else getattr(owner, "__dict__", {}).get(name, Unknown)
        classes = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
        inherited = next((vars(one)[name] for one in classes if name in vars(one)), Unknown)
        if found is Unknown and isinstance(inherited, FunctionType):
            found = inherited if isinstance(owner, type) else MethodType(inherited, owner)
    if found is Unknown:
        raise Unknown
    return found


def _element(owner: Any, index: Any) -> Any:
    if isinstance(owner, np.ndarray):
        parts = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(part, (int, np.integer, slice, type(None), type(Ellipsis))) for part in parts):
            return owner.view(np.ndarray)  # by arrays: some of its elements
        more = () if any(part is Ellipsis for part in parts) else (Ellipsis,)
        try:
            return owner.view(np.ndarray)[(*parts, *more)]
        except IndexError:
            raise Unknown from None
    if isinstance(owner, (list, tuple, dict)):
        try:
            return owner[index]
        except (LookupError, TypeError):
            raise Unknown from None
    raise Unknown


def index_result(array: Any, index: ast.expr | None, frame: FrameType) -> Any:
    """Return the part of an array that an index selects; the whole array if that is unknown."""
    try:
        return array if index is None else _element(array, evaluate(index, frame))
    except Unknown:
        return array


def array_ranges(array: np.ndarray[Any, np.dtype[Any]]) -> Ranges:
    """Return the bytes of the elements of an array."""
    low, high = byte_bounds(array)
    if array.flags.c_contiguous or array.flags.f_contiguous or array.size > MAX_ELEMENTS:
        return Ranges.single(low, high)
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(array.shape, array.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    starts = np.unique(offsets) + array.__array_interface__["data"][0]
    return merge_ranges(starts, starts + array.itemsize)


class Watcher:
    """Traces the program's lines while memory of the host is in use."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._files: dict[str, Lines | None] = {}
        self._epoch: object = None
        """the program whose files these are: another one may have changed them"""
        self._foreign: dict[str, bool] = {}
        self.everything = False
        """True while a host function runs: all of its accesses count"""
        self._tracing = False

    def attach(self, recorder: Recorder) -> None:
        """Watch the memory that a recorder's operations use."""
        if self._recorder is None:
            self._recorder = recorder
            recorder.pending_changed.append(self.update)

    def update(self) -> None:
        """Trace lines if memory of the host is in use."""
        assert self._recorder is not None
        needed = self.everything or self._recorder.uses_host_memory()
        if needed == self._tracing:
            return
        if needed and sys.gettrace() is None:
            self._tracing = True
            frame: FrameType | None = sys._getframe(1)
            while frame is not None:
                if self._is_program(frame.f_code):
                    frame.f_trace = self._line
                frame = frame.f_back
            sys.settrace(self._call)
        elif not needed:
            self._tracing = False
            sys.settrace(None)

    def _is_program(self, code: CodeType) -> bool:
        """Return whether code is the program's own: not of wsemu, Python or an installed package."""
        file = code.co_filename
        if file not in self._foreign:
            self._foreign[file] = is_own(file) or is_library(file)
        return not self._foreign[file]

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if self._is_program(frame.f_code) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self._look(frame)
        return self._line

    def _lines(self, file: str) -> Lines | None:
        if self._recorder is not None and self._epoch is not self._recorder.epoch:
            self._epoch = self._recorder.epoch
            self._files.clear()
        if file not in self._files:
            reader = _Reader()
            try:
                reader.visit(ast.parse("".join(linecache.getlines(file))))
            except (SyntaxError, ValueError):
                self._files[file] = None
            else:
                self._files[file] = reader.lines
        return self._files[file]

    def _look(self, frame: FrameType) -> None:
        lines = self._lines(frame.f_code.co_filename)
        if lines is None or frame.f_lineno not in lines.uses:
            return
        operation = frame.f_code.co_code[frame.f_lasti]
        if operation in _RESUMES or (frame.f_lineno in lines.blocks and operation in _LEAVES):
            return
        of_lambda = frame.f_code.co_name == "<lambda>"
        for use in lines.uses[frame.f_lineno]:
            if use.of_lambda != of_lambda:
                continue
            try:
                array = evaluate(use.node, frame)
            except Unknown:
                array = self._enclosing(use.node, frame)
            if not isinstance(array, np.ndarray) or not array.size:
                continue
            if use.kind == "read" and not self._is_read(use, array, frame):
                continue
            self._access(array, use.kind, use.node, frame)

    def _enclosing(self, node: ast.expr, frame: FrameType) -> Any:
        """Return the array whose elements an expression with an unknown index selects."""
        while isinstance(node, ast.Subscript):
            node = node.value
            try:
                return evaluate(node, frame)
            except Unknown:
                continue
        if isinstance(node, ast.Attribute):
            try:
                return evaluate(node.value, frame)
            except Unknown:
                return None
        return None

    def _is_read(self, use: Use, array: Any, frame: FrameType) -> bool:
        """Return whether elements are read: an index of all dimensions reads one, other uses depend on the function."""
        if use.callee is not None:
            return uses_elements(use.callee, frame)
        return use.used or array.ndim == 0

    def _access(self, array: Any, kind: Kind, node: ast.expr, frame: FrameType) -> None:
        recorder = self._recorder
        assert recorder is not None
        block = recorder.session.blocks.find(byte_bounds(array)[0])
        if block is None and self.everything:
            block = recorder.block(array, frame)
        if block is None or not block.is_on_host or not (block.log or block.undefined or self.everything):
            return
        where = Where(frame.f_code.co_filename, node.lineno, node.col_offset, node.end_lineno or 0,
                      node.end_col_offset or 0)  # fmt: skip
        self.access(array_ranges(array), kind, where)

    def access(self, ranges: Ranges, kind: Kind, where: Where | None) -> None:
        """Record an access of the host."""
        recorder = self._recorder
        assert recorder is not None
        made = recorder.session.access(ranges, kind, where, host=recorder.host, name="host")
        if kind == "read":
            self.check_defined(ranges, made)
        recorder.notify()

    def check_defined(self, ranges: Ranges, reader: Operation) -> None:
        """Report the first uninitialized bytes of a read."""
        recorder = self._recorder
        assert recorder is not None
        for first, end in zip(ranges.starts.tolist(), ranges.ends.tolist(), strict=True):
            found = recorder.session.find_undefined(first, end)
            if found is not None:
                entry, low, high = found
                block = recorder.session.blocks.find(low)
                assert block is not None
                block.undefined.remove(entry)
                report_undefined(Undefined(entry.operation, reader, block, low, high))
                break

    def result_use(self, frame: FrameType | None, where: Where | None) -> tuple[bool, ast.expr | None]:
        """Return whether the line uses the result of the call at a location at once, and the index if there is one."""
        lines = None if frame is None or where is None else self._lines(frame.f_code.co_filename)
        if lines is None or where is None:
            return False, None
        return lines.calls.get((where.line, where.column, where.end_line, where.end_column), (False, None))


def uses_elements(callee: ast.expr, frame: FrameType) -> bool:
    """Return whether a function reads the elements of its arguments: the program's own are traced, wsemu's are not
    accesses of the host."""
    if isinstance(callee, (ast.Subscript, ast.Lambda)):
        return False  # a launch, or the program's own function
    try:
        function = evaluate(callee, frame)
    except Unknown:
        name = callee.attr if isinstance(callee, ast.Attribute) else ""
        return name not in ("copy_to_host", "copy_to_device", "append", "add_callback", "setdefault")
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType):
        own = (function.__module__ or "").startswith("wsemu")
        return not own and is_library(function.__code__.co_filename)
    if getattr(function, "__name__", "") in UNUSED:
        return False
    if isinstance(function, BuiltinFunctionType):
        return True
    if isinstance(function, type):
        return function.__module__ in ("builtins", "numpy")
    return not type(function).__module__.startswith("wsemu")


watcher = Watcher()
