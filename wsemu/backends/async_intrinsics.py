"""The asynchronous instructions of `wsemu.ptx` for Numba-CUDA: each name is one instruction, whose text is in `FORMS`.

Addresses in shared memory have 32 bits, those in global memory 64 bits.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import errors

from wsemu.backends.intrinsics import (
    I8,
    I32,
    I64,
    VOID,
    data_pointer,
    element_pointer,
    emit,
    intrinsic,
    is_none,
    literal,
)
from wsemu.backends.tensor_maps import TensorMapType
from wsemu.language import async_names as names
from wsemu.language import ptx_names, tensor_names
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

SHARED, GLOBAL = 3, 1
"""LLVM's address spaces"""


class Form(NamedTuple):
    """An instruction.  `<bar>` is the address of an element and `<count>` a number; `<, count>` is omitted if the call
    has none.  `$p` is a predicate and `$0` the result."""

    text: str
    returns: str = ""
    """result of the instruction: token, count or predicate"""
    dst: int = SHARED
    src: int = GLOBAL
    """memory spaces of the source arrays"""


_WAIT = "mbarrier.{}_wait{}.shared::cta.b64 $p, [<bar>], <{}>{};"
_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [<dst>], [<src>], <bytes>, [<bar>];"
_ELECT = "elect.sync _|$p, <mask>;"


def _waits() -> dict[str, Form]:
    found = {}
    for suffix, kind, phase in (("", "", "token"), ("_parity", ".parity", "parity")):
        found[f"mbarrier_test_wait{suffix}"] = Form(_WAIT.format("test", kind, phase, ""), "predicate")
        found[f"mbarrier_try_wait{suffix}"] = Form(_WAIT.format("try", kind, phase, "<, hint>"), "predicate")
        once = _WAIT.format("try", kind, phase, "")
        found[f"mbarrier_wait{suffix}"] = Form(f"again: {once} @!$p bra again;")
    return found


