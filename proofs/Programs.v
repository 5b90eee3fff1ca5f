(** * Straight-line programs with values, and GPU operations as commands

    The theorem holds for all automata.  These programs are for examples and for the extracted checker. *)
From Coq Require Import List Arith Bool ZArith.
Import ListNotations.
From Wsemu Require Import Machine Rules OneRun Gpu Checker.

(** A process is a list of commands and a list of results, newest first.  Written values and payloads are functions of the results. *)
Inductive command :=
| Load (x : address)                                   (* read x; the value is a result *)
| Save (x : address) (F : list nat -> nat)             (* write x *)
| Put (b : object) (Y : list nat -> payload)           (* register at b *)
| Enter (b : object) (Y : list nat -> payload)         (* register at b; the phase is a result *)
| Await (b : object) (pick : content -> list nat)      (* wait for the phase that is the newest result; replace it with a selection of its final contents *)
| Test (b : object) (p : bool)                         (* wait for the phase of parity p *)
| Fork (q : process) (k : list command).               (* start process q *)
Definition program := (list command * list nat)%type.

Definition next (l : program) : option (operation program nat payload) :=
  match l with
  | ([], _) => None
  | (c :: _, h) => Some match c with
      | Load x => Read x
      | Save x F => Write x (F h)
      | Put b Y | Enter b Y => Register b (Y h)
      | Await b _ => Wait b (Over (hd 0 h))
      | Test b p => Wait b (Parity p)
      | Fork q k => Start q (k, h)
      end
  end.
Definition resume (l : program) (r : response nat content) : program :=
  match l with
  | (c :: k, h) => (k, match c, r with
      | Load _, Value v => v :: h
      | Enter _ _, InPhase g => g :: h
      | Await _ pick, Contents a => pick a ++ tl h
      | _, _ => h
      end)
  | _ => l
  end.

(** The objects by number; an object beyond the list is a named barrier. *)
Inductive kind := IsNamed | IsGroup (n : nat) | IsMbarrier (n : nat) | IsDead.
Definition objects_of (ks : list kind) (b : object) : content :=
  match nth b ks IsNamed with IsNamed => Named 0 None 0 | IsGroup n => Group n n [] | IsMbarrier n => Mbarrier n n 0 | IsDead => Dead end.
Lemma objects_of_fresh ks b : fresh (objects_of ks b).
Proof. unfold objects_of, fresh. destruct (nth b ks IsNamed); eauto. Qed.

(** As on hardware, an expect-tx operation can complete a phase.  ([Gpu.v] proves the theorem for both readings.) *)
Definition strict := false.
Definition memory0 (x : address) := 100 * x.
Definition machine_of ks := gpu program nat next resume (objects_of ks) strict.
Definition start ks ps : state (machine_of ks) := boot program nat next resume (objects_of ks) strict memory0 ps.
Definition verify ks ps schedule := verified program nat next resume (objects_of ks) strict memory0 ps schedule.
Definition judge_program ks ps schedule := judge program nat next resume (objects_of ks) strict memory0 ps schedule.

(** If the checker verifies one run of a program, that run decides every schedule. *)
Theorem verify_sound ks ps schedule : verify ks ps schedule = true ->
  exists T f, reference (start ks ps) schedule T f /\ decides (start ks ps) schedule T f.
Proof. apply checker_sound. apply objects_of_fresh. Qed.

(** ** A greedy schedule: always the first process that can step *)
Section Schedule.
Variable ks : list kind.
Fixpoint greedy fuel n (s : state (machine_of ks)) : list process :=
  match fuel with
  | 0 => []
  | S fuel =>
      match find (fun p => match step p s with Some _ => true | None => false end) (seq 0 n) with
      | Some p => match step p s with Some s1 => p :: greedy fuel n s1 | None => [] end
      | None => []
      end
  end.
End Schedule.
Definition verify_greedily ks ps := verify ks ps (greedy ks 1000 (length ps) (start ks ps)).

(** ** GPU operations *)
Definition nothing (_ : content) : list nat := [].
Definition process_of (l : list (list command)) : option program := Some (concat l, []).
Definition not_started : option program := None.

