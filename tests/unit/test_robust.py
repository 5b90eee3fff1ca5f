"""Which cycles of strong accesses more than interleavings can show."""

from __future__ import annotations

import pytest

from wsemu.proof.robust import EVERYWHERE, IN_CLUSTER, IN_CTA, NOWHERE, Pair, Strong, weak

X, Y = (-1, 0), (-1, 4)


def pair(thread: int, first: str, second: str, *, takes: bool = False, gives: bool = False, sc: bool = False) -> Pair:
    """Of accesses such as `Wx`, `Ry`, `Ax`."""
    made = [
        Strong(thread, X if text[1] == "x" else Y, text[0] in "RA", text[0] in "WA", n)
        for n, text in enumerate((first, second))
    ]
    acquire, release, sequential = (EVERYWHERE if given else NOWHERE for given in (takes or sc, gives or sc, sc))
    return Pair(made[0], made[1], acquire, release, sequential)


def told(*pairs: Pair) -> bool:
    return weak(pairs, {access for p in pairs for access in (p.first, p.second)}) is not None


@pytest.mark.parametrize("sc", [(False, False), (True, False), (True, True)])
def test_store_buffering_takes_both_fences(sc: tuple[bool, bool]) -> None:
    found = told(
        pair(0, "Wx", "Ry", takes=True, gives=True, sc=sc[0]), pair(1, "Wy", "Rx", takes=True, gives=True, sc=sc[1])
    )
    assert found == (sc != (True, True))


def test_messages_need_release_and_acquire() -> None:
    assert told(pair(0, "Wx", "Wy"), pair(1, "Ry", "Rx"))
    assert told(pair(0, "Wx", "Wy", gives=True), pair(1, "Ry", "Rx"))
    assert told(pair(0, "Wx", "Wy"), pair(1, "Ry", "Rx", takes=True))
    assert not told(pair(0, "Wx", "Wy", gives=True), pair(1, "Ry", "Rx", takes=True))


def test_load_buffering_needs_them_too() -> None:
    assert told(pair(0, "Rx", "Wy"), pair(1, "Ry", "Wx"))
    assert not told(pair(0, "Rx", "Wy", takes=True, gives=True), pair(1, "Ry", "Wx", takes=True, gives=True))


def test_places_in_one_order_make_no_cycle() -> None:
    assert not told(pair(0, "Ax", "Ay"), pair(1, "Ax", "Ay"), pair(2, "Ax", "Ry"))


def test_one_place_or_one_thread_makes_no_cycle() -> None:
    assert not told(pair(0, "Wx", "Ax"), pair(1, "Rx", "Wx"))
    assert not told(pair(0, "Wx", "Ry"), pair(0, "Wy", "Rx"))


def test_independent_reads_take_sequential_fences() -> None:
    reads = [pair(2, "Rx", "Ry", takes=True, gives=True), pair(3, "Ry", "Rx", takes=True, gives=True)]
    writes = {Strong(0, X, reads=False, writes=True, pc=9), Strong(1, Y, reads=False, writes=True, pc=9)}
    accesses = {access for p in reads for access in (p.first, p.second)} | writes
    assert weak(reads, accesses) is not None
    assert weak([p._replace(sequential=EVERYWHERE) for p in reads], accesses) is None


def test_fences_count_among_threads_that_they_reach() -> None:
    pairs = [pair(n, *said)._replace(takes=IN_CTA, gives=IN_CTA, sequential=IN_CTA)
             for n, said in enumerate((("Wx", "Ry"), ("Wy", "Rx")))]  # fmt: skip
    accesses = {access for p in pairs for access in (p.first, p.second)}
    assert weak(pairs, accesses, lambda threads: IN_CTA) is None
    assert weak(pairs, accesses, lambda threads: IN_CLUSTER) is not None
    assert weak(pairs, accesses) is not None


def test_messages_are_ordered_where_both_fences_reach() -> None:
    sent, taken = pair(0, "Wx", "Wy")._replace(gives=IN_CLUSTER), pair(1, "Ry", "Rx")._replace(takes=IN_CTA)
    accesses = {access for p in (sent, taken) for access in (p.first, p.second)}
    assert weak([sent, taken], accesses, lambda threads: IN_CTA) is None
    assert weak([sent, taken], accesses, lambda threads: IN_CLUSTER) is not None
