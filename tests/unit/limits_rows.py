"""The rows of docs/limits.md that say what is not decided, and the test of each.

A line is the beginning of a row's first cell, and the next one its test: a function in `tests/unit`, `FILE::FUNCTION`,
programs below `tests`, or `-`, if the row is about compilers or GPUs, which no test here can show.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "limits.md"
ELSEWHERE = frozenset(("Launch limits", "What a GPU holds at once", "Predicted times", "Sizes of inputs"))
"""sections with tables of numbers: test_layout.py and test_input_limits.py compare them with the code"""

TABLE = """
a program under `wsemu check` or `wsemu run`
    test_cli.py::test_an_incomplete_launch
`wsemu.check`
    test_ptx_refused.py::test_what_depends_on_which_lanes_are_active
a kernel in plain Python, or `wsemu.crosscheck`
    test_groups.py::test_a_group_that_is_too_wide_is_not_modelled
other grids, blocks or arguments
    test_trips.py::test_a_trip_count_that_fails_is_named
barriers, mbarrier operations, fences and waits that were never
    test_unreached.py::test_barriers_and_fences_that_no_warp_executes_are_named
`--every`: trip counts at which a register overflows
    test_trips.py::test_what_is_not_followed_stays_one_launch
a launch of more than 1,000,000,000 warp instructions
    test_soundness_cases.py::test_the_budget_counts_ctas
a loop without an end
    test_idle.py::test_a_loop_without_an_end_ends_the_run
lanes that loop forever while others
    test_barrier_rules.py::test_b14_lanes_that_poll_hold_back_an_arrive_of_their_warp
machine code, and what a compiler does
    -
such a launch with more than 64 CTAs
    test_limits.py::test_a_launch_of_many_ctas_that_atomics_steer_is_not_decided
an exploration that exceeds the limits
    test_effort.py::test_more_effort_decides_more
the initial run of a launch whose CTAs wait
    test_idle.py::test_a_loop_that_only_waits_ends_the_run
CTAs that perform the same synchronization
    test_counted_ctas.py::test_a_broken_barrier_is_found
a floating-point sum by atomics
    test_limits.py::test_a_floating_point_sum_that_decides_a_branch_is_open
more than six lanes of a warp
    test_samples.py::test_lanes_in_too_many_orders_are_sampled
executions that the fences, releases and acquires of the program permit
    test_orders.py::test_more_than_interleavings_is_not_decided
a `cas` that fails in the initial run
    test_limits.py::test_a_cas_that_fails_in_a_long_launch_stays_a_race
a loop that polls a word
    test_idle.py::test_a_poll_of_what_nobody_writes_waits_for_ever
a loop that waits for memory with plain loads
    test_limits.py::test_a_plain_poll_of_what_nobody_writes_is_incomplete
a waiting loop that accesses other memory
    test_limits.py::test_a_loop_that_accesses_other_memory_while_it_waits_is_not_decided
threads that may loop forever in some interleaving
    test_orders_undecided.py::test_it_is_not_verified
an order-dependent final value
    test_messages.py::test_sums_that_differ_by_order_are_told
lanes of one store that write equal values
    test_unequal_lanes.py::test_equal_values_of_one_order_prove_nothing
in PTX, the array to which an address in shared or local
    test_addresses_as_numbers.py
