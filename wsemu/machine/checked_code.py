"""The LLVM code of a self-checking build of the VM, see `checked`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from wsemu.machine.checked import CHECKED, PLACE, ROOM

I8, I64 = ir.IntType(8), ir.IntType(64)
_MESSAGE = "wsemu: compiled code accesses memory that it was not given (WSEMU_CHECKED)"


def builder_at_end(block: Any) -> Any:
    """Return a builder that appends LLVM code to a block."""
    return _Checking(block) if CHECKED else ir.IRBuilder(block)


class _Checking(ir.IRBuilder):  # type: ignore[misc]  # llvmlite has no types
    """Adds a call before each load and store of memory."""

    def load(self, ptr: Any, name: str = "", align: Any = None, **more: Any) -> Any:
        self._check(ptr, more.get("typ"), writes=False)
        return super().load(ptr, name, align, **more)

    def store(self, value: Any, ptr: Any, align: Any = None) -> Any:
        self._check(ptr, value.type, writes=True)
        return super().store(value, ptr, align)

    def atomic_rmw(self, op: Any, ptr: Any, val: Any, ordering: Any, name: str = "") -> Any:
        self._check(ptr, val.type, writes=True)
        return super().atomic_rmw(op, ptr, val, ordering, name)

    def cmpxchg(self, ptr: Any, cmp: Any, val: Any, *more: Any, **named: Any) -> Any:
        self._check(ptr, val.type, writes=True)
        return super().cmpxchg(ptr, cmp, val, *more, **named)

    def _check(self, ptr: Any, type_: Any, *, writes: bool) -> None:
        root = ptr
        while isinstance(root, ir.instructions.GEPInstr) or getattr(root, "opname", "") == "bitcast":
            root = root.operands[0] if getattr(root, "opname", "") == "bitcast" else root.pointer
        if isinstance(root, (ir.instructions.AllocaInstr, ir.GlobalVariable)):
            return
        size = _bytes(type_ if type_ is not None else ptr.type.pointee)
        address = self.ptrtoint(ptr, I64)
        self.call(_checker(self.module), [address, I64(size), I64(ROOM // 2 if writes else 0)])


def _bytes(t: Any) -> int:
    if isinstance(t, ir.VectorType):
        bits: int = t.count * (t.element.width if isinstance(t.element, ir.IntType) else 8 * _bytes(t.element))
        return max(1, bits // 8)
    if isinstance(t, ir.IntType):
        width: int = t.width
        return max(1, width // 8)
    return 8 if isinstance(t, ir.PointerType) else {"half": 2, "float": 4, "double": 8}[str(t)]


def _checker(module: Any) -> Any:
    """Return the function `check(address, size, table)` of a module."""
    found = module.globals.get("wsemu.check")
    if found is not None:
        return found
    made = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64, I64]), "wsemu.check")
    made.linkage = "internal"
    made.attributes.add("noinline")
    address, size, half = made.args
    entry, loop, step, done, fine, wrong = (made.append_basic_block(n) for n in ("a", "l", "s", "d", "f", "w"))
    b = ir.IRBuilder(entry)

    def number(place: Any) -> Any:
        return b.load(b.inttoptr(place, I64.as_pointer()))

    table = b.add(number(I64(PLACE)), half)
    count = number(table)
    b.branch(loop)
    b.position_at_end(loop)
    low, high = b.phi(I64), b.phi(I64)
    b.cbranch(b.icmp_signed("<", low, high), step, done)
    b.position_at_end(step)
    middle = b.lshr(b.add(low, high), I64(1))
    begins = number(b.add(table, b.add(b.shl(middle, I64(4)), I64(8))))
    before = b.icmp_signed("<=", begins, address)
    more, less = b.select(before, b.add(middle, I64(1)), low), b.select(before, high, middle)
    b.branch(loop)
    for phi, first, next_ in ((low, I64(0), more), (high, count, less)):
        phi.add_incoming(first, entry)
        phi.add_incoming(next_, step)
    b.position_at_end(done)
    some = b.icmp_signed(">", low, I64(0))
    # an empty table has its count there, which is lower than any address
    end = number(b.add(table, b.add(b.shl(b.select(some, b.sub(low, I64(1)), I64(0)), I64(4)), I64(16))))
    b.cbranch(b.and_(some, b.icmp_signed("<=", b.add(address, size), end)), fine, wrong)
    b.position_at_end(fine)
    b.ret_void()
    b.position_at_end(wrong)
    text = bytearray(_MESSAGE.encode() + b"\0")
    message = ir.GlobalVariable(module, ir.ArrayType(I8, len(text)), "wsemu.message")
    message.linkage, message.global_constant = "internal", True
    message.initializer = ir.Constant(message.value_type, text)
    stop = ir.Function(module, ir.FunctionType(ir.VoidType(), [I8.as_pointer()]), "Py_FatalError")
    b.call(stop, [b.bitcast(message, I8.as_pointer())])
    b.unreachable()
    return made
