"""What `wsemu.between` decides of random programs, compared with all executions of an operational model.

    python benchmarks/between.py --programs 100000 --seconds 600 --workers 16 --seed 0

Two generators: host programs on a legacy, two blocking and a non-blocking stream, with events, waits of the host, host
accesses and frees; and chains of launches with programmatic stream serialization.  `missed` counts programs with a
race of which none was reported, `false` counts reported pairs that no execution has the other way round.
"""

from __future__ import annotations

import argparse
import random
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from wsemu.between.operations import Access, Ranges, Where
from wsemu.between.order import Event
from wsemu.between.session import Conflict, Dependence, Session

STREAMS = {0: "legacy", 1: "blocking", 2: "blocking", 3: "nonblocking"}
Step = tuple[Any, ...]


# -- streams, events, copies, frees ------------------------------------------------------------------------------------
def host_program(r: random.Random) -> list[Step]:
    """Return random steps; bytes 0 to 2 are memory of the host, 3 to 5 of the device."""
    out: list[Step] = []
    freed: set[int] = set()
    for _ in range(r.randint(4, 9)):
        k, stream, event = r.random(), r.choice(list(STREAMS)), r.randrange(2)
        live = [b for b in range(6) if b not in freed]
        if k < 0.5:
            reads, writes = (frozenset(r.sample(live, r.randint(0, 1))) for _ in range(2))
            out.append(("op", stream, reads, writes))
        elif k < 0.62:
            out.append(("record", stream, event))
        elif k < 0.74:
            out.append(("wait", stream, event))
        elif k < 0.80:
            out.append(("sync", stream))
        elif k < 0.85:
            out.append(("esync", event))
        elif k < 0.87:
            out.append(("dsync",))
        elif k < 0.92 and len(live) > 2:
            victim = r.choice(live)
            freed.add(victim)
            out.append(("free", r.choice([None, stream]), victim))
        else:
            own = [b for b in live if b < 3]
            out.append(("host", frozenset(own[:1]) if r.random() < 0.5 else frozenset(), frozenset(own[-1:])))
    return out


def reported_pairs(program: list[Step]) -> set[tuple[int, int]]:
    """Return the pairs of steps that a session reports."""
    found: set[tuple[int, int]] = set()

    def report(conflict: Conflict) -> None:
        assert conflict.earlier.where is not None
        assert conflict.later.where is not None
        found.add((conflict.earlier.where.line, conflict.later.where.line))

    session = Session(report)
    streams = {0: session.legacy} | {n: session.order.add_stream(kind, f"s{n}") for n, kind in STREAMS.items() if n}  # type: ignore[arg-type]
    events = [Event(f"e{n}") for n in range(2)]
    blocks = [session.allocate(8 * b, 8 * b + 8, "pinned" if b < 3 else "device", f"b{b}") for b in range(6)]
    for n, (does, *rest) in enumerate(program):
        where = Where("program", n)
        if does in ("op", "host"):
            reads, writes = rest[-2:]
            accesses = [Access("read", Ranges.single(8 * b, 8 * b + 8)) for b in reads]
            accesses += [Access("write", Ranges.single(8 * b, 8 * b + 8)) for b in writes]
            if does == "op":
                session.launch(streams[rest[0]], f"op {n}", where, accesses)
            else:
                session.touch(session.order.append(session.order.host, "host", "host", where), accesses)
        elif does == "free":
            session.free(blocks[rest[1]], stream=None if rest[0] is None else streams[rest[0]], where=where)
        elif does == "record":
            session.record(events[rest[1]], streams[rest[0]], where)
        elif does == "wait":
            session.wait_event(events[rest[1]], streams[rest[0]], where)
        else:
            session.synchronize({"sync": streams, "esync": events}[does][rest[0]] if rest else None)  # type: ignore[index]
    return found