strong operations in the search
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
strong operations in sampled
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
CTAs that only publish
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
[flags](how.md#flags) that have one writer each
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
CTAs that look back
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
threads that claim cells
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
threads that lock or set bits of their numbers
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
counted CTAs
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
other programs that decide a launch
    test_other_programs.py::test_other_programs_share_an_effort
memory of saved states
    test_limits.py::test_the_units_of_effort_are_those_of_the_page
a read of data that another thread wrote before a fence
    test_missing_fence.py::test_loads_that_pass_by_the_cache_are_warned_of
a plain load that races with a store
    test_limits.py::test_a_plain_load_whose_value_is_unused_races
a strong access of a vector
    fail/strong-vector
a thread that reads a value, executes a fence only
    properties/test_strong_programs.py
volatile accesses
    test_ptx_volatile.py::test_a_loop_may_poll_a_volatile_flag_in_shared_memory
fences together with relaxed arrives
    test_clusters.py::test_a_fence_before_a_relaxed_arrive_is_not_called_a_race
fences and atomics by some lanes
    test_lanes_and_atomics.py::test_lanes_that_fences_order_are_no_error
accesses of two lanes of one
    test_lanes_and_atomics.py::test_a_race_stays_where_a_fence_is_missing
such accesses, if other lanes may
    test_threads_apart.py::test_a_lock_among_lanes_is_right_where_each_makes_progress
lanes that meet in one `syncwarp`
    test_warp_operations.py::test_lanes_that_meet_from_two_places_are_not_modelled
which lanes are active together
    test_ptx_refused.py::test_what_depends_on_which_lanes_are_active
a warp-wide or CTA-wide operation after
    test_lanes_apart.py::test_calls_in_each_other_are_no_calls_in_turn
Python device functions that recurse
    test_numba_start.py::test_recursion_is_as_deep_as_numba_cuda_compiles_it
memory order of `shfl`
    test_limits.py::test_a_shuffle_orders_memory_among_its_lanes
a named-barrier operation by part of a warp
    test_barrier_rules.py::test_b14_arrives_of_one_warp_at_two_barriers_or_with_two_counts_diverge
lanes that lag behind
    fail/lane-lag
a local variable assigned on one path
    test_as_programs_see_it.py::test_a_variable_that_a_path_does_not_assign_is_zero_there
the result of a poll
    test_waits.py::test_an_answer_that_is_stored_polls
whether a GPU is slow enough
    test_waits.py::test_a_watchdog_that_traps_is_never_reached
a loop around a wait that traps
    test_waits.py::test_giving_up_after_some_tries_polls
more than 4,096 live mbarriers
    test_limits.py::test_more_mbarriers_than_are_followed
lanes of one instruction that initialize one mbarrier
    test_mbarrier_rules.py::test_init_by_all_lanes_is_one_value
`uncovered-expectation` requires
    test_phase_rules.py::test_r5_bytes_that_no_arrival_waits_for
values during a copy
    fail/race
tensor maps that an atomic or
    test_changed_maps.py
copies of padded types
    test_tensor_copies.py::test_limits_of_elements_with_padding_are_reported
padding in shared memory after
    test_tensor_copies.py::test_the_padding_of_16_elements_is_uninitialized_after_a_load
in im2col mode, copies of
    test_copy_modes.py::test_pixels_outside_of_the_box_are_not_modelled
in the modes `im2col::w` and
    test_copy_modes.py::test_lines_that_are_modelled
measured only in part: stores of interleaved
    -
stores of up to 15 bytes past
    test_tensor_copies.py::test_t26_a_store_behind_the_last_row_reaches_outside
`setmaxnreg` without a known number
    test_async_runs.py::test_registers_change_hands_where_no_clocks_are_kept
whether all warps of a warpgroup synchronize
    test_mbarrier_rules.py::test_a_warpgroup_synchronises_between_two_counts_of_registers
[clusters](semantics.md#clusters) and [cooperative grids]
    test_grid.py::test_more_than_1024_warps_are_not_modelled
launches on several GPUs that communicate
    test_ranks.py::test_a_grid_needs_an_equal_share_for_each_rank
barriers of flags that several threads write
    test_flags.py::test_pads_that_are_set_and_reset_are_left_open
`multimem` in these cases: programs that
    test_multicast.py::test_other_forms_are_not_modelled
a missing `fence.proxy.alias`
    test_multicast.py::test_an_all_reduce_is_verified_and_adds_the_replicas
a deadlock across CTAs
    test_explain.py::test_a_deadlock_names_its_cta
kernels in two streams that communicate while they run
    fail/stream-race
a launch with more than 1,000,000 traced events
    test_between.py::test_a_launch_whose_trace_is_too_long_may_conflict_with_another_stream
kernels that launch kernels
    test_ptx_refused.py::test_a_function_of_the_system_that_is_not_known_is_refused_with_a_remedy
`mma.sp` of 4-bit integers
    test_matrix.py::ORDINARY
`wgmma` in Python
    test_limits.py::test_python_has_no_wgmma
matrix fragments (`wmma.load`
    test_heap.py::test_a_matrix_fragment_in_a_block_is_not_modelled
blocks that a kernel allocated
    test_heap.py::test_a_block_of_another_launch_is_not_modelled
fragmentation of the heap
    test_heap.py::test_a_heap_that_all_threads_together_may_use_up_decides_nothing
addresses of heap blocks used as numbers
    test_heap.py::test_no_number_is_made_of_an_address_and_no_freed_one_compared
addresses that the host, or an earlier launch
    test_device_memory.py
an address of a local variable that is stored in memory
    test_undefined.py::test_a_row_has_its_answer
comparisons for equality of addresses in several variables
    test_undefined.py::test_a_row_has_its_answer
a number that `shr`, `rem`
    test_state_spaces.py::test_a_part_of_an_address_counts_as_an_address
which allocation of an arena
    test_device_memory.py::test_allocations_lie_side_by_side_in_an_arena
`atom.add.f32` treats subnormals
    test_limits.py::test_sums_of_subnormals_by_atomics
vector atomics that are not aligned
    test_ptx_pairs.py::test_a_vector_of_atomics_lies_at_a_multiple_of_its_size
`ptx.ld_bytes` and `ptx.st_bytes`
    test_soundness_cases.py::bytes_of_shared
cube maps, mipmaps
    test_ptx_lowering.py::UNSUPPORTED
not measured: layers below 0
    -
the address mode of a dimension
    test_textures.py::test_layers_are_no_dimension
random bits of `cvt.rs`
    test_narrow_floats.py::test_random_bits_decide_how_a_half_is_rounded
conversions of s2f6
    test_narrow_floats.py::test_other_conversions_are_never_verified
`discard`, unknown modifiers
    test_ptx_refused.py::REFUSED
`clusterlaunchcontrol` launches that do not meet
    test_cancellation.py::test_what_depends_on_the_assignment_is_undecided
the number of clusters that a GPU starts
    -
bytes of a response: the layout
    test_cancellation.py::test_responses_name_the_first_cta_of_a_cluster
`tcgen05.shift`
    test_tensor_memory.py::test_what_is_not_modelled_is_never_verified
collector buffers
    test_tensor_rows.py::test_a_collector_buffer_is_filled_by_the_warp_that_uses_it
an allocation that may have to
    test_tensor_memory.py::test_two_ctas_that_allocate_twice_may_wait_for_each_other
a CTA that keeps the permit
    test_tensor_memory.py::test_ctas_that_wait_for_each_other_give_up_the_permit
behavior of a launch if its
    test_moved_columns.py
a launch whose results or instructions depend on the columns
    test_moved_columns.py
an allocation that is not ordered after the release
    test_tensor_memory.py::test_a_release_of_other_columns_releases_these_columns
a kernel that traps if its columns
    test_moved_columns.py
sums of `.ws`, and of `i8`
    -
a load of rows that no instruction wrote
    fail/tmem-uninitialized
`mul.rn.f32x2` and `add.rn.f32x2`
    test_ptx_pairs.py::test_a_product_and_a_sum_of_two_numbers_are_contracted
sparse products with fewer than 128 rows
    test_tensor_sparse.py::test_other_columns_of_metadata_are_not_decided
sums of sparse products
    test_tensor_sparse.py::test_stored_elements_multiply_the_elements_that_metadata_select
a load without `tcgen05.wait::ld`, if its
    test_tensor_memory.py::test_a_load_ends_by_a_wait_or_by_the_use_of_all_its_registers
a launch in which the reference engine would follow
    test_undefined_values.py::test_of_a_long_launch_the_beginning_is_followed
a longer launch, if its only
    test_undefined_values.py::test_a_register_that_two_contents_show_has_no_witness
other interleavings of the atomics, if an uninitialized
    test_undefined_values.py::test_a_register_that_another_order_of_atomics_may_read
a strong load or exchange that
    test_undefined_values.py::test_a_strong_load_that_another_order_puts_before_the_first_store
an uninitialized byte that is read
    test_undefined_in_orders.py::test_a_read_in_another_order_fails_if_its_value_reaches_something
findings after the first 4,096
    test_many_findings.py::test_a_limit_is_one_of_work
`numba.cuda` is `wsemu.cuda` only
    test_numba_start.py
a kernel from `exec` or `compile`
    test_numba_programs.py::test_an_exception_in_a_text_of_exec_is_the_programs
source that the front end does not read
    test_numba_start.py::test_recursion_goes_the_second_way_where_it_is_open
`print` in a kernel
    test_as_programs_see_it.py::test_print_comes_cta_after_cta_and_thread_after_thread
`wsemu debug` keeps variables
    test_ptx_lowering.py::test_code_for_a_debugger_is_not_contracted
`fp8_e8m0`, vectors of 8-bit floats
    test_numba_fp8.py::test_nothing_is_computed_with_floats_of_eight_bits
dates: months and years
    test_numba_times.py::test_dates_are_no_numbers
functions of `bfloat16` and `float16`
    test_numba_features.py::test_bfloat16_rounds_once
arrays of other libraries (DLPack)
    test_numba_features.py::test_what_another_library_keeps_from_us_says_so
objects with only the CUDA array interface
    test_captured_arrays.py::test_what_only_has_the_cuda_array_interface_is_an_argument
device arrays are NumPy arrays
    test_library.py::test_device_arrays
device arrays that a kernel uses
    test_captured_arrays.py::test_a_captured_device_array_is_what_it_is_at_the_launch
an uninitialized `cuda.device_array`
    test_numba_programs.py::test_what_nobody_wrote_to_a_device_array_is_not_read
`forall` uses as many threads
    test_numba_programs.py::test_forall_launches_enough_threads
`@vectorize(target="cuda")`
    test_numba_programs.py::test_reduce_sums_floats_in_the_order_of_the_gpu
IPC handles; Numba's views
    test_as_programs_see_it.py::test_handles_for_other_processes_are_refused_by_name
`cuda.declare_device`: functions in PTX
    test_linked_ptx.py::test_a_signature_that_the_ptx_has_not_is_refused
recursion deeper than 64 calls
    test_numba_start.py::test_recursion_is_as_deep_as_numba_cuda_compiles_it
`x + 1 > x`
    test_limits.py::test_signed_integers_wrap
`abs(x + 31)`
    test_limits.py::test_signed_integers_wrap
`x * 2 // 2`
    test_limits.py::test_signed_integers_wrap
products with `K = 96` (sm_103)
    test_tensor_memory.py::test_products_of_96_elements_are_not_modelled
scale-input-d
    test_tensor_memory.py::test_what_is_not_modelled_is_never_verified
bank conflicts of atomics, except on
    test_limits.py::test_bank_conflicts_of_atomics_are_counted_where_they_were_measured
such a launch with tensor copies
    test_limits_of_orders.py::test_fences_and_atomics_beside_mbarriers_are_undecided
in such a launch, a copy and then a plain access
    test_orders_of_copies.py::test_a_copy_behind_what_an_atomic_told_of_is_no_race
fences together with atomics in launches with mbarriers
    test_limits_of_orders.py::test_fences_and_atomics_beside_mbarriers_are_undecided
an mbarrier whose invalidation is ordered
    test_limits_of_orders.py::test_an_invalidation_that_only_atomics_order_is_undecided
a phase whose bytes sum to more
    test_outstanding.py::test_bytes_that_an_order_keeps_apart_are_not_called_too_many
acquisition of a tensor map that the host
    test_tensor_copies.py::test_a_kernel_takes_a_pointer_to_a_map
costs of accesses to shared memory of other CTAs
    test_limits_of_orders.py::test_accesses_to_the_memory_of_another_cta_have_no_costs
moves of registers of an in-flight `wgmma`
    test_wgmma.py::test_what_a_register_is_may_depend_on_the_way
bank conflicts of tensor copies and `wgmma`
    test_effects.py::test_accesses_to_tiles_are_counted_as_such
a launch whose control flow depends on atomics, if an uninitialized
    test_limits_of_orders.py::test_a_steered_launch_that_reads_what_nobody_wrote_is_never_verified
copies: they are not accesses of warps
    test_limits_of_orders.py::test_copies_have_no_sectors
host threads count as one
    test_between.py::test_threads_of_the_host_count_as_one
accesses of the host are determined from the source lines
    test_between.py::test_an_access_of_the_host_is_one_that_a_line_names
a test of a phase whose result is kept
    test_kept_tests.py::test_a_kept_result_does_not_replace_a_wait_for_a_later_phase_of_the_same_parity
whether unordered stores write the same value for every assignment
    test_cancellation.py::test_equal_stores_are_compared_for_each_cluster_in_each_state
whether unordered stores that write the same value
    test_equal_stores_and_polls.py::test_a_poll_leaves_equal_stores_open
in Python: pairs of CTAs, scale factors
    test_tensor_names.py::test_other_instructions_have_no_name
in Python: whether the matrix of
    test_tensor_names.py::test_the_end_of_a_matrix_is_not_compared_with_its_array
zero-column masks
    test_tensor_memory.py::test_what_is_not_modelled_is_never_verified
an address that a kernel stores in dynamic shared memory
    test_addresses_in_memory.py::test_a_copy_whose_place_in_dynamic_shared_memory_is_computed_may_read_an_address
"""


class Row(NamedTuple):
    """A row of the page."""

    section: str
    about: str
    """its first cell"""


def list_rows() -> list[Row]:
    """Return the rows of all tables but those of numbers."""
    found, section, header = list[Row](), "", True
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        if not line.startswith("|"):
            header = True
        elif header:
            header = False
        elif not re.fullmatch(r"[|\- ]+", line) and section not in ELSEWHERE:
            found.append(Row(section, line.strip("| ").split(" | ")[0]))
    return found


def read_table() -> dict[str, str]:
    """Return the test of each row, by the beginning of the row."""
    lines = [line.strip() for line in TABLE.strip().splitlines()]
    return dict(zip(lines[::2], lines[1::2], strict=True))


def is_there(test: str) -> bool:
    """Return whether a test exists."""
    name, _, function = test.partition("::")
    path = TESTS / name if (TESTS / name).exists() else TESTS / "unit" / name
    if path.is_dir():
        return any(path.iterdir())
    return path.exists() and bool(re.search(rf"^(def )?{function}\b", path.read_text(encoding="utf-8"), re.MULTILINE))
