(** * No rule can be dropped from the theorem

    For each rule: a program, a run that violates only this rule, and another schedule that deadlocks, leaves a different value in memory, or waits
    on an uninitialized mbarrier.  So the theorem without this rule is false.  A run may still violate R5 or R6 and decide every schedule. *)
From Coq Require Import List Arith Bool ZArith.
Import ListNotations.
From Wsemu Require Import Machine Rules OneRun Gpu Checker Programs.

Definition deadlock ks n (s : state (machine_of ks)) :=
  negb (forallb (fun p => match pending s p with None => true | _ => false end) (seq 0 n)).
Definition leaves_other ks x v (s : state (machine_of ks)) := negb (Nat.eqb (memory s x) v).

(** The schedule leads to a bad state in which no process can step. *)
Definition goes_wrong ks ps schedule (bad : state (machine_of ks) -> bool) :=
  match run (start ks ps) schedule with
  | Some (_, s) => forallb (fun p => match step p s with None => true | _ => false end) (seq 0 (length ps)) && bad s
  | None => false
  end.

(** The checker judges schedule [r] of the program as [j]; schedule [other] goes wrong. *)
Definition needed ks ps r j other bad := judge_program ks ps r = Some j /\ goes_wrong ks ps other bad = true.

(** R1.  Some operation of generation 0 of barrier 0 happens before some operation of generation 1, but not each before each. *)
Example recycle_needed : needed []
  [ process_of [ bar_arrive 0 2; bar_arrive 1 2 ]; process_of [ bar_sync 0 2; bar_sync 0 2 ]; process_of [ bar_sync 1 2; bar_arrive 0 2 ] ]
  [0; 1; 1; 0; 2; 2; 1; 2; 1] (Judgement true false true true true true true true true)
  [2; 0; 0; 2; 2; 1] (deadlock [] 3).
Proof. split; vm_compute; reflexivity. Qed.

(** R2.  Each registrant of phase 0 happens before the wait for phase 1 itself, because the wait acquires from phase 1.  So the rule must
    require it of a predecessor of the wait. *)
Example early_needed : needed [IsMbarrier 1]
  [ process_of [ mbarrier_arrive 0 1 ]; process_of [ mbarrier_wait 0 false; [Save 5 (fun _ => 1)]; mbarrier_arrive 0 1 ];
    process_of [ mbarrier_wait 0 true; [Load 5; Save 6 (hd 0)] ] ]
  [0; 1; 1; 1; 2; 2; 2] (Judgement true true false true true true true true true)
  [2; 2; 2; 0; 1; 1; 1] (leaves_other _ 6 1).
Proof. split; vm_compute; reflexivity. Qed.

(** R3. *)
Example late_needed : needed [IsMbarrier 1]
  [ process_of [ mbarrier_arrive 0 1; mbarrier_arrive 0 1 ]; process_of [ mbarrier_wait 0 false ] ]
  [0; 1; 0] (Judgement true true true false true true true true true)
  [0; 0] (deadlock _ 2).
Proof. split; vm_compute; reflexivity. Qed.

(** R4.  The initialization must happen before the wait. *)
Example init_needed :
  let ps := [ process_of [ mbarrier_init 0 1 ]; process_of [ mbarrier_wait 0 true ] ] in
  judge_program [IsDead] ps [0; 1] = Some (Judgement true true true true false true true true true) /\
  match run (start [IsDead] ps) [] with Some (_, s) => error 1 s | None => False end.
Proof. split; vm_compute; [reflexivity|constructor]. Qed.

(** R5. *)
Example expect_needed : needed [IsMbarrier 1]
  [ process_of [ mbarrier_expect_tx 0 16; bulk_copy 3 5 10 0 16 ]; process_of [ mbarrier_arrive 0 1 ];
    process_of [ mbarrier_wait 0 false; [Load 5; Save 6 (hd 0)] ]; not_started ]
  [0; 0; 1; 3; 3; 3; 2; 2; 2] (Judgement true true true true true false true true true)
  [1; 2; 2; 2; 0; 0; 3; 3; 3] (leaves_other _ 6 1000).
Proof. split; vm_compute; reflexivity. Qed.

(** R6. *)
Example balance_needed : needed [IsMbarrier 1]
  [ process_of [ bulk_copy 2 5 10 0 16; bulk_copy 3 6 11 0 16; mbarrier_arrive_expect_tx 0 16 ]; process_of [ mbarrier_wait 0 true ];
    not_started; not_started ]
  [0; 0; 2; 2; 2; 3; 3; 3; 0; 1] (Judgement true true true true true true false true true)
  [0; 2; 2; 2; 0; 3; 3; 0; 3] (deadlock _ 4).
Proof. split; vm_compute; reflexivity. Qed.

(** A copy of 0 bytes is not a registrant: no wait waits for it, although it completed within the phase in this run. *)
Example positive_needed : needed [IsMbarrier 1]
  [ process_of [ bulk_copy 2 5 10 0 0; mbarrier_arrive 0 1 ]; process_of [ mbarrier_wait 0 false; [Load 5; Save 6 (hd 0)] ]; not_started ]
  [0; 2; 2; 2; 0; 1; 1; 1] (Judgement true true true true true true true false true)
  [0; 2; 0; 1; 1; 2; 2; 1] (leaves_other _ 6 1000).
Proof. split; vm_compute; reflexivity. Qed.

(** No race. *)
Example race_needed : needed []
  [ process_of [ [Save 5 (fun _ => 1)] ]; process_of [ [Load 5; Save 6 (hd 0)] ] ]
  [0; 1; 1] (Judgement true true true true true true true true false)
  [1; 1; 0] (leaves_other _ 6 1).
Proof. split; vm_compute; reflexivity. Qed.