(* named barriers *)
Definition bar_arrive b n := [Put b (fun _ => Arrive n 0)].
Definition bar_sync b n := [Enter b (fun _ => Arrive n 0); Await b nothing].
Definition bar_red_popc b n F := [Enter b (fun h => Arrive n (F h)); Await b (fun a => match a with Named _ _ r => [r] | _ => [] end)].

(* mbarriers *)
Definition mbarrier_init b n := [Put b (fun _ => Init n)].
Definition mbarrier_arrive b k := [Put b (fun _ => Count k 0 0 0)].
Definition mbarrier_arrive_drop b k := [Put b (fun _ => Count k k 0 0)].
Definition mbarrier_arrive_expect_tx b n := [Put b (fun _ => Count 1 0 n 0)].
Definition mbarrier_expect_tx b n := [Put b (fun _ => Count 0 0 n 0)].
Definition mbarrier_wait b p := [Test b p].

(* a bulk copy of one word: agent q reads src, writes dst, completes n bytes on b *)
Definition bulk_copy q dst src b n := [Fork q [Load src; Save dst (hd 0); Put b (fun _ => Count 0 0 0 n)]].

(* a group: __syncwarp, __syncthreads, barriers of clusters and grids; m is the thread's number in the group *)
Definition group_sync b m := [Enter b (fun _ => Join m 0); Await b nothing].
Definition group_arrive b m := [Enter b (fun _ => Join m 0)].     (* barrier.cluster.arrive: the phase is the newest result *)
Definition group_wait b := [Await b nothing].                     (* barrier.cluster.wait *)
Definition exit_group b m := [Put b (fun _ => Leave m)].          (* exit *)

(* warp-wide operations: each thread gets the values of all *)
Definition exchange b m F (select : list (nat * nat) -> nat) :=
  [Enter b (fun h => Join m (F h)); Await b (fun a => match a with Group _ _ values => [select values] | _ => [] end)].
Definition value_of m (values : list (nat * nat)) := fold_right (fun x v => if Nat.eqb (fst x) m then snd x else v) 0 values.
Definition shfl b m source F := exchange b m F (value_of source).
Definition vote_any b m F := exchange b m F (fun values => if existsb (fun x => 0 <? snd x) values then 1 else 0).
Definition ballot b m F := exchange b m F (fun values => fold_right (fun x v => (if 0 <? snd x then 2 ^ fst x else 0) + v) 0 values).
Definition reduce_add b m F := exchange b m F (fun values => fold_right (fun x v => snd x + v) 0 values).

(* rule B14: a warp counts once, when all its live lanes have arrived.  Group g has these lanes, and one of them registers for the warp. *)
Definition lane_arrives g m (registers : bool) b n := group_sync g m ++ (if registers then bar_arrive b n else []).
Definition lane_syncs g m (registers : bool) b n := group_sync g m ++ (if registers then bar_sync b n else []) ++ group_sync g m.

(* groups of asynchronous operations: the group is an mbarrier with one arrival for each operation, and only its thread waits for it *)
Definition async_copy q dst src group := [Fork q [Load src; Save dst (hd 0); Put group (fun _ => Count 1 0 0 0)]].
Definition async_multiply q acc x y group :=
  [Fork q [Load acc; Load x; Load y; Save acc (fun h => nth 2 h 0 + nth 1 h 0 * nth 0 h 0); Put group (fun _ => Count 1 0 0 0)]].
Definition wait_group group := [Test group false].
(* a bulk store: its source has been read when group r completes, its bytes are written when group w completes *)
Definition bulk_store q dst src r w := [Fork q [Load src; Put r (fun _ => Count 1 0 0 0); Save dst (hd 0); Put w (fun _ => Count 1 0 0 0)]].
(* cp.async.mbarrier.arrive.noinc after the copies of some groups *)
Definition arrive_after q groups b := [Fork q (map (fun g => Test g false) groups ++ [Put b (fun _ => Count 1 0 0 0)])].
(* a multicast: one agent for each destination, with the mbarrier of the CTA that it goes to *)
Definition multicast src n (targets : list (process * address * object)) :=
  concat (map (fun t => bulk_copy (fst (fst t)) (snd (fst t)) src (snd t) n) targets).
