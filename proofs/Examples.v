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
