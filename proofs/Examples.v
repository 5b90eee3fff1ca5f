(** * Programs that keep the rules, so that the theorem is not vacuous *)
From Coq Require Import List Arith Bool ZArith.
Import ListNotations.
From Wsemu Require Import Machine Rules OneRun Gpu Checker Programs.

(** A DMA warp and a compute warp, named barriers 0 full and 1 empty; two tiles through one buffer. *)
Definition dma := [
  process_of [ [Load 10; Save 0 (hd 0)]; bar_arrive 0 2; bar_sync 1 2; [Load 11; Save 0 (hd 0)]; bar_arrive 0 2 ];
  process_of [ bar_sync 0 2; [Load 0; Save 20 (fun h => S (hd 0 h))]; bar_arrive 1 2; bar_sync 0 2; [Load 0; Save 21 (fun h => S (hd 0 h))] ] ].
Example dma_verified : verify_greedily [] dma = true. Proof. vm_compute. reflexivity. Qed.

(** A reduction: both warps get the sum of both predicates. *)
Definition reduction := [
  process_of [ [Load 1]; bar_red_popc 0 2 (hd 0); [Save 10 (hd 0)] ];
  process_of [ [Load 2]; bar_red_popc 0 2 (hd 0); [Save 11 (hd 0)] ] ].
Example reduction_verified : verify_greedily [] reduction = true. Proof. vm_compute. reflexivity. Qed.

(** A ring of one stage: mbarriers 0 full (count 1, bytes) and 1 empty (count 1); the copies are agents 2 and 3. *)
Definition ring := [
  process_of [ mbarrier_wait 1 true; mbarrier_arrive_expect_tx 0 16; bulk_copy 2 0 10 0 16;
               mbarrier_wait 1 false; mbarrier_arrive_expect_tx 0 16; bulk_copy 3 0 11 0 16 ];
  process_of [ mbarrier_wait 0 false; [Load 0; Save 20 (fun h => S (hd 0 h))]; mbarrier_arrive 1 1;
               mbarrier_wait 0 true; [Load 0; Save 21 (fun h => S (hd 0 h))]; mbarrier_arrive 1 1 ];
  not_started; not_started ].
Example ring_verified : verify_greedily [IsMbarrier 1; IsMbarrier 1] ring = true. Proof. vm_compute. reflexivity. Qed.

(** A separate expect-tx operation, and a copy in two parts that complete in any order. *)
Definition parts := [
  process_of [ bulk_copy 2 0 10 0 16; bulk_copy 3 1 11 0 16; mbarrier_expect_tx 0 32; mbarrier_arrive 0 1 ];
  process_of [ mbarrier_wait 0 false; [Load 0; Load 1; Save 20 (fun h => hd 0 h + hd 0 (tl h))] ];
  not_started; not_started ].
Example parts_verified : verify_greedily [IsMbarrier 1] parts = true. Proof. vm_compute. reflexivity. Qed.

(** One thread drops; the other continues alone. *)
Definition drop := [
  process_of [ [Save 0 (fun _ => 5)]; mbarrier_arrive_drop 0 1 ];
  process_of [ mbarrier_arrive 0 1; mbarrier_wait 0 false; [Load 0; Save 20 (hd 0)]; mbarrier_arrive 0 1; mbarrier_wait 0 true ] ].
Example drop_verified : verify_greedily [IsMbarrier 2] drop = true. Proof. vm_compute. reflexivity. Qed.

(** An mbarrier whose initialization a barrier orders before its use. *)
Definition initialized := [
  process_of [ mbarrier_init 0 1; bar_sync 1 2; mbarrier_arrive 0 1 ]; process_of [ bar_sync 1 2; mbarrier_wait 0 false ] ].
Example initialized_verified : verify_greedily [IsDead] initialized = true. Proof. vm_compute. reflexivity. Qed.

(** ** Lanes and warp-wide operations *)

(** Three lanes of a warp: each adds the value of lane 0 to its own, and all get the ballot. *)
Definition lanes := map (fun m => process_of
    [ [Load (10 + m)]; shfl 0 m 0 (hd 0); [Save (20 + m) (fun h => hd 0 h + nth 1 h 0)]; ballot 0 m (fun h => if m =? 1 then 0 else hd 0 h);
      [Save (30 + m) (hd 0)] ]) [0; 1; 2].
Example lanes_verified : verify_greedily [IsGroup 3] lanes = true. Proof. vm_compute. reflexivity. Qed.

(** Lanes exchange data through shared memory with __syncwarp; without it, that is a race. *)
Definition neighbors sync := map (fun m => process_of
    [ [Save m (fun _ => m)]; (if sync : bool then group_sync 0 m else []); [Load ((m + 1) mod 3); Save (20 + m) (hd 0)] ]) [0; 1; 2].
Example neighbors_verified : verify_greedily [IsGroup 3] (neighbors true) = true. Proof. vm_compute. reflexivity. Qed.
Example neighbors_race : verify_greedily [IsGroup 3] (neighbors false) = false. Proof. vm_compute. reflexivity. Qed.

