"""What `model/effects.py` says of operations is what the rest of wsemu says of them."""

from __future__ import annotations

import pytest

from wsemu.checkers import words
from wsemu.evidence import places, unreached
from wsemu.launch import running, same_values, tracing, transfer
from wsemu.launch.explore import replays
from wsemu.launch.replay import copies
from wsemu.launch.replay import machine as replayed
from wsemu.machine import run
from wsemu.model import introduced
from wsemu.model.effects import EFFECTS, Effects, effects_of, find_names, find_opcodes, find_words
from wsemu.model.isa import CP_ASYNC, NAMES, OPCODE, OPERATIONS, step_word
from wsemu.proof import taint, taint_steps


def test_every_operation_has_a_row():
    assert EFFECTS.keys() == OPERATIONS.keys()


def test_a_row_without_a_field_is_an_error():
    row = EFFECTS["bulk.load"]
    with pytest.raises(TypeError):
        Effects(*row[:-1])


def test_old_tables():
    for name, row in EFFECTS.items():
        old = introduced._needs(name)
        if old != tuple(row.family):
            print("since", name, old, row.family)
    words_ = {step_word(n) for n in NAMES if OPERATIONS[n].kind == "async"}
    for w in sorted(words_):
        row = effects_of(w)
        if words._NOUNS.get(w, row.noun) != row.noun:
            print("noun", w)
        if words._VERBS.get(w, "uses") != row.verb:
            print("verb", w)
        if replayed._KINDS.get(w, row.event) != row.event:
            print("event", w)
        kind = row.event if row.event in ("arrive_on", "await", "copy", "landed") else "mbarrier"
        if tracing._KINDS.get(w, "mbarrier") != kind:
            print("step", w, tracing._KINDS.get(w), kind)
    print("loads", set(words.LOADS) ^ find_words(lambda r: r.moves.credits))
    print("stores", set(words.STORES) ^ find_words(lambda r: r.group == "bulk" and r.moves.agent and not r.moves.combines), same_values.STORES)
    print("sync", unreached.SYNCHRONIZATION ^ find_names(lambda r: r.orders))
    print("places", {n for n in NAMES if n.startswith(places._COPIES)} ^ find_names(lambda r: r.moves.agent and r.moves.writes))
    print("taint", {NAMES[n] for n in taint.REDUCES} ^ find_names(lambda r: r.moves.combines and r.moves.agent))
    print("steps", set(taint_steps._COPIES) ^ find_names(lambda r: r.moves.agent and r.moves.unit == "bytes"), taint_steps._FROM_NOWHERE)
    print("run", run._BULK ^ find_opcodes(lambda r: r.moves.proxy == "async"), run._TILES ^ find_opcodes(lambda r: r.moves.unit == "tile"))
    print("running", running._OF_CLUSTERS ^ find_opcodes(lambda r: r.reach == "cluster"))
    print("transfer", transfer.COPIES ^ find_names(lambda r: r.moves.agent and r.moves.writes))
    print("updates", copies.UPDATES, find_words(lambda r: r.moves.combines))
    print("followed", {n for n in NAMES if OPERATIONS[n].kind == "async" and n.startswith(replays._FOLLOWED)} ^ find_names(lambda r: r.reach == "cta" and r.group != "wgmma" and r.moves.unit in ("", "bytes", "zeros") and r.meets != "fence") )
