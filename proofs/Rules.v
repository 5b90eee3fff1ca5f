(** * Happens-before on the trace of a run, and the rules

    All definitions depend on one trace T: the list of entries of one run. *)
From Coq Require Import List Arith Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine.

Section Rules.
Context {M : machine}.
Variable T : list (entry M).

(** ** Happens-before *)

(** e1 is a predecessor of e2: an earlier operation of its process, or the start of that process. *)
Definition precedes (e1 e2 : event) :=
  (fst e1 = fst e2 /\ snd e1 < snd e2) \/ exists l n, In (e1, (Start (fst e2) l, n)) T.
(** e1 is a registrant of a phase, and e2 is a wait for that phase. *)
Definition releases (e1 e2 : event) := exists b y g w,
  In (e1, (Register b y, g)) T /\ In (e2, (Wait b w, S g)) T.
Definition edge e1 e2 := precedes e1 e2 \/ releases e1 e2.
(** Happens-before: the transitive closure of [precedes] and [releases]. *)
Definition before := clos_trans event edge.

(** ** Phases *)

(** The registrants of phase g of object b, each with its payload. *)
Definition registers b g (x : entry M) : list (event * payload M) :=
  match x with
  | (e, (Register b' y, g')) => if Nat.eqb b b' && Nat.eqb g g' then [(e, y)] else []
  | _ => []
  end.
Definition registrants b g := flat_map (registers b g) T.

Fixpoint sum b (a : content M) (l : list (payload M)) : option (content M) :=
  match l with
  | [] => Some a
  | y :: l' => match add M b a y with Some a' => sum b a' l' | None => None end
  end.

(** The contents at the beginning of phase g of b. *)
Fixpoint opening b g : option (content M) :=
  match g with
  | 0 => Some (initial_contents M b)
  | S g' =>
      match opening b g' with
      | Some a0 => match sum b a0 (map snd (registrants b g')) with Some a => Some (reset M b a) | None => None end
      | None => None
      end
  end.
(** Phase g of b has contents a after all its registrants. *)
Definition closing b g a := exists a0, opening b g = Some a0 /\ sum b a0 (map snd (registrants b g)) = Some a.

(** Phase g of b completes in this run.  A phase without registrants does not complete, even if no arrival is
    pending, as on an mbarrier from which all threads have dropped. *)
Definition completes b g := registrants b g <> [] /\ exists a, closing b g a /\ full M b a = true.

(** ** Rules for all objects *)

(** R1: each registrant of a phase happens before each registrant of the next phase. *)
Definition rule_recycle := forall b g c1 y1 c2 y2,
  In (c1, (Register b y1, g)) T -> In (c2, (Register b y2, S g)) T -> before c1 c2.
(** R2: each registrant of phase g is, or happens before, a predecessor of each wait by parity for phase g + 1.  A wait by parity
    has as label the phase in which it succeeds, so label S (S g) is that of a wait for phase g + 1.
    (Happens-before the wait itself would always hold: the wait acquires from phase g + 1, whose registrants
    are ordered after phase g by R1.) *)
Definition rule_early := forall b p e g c y,
  In (e, (Wait b (Parity p), S (S g))) T -> In (c, (Register b y, g)) T ->
  exists e0, precedes e0 e /\ (c = e0 \/ before c e0).
(** R3: a wait by parity for a phase happens before some registrant of the next phase h, its label, if phase h completes. *)
Definition rule_late := forall b p e h,
  In (e, (Wait b (Parity p), h)) T -> completes b h ->
  exists c y, In (c, (Register b y, h)) T /\ before e c.
(** R4: the initialization is, or happens before, a predecessor of each wait by parity.  (For registrations, R1 requires it.) *)
Definition rule_init := forall b p e h c y, raw M b = true ->
  In (e, (Wait b (Parity p), h)) T -> In (c, (Register b y, 0)) T ->
  exists e0, precedes e0 e /\ (c = e0 \/ before c e0).
(** No race: happens-before orders conflicting accesses of two processes. *)
Definition no_race := forall e1 o1 n1 e2 o2 n2,
  In (e1, (o1, n1)) T -> In (e2, (o2, n2)) T -> fst e1 <> fst e2 ->
  conflict o1 o2 -> before e1 e2 \/ before e2 e1.

(** ** The purpose of R5 and R6

    The proof needs two properties of an object's phases, [cover] and [last_ends].  [Gpu.v] derives them from R5 and R6. *)

(** D contains every event that happens before a member of D. *)
Definition closed (D : event -> bool) := forall e1 e2, edge e1 e2 -> D e2 = true -> D e1 = true.
(** A closed set of events fills a phase only if it contains all registrants of the phase. *)
Definition cover := forall b g D a0 a, closed D ->
  opening b g = Some a0 -> sum b a0 (map snd (filter (fun r => D (fst r)) (registrants b g))) = Some a ->
  full M b a = true -> forall e y, In (e, (Register b y, g)) T -> D e = true.
(** If all registrants of a full phase but one are in a closed set, the remaining registrant can complete the phase. *)
Definition last_ends := forall b g D e y a, closed D -> In (e, (Register b y, g)) T -> D e = false ->
  (forall e' y', In (e', (Register b y', g)) T -> e' = e \/ D e' = true) ->
  closing b g a -> full M b a = true -> ends M y = true.

(** All rules except race freedom. *)
Record well_synchronized : Prop := {
  R1 : rule_recycle;
  R2 : rule_early;
  R3 : rule_late;
  R4 : rule_init;
  RC : cover;
  RL : last_ends
}.
End Rules.
Arguments R1 {M T}. Arguments R2 {M T}. Arguments R3 {M T}. Arguments R4 {M T}.
Arguments RC {M T}. Arguments RL {M T}.

(** The contents after two registrations. *)
Definition add_two (M : machine) b a p q := match add M b a p with Some a' => add M b a' q | None => None end.
(** The order of two registrations in a phase does not matter. *)
Definition commutative (M : machine) := forall b a p q, add_two M b a p q = add_two M b a q p.