(** Rule B14: two lanes of a warp (group 0) arrive at and then sync on a named barrier; the other warp has one lane. *)
Definition lanes_at_barrier := [
  process_of [ [Save 10 (fun _ => 7)]; lane_arrives 0 0 true 1 2; lane_syncs 0 0 true 2 2; [Load 20; Save 30 (hd 0)] ];
  process_of [ [Save 11 (fun _ => 8)]; lane_arrives 0 1 false 1 2; lane_syncs 0 1 false 2 2; [Load 20; Save 31 (hd 0)] ];
  process_of [ bar_sync 1 2; [Load 10; Load 11; Save 20 (fun h => hd 0 h + hd 0 (tl h))]; bar_sync 2 2 ] ].
Example lanes_at_barrier_verified : verify_greedily [IsGroup 2] lanes_at_barrier = true. Proof. vm_compute. reflexivity. Qed.

(** ** Whole-CTA barriers: the count falls when a warp exits *)
Definition with_exit := [
  process_of [ [Save 0 (fun _ => 1)]; group_sync 0 0; [Load 1; Save 2 (hd 0)]; group_sync 0 0; exit_group 0 0 ];
  process_of [ [Save 1 (fun _ => 2)]; group_sync 0 1; exit_group 0 1 ];
  process_of [ group_sync 0 2; [Load 0; Load 1; Save 3 (hd 0)]; group_sync 0 2; [Load 2]; exit_group 0 2 ] ].
Example with_exit_verified : verify_greedily [IsGroup 3] with_exit = true. Proof. vm_compute. reflexivity. Qed.

(** ** Clusters: the barrier of the cluster, a remote arrive, a multicast.  Objects 0 and 1 are mbarriers of CTA 0 and CTA 1, 2 is the
    cluster's barrier, 3 an "empty" mbarrier of CTA 0 at which both CTAs arrive. *)
Definition cluster := [
  process_of [ group_sync 2 0; mbarrier_arrive_expect_tx 0 16; multicast 10 16 [(2, 20, 0); (3, 21, 1)];
               mbarrier_wait 0 false; [Load 20; Save 30 (hd 0)]; mbarrier_arrive 3 1; mbarrier_wait 3 false; exit_group 2 0 ];
  process_of [ mbarrier_arrive_expect_tx 1 16; group_sync 2 1; mbarrier_wait 1 false; [Load 21; Save 31 (hd 0)]; mbarrier_arrive 3 1; exit_group 2 1 ];
  not_started; not_started ].
Example cluster_verified : verify_greedily [IsMbarrier 1; IsMbarrier 1; IsGroup 2; IsMbarrier 2] cluster = true.
Proof. vm_compute. reflexivity. Qed.

(** ** Groups of asynchronous operations *)

(** cp.async: two groups of one and two copies; a wait for all but the newest group, then for all.  Processes 1 to 3 are the copies. *)
Definition copies := [
  process_of [ async_copy 1 0 10 0; async_copy 2 1 11 1; async_copy 3 2 12 1; wait_group 0; [Load 0; Save 20 (hd 0)];
               wait_group 1; [Load 1; Load 2; Save 21 (fun h => hd 0 h + hd 0 (tl h))] ]; not_started; not_started; not_started ].
Example copies_verified : verify_greedily [IsMbarrier 1; IsMbarrier 2] copies = true. Proof. vm_compute. reflexivity. Qed.

(** The consumer waits for an mbarrier at which the copies of the producer arrive. *)
Definition arriving_copies := [
  process_of [ async_copy 2 0 10 0; arrive_after 3 [0] 1 ]; process_of [ mbarrier_wait 1 false; [Load 0; Save 20 (hd 0)] ]; not_started; not_started ].
Example arriving_copies_verified : verify_greedily [IsMbarrier 1; IsMbarrier 1] arriving_copies = true. Proof. vm_compute. reflexivity. Qed.

(** A bulk store: its source may be overwritten after the group has been read, its target be read after the group is complete. *)
Definition bulk_stores := [
  process_of [ [Save 0 (fun _ => 4)]; bulk_store 1 20 0 0 1; wait_group 0; [Save 0 (fun _ => 5)]; wait_group 1; [Load 20] ]; not_started ].
Example bulk_stores_verified : verify_greedily [IsMbarrier 1; IsMbarrier 1] bulk_stores = true. Proof. vm_compute. reflexivity. Qed.

(** wgmma: two asynchronous multiplications into one accumulator (50), the second one after the first; then the operands may be overwritten. *)
Definition multiplications := [
  process_of [ async_multiply 1 50 10 11 0; wait_group 0; async_multiply 2 50 12 13 1; wait_group 1; [Load 50; Save 20 (hd 0)]; [Save 12 (fun _ => 0)] ];
  not_started; not_started ].
Example multiplications_verified : verify_greedily [IsMbarrier 1; IsMbarrier 1] multiplications = true. Proof. vm_compute. reflexivity. Qed.