FORMS = {
    "mbarrier_init": Form("mbarrier.init.shared::cta.b64 [<bar>], <count>;"),
    "mbarrier_inval": Form("mbarrier.inval.shared::cta.b64 [<bar>];"),
    "mbarrier_arrive": Form("mbarrier.arrive.shared::cta.b64 $0, [<bar>]<, count>;", "token"),
    "mbarrier_arrive_relaxed": Form("mbarrier.arrive.relaxed.cta.shared::cta.b64 $0, [<bar>]<, count>;", "token"),
    "mbarrier_arrive_no_complete": Form("mbarrier.arrive.noComplete.shared::cta.b64 $0, [<bar>], <count>;", "token"),
    "mbarrier_arrive_drop": Form("mbarrier.arrive_drop.shared::cta.b64 $0, [<bar>]<, count>;", "token"),
    "mbarrier_arrive_expect_tx": Form("mbarrier.arrive.expect_tx.shared::cta.b64 $0, [<bar>], <bytes>;", "token"),
    "mbarrier_arrive_drop_expect_tx": Form(
        "mbarrier.arrive_drop.expect_tx.shared::cta.b64 $0, [<bar>], <bytes>;", "token"
    ),
    "mbarrier_expect_tx": Form("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [<bar>], <bytes>;"),
    "mbarrier_complete_tx": Form("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [<bar>], <bytes>;"),
    **_waits(),
    "mbarrier_pending_count": Form("mbarrier.pending_count.b64 $0, <token>;", "count"),
    "cp_async_ca": Form("cp.async.ca.shared.global [<dst>], [<src>], <bytes><, src_bytes>;"),
    "cp_async_cg": Form("cp.async.cg.shared.global [<dst>], [<src>], <bytes><, src_bytes>;"),
    "cp_async_commit_group": Form("cp.async.commit_group;"),
    "cp_async_wait_group": Form("cp.async.wait_group <n>;"),
    "cp_async_wait_all": Form("cp.async.wait_all;"),
    "cp_async_mbarrier_arrive": Form("cp.async.mbarrier.arrive.shared::cta.b64 [<bar>];"),
    "cp_async_mbarrier_arrive_noinc": Form("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [<bar>];"),
    "cp_async_bulk_global_to_shared": Form(_LOAD),
    "cp_async_bulk_shared_to_global": Form(
        "cp.async.bulk.global.shared::cta.bulk_group [<dst>], [<src>], <bytes>;", dst=GLOBAL, src=SHARED
    ),
    **{
        f"cp_reduce_async_bulk_{what}": Form(
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{what}.<type> [<dst>], [<src>], <bytes>;",
            dst=GLOBAL, src=SHARED,
        )
        for what in names.REDUCTIONS
    },
    "cp_async_bulk_commit_group": Form("cp.async.bulk.commit_group;"),
    "cp_async_bulk_wait_group": Form("cp.async.bulk.wait_group <n>;"),
    "cp_async_bulk_wait_group_read": Form("cp.async.bulk.wait_group.read <n>;"),
    "cp_async_bulk_prefetch_l2": Form("cp.async.bulk.prefetch.L2.global [<src>], <bytes>;"),
    "st_bulk": Form("st.bulk.weak.shared::cta [<dst>], <bytes>, 0;"),
    "fence_proxy_async": Form("fence.proxy.async;"),
    "fence_proxy_async_shared_cta": Form("fence.proxy.async.shared::cta;"),
    "fence_proxy_async_global": Form("fence.proxy.async.global;"),
    "fence_mbarrier_init": Form("fence.mbarrier_init.release.cluster;"),
    "elect_sync": Form(_ELECT, "predicate"),
    "setmaxnreg_inc": Form("setmaxnreg.inc.sync.aligned.u32 <count>;"),
    "setmaxnreg_dec": Form("setmaxnreg.dec.sync.aligned.u32 <count>;"),
    "griddepcontrol_wait": Form("griddepcontrol.wait;"),
    "griddepcontrol_launch_dependents": Form("griddepcontrol.launch_dependents;"),
}  # fmt: skip
_TILE = "[<tmap>, <coordinates>]"
_OUTWARD = "global.shared::cta{}.tile.bulk_group"
FORMS |= {
    "cp_async_bulk_tensor_global_to_shared": Form(
        "cp.async.bulk.tensor.<rank>.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[<dst>], {_TILE}, [<bar>];"
    ),
    "cp_async_bulk_tensor_shared_to_global": Form(
        f"cp.async.bulk.tensor.<rank>.{_OUTWARD.format('')} {_TILE}, [<src>];", src=SHARED
    ),
    **{
        f"cp_reduce_async_bulk_tensor_{what}": Form(
            f"cp.reduce.async.bulk.tensor.<rank>.{_OUTWARD.format('.' + what)} {_TILE}, [<src>];", src=SHARED
        )
        for what in names.REDUCTIONS
    },
    "cp_async_bulk_prefetch_tensor": Form(f"cp.async.bulk.prefetch.tensor.<rank>.L2.global.tile {_TILE};"),
    "prefetch_tensormap": Form("prefetch.tensormap [<tmap>];"),
}
_FAR, _AXIS = "shared::cluster", re.compile("_(?=[xyz]$)")
_TELLS = "mbarrier::complete_tx::bytes"
_MASKED = "{{ .reg .b16 mask; cvt.u16.u32 mask, <ctas>; {} mask; }}"
"""template for instructions with a mask of CTAs, which has 16 bits"""
FORMS |= {
    **{name: Form(f"mov.u32 $0, %{_AXIS.sub('.', name)};", "count") for name in names.CLUSTER_REGISTERS},
    "cluster_arrive": Form("barrier.cluster.arrive;"),
    "cluster_arrive_relaxed": Form("barrier.cluster.arrive.relaxed;"),
    "cluster_wait": Form("barrier.cluster.wait;"),
    "cluster_sync": Form("barrier.cluster.arrive; barrier.cluster.wait;"),
    "mbarrier_arrive_cluster": Form(f"mbarrier.arrive.release.<scope>.{_FAR}.b64 _, [<bar>]<, count>;"),
    "mbarrier_arrive_drop_cluster": Form(f"mbarrier.arrive_drop.release.cluster.{_FAR}.b64 _, [<bar>]<, count>;"),
    "mbarrier_arrive_expect_tx_cluster": Form(
        f"mbarrier.arrive.expect_tx.release.cluster.{_FAR}.b64 _, [<bar>], <bytes>;"
    ),
    "mbarrier_expect_tx_cluster": Form(f"mbarrier.expect_tx.relaxed.cluster.{_FAR}.b64 [<bar>], <bytes>;"),
    "mbarrier_complete_tx_cluster": Form(f"mbarrier.complete_tx.relaxed.cluster.{_FAR}.b64 [<bar>], <bytes>;"),
    "cp_async_bulk_global_to_shared_multicast": Form(_MASKED.format(
        f"cp.async.bulk.{_FAR}.global.{_TELLS}.multicast::cluster [<dst>], [<src>], <bytes>, [<bar>],"
    )),
    "cp_async_bulk_shared_to_cluster": Form(
        f"cp.async.bulk.{_FAR}.shared::cta.{_TELLS} [<dst>], [<src>], <bytes>, [<bar>];", src=SHARED
    ),
    "cp_async_bulk_tensor_global_to_shared_multicast": Form(_MASKED.format(
        f"cp.async.bulk.tensor.<rank>.{_FAR}.global.tile.{_TELLS}.multicast::cluster [<dst>], {_TILE}, [<bar>],"
    )),
    "st_async": Form(f"st.async.{_FAR}.{_TELLS}.<bits> [<dst>], <value>, [<bar>];"),
    **{
        f"red_async_{what}": Form(
            f"red.async.relaxed.cluster.{_FAR}.{_TELLS}.{what}.<reduced> [<dst>], <value>, [<bar>];"
        )
        for what in names.REDUCTIONS
    },
}  # fmt: skip
FORMS |= {f"{name}_bytes": FORMS[name] for name in (
    "cp_async_ca", "cp_async_cg", "cp_async_bulk_global_to_shared", "cp_async_bulk_shared_to_global",
    "cp_async_bulk_tensor_global_to_shared",
)}  # fmt: skip
TENSOR_FORMS = {
    "tcgen05_alloc": Form("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [<words>], <columns>;"),
    "tcgen05_dealloc": Form("tcgen05.dealloc.cta_group::1.sync.aligned.b32 <address>, <columns>;"),
    **{name: Form(text) for name, text in tensor_names.PLAIN.items()},
    "tcgen05_commit": Form("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [<bar>];"),
    **{
        f"tcgen05_mma_{kind}{suffix}": Form(
            f"{{ .reg .pred adds; setp.ne.b32 adds, <add>, 0; tcgen05.mma.cta_group::1.kind::{kind} [<d>], "
            f"{a}, <b>, <idesc>, adds; }}"
        )
        for kind in tensor_names.KINDS for suffix, a in (("", "<a>"), ("_tmem", "[<a>]"))
    },
}  # fmt: skip
"""PTX of each instruction on tensor memory, by its name"""
FORMS |= TENSOR_FORMS
_ARRAYS = {"bar": ("index", "k"), "dst": ("i", "dst_offset"), "src": ("j", "src_offset"), "words": ("index",)}
"""parameter with an array -> names of the parameters for its index and its byte offset"""
_ELEMENTS = {"bar": (types.uint64, types.int64), "words": (types.uint32, types.int32)}
"""parameter with an array -> types that its elements may have"""
_RESULTS = {
    "": (types.void, VOID, []), "token": (types.uint64, I64, ["=l"]), "count": (types.int32, I32, ["=r"]),
    "predicate": (types.boolean, I32, ["=r"]),
}  # fmt: skip
_CONSTANT = {
    "n", *((name, "bytes") for name in names.COPY_BYTES), ("setmaxnreg_inc", "count"), ("setmaxnreg_dec", "count"),
}  # fmt: skip
"""operands that are part of the instruction; a pair names one instruction and its operand"""
_WIDE = {
    ("st_bulk", "bytes"), *((name, "token") for name in FORMS),
    *((f"tcgen05_mma_{kind}", operand) for kind in tensor_names.KINDS for operand in "ab"),
    *((f"tcgen05_mma_{kind}_tmem", "b") for kind in tensor_names.KINDS),
}  # fmt: skip
"""(name, operand) of operands with 64 bits"""


