"""Compare what `wsemu.between` decides for random programs with all executions of an operational model.

    python benchmarks/between.py --programs 100000 --seconds 600 --workers 16 --seed 0

There are three generators.  The first generates host programs on a legacy, two blocking and a non-blocking stream, with
events, host waits, host accesses and frees.  The second generates chains of launches with programmatic stream
serialization.  The third generates such chains whose threads execute fences and barriers.  `missed` counts programs
with a race of which none was reported; `false` counts reported pairs that no execution has in the opposite order.
"""

from __future__ import annotations

import argparse
import random
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from wsemu.between.operations import Access, Ranges, Where
from wsemu.between.order import Event as HostEvent
from wsemu.between.session import Conflict, Dependence, Session
from wsemu.launch.dependents import Dependents, published_stores
from wsemu.model.isa import GRID_TRIGGER, GRID_WAIT, OPCODE
from wsemu.model.outcome import Event

STREAMS = {0: "legacy", 1: "blocking", 2: "blocking", 3: "nonblocking"}
Step = tuple[Any, ...]


# -- streams, events, copies, frees ------------------------------------------------------------------------------------
def host_program(r: random.Random) -> list[Step]:
    """Return random steps; bytes 0 to 2 are host memory, bytes 3 to 5 are device memory."""
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
    events = [HostEvent(f"e{n}") for n in range(2)]
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
    """Return the pairs of steps that some execution performs in the opposite order; streams are queues."""
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
    """Return the bytes that a step reads, and those that it writes."""
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
Launches = list[tuple[bool, list[list[list[Step]]]]]
"""for each launch: whether it has the attribute; its CTAs, threads and steps"""


def chain(r: random.Random) -> Launches:
    """Return launches of CTAs of one thread: accesses, a trigger, a wait."""
    out = []
    for k in range(r.randint(2, 4)):
        ctas = []
        for _ in range(r.randint(1, 2)):
            body: list[Step] = [("access", r.randrange(2), r.random() < 0.5) for _ in range(r.randint(0, 2))]
            if r.random() < 0.5:
                body.insert(r.randint(0, len(body)), ("trigger",))
            if k and r.random() < 0.6:
                body.insert(r.randint(0, len(body)), ("wait",))
            ctas.append([body])
        out.append((k > 0 and r.random() < 0.85, ctas))
    return out


def fenced_chain(r: random.Random) -> Launches:
    """Return launches of CTAs of one or two threads, with fences and barriers as well."""
    out = []
    for k in range(r.randint(2, 3)):
        ctas = []
        for _ in range(r.randint(1, 2)):
            barriers = r.randint(0, 2)
            threads = [fenced_thread(r, barriers, k) for _ in range(r.randint(1, 2))]
            ctas.append(threads)
            if len(threads) == 2:
                break
        out.append((k > 0 and r.random() < 0.85, ctas))
    return out


def fenced_thread(r: random.Random, barriers: int, launch: int) -> list[Step]:
    """Return the steps of a thread; all threads of a CTA have the same number of barriers."""
    body: list[Step] = [("access", r.randrange(2), r.random() < 0.5) for _ in range(r.randint(0, 2))]
    body += [("barrier",)] * barriers
    r.shuffle(body)
    for chance, step in ((0.6, ("fence",)), (0.15, ("fence",)), (0.5, ("trigger",)), (0.4 * (launch > 0), ("wait",))):
        if r.random() < chance:
            body.insert(r.randint(0, len(body)), step)
    return body


_CODE = ("wait", "trigger", "store", "load")
"""instructions of the traces that this module generates"""


class ThreadProgram:
    """As much of a program as `launch.dependents` reads."""

    code = np.zeros((len(_CODE), 8), np.int64)
    code[:, 0] = [OPCODE["show"], OPCODE["show"], OPCODE["st.b32"], OPCODE["ld.b32"]]
    code[:, 7] = [GRID_WAIT, GRID_TRIGGER, 0, 0]


def trace_events(ctas: list[list[list[Step]]]) -> list[Event]:
    """Return the events of a run of CTAs, with each thread in its own warp; the `amount` of an access is its event
    number."""
    events: list[Event] = []
    for cta, threads in enumerate(ctas):
        at = [0] * len(threads)
        generation = 0
        while any(n < len(body) for n, body in zip(at, threads, strict=True)):
            for warp, body in enumerate(threads):
                while at[warp] < len(body) and body[at[warp]][0] != "barrier":
                    events.append(thread_event(cta, warp, body[at[warp]]))
                    at[warp] += 1
            if all(n < len(body) for n, body in zip(at, threads, strict=True)):
                for warp in range(len(threads)):
                    events.append(Event("sync", cta, warp, 0, 0, place=0, generation=generation))
                    at[warp] += 1
                events.append(Event("complete", cta, len(threads) - 1, 0, 0, place=0, generation=generation))
                generation += 1
    return events


def thread_event(cta: int, warp: int, step: Step) -> Event:
    """Return the event of a step of a thread."""
    if step[0] == "fence":
        return Event("fence.gpu", cta, warp, 0, 0, place=1, lanes=0)
    name = ("store" if step[2] else "load") if step[0] == "access" else step[0]
    return Event("access", cta, warp, 0, _CODE.index(name), lanes=1, amount=step[1] if step[0] == "access" else 0)


