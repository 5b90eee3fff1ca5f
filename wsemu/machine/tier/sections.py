"""A SECTION is the accesses of a CTA to its shared memory between two barriers of all its warps; it is checked only
once.

After a barrier at which all lanes of all warps of a CTA have waited, all earlier accesses to its shared memory happen
before all later ones. So the conflicts up to the next such barrier depend only on the accesses in between. If these are
equal, and in the same order, to those of an earlier section without conflicts, then there are none. Blocks therefore
compare the accesses one by one with those of the earlier section, which are FORESEEN, instead of checking cells.

If another access follows than the foreseen one, the accesses that were only compared are checked first. The same
happens before any operation that orders memory, and before any access to shared memory by the VM. Until then, no warp's
clock has changed. The cells of sections that were only compared are stale: they contain accesses that all warps have
observed, and are cleared before the next section that is checked.

Uninitialized bytes are checked in every repetition, because they depend on what happened before the section.
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
    """Clear the cells of a range of shared memory, whose recorded accesses all warps have observed."""
    shared = segment_at(m.segments, SHARED)
    if shared.grain < 0:
        return
    for cell in range(max(low >> shared.grain, shared.low), min(((high - 1) >> shared.grain) + 1, shared.high)):
        store_i64(shared.writes + 8 * cell, 0)
        store_i64(shared.reads + 8 * cell, 0)


@compiled
def clear_stale(m, known):
    """Clear the stale cells: those that sections touched which were only compared."""
    clear(m, known.stale_low, known.stale_high)
    known.stale_low = NOWHERE
    known.stale_high = 0


@compiled
def grow_stale(known, section):
    """Mark the cells of a section as stale."""
    known.stale_low = min(known.stale_low, section.low)
    known.stale_high = max(known.stale_high, section.high)


@compiled
def catch_up(m, known):
    """Check the accesses that were only compared so far; later ones, up to the next barrier, are checked
    immediately."""
    grow_stale(known, section_at(known.table, known.now))  # cells do not contain its accesses yet
    clear_stale(m, known)
    one, end = known.start, m.foreseen
    m.section = NOTHING
    m.foreseen = known.foreseen
    while one != end:
        judge_noted(m, known, one)
        one += FORESEEN_BYTES


@compiled
def give_up(m, known):
    """Stop comparing, because something else happens than was foreseen."""
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
    """Return whether a section may be compared.

    It must be from an earlier CTA, or this one; not too many other sections may have begun like it; and there must be
    room to check its accesses later.
    """
    if m.group < section.group or section.failed >= section.used + PATIENCE:
        return False
    if m.set_count + section.sets > m.set_room or m.element_count + section.elements > m.element_room:
        return False
    return m.moment_count + section.moments <= m.moment_room


@compiled
def follow(m, known, number):
    """Begin to compare with a section that is likely to be repeated."""
    known.now = number
    known.start = section_at(known.table, number).first
    m.foreseen = known.start


@compiled
def begin(m, known):
    """Begin a section, because all warps have met or have just started."""
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
    """Count the executed accesses of a section that ended early."""
    one = known.start
    while one != m.foreseen:
        repeat_count(m, known, one, 1)
        one += FORESEEN_BYTES


@compiled
def came(known, number):
    """Record that a section has ended, as the successor of the one before it."""
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
    """End the section, because all warps have met."""
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
    """Handle a first access that was not foreseen: compare with a section that begins with it, or record a new one."""
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
    """Return whether all bytes of a load are initialized; mark the bytes of a store as initialized."""
    shared = segment_at(m.segments, SHARED)
    if shared.initialised == 0:
        return True
    place, size = shared.initialised + (first & OFFSET_MASK), 1 << (noted.shape & 255)
    end = place + 4 * popcount(lanes)  # for part of a warp, whose lanes are contiguous
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
    """Return whether blocks perform such accesses without a closer look.

    They do not perform scattered stores, in which lanes may store to one location.
    """
    return how == UNIT or (kind == READ and lanes == FULL)


@compiled
def as_foreseen(m, known, key, steps, first, shape, lanes):
    """Return the first lane's host address, and the pattern of the lanes, if an access is the foreseen one; otherwise
    0.

    BY_VM instead of a pattern means that the VM performs the access again.
    """
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
    if shape >> KNOWN:  # its lanes have the pattern that the block knows: no further look is needed
        one.key = key
        noted.steps = steps
    m.foreseen += FORESEEN_BYTES
    return segment_at(m.segments, SHARED).host + (first & OFFSET_MASK) | noted.how << HOW


@compiled
def steps_of(known, key, place, at):
    """Return the host address of the distances of lanes from the first lane, whose address is `at`; 0 if there is no
    room.

    They are usually equal to those of an earlier access, and then share their memory.
    """
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
    """Record one more access of the current section."""
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
    """Check an access that was not foreseen, and add it to the recorded section."""
    row = access_at(m.accesses, pc)
    shared, ideal = row.shared, row.ideal_shared
    lane = lowest_bit(lanes)
    found = judge_access(m, w, pc, place, first - load_i64(place + 8 * lane), shape, lanes)
    if m.section == NOTING and found:  # otherwise the VM performs the access, and it is recorded then
        how = found >> HOW
        note(m, known, key, place, first, shape, lanes, how, row.shared - shared, row.ideal_shared - ideal)
    return found


def judge_in_section(address, w, pc, place, imm, shape, lanes):
    """Check an access to shared memory by lanes whose addresses are at `place`, to which `imm` is added.

    m.section is not NOTHING. The result is that of `judge_access`; other parameters are those of `accesses.any_way`.
    """
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
    """Return the pattern of lanes.

    For part of a warp, it is UNIT if `accesses.some_side_by_side` performs the access: contiguous lanes of four bytes.
    """
    if mask == FULL:
        return simple_pattern(place, 0, mask, log_size)
    lane = lowest_bit(mask)
    consecutive = mask >> lane == (1 << popcount(mask)) - 1
    if consecutive and log_size == 2 and unit(place, mask, lane, 2):
        return UNIT
    return SCATTERED


@compiled
def share(place, lanes, size):
    """Return whether two of these lanes, of `size` bytes each, access the same byte."""
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
    """Record a load or store that the VM performs, by itself or for a block that leaves rare accesses to it."""
    i = instruction_at(m.code, pc)
    place = warp_at(m.warps, w).registers + i.a
    log_size = (i.aux >> 16) & 255
    kind = WRITE if i.op >= FIRST_STORE else READ
    how = pattern_of(place, mask, log_size)
    if i.aux & 255 != 1 << log_size or (m.beat == 0 and not is_block_access(kind, how, mask)):
        m.section = NOTHING  # blocks do not perform such accesses
        return
    if kind == WRITE and how != UNIT and share(place, mask, 1 << log_size):
        m.section = NOTHING  # the stored values decide whether these lanes are in conflict
        return
    row = access_at(m.accesses, pc)
    first = load_i64(place + 8 * lowest_bit(mask)) + i.imm
    key = w << WARP_SHIFT | pc << PC_SHIFT | mask | BY_VM
    note(m, known, key, place, first, log_size | kind << KIND, mask, how, -row.shared, -row.ideal_shared)


@compiled
def made_as_foreseen(m, known, w, pc, mask):
    """Return whether a load or store that the VM performs in a compared period is the foreseen one."""
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
    """Record the cost of an access after the VM has performed it."""
    noted, row = noted_at(known.noted, known.end - 1), access_at(m.accesses, pc)
    noted.shared += row.shared
    noted.ideal_shared += row.ideal_shared


def enter_section_event(address, what, w, pc, mask):
    """Handle an event of a section, such as BREAKS. Called by address.

    The lanes `mask` of warp w perform the access at pc; or the clocks of the warps `mask` have changed; or some warps
    have met at barrier w. Return 1 if an access need not be checked.
    """
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
    """Call `judge_in_section`, which is compiled as a part of its own."""
    return call(m.within_entry, m.address, w, pc, place, imm, shape, lanes)


def either_way(address, w, pc, place, imm, shape):
    """Check an access by all lanes as `accesses.any_way` does, or by the sections."""
    m = machine_at(address, 0)
    if m.section and (load_i64(place) + imm) >> SEGMENT_SHIFT == SHARED:
        return within(m, w, pc, place, imm, shape, FULL)
    return all_lanes(m, w, pc, place, imm, shape)


def some_either_way(address, w, pc, place, imm, lanes, kind):
    """Check an access by some lanes as `accesses.some_side_by_side` does, or by the sections."""
    m = machine_at(address, 0)
    lane = lowest_bit(lanes)
    if m.section and (load_i64(place + 8 * lane) + imm) >> SEGMENT_SHIFT == SHARED:
        host = within(m, w, pc, place, imm, 2 | kind << KIND, lanes) & HOST
        return host - 4 * lane if host else host
    return some_lanes(m, w, pc, place, imm, lanes, kind)