# -- types -----------------------------------------------------------------------------------------------------------
def _check_array(name: str, given: dict[str, Any], parameter: str) -> None:
    kind, index = given[parameter], given[_given_index(given, parameter)]
    if not isinstance(kind, types.Array) or not isinstance(kind.dtype, (types.Number, types.Boolean)):
        raise errors.TypingError(f"ptx.{name}: {kind}: give an array of numbers")
    allowed = _ELEMENTS.get(parameter)
    if allowed and kind.dtype not in allowed:
        raise errors.TypingError(f"ptx.{name}: {kind}: give a shared array of {allowed[0]}")
    if _given_index(given, parameter).endswith("_offset"):
        return
    count = len(index) if isinstance(index, types.BaseTuple) else 1
    if count != kind.ndim:
        raise errors.TypingError(f"ptx.{name}: {kind.ndim} dimensions and {count} indices: give one for each")


def _given_index(given: dict[str, Any], parameter: str) -> str:
    return next(index for index in _ARRAYS[parameter] if index in given)


def _check_number(name: str, parameter: str, kind: Any) -> None:
    """Raise UsageError for an operand that the instruction cannot have.

    It is not a TypingError, because Numba suppresses that one and tries again.
    """
    what, value = names.operand_text(name, parameter), literal(kind)
    if not isinstance(kind, (types.Integer, types.Boolean) if parameter == "add" else types.Integer):
        raise errors.TypingError(f"{what} is {kind}: give an integer")
    if value is None:
        if parameter in _CONSTANT or (name, parameter) in _CONSTANT:
            raise errors.TypingError(f"{what} must be a constant integer")
        return
    if name in names.COPY_BYTES and parameter == "bytes":
        if value not in names.COPY_BYTES[name]:
            raise UsageError(f"ptx.{name} of {value} bytes: it copies {names.COPY_BYTES[name]} bytes")
        return
    allowed = (names.ALLOWED | tensor_names.ALLOWED).get(name, {}).get(parameter)
    if allowed is not None and value not in allowed:
        raise UsageError(f"{what} is {value}: {names.operand_range_text(allowed)}")


