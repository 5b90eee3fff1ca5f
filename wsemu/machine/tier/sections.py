"""Accesses of a CTA to its shared memory between two barriers of all its warps, a SECTION, are judged once.

After a barrier at which all lanes of all warps of a CTA have waited, all earlier accesses to its shared memory happen
before all later ones.  So the conflicts up to the next such barrier depend only on the accesses between them.  So where
they are the same ones, in the same order, as in a section before that had no conflict, they have none either.  Blocks
compare them with those of that section, one by one, instead of looking at cells.

Where another one follows than was FORESEEN, those that were compared and not judged are judged before it; so they are
before anything else that orders, or that the VM does to shared memory.  Until then no warp's clock has changed.  The
cells of sections that were only compared keep what they held before, all of which is known to all warps: they are
cleared before the next section that is judged.
That all bytes are written which a section loads is looked at each time: it hangs on what came before.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.lane_access import SCATTERED, UNIT, keep_steps, matches_steps, simple_pattern
from wsemu.machine.memory.plans import note_lanes_set, some_lane_unset
from wsemu.machine.memory.shadow_cells import highest_of, lowest_of, unit
from wsemu.machine.records import (
    access_at,
    call,
    foreseen_at,
    instruction_at,
    machine_at,
    noted_at,
    section_at,
    sections_at,
    segment_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, lowest_bit, popcount, store_i64
from wsemu.machine.state import BEATS, CHANGES, FOLLOWING, MADE, MAKES, MET, NOTHING, NOTING, NOWHERE, STARTS
from wsemu.machine.tier.accesses import HOST, HOW, KIND, KNOWN, all_lanes, note_words, some_lanes, some_word_unset
from wsemu.machine.tier.noted import (
    FORESEEN_BYTES,
    FULL,
    judge_access,
    judge_noted,
    number_of,
    repeat_count,
    start_noting,
)
from wsemu.machine.tier.periods import beat, change, leave, made_by_block, made_by_vm, stop
from wsemu.machine.tier.section_tables import BY_VM, PC_SHIFT, WARP_SHIFT
from wsemu.model.isa import FIRST_STORE, LANES, OFFSET_MASK, READ, SEGMENT_SHIFT, SHARED, WRITE

MIX = 0x2545F4914F6CDD1D
"""multiplier of the hash function"""
PATIENCE = 4
"""maximum number of mismatched beginnings of a section per match"""


@compiled
def clear(m, low, high):
    """Clear the cells of bytes of shared memory: all that they tell is known to all warps."""
    shared = segment_at(m.segments, SHARED)
    if shared.grain < 0:
        return
    for cell in range(max(low >> shared.grain, shared.low), min(((high - 1) >> shared.grain) + 1, shared.high)):
        store_i64(shared.writes + 8 * cell, 0)
        store_i64(shared.reads + 8 * cell, 0)


@compiled
def clear_stale(m, known):
    """Clear the cells that sections have touched which were only compared."""
    clear(m, known.stale_low, known.stale_high)
    known.stale_low = NOWHERE
    known.stale_high = 0


@compiled
def grow_stale(known, section):
    """Cells do not tell of a section."""
    known.stale_low = min(known.stale_low, section.low)
    known.stale_high = max(known.stale_high, section.high)


@compiled
def catch_up(m, known):
    """Judge the accesses that were foreseen; up to the next barrier the others are judged at once."""
    grow_stale(known, section_at(known.table, known.now))  # cells are as they were when it was noted
    clear_stale(m, known)
    one, end = known.start, m.foreseen
    m.section = NOTHING
    m.foreseen = known.foreseen
    while one != end:
        judge_noted(m, known, one)
        one += FORESEEN_BYTES


@compiled
def give_up(m, known):
    """Something else happens than was foreseen."""
    if m.beat:
        leave(m, known)
        return
    if m.section == FOLLOWING and m.foreseen != known.start:
        section_at(known.table, known.now).failed += 1
        catch_up(m, known)
    elif m.section == FOLLOWING:
        clear_stale(m, known)
    m.section = NOTHING
    m.foreseen = known.foreseen


@compiled
def worth(m, section):
    """Return whether a section may be followed: in CTAs that count as later ones, unless mostly others begin like it;
    and there is room for what its accesses take if they have to be judged."""
    if m.group < section.group or section.failed >= section.used + PATIENCE:
        return False
    if m.set_count + section.sets > m.set_room or m.element_count + section.elements > m.element_room:
        return False
    return m.moment_count + section.moments <= m.moment_room


@compiled
def follow(m, known, number):
    """A section is likely to come again."""
    known.now = number
    known.start = section_at(known.table, number).first
    m.foreseen = known.start


@compiled
def begin(m, known):
    """All warps have met, or begin."""
    shared = segment_at(m.segments, SHARED)
    known.spoilt = 0
    known.start = known.foreseen
    m.foreseen = known.foreseen
    m.section = FOLLOWING
    if m.by_lanes or shared.watched or m.suspects:
        clear_stale(m, known)
        m.section = NOTHING
        return
    if known.last < 0:
        return
    following = section_at(known.table, known.last).following
    if following >= 0 and worth(m, section_at(known.table, following)):
        follow(m, known, following)


@compiled
def count_part(m, known):
    """Count the accesses that were executed of a section that ended early."""
    one = known.start
    while one != m.foreseen:
        repeat_count(m, known, one, 1)
        one += FORESEEN_BYTES


@compiled
def came(known, number):
    """A section has come to its end."""
    if known.last >= 0:
        section_at(known.table, known.last).following = number
    known.last = number


@compiled
def keep_section(m, known):
    """Keep the recorded accesses as a section."""
    section = section_at(known.table, known.count)
    section.first = known.foreseen + FORESEEN_BYTES * known.accesses
    section.count = known.end - known.accesses
    section.following = -1
    section.group = m.group
    section.used = 0
    section.failed = 0
    section.uncounted = 0
    section.moments = m.moment_count - known.moments
    section.sets = m.set_count - known.sets
    section.elements = m.element_count - known.elements
    section.low = known.low
    section.high = known.high
    one, head = foreseen_at(section.first, 0), foreseen_at(known.heads, known.count)
    head.key = one.key & ~BY_VM
    head.first = one.first
    foreseen_at(known.foreseen, known.end).key = -1
    known.accesses = known.end + 1
    came(known, known.count)
    known.count += 1


@compiled
def end_section(m, known):
    """All warps have met."""
    if m.section == FOLLOWING and m.foreseen != known.start:
        section = section_at(known.table, known.now)
        grow_stale(known, section)
        if m.foreseen == section.first + FORESEEN_BYTES * section.count:
            section.used += 1
            section.uncounted += 1
            came(known, known.now)
        else:
            section.failed += 1
            count_part(m, known)
            known.last = -1
    elif m.section == NOTING and known.end > known.accesses and known.spoilt == 0 and m.suspects == 0:
        keep_section(m, known)
    elif m.section != FOLLOWING:
        known.last = -1


@compiled
def seek(m, known, key, first):
    """The first access of a section is other than was foreseen: follow one that begins so, or note a new one."""
    for number in range(known.count):
        head = foreseen_at(known.heads, number)
        if head.key == key and head.first == first and worth(m, section_at(known.table, number)):
            follow(m, known, number)
            return
    clear_stale(m, known)
    m.foreseen = known.foreseen
    known.start = known.foreseen
    if known.count == known.room or known.tries == known.most_tries:
        m.section = NOTHING
        return
    shared = segment_at(m.segments, SHARED)
    clear(m, 0, shared.bytes)
    known.tries += 1
    start_noting(m, known, known.accesses, known.access_room - known.accesses)


@compiled
def all_initialized(m, noted, first, lanes):
    """Return whether all bytes of a load are written; those of a store are, from now on."""
    shared = segment_at(m.segments, SHARED)
    if shared.initialised == 0:
        return True
    place, size = shared.initialised + (first & OFFSET_MASK), 1 << (noted.shape & 255)
    end = place + 4 * popcount(lanes)  # of some lanes, which lie one behind the other
    if noted.shape >> KIND & 1 == WRITE:
        if lanes == FULL:
            note_lanes_set(shared, place, noted.steps, size)
        else:
            note_words(shared, place, end)
        return True
    if lanes == FULL:
        return some_lane_unset(place, noted.steps, size) == 0
    return not some_word_unset(place, end)


@compiled
def is_block_access(kind, how, lanes):
    """Return whether blocks make such accesses without a closer look: where lanes that store lie apart, several may
    store to one place; and some lanes are side by side."""
    return how == UNIT or (kind == READ and lanes == FULL)


@compiled
def as_foreseen(m, known, key, steps, first, shape, lanes):
    """Return, if an access is the foreseen one, the host address of its first lane's bytes, and the lanes' pattern, or
    BY_VM if it is again left to the VM; otherwise 0."""
    one = foreseen_at(m.foreseen, 0)
    if one.key & ~BY_VM != key or one.first != first:
        return 0
    noted = noted_at(known.noted, number_of(known, m.foreseen))
    if noted.steps != steps and not matches_steps(steps, load_i64(steps + 8 * lowest_bit(lanes)), noted.steps, lanes):
        return 0
    if one.key & BY_VM and not is_block_access(noted.shape >> KIND & 1, noted.how, lanes):
        return BY_VM
    if not all_initialized(m, noted, first, lanes):
        return 0
    if m.beat and one.key & BY_VM:
        made_by_block(m, known, one)
    if shape >> KNOWN:  # as the block has them, from now on without a look
        one.key = key
        noted.steps = steps
    m.foreseen += FORESEEN_BYTES
    return segment_at(m.segments, SHARED).host + (first & OFFSET_MASK) | noted.how << HOW


@compiled
def steps_of(known, key, place, at):
    """Return where the distances of lanes from the first of them, whose address is `at`, are stored: mostly they equal
    the last ones; 0: there is no room."""
    lanes = key & FULL
    first = load_i64(place + 8 * lowest_bit(lanes))
    number = ((key ^ at * MIX) * MIX) >> 32 & known.latest_mask
    latest = known.latest + 8 * number
    steps = load_i64(latest)
    if steps and matches_steps(place, first, steps, lanes):
        return steps
    if known.step_count == known.step_room:
        return 0
    steps = known.steps + 8 * LANES * known.step_count
    known.step_count += 1
    keep_steps(place, first, steps)
    store_i64(latest, steps)
    return steps


@compiled
def note(m, known, key, place, first, shape, lanes, how, cost, ideal):
    """One more access of the section that is noted."""
    at = known.end
    steps = place if shape >> KNOWN and lanes == FULL else steps_of(known, key, place, first)
    if at + 1 >= known.limit or steps == 0:
        m.section = NOTHING
        return
    one, noted = foreseen_at(known.foreseen, at), noted_at(known.noted, at)
    one.key = key
    one.first = first
    noted.steps = steps
    noted.shape = shape
    noted.how = how
    noted.lanes = popcount(lanes)
    noted.shared = cost
    noted.ideal_shared = ideal
    known.end = at + 1
    offset, lane, size = first & OFFSET_MASK, lowest_bit(lanes), 1 << (shape & 255)
    known.low = min(known.low, offset + lowest_of(steps, lanes, lane))
    known.high = max(known.high, offset + highest_of(steps, lanes, lane) + size)


@compiled
def judge_and_note(m, known, w, pc, place, first, shape, lanes, key):
    """Judge an access that was not foreseen like any other, and note it in the section."""
    row = access_at(m.accesses, pc)
    shared, ideal = row.shared, row.ideal_shared
    lane = lowest_bit(lanes)
    found = judge_access(m, w, pc, place, first - load_i64(place + 8 * lane), shape, lanes)
    if m.section == NOTING and found:  # otherwise the VM makes it, and it is noted then
        how = found >> HOW
        note(m, known, key, place, first, shape, lanes, how, row.shared - shared, row.ideal_shared - ideal)
    return found


def judge_in_section(address, w, pc, place, imm, shape, lanes):
    """Judge an access to shared memory by lanes whose addresses lie at `place`, to which `imm` is added; where
    m.section is not NOTHING.  Gives what `judge_access` does; other parameters as of `accesses.any_way`."""
    m = machine_at(address, 0)
    known = sections_at(m.sections, 0)
    first = load_i64(place + 8 * lowest_bit(lanes)) + imm
    key = w << WARP_SHIFT | pc << PC_SHIFT | lanes
    if m.section == FOLLOWING and m.foreseen == known.start and m.beat == 0:
        one = foreseen_at(m.foreseen, 0)
        if one.key & ~BY_VM != key or one.first != first:
            seek(m, known, key, first)
    if m.section == FOLLOWING:
        found = as_foreseen(m, known, key, place, first, shape, lanes)
        if found:
            return found if found != BY_VM else 0
        give_up(m, known)
    return judge_and_note(m, known, w, pc, place, first, shape, lanes, key)


@compiled
def pattern_of(place, mask, log_size):
    """Return the pattern of lanes.  For part of a warp, it is UNIT if `accesses.some_side_by_side` performs such
    accesses: consecutive ones, of four bytes each."""
    if mask == FULL:
        return simple_pattern(place, 0, mask, log_size)
    lane = lowest_bit(mask)
    consecutive = mask >> lane == (1 << popcount(mask)) - 1
    if consecutive and log_size == 2 and unit(place, mask, lane, 2):
        return UNIT
    return SCATTERED


@compiled
def share(place, lanes, size):
    """Return whether two of these lanes access the same byte, `size` each."""
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        rest = lanes
        while rest:
            apart = load_i64(place + 8 * lowest_bit(rest)) - load_i64(place + 8 * lane)
            if apart < size and -apart < size:
                return True
            rest &= rest - 1
    return False


@compiled
def note_made(m, known, w, pc, mask):
    """The VM makes a load or store: of a block, which leaves the rare ones to it, or by itself."""
    i = instruction_at(m.code, pc)
    place = warp_at(m.warps, w).registers + i.a
    log_size = (i.aux >> 16) & 255
    kind = WRITE if i.op >= FIRST_STORE else READ
    how = pattern_of(place, mask, log_size)
    if i.aux & 255 != 1 << log_size or (m.beat == 0 and not is_block_access(kind, how, mask)):
        m.section = NOTHING  # blocks do not make such ones
        return
    if kind == WRITE and how != UNIT and share(place, mask, 1 << log_size):
        m.section = NOTHING  # whether their lanes are in conflict hangs on what they store
        return
    row = access_at(m.accesses, pc)
    first = load_i64(place + 8 * lowest_bit(mask)) + i.imm
    key = w << WARP_SHIFT | pc << PC_SHIFT | mask | BY_VM
    note(m, known, key, place, first, log_size | kind << KIND, mask, how, -row.shared, -row.ideal_shared)


@compiled
def made_as_foreseen(m, known, w, pc, mask):
    """The VM makes a load or store of a period that is followed: whether it is the one that was foreseen."""
    i, one = instruction_at(m.code, pc), foreseen_at(m.foreseen, 0)
    place = warp_at(m.warps, w).registers + i.a
    first = load_i64(place + 8 * lowest_bit(mask))
    if one.key & ~BY_VM != w << WARP_SHIFT | pc << PC_SHIFT | mask or one.first != first + i.imm:
        return False
    if not matches_steps(place, first, noted_at(known.noted, number_of(known, m.foreseen)).steps, mask):
        return False
    if one.key & BY_VM == 0:
        made_by_vm(m, known, one)
    m.foreseen += FORESEEN_BYTES
    return True


@compiled
def cost_made(m, known, pc):
    """It has made it: now it is known what that costs."""
    noted, row = noted_at(known.noted, known.end - 1), access_at(m.accesses, pc)
    noted.shared += row.shared
    noted.ideal_shared += row.ideal_shared


def enter_section_event(address, what, w, pc, mask):
    """Handle an event of a section, called by address (see BREAKS and so on).  The lanes `mask` of warp w perform the
    access at pc, the knowledge of the warps `mask` has changed, or some have met at barrier w.  Return 1 if an access
    need not be judged."""
    m = machine_at(address, 0)
    known = sections_at(m.sections, 0)
    if what == MAKES and m.section == NOTING:
        note_made(m, known, w, pc, mask)
    elif what == MAKES and m.section == FOLLOWING and m.beat and made_as_foreseen(m, known, w, pc, mask):
        return 1
    elif what == MADE:
        if m.section == NOTING:
            cost_made(m, known, pc)
    elif what == CHANGES:
        change(m, known, mask)
    elif what == BEATS:
        beat(m, known, w)
    elif what == MET:
        stop(m, known)
        end_section(m, known)
        begin(m, known)
    elif what == STARTS:
        m.beat = 0
        known.seen = 0
        known.last = -1
        begin(m, known)
    else:
        give_up(m, known)
    return 0


@compiled
def within(m, w, pc, place, imm, shape, lanes):
    """`judge_in_section`, which is a part of its own."""
    return call(m.within_entry, m.address, w, pc, place, imm, shape, lanes)


def either_way(address, w, pc, place, imm, shape):
    """An access by all lanes, as `accesses.any_way` makes it."""
    m = machine_at(address, 0)
    if m.section and (load_i64(place) + imm) >> SEGMENT_SHIFT == SHARED:
        return within(m, w, pc, place, imm, shape, FULL)
    return all_lanes(m, w, pc, place, imm, shape)


def some_either_way(address, w, pc, place, imm, lanes, kind):
    """An access by some lanes, as `accesses.some_side_by_side` makes it."""
    m = machine_at(address, 0)
    lane = lowest_bit(lanes)
    if m.section and (load_i64(place + 8 * lane) + imm) >> SEGMENT_SHIFT == SHARED:
        host = within(m, w, pc, place, imm, 2 | kind << KIND, lanes) & HOST
        return host - 4 * lane if host else host
    return some_lanes(m, w, pc, place, imm, lanes, kind)