def swapped_pairs(program: list[Step]) -> set[tuple[int, int]]:
    """Return the pairs of steps that some execution performs in the other order: streams are queues."""
    last: dict[int, int | None] = dict.fromkeys(STREAMS)
    record: dict[int, int] = {}
    needs: dict[int, set[Any]] = {}
    blocks: dict[int, set[Any]] = {}
    for i, (does, *rest) in enumerate(program):
        if does in ("op", "record", "wait") or (does == "free" and rest[0] is not None):
            stream = rest[0]
            before = {last[stream]}
            if stream == 0:
                before |= {last[1], last[2]}
            elif STREAMS[stream] == "blocking":
                before.add(last[0])
            if does == "wait" and rest[1] in record:
                before.add(record[rest[1]])
            needs[i], last[stream] = before - {None}, i
            if does == "record":
                record[rest[1]] = i
        elif does == "sync":
            blocks[i] = {last[s] for s in ((0, 1, 2) if rest[0] == 0 else (rest[0],))} - {None}
        elif does == "esync":
            blocks[i] = {record[rest[0]]} if rest[0] in record else set()
        elif does == "dsync":
            blocks[i] = {*last.values()} - {None}
    swapped: set[tuple[int, int]] = set()
    seen: set[Any] = set()
    stack: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
    while stack:
        state = at, done = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        if at < len(program):
            if at in blocks:
                if blocks[at] <= done:
                    stack.append((at + 1, done))
            elif at in needs:
                stack.append((at + 1, done))
            else:
                swapped |= {(i, at) for i in needs if i < at and i not in done}
                stack.append((at + 1, done | {at}))
        for i, before in needs.items():
            if i < at and i not in done and before <= done:
                swapped |= {(k, i) for k in needs if k < i and k not in done}
                stack.append((at, done | {i}))
    return swapped


def touched_bytes(step: Step) -> tuple[frozenset[int], frozenset[int]]:
    """Return the bytes that a step reads and those that it writes."""
    if step[0] == "free":
        return frozenset(), frozenset({step[2]})
    return (step[-2], step[-1]) if step[0] in ("op", "host") else (frozenset(), frozenset())


def compare_host(seed: int) -> tuple[int, int, int]:
    """Return whether a program has a race, whether all were missed, and the number of false reports."""
    program = host_program(random.Random(seed))
    swapped, races = swapped_pairs(program), set()
    for b, later in enumerate(program):
        for a, earlier in enumerate(program[:b]):
            (r1, w1), (r2, w2) = touched_bytes(earlier), touched_bytes(later)
            if (a, b) in swapped and (w1 & (r2 | w2) or r1 & w2):
                races.add((a, b))
    reported = reported_pairs(program)
    return bool(races), bool(races) and not reported, len(reported - races)


# -- chains of dependent launches --------------------------------------------------------------------------------------
def chain(r: random.Random) -> list[tuple[bool, list[list[Step]]]]:
    """Return launches, with the attribute or without, of CTAs of one thread: accesses, a trigger, a wait."""
    out = []
    for k in range(r.randint(2, 4)):
        ctas = []
        for _ in range(r.randint(1, 2)):
            body: list[Step] = [("access", r.randrange(2), r.random() < 0.5) for _ in range(r.randint(0, 2))]
            if r.random() < 0.5:
                body.insert(r.randint(0, len(body)), ("trigger",))
            if k and r.random() < 0.6:
                body.insert(r.randint(0, len(body)), ("wait",))
            ctas.append(body)
        out.append((k > 0 and r.random() < 0.85, ctas))
    return out


def reported_launches(launches: list[tuple[bool, list[list[Step]]]]) -> set[tuple[int, int]]:
    """Return the pairs of launches that a session reports."""
    found: set[tuple[int, int]] = set()

    def report(conflict: Conflict) -> None:
        assert conflict.earlier.where is not None
        assert conflict.later.where is not None
        found.add((conflict.earlier.where.line, conflict.later.where.line))

    session = Session(report)
    stream = session.order.add_stream("blocking", "s")
    for b in range(2):
        session.allocate(8 * b, 8 * b + 8, "device", f"b{b}")
    for n, (dependent, ctas) in enumerate(launches):
        accesses: list[Access] = []
        first = []
        for body in ctas:
            after = False
            for step in body:
                after |= step[0] == "wait"
                if step[0] == "access":
                    kind, byte = "write" if step[2] else "read", 8 * step[1]
                    part = ("after" if after else "before") if dependent else ""
                    accesses.append(Access(kind, Ranges.single(byte, byte + 8), part))  # type: ignore[arg-type]
            names = [step[0] for step in body]
            first.append("wait" in names and ("trigger" not in names or names.index("wait") < names.index("trigger")))
        waits = dependent and any(("wait",) in body for body in ctas)
        known = Dependence(waits, dependent and any(first))
        session.launch(
            stream, f"launch {n}", Where("chain", n), accesses, dependent=dependent,
            dependence=lambda known=known: known,  # type: ignore[misc]
        )  # fmt: skip
    return found