def _check(name: str, given: dict[str, Any]) -> None:
    indices = {index for found in _ARRAYS.values() for index in found}
    for parameter, kind in given.items():
        if parameter in _ARRAYS:
            _check_array(name, given, parameter)
        elif parameter == "tmap":
            _check_tile(name, kind, given.get("coordinates"))
        elif parameter == "scope":
            if not is_none(kind) and literal(kind) not in ("cta", "cluster"):
                raise errors.TypingError(f'ptx.{name}: the scope {kind}: give "cta" or "cluster"')
        elif parameter not in (*indices, "coordinates", "value") and not is_none(kind):
            _check_number(name, parameter, kind)
    if "value" in given:
        _sent_type(name, given)
    if name.startswith("cp_reduce") and "tmap" not in given:
        _reduced_type(name, given)


def _check_tile(name: str, map_: Any, coordinates: Any) -> None:
    if not isinstance(map_, TensorMapType):
        raise errors.TypingError(f"ptx.{name}: {map_}: give a tensor map")
    kinds = _coordinates(coordinates) if coordinates is not None else [types.int32] * map_.rank
    if len(kinds) != map_.rank or not all(isinstance(kind, types.Integer) for kind in kinds):
        raise errors.TypingError(f"ptx.{name}: a map of {map_.rank} dimensions, coordinates {coordinates}")