def reported_launches(launches: Launches) -> set[tuple[int, int]]:
    """Return the pairs of launches that a session reports."""
    found: set[tuple[int, int]] = set()

    def report(conflict: Conflict) -> None:
        assert conflict.earlier.where is not None
        assert conflict.later.where is not None
        if not conflict.only_fence:
            found.add((conflict.earlier.where.line, conflict.later.where.line))

    session = Session(report)
    stream = session.order.add_stream("blocking", "s")
    for b in range(2):
        session.allocate(8 * b, 8 * b + 8, "device", f"b{b}")
    for n, (dependent, ctas) in enumerate(launches):
        events = trace_events(ctas)
        program: Any = ThreadProgram
        published = published_stores(program, events, int)
        waits = Dependents(program, int)
        accesses: list[Access] = []
        for number, event in enumerate(events):
            after = waits.follow(event)
            if event.kind == "access" and _CODE[event.pc] in ("store", "load"):
                part = ("after" if after & 1 else "before") if dependent else ""
                kind, byte = "write" if _CODE[event.pc] == "store" else "read", 8 * event.amount
                visible = "generic" if number in published else ""
                accesses.append(Access(kind, Ranges.single(byte, byte + 8), part, visible=visible))  # type: ignore[arg-type]
        known = Dependence(dependent and waits.waits, dependent and waits.waits_first)
        session.launch(
            stream, f"launch {n}", Where("chain", n), accesses, dependent=dependent,
            dependence=lambda known=known: known,  # type: ignore[misc]
        )  # fmt: skip
    return found


def racing_launches(launches: Launches) -> set[tuple[int, int]]:
    """Return the pairs of launches with accesses that some execution leaves without order."""
    begun0 = tuple(int(k == 0) for k in range(len(launches)))  # 1: begun, 2: complete, and performed in memory
    at0 = tuple(tuple(tuple(0 for _ in threads) for threads in ctas) for _, ctas in launches)
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
                ready = all(map(lets_begin, launches[k - 1][1], at[k - 1]))
                if ready if dependent else all(begun[j] == 2 for j in range(k)):
                    stack.append((at, (*begun[:k], 1, *begun[k + 1 :])))
                continue
            if begun[k] == 1 and all(map(has_ended, ctas, at[k])):
                stack.append((at, (*begun[:k], 2, *begun[k + 1 :])))
            for c, threads in enumerate(ctas):
                for t, body in enumerate(threads):
                    n = at[k][c][t]
                    if n == len(body) or (body[n] == ("wait",) and dependent and begun[k - 1] != 2):
                        continue
                    if body[n] == ("barrier",) and not all_arrive(threads, at[k][c], body[:n].count(("barrier",))):
                        continue
                    if body[n][0] == "access":
                        unfinished = (j for j in range(k) if begun[j] != 2)
                        out |= {(j, k) for j in unfinished if races(body[n], launches[j][1], at[j])}
                    row = (*at[k][c][:t], n + 1, *at[k][c][t + 1 :])
                    there = (*at[k][:c], row, *at[k][c + 1 :])
                    stack.append(((*at[:k], there, *at[k + 1 :]), begun))
    return out


def has_ended(threads: list[list[Step]], at: tuple[int, ...]) -> bool:
    """Return whether all threads of a CTA are at their end."""
    return all(n == len(body) for body, n in zip(threads, at, strict=True))


def lets_begin(threads: list[list[Step]], at: tuple[int, ...]) -> bool:
    """Return whether a thread of a CTA has triggered, or all have ended."""
    return has_ended(threads, at) or any(("trigger",) in body[:n] for body, n in zip(threads, at, strict=True))


def all_arrive(threads: list[list[Step]], at: tuple[int, ...], number: int) -> bool:
    """Return whether all threads of a CTA have reached their barrier of a number."""
    for body, n in zip(threads, at, strict=True):
        passed = body[:n].count(("barrier",))
        if passed < number or (passed == number and body[n : n + 1] != [("barrier",)]):
            return False
    return True


def races(step: Step, ctas: list[list[list[Step]]], at: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether an access conflicts with an access of an unfinished launch that is not visible yet."""
    for threads, reached in zip(ctas, at, strict=True):
        for t, body in enumerate(threads):
            for n, one in enumerate(body):
                if one[0] != "access" or one[1] != step[1] or not (one[2] or step[2]):
                    continue
                if step[2] or not one[2] or not is_performed(threads, reached, t, n):
                    return True
    return False


def is_performed(threads: list[list[Step]], at: tuple[int, ...], thread: int, number: int) -> bool:
    """Return whether a fence that a store is ordered before has been executed: by its thread, or after a barrier that
    follows the store.  The end of a CTA that never triggers makes nothing visible."""
    if not any(("trigger",) in body for body in threads):
        return False
    barrier = threads[thread][:number].count(("barrier",))
    for t, body in enumerate(threads):
        first = number
        if t != thread:
            places = [n for n, step in enumerate(body) if step == ("barrier",)]
            first = places[barrier] if barrier < len(places) else len(body)
        if ("fence",) in body[first : at[t]]:
            return True
    return False


def compare_launches(launches: Launches) -> tuple[int, int, int]:
    """Return whether a chain has a race, whether all were missed, and the number of false reports."""
    races, reported = racing_launches(launches), reported_launches(launches)
    return bool(races), bool(races) and not reported, len(reported - races)


def compare_chain(seed: int) -> tuple[int, int, int]:
    """Compare a chain of launches whose CTAs have one thread each."""
    return compare_launches(chain(random.Random(seed)))


def compare_fenced_chain(seed: int) -> tuple[int, int, int]:
    """Compare a chain whose threads have fences and barriers."""
    return compare_launches(fenced_chain(random.Random(seed)))


# -- campaigns ---------------------------------------------------------------------------------------------------------
COMPARISONS = {"streams": compare_host, "chains": compare_chain, "fenced chains": compare_fenced_chain}


def compare_some(what: str, first: int, count: int, end: float) -> tuple[int, int, int, int, list[int]]:
    """Compare consecutive seeds until a time; return the numbers of programs, races, missed races and false reports,
    and the seeds that disagree."""
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