def racing_launches(launches: list[tuple[bool, list[list[Step]]]]) -> set[tuple[int, int]]:
    """Return the pairs of launches with accesses that some execution leaves without order."""
    begun0 = tuple(int(k == 0) for k in range(len(launches)))  # 1: begun, 2: complete, and performed in memory
    at0 = tuple(tuple(0 for _ in ctas) for _, ctas in launches)
    seen: set[Any] = set()
    stack = [(at0, begun0)]
    out: set[tuple[int, int]] = set()
    while stack:
        state = at, begun = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        for k, (dependent, ctas) in enumerate(launches):
            if not begun[k]:
                if not begun[k - 1]:
                    continue
                previous = launches[k - 1][1]
                reached = [(body, at[k - 1][c]) for c, body in enumerate(previous)]
                ready = all(("trigger",) in body[:n] or n == len(body) for body, n in reached)
                if ready if dependent else all(begun[j] == 2 for j in range(k)):
                    stack.append((at, (*begun[:k], 1, *begun[k + 1 :])))
                continue
            if begun[k] == 1 and all(at[k][c] == len(body) for c, body in enumerate(ctas)):
                stack.append((at, (*begun[:k], 2, *begun[k + 1 :])))
            for c, body in enumerate(ctas):
                n = at[k][c]
                if n == len(body) or (body[n] == ("wait",) and dependent and begun[k - 1] != 2):
                    continue
                step = body[n]
                if step[0] == "access":
                    for j in (j for j in range(k) if begun[j] != 2):
                        others = (one for other in launches[j][1] for one in other if one[0] == "access")
                        if any(one[1] == step[1] and (one[2] or step[2]) for one in others):
                            out.add((j, k))
                row = (*at[k][:c], n + 1, *at[k][c + 1 :])
                stack.append(((*at[:k], row, *at[k + 1 :]), begun))
    return out


def compare_chain(seed: int) -> tuple[int, int, int]:
    """Return whether a chain has a race, whether all were missed, and the number of false reports."""
    launches = chain(random.Random(seed))
    races, reported = racing_launches(launches), reported_launches(launches)
    return bool(races), bool(races) and not reported, len(reported - races)


# -- campaigns ---------------------------------------------------------------------------------------------------------
COMPARISONS = {"streams": compare_host, "chains": compare_chain}


def compare_some(what: str, first: int, count: int, end: float) -> tuple[int, int, int, int, list[int]]:
    """Compare consecutive seeds until a time; return programs, races, missed, false reports, seeds that disagree."""
    done = races = missed = wrong = 0
    bad: list[int] = []
    for seed in range(first, first + count):
        if time.time() > end:
            break
        race, miss, false = COMPARISONS[what](seed)
        done, races, missed, wrong = done + 1, races + race, missed + miss, wrong + false
        if miss or false:
            bad.append(seed)
    return done, races, missed, wrong, bad


def main() -> int:
    """Run both comparisons; return 1 if one disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=3000, help="of each kind")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = False
    for what in COMPARISONS:
        end = time.time() + given.seconds / len(COMPARISONS)
        share = -(-given.programs // given.workers)
        with ProcessPoolExecutor(given.workers) as pool:
            parts = [pool.submit(compare_some, what, given.seed + n * share, share, end) for n in range(given.workers)]
            found = [part.result() for part in parts]
        done, races, missed, wrong = (sum(one[k] for one in found) for k in range(4))  # type: ignore[misc]
        seeds = sorted(seed for one in found for seed in one[4])
        failed |= bool(seeds)
        print(f"{what}: {done:,} programs, {races:,} with races; missed {missed}, false {wrong}; seeds {seeds[:5]}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