def _coordinates(kind: Any) -> list[Any]:
    """Return the types of coordinates, which are one number or a tuple."""
    return list(kind) if isinstance(kind, types.BaseTuple) else [kind]


def _reduced_type(name: str, given: dict[str, Any]) -> str:
    """Return PTX's spelling of the type that a reduction works on."""
    what = name.rpartition("_")[2]
    mine, theirs = (str(given[parameter].dtype) for parameter in ("dst", "src"))
    if mine != theirs:
        raise errors.TypingError(f"ptx.{name}: {mine} and {theirs}: give arrays of one type")
    found = names.REDUCTIONS[what].types.get(mine)
    if found is None:
        raise errors.TypingError(f"ptx.{name} of {mine}: it works on {', '.join(names.REDUCTIONS[what].types)}")
    return f"noftz.{found}" if (what, found) == ("add", "f16") else found


def _sent_type(name: str, given: dict[str, Any]) -> str:
    """Return PTX's spelling of the type of data sent to another CTA: its bits, or the operand type of a reduction."""
    kind, what = given["dst"].dtype, name.rpartition("_")[2]
    bits = kind.bitwidth if isinstance(kind, (types.Integer, types.Float)) else 0
    if what == "async":
        found: str | None = f"b{bits}" if bits in (32, 64) else None
    else:
        found = names.REDUCTIONS[what].types.get(str(kind))
        found = None if found is None or found.startswith(("f", "bf")) else found
    if found is None:
        raise errors.TypingError(f"ptx.{name} on an array of {kind}: it works on numbers of 32 or 64 bits")
    return found


# -- code ------------------------------------------------------------------------------------------------------------
class _Statement:
    """An inline assembly statement, while its operands are collected."""

    def __init__(self, name: str, context: Any, builder: Any, given: dict[str, Any], values: dict[str, Any]) -> None:
        self.name, self.form = name, FORMS[name]
        self.context, self.builder = context, builder
        self.given, self.values = given, values
        self.registers: list[Any] = []

    def register(self, value: Any) -> str:
        self.registers.append(value)
        return f"${len(self.registers) - 1 + bool(self.form.returns)}"

    def operand(self, found: re.Match[str]) -> str:
        """Return the PTX operand for `<parameter>`."""
        comma, parameter = found.groups()
        if parameter == "type":
            return _reduced_type(self.name, self.given)
        if parameter == "rank":
            return f"{self.given['tmap'].rank}d"
        if parameter == "tmap":
            return self.register(self.values["tmap"])
        if parameter == "coordinates":
            return self.coordinates()
        if parameter in ("bits", "reduced"):
            return _sent_type(self.name, self.given)
        if parameter == "scope":
            return str(literal(self.given["scope"]) or "cluster")
        if parameter == "value":
            return self.value()
        if is_none(self.given[parameter]):
            return ""
        text = self.address(parameter) if parameter in _ARRAYS else self.number(parameter)
        return f"{comma or ''}{text}"

    def address(self, parameter: str) -> str:
        index = _given_index(self.given, parameter)
        array = self.context, self.builder, self.given[parameter], self.values[parameter]
        kind, value = types.unliteral(self.given[index]), self.values[index]
        if index.endswith("_offset"):
            distance = self.context.cast(self.builder, value, kind, types.intp)
            pointer = self.builder.gep(data_pointer(*array), [distance])
        else:
            pointer = element_pointer(*array, kind, value)
        space = {"dst": self.form.dst, "src": self.form.src}.get(parameter, SHARED)
        inside = self.builder.addrspacecast(pointer, ir.PointerType(I8, space))
        return self.register(self.builder.ptrtoint(inside, I32 if space == SHARED else I64))

    def number(self, parameter: str) -> str:
        kind = self.given[parameter]
        known = literal(kind)
        if known is not None:
            return str(int(known))
        wide = (self.name, parameter) in _WIDE
        to = types.uint64 if wide else types.uint32
        return self.register(self.context.cast(self.builder, self.values[parameter], kind, to))

    def value(self) -> str:
        """Return the stored value, as the bits of an element."""
        to = self.given["dst"].dtype
        found = self.context.cast(self.builder, self.values["value"], types.unliteral(self.given["value"]), to)
        return self.register(self.builder.bitcast(found, I64 if to.bitwidth == 64 else I32))

    def coordinates(self) -> str:
        """Return the operand `{x, y}` of a tensor copy."""
        kind, value = self.given["coordinates"], self.values["coordinates"]
        kinds = _coordinates(kind)
        is_tuple = isinstance(kind, types.BaseTuple)
        items = [self.builder.extract_value(value, n) for n in range(len(kinds))] if is_tuple else [value]
        pairs = zip(items, kinds, strict=True)
        numbers = [self.context.cast(self.builder, item, types.unliteral(k), types.int32) for item, k in pairs]
        return f"{{{', '.join(map(self.register, numbers))}}}"

    def emit(self) -> Any:
        text = re.sub(r"<(, )?(\w+)>", self.operand, self.form.text)
        _, returns, results = _RESULTS[self.form.returns]
        if "$p" in text:
            answer = " selp.u32 $0, 1, 0, done;" if self.form.returns else ""
            text = f"{{ .reg .pred done; {text.replace('$p', 'done')}{answer} }}"
        constraints = [*results, *("l" if value.type == I64 else "r" for value in self.registers)]
        made = emit(self.builder, text, constraints, returns, self.registers)
        if self.form.returns == "predicate":
            return self.builder.icmp_unsigned("!=", made, I32(0))
        return made if self.form.returns else self.context.get_dummy_value()


