"""Findings between launches: the two operations, the bytes, and an order of the operations that shows the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.finding import Finding, Site

if TYPE_CHECKING:
    from wsemu.between.graphs import Violation
    from wsemu.between.operations import Access, Operation, Where
    from wsemu.between.session import Conflict, Undefined
    from wsemu.model.finding import Severity

_HAZARDS = {"read": "read", "constant": "read", "write": "write", "atomic": "write"}
_VERBS = {
    "read": "reads", "constant": "loads through the read-only cache", "write": "writes", "atomic": "updates",
    "free": "frees", "allocate": "allocates",
}  # fmt: skip
_PDL = "the launch has programmatic stream serialization, so it may begin while earlier launches run"


def conflict_finding(conflict: Conflict) -> Finding:
    """Return the finding of a conflict."""
    one, two = conflict.earlier, conflict.later
    old, new = conflict.earlier_access, conflict.later_access
    name = f"`{conflict.block.name}`"
    sites = [*_sites(one, old, name, "(1) ", primary=False), *_sites(two, new, name, "(2) ", primary=True)]
    notes = [_bytes_note(conflict), *_notes(conflict)]
    return Finding(
        code=conflict.code,
        message=_title(conflict, name),
        severity=_severity(conflict),
        sites=sites,
        notes=notes,
        help=_help(conflict),
        schedule=_schedule(conflict, name),
    )


def fence_note(conflict: Conflict) -> str:
    """Return the note of a read that only a fence before a trigger orders."""
    two, one = _subject(conflict.later), _subject(conflict.earlier)
    return (
        f"{two} reads `{conflict.block.name}` without a wait: only a fence before the trigger of {one} makes its "
        "stores visible, which CUDA's headers promise and the PTX ISA does not"
    )


def undefined_finding(undefined: Undefined) -> Finding:
    """Return the finding of a read of bytes that nothing has written."""
    copy, reader, block = undefined.copy, undefined.reader, undefined.block
    size = undefined.end - undefined.first
    sites = [] if copy.where is None else [_site(copy.where, "(1) copied to the host, not written before", False)]
    if reader is not None and reader.where is not None:
        sites.append(_site(reader.where, "(2) used here", True))
    elif sites:
        sites[0] = sites[0].model_copy(update={"primary": True, "text": "copied and used here"})
    return Finding(
        code="uninitialised-device-read",
        message=f"{copy.name} has bytes that nothing wrote since their allocation",
        sites=sites,
        notes=[
            f"{size:,} bytes from byte {undefined.first - block.first:,} on keep what was in the memory of the GPU"
        ],
        help="launch enough threads for all elements, or fill the array first",
    )  # fmt: skip


def violation_finding(violation: Violation) -> Finding:
    """Return the finding of a call that a capture forbids."""
    where = violation.where
    return Finding(
        code="capture-violation",
        message=f"{violation.message} (error {violation.error})",
        sites=[] if where is None else [_site(where, "called here", True)],
        notes=["the capture is invalid from here on, and its end returns an error"],
        help=_ADVICE.get(violation.error),
    )


_ADVICE = {
    900: "move the call out of the capture",
    902: "end one capture before the other one begins",
    903: "end the capture in the stream in which it began",
    904: "record an event in the forked stream, and let the origin wait for it before the capture ends",
    905: "record the event inside of the capture, or wait for it before the capture begins",
    906: "use a stream that is captured, or one made with `cudaStreamNonBlocking`",
}


def _title(conflict: Conflict, name: str) -> str:
    one, two = conflict.earlier, conflict.later
    old, new = conflict.earlier_access, conflict.later_access
    if conflict.code == "freed-in-use":
        if old.kind == "free":
            return f"{_subject(two)} {_VERBS[new.kind]} {name} after it is freed"
        return f"{name} is freed while {_subject(one)} may still access it"
    if conflict.code == "stale-capture":
        return f"{_subject(two)} uses {name}, which was freed after the capture"
    if conflict.code == "use-before-alloc":
        return f"{_subject(two)} may access {name} before it is allocated"
    if conflict.code == "managed-access":
        return f"the host accesses managed memory {name} while {_subject(one)} may run"
    if conflict.code in ("missing-pdl-wait", "pdl-transitive"):
        verb = "read" if old.kind in ("read", "constant") else "written"
        return f"{_subject(two)} {_VERBS[new.kind]} {name} before {_subject(one)} is known to have {verb} it"
    if conflict.code == "proxy":
        return (
            f"{_subject(two)} copies {name} before its wait, without a proxy fence after the stores of {_subject(one)}"
        )
    if conflict.code == "pdl-nc":
        return f"{_subject(two)} loads {name} through the read-only cache while {_subject(one)} may write it"
    hazard = f"{_HAZARDS[new.kind]}-after-{_HAZARDS[old.kind]}"
    return f"{hazard} hazard on {name} between {_subject(one)} and {_subject(two)}"


def _subject(operation: Operation) -> str:
    if operation.does == "host":
        return "the host" if operation.name == "host" else f"the {operation.name}"
    return f"the {operation.name}"


def _sites(operation: Operation, access: Access, name: str, mark: str, *, primary: bool) -> list[Site]:
    """Return the labels of an operation: its line on the host, and its line in a kernel."""
    verb = _VERBS[access.kind]
    sites = []
    if operation.where is not None:
        stream = f" in {operation.stream}" if operation.stream else ""
        sites.append(_site(operation.where, f"{mark}{_subject(operation)}{stream} {verb} {name}", primary))
    if access.at is not None:
        sites.append(Site.at(access.at, f"{mark}{verb} {name}", primary=primary))
    return sites


def _site(where: Where, text: str, primary: bool) -> Site:
    return Site(
        file=where.file,
        line=where.line,
        column=where.column + 1,
        end_line=where.end_line or where.line,
        end_column=(where.end_column or where.column) + 1,
        text=text,
        primary=primary,
    )


def _bytes_note(conflict: Conflict) -> str:
    first, block = conflict.first - conflict.block.first, conflict.block
    return f"both touch bytes {first:,} to {conflict.end - block.first - 1:,} of `{block.name}`"


def _notes(conflict: Conflict) -> list[str]:
    one, two = conflict.earlier, conflict.later
    if conflict.code == "missing-pdl-wait":
        return [f"{_PDL}; a trigger is not an order of memory"]
    if conflict.code == "pdl-transitive":
        return [f"{_PDL}; the launch between them never waits, so its end does not include theirs"]
    if conflict.code == "proxy":
        return [f"{_PDL}; a fence before the trigger makes stores visible to loads, and not to the asynchronous proxy"]
    if conflict.code == "pdl-nc":
        return [f"{_PDL}; `ld.global.nc` needs bytes that are read-only for the whole kernel, also after the wait"]
    if conflict.code == "managed-access":
        return ["without concurrent managed access, a host access during any launch is a fault"]
    notes = []
    if one.pageable or two.pageable:
        notes.append("memory that is not pinned: drivers usually finish this copy before they return, which CUDA does "
                     "not promise")  # fmt: skip
    if _severity(conflict) == "warning":
        notes.append("`cudaFree` waits for the device in practice; CUDA does not promise it")
    return notes


def _severity(conflict: Conflict) -> Severity:
    frees = conflict.later_access.kind == "free" and not conflict.later.stream
    return "warning" if conflict.code == "freed-in-use" and frees and conflict.block.kind == "device" else "error"


def _help(conflict: Conflict) -> str:
    one, two = conflict.earlier, conflict.later
    match conflict.code:
        case "host-race":
            what = f"the {one.name}" if one.stream else f"the {two.name}"
            return f"synchronize with {one.stream or two.stream} between {what} and the access of the host"
        case "freed-in-use":
            return _help_to_free(conflict)
        case "stale-capture":
            return "keep the memory until the last launch of the graph, or capture the graph again"
        case "use-before-alloc":
            return f"let {two.stream or 'the host'} wait for an event recorded after the allocation"
        case "missing-pdl-wait":
            return "execute `griddepcontrol.wait` before the access in every thread, or drop the attribute"
        case "pdl-transitive":
            return "execute `griddepcontrol.wait` in the launch between them, or launch it without the attribute"
        case "proxy":
            return "add `fence.proxy.async.global` before the trigger, or `griddepcontrol.wait` before the copy"
        case "pdl-nc":
            return "load with `ld.global` (`volatile`, or without `const ... __restrict__`)"
        case "managed-access":
            return "synchronize with the device before the host accesses managed memory"
    if one.graph and one.graph == two.graph:
        return f"add an edge from the {one.name} to the {two.name}, or record an event between them in a capture"
    return f"record an event in {one.stream} after the {one.name}, and let {two.stream} wait for it"


def _help_to_free(conflict: Conflict) -> str:
    """Return the help for memory that is freed too early: a wait before the free, or a later free."""
    one, two = conflict.earlier, conflict.later
    if conflict.earlier_access.kind == "free":
        return f"free the memory after {_subject(two)}"
    if one.stream and two.stream:
        ordered = f"record an event in {one.stream} after {_subject(one)}, and let {two.stream} wait for it"
        return f"{ordered} before the free"
    return f"synchronize with {one.stream or 'the device'} before the memory is freed"


def _schedule(conflict: Conflict, name: str) -> list[str]:
    """Return the order that shows the conflict: the later operation runs first."""
    one, two = conflict.earlier, conflict.later
    if conflict.code in ("managed-access", "stale-capture") or conflict.earlier_access.kind == "free":
        return []
    order = [(two, conflict.later_access, "(2)"), (one, conflict.earlier_access, "(1)")]
    return [
        f"{mark} {operation.stream or 'host'}{_line(operation)}: {_subject(operation)} {_VERBS[access.kind]} {name}"
        for operation, access, mark in order
    ]


def _line(operation: Operation) -> str:
    return "" if operation.where is None else f", line {operation.where.line}"