def mapa() -> Any:
    """Return an array in the shared memory of another CTA: its generic address there."""

    def mapa(typingctx, ary, rank):  # type: ignore[no-untyped-def]
        if not isinstance(ary, types.Array) or not isinstance(rank, types.Integer):
            raise errors.TypingError(f"ptx.mapa: {ary}, {rank}: give a shared array and a rank")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            made = context.make_array(signature.args[0])(context, builder, args[0])
            to = context.cast(builder, args[1], signature.args[1], types.uint32)
            here = builder.ptrtoint(made.data, I64)
            there = emit(builder, "mapa.u64 $0, $1, $2;", ["=l", "l", "r"], I64, [here, to])
            made.data = builder.inttoptr(there, made.data.type)
            return made._getvalue()

        return ary(ary, types.unliteral(rank)), codegen

    return intrinsic(mapa)


def make(name: str) -> Any:
    """Return the intrinsic with a name; its parameters are those of the kernel function."""
    if name == "mapa":
        return mapa()
    parameters = ptx_names.FUNCTIONS[name].signature.partition("(")[2].rstrip(")")
    signature = inspect.signature(eval(f"lambda typingctx, {parameters}: None"))
    order = list(signature.parameters)[1:]
    result = _RESULTS[FORMS[name].returns][0]

    def infer_type(typingctx: Any, *arguments: Any, **named: Any) -> Any:
        given = dict.fromkeys(order, types.none) | signature.bind(typingctx, *arguments, **named).arguments
        del given["typingctx"]
        given = {parameter: types.none if kind is None else kind for parameter, kind in given.items()}
        _check(name, given)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _Statement(name, context, builder, given, dict(zip(order, args, strict=True))).emit()

        return result(*(given[parameter] for parameter in order)), codegen

    infer_type.__signature__ = signature  # type: ignore[attr-defined]
    infer_type.__name__ = name
    return intrinsic(infer_type)
