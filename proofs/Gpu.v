(** * The synchronization objects of a GPU: named barriers, groups of threads, mbarriers; R5 and R6

    The theorem of [OneRun.v] requires [cover]: a phase is full only with all its registrants.  This file derives [cover] from
    R5 and R6, by arithmetic. *)
From Coq Require Import List Arith Lia Bool ZArith Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun.

(** The contents of an object in its current phase. *)
Inductive content :=
| Named (k : nat) (c : option nat) (r : nat)      (* a named barrier: k operations with count c; r is the sum of their predicates *)
| Group (n p : nat) (values : list (nat * nat))     (* a barrier of n threads, which may exit: p threads are pending; the value of each thread that arrived *)
| Mbarrier (e p : nat) (x : Z)                    (* an mbarrier: e is the arrival count from the next phase on, p the pending count, x the tx-count *)
| Dead                                            (* an mbarrier before its initialization *)
| Born (n : nat).                                 (* an mbarrier during its initialization, which completes phase 0 *)

(** The payload of a registration. *)
Inductive payload :=
| Arrive (n v : nat)                       (* bar.arrive, bar.sync, bar.red: count n, predicate v *)
| Join (m v : nat)                         (* thread m of a group arrives with value v *)
| Leave (m : nat)                          (* thread m of a group exits *)
| Count (arrivals drop expect complete : nat)     (* mbarrier: arrivals, how many of them drop, expect-tx bytes, complete-tx bytes *)
| Init (n : nat).

Fixpoint insert (m v : nat) (l : list (nat * nat)) :=
  match l with
  | [] => [(m, v)]
  | (k, w) :: l' => if m <? k then (m, v) :: l else (k, w) :: insert m v l'
  end.
Definition has_value (m : nat) (l : list (nat * nat)) := existsb (fun x => m =? fst x) l.

Definition add_payload (a : content) (y : payload) : option content :=
  match a, y with
  | Named k None r, Arrive n v => if 1 <=? n then Some (Named (S k) (Some n) (r + v)) else None
  | Named k (Some c) r, Arrive n v => if (n =? c) && (k <? c) then Some (Named (S k) (Some c) (r + v)) else None
  | Group n p values, Join m v => if (1 <=? p) && negb (has_value m values) then Some (Group n (p - 1) (insert m v values)) else None
  | Group n p values, Leave _ => if 1 <=? p then Some (Group (n - 1) (p - 1) values) else None
  | Mbarrier e p x, Count ar dr ex co =>
      if ar <=? p then Some (Mbarrier (e - dr) (p - ar) (x + Z.of_nat ex - Z.of_nat co)) else None
  | Dead, Init n => Some (Born n)
  | _, _ => None
  end.

Definition is_full (a : content) : bool :=
  match a with
  | Named k (Some c) _ => k =? c
  | Named _ None _ => false
  | Group _ p _ => p =? 0
  | Mbarrier _ p x => (p =? 0) && (x =? 0)%Z
  | Dead => false
  | Born _ => true
  end.

(** The registrations that can complete a phase: on hardware, all of them; with [strict], all except an expect-tx operation. *)
Definition completing (strict : bool) (y : payload) : bool := match y with Count 0 _ _ 0 => negb strict | _ => true end.

Definition next_phase (a : content) : content :=
  match a with
  | Named _ _ _ => Named 0 None 0
  | Group n _ _ => Group n n []
  | Mbarrier e _ _ => Mbarrier e e 0
  | Dead => Dead
  | Born n => Mbarrier n n 0
  end.

Definition is_dead (a : content) := match a with Dead => true | _ => false end.

(** The contents of an object before the run: a named barrier, a group, an initialized mbarrier, or an uninitialized one. *)
Definition fresh (a : content) :=
  a = Named 0 None 0 \/ (exists n, a = Group n n []) \/ (exists n, a = Mbarrier n n 0) \/ a = Dead.

(** ** Registrations commute *)

Lemma insert_insert m v m' v' l : m <> m' -> insert m' v' (insert m v l) = insert m v (insert m' v' l).
Proof.
  intro N. induction l as [|[k w] l IH]; simpl.
  - destruct (Nat.ltb_spec m' m), (Nat.ltb_spec m m'); auto; lia.
  - destruct (Nat.ltb_spec m k), (Nat.ltb_spec m' k); simpl;
      repeat match goal with |- context [?a <? ?b] => destruct (Nat.ltb_spec a b); try lia end; auto.
    now rewrite IH.
Qed.

Lemma has_value_insert m m' v l : has_value m' (insert m v l) = (m' =? m) || has_value m' l.
Proof.
  induction l as [|[k w] l IH]; simpl; auto. destruct (m <? k); simpl; auto.
  unfold has_value in *. simpl. rewrite IH. destruct (m' =? k), (m' =? m); auto.
Qed.

Definition add_payloads a p q := match add_payload a p with Some a' => add_payload a' q | None => None end.

Lemma add_payload_commutes a p q : add_payloads a p q = add_payloads a q p.
Proof.
  unfold add_payloads. destruct a as [k [c|] r|n pe values|e pe x| |k].
  - destruct p as [m v|m v|m|ar dr ex co|m], q as [m' v'|m' v'|m'|ar' dr' ex' co'|m']; simpl; auto;
      try (destruct (_ && _); auto; fail).
    destruct (m =? c) eqn:A, (m' =? c) eqn:B, (k <? c) eqn:D; simpl; rewrite ?A, ?B; simpl; auto.
    destruct (S k <? c); simpl; auto. do 2 f_equal. lia.
  - destruct p as [m v|m v|m|ar dr ex co|m], q as [m' v'|m' v'|m'|ar' dr' ex' co'|m']; simpl; auto;
      try (destruct m; auto; fail); try (destruct m'; auto; fail).
    destruct (Nat.eqb_spec m m') as [<-|N].
    + destruct m as [|m]; cbn [Nat.leb add_payload]; auto. rewrite Nat.eqb_refl. simpl. destruct (_ <? _); auto. do 2 f_equal. lia.
    + assert (A : (m =? m') = false) by now apply Nat.eqb_neq.
      assert (B : (m' =? m) = false) by (apply Nat.eqb_neq; auto).
      destruct m as [|m0], m' as [|m1]; cbn [Nat.leb add_payload]; rewrite ?A, ?B; auto.
  - destruct p as [m v|m v|m|ar dr ex co|m], q as [m' v'|m' v'|m'|ar' dr' ex' co'|m'];
      simpl; auto; try (destruct (_ && _); auto; fail); try (destruct pe; auto; fail).
    + destruct pe as [|[|pe]]; simpl; auto.
      * destruct (has_value m values), (has_value m' values); simpl; auto.
      * destruct (has_value m values) eqn:A, (has_value m' values) eqn:B; simpl; rewrite ?has_value_insert, ?A, ?B, ?orb_true_r; simpl; auto.
        destruct (Nat.eqb_spec m' m), (Nat.eqb_spec m m'); try congruence; simpl; auto. now rewrite insert_insert.
    + destruct pe as [|[|pe]]; simpl; auto; destruct (has_value m values) eqn:A; simpl; rewrite ?A; auto.
    + destruct pe as [|[|pe]]; simpl; auto; destruct (has_value m' values) eqn:A; simpl; rewrite ?A; auto.
  - destruct p as [m v|m v|m|ar dr ex co|m], q as [m' v'|m' v'|m'|ar' dr' ex' co'|m']; simpl; auto; try (destruct (_ <=? _); auto; fail).
    destruct (Nat.leb_spec ar pe), (Nat.leb_spec ar' pe); simpl;
      try destruct (Nat.leb_spec ar' (pe - ar)); try destruct (Nat.leb_spec ar (pe - ar')); auto; try lia.
    replace (e - dr - dr') with (e - dr' - dr) by lia. replace (pe - ar - ar') with (pe - ar' - ar) by lia.
    do 2 f_equal. lia.
  - destruct p, q; simpl; auto.
  - destruct p, q; simpl; auto.
Qed.

(** ** The machine *)
Section Gpu.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.

Definition gpu : machine :=
  Machine L V payload content next resume (fun _ => add_payload) (fun _ => is_full) (completing strict)
    (fun _ => next_phase) objects (fun b => is_dead (objects b)).

Lemma gpu_commutative : commutative gpu.
Proof. intros b a p q. apply add_payload_commutes. Qed.

Notation sum := (sum (M := gpu)).
Ltac concrete := change (Machine.payload gpu) with payload in *; change (Machine.content gpu) with content in *.

(** ** Sums *)

Lemma sum_named b (l : list payload) : forall k c r a, sum b (Named k (Some c) r) l = Some a -> k <= c ->
  exists r', a = Named (k + length l) (Some c) r' /\ k + length l <= c.
Proof.
  induction l as [|y l IH]; intros k c r a H K; simpl in H.
  - inversion H; subst. simpl. rewrite Nat.add_0_r. eauto.
  - destruct y as [n v| | | |]; try discriminate.
    destruct (n =? c) eqn:E; [|discriminate]. destruct (k <? c) eqn:E'; [|discriminate]. apply Nat.ltb_lt in E'. simpl in H.
    destruct (IH _ _ _ _ H) as (r' & -> & Q); [lia|]. simpl length. rewrite Nat.add_succ_r. eauto.
Qed.

(** The first registrant of a phase of a named barrier sets its count. *)
Lemma sum_named_first b y (l : list payload) r a : sum b (Named 0 None r) (y :: l) = Some a ->
  exists n v r', y = Arrive n v /\ a = Named (S (length l)) (Some n) r' /\ S (length l) <= n.
Proof.
  intro H. destruct y as [n v| | | |]; try discriminate. simpl in H. destruct n as [|n]; [discriminate|].
  apply sum_named in H; [|lia]. destruct H as (r' & H & Q). exists (S n), v, r'. auto.
Qed.

Lemma sum_named_counts b (l : list payload) : forall k c r a, sum b (Named k (Some c) r) l = Some a ->
  forall y, In y l -> exists v, y = Arrive c v.
Proof.
  induction l as [|y l IH]; intros k c r a H z J; [easy|]. simpl in H.
  destruct y as [n v| | | |]; try discriminate. destruct (Nat.eqb_spec n c); [|discriminate]. destruct (k <? c); [|discriminate].
  simpl in H. subst n. destruct J as [<-|J]; eauto.
Qed.

Lemma sum_group b (l : list payload) : forall n p values a, sum b (Group n p values) l = Some a ->
  exists n' values', a = Group n' (p - length l) values' /\ length l <= p.
Proof.
  induction l as [|y l IH]; intros n p values a H; simpl in H.
  - inversion H; subst. exists n, values. simpl. rewrite Nat.sub_0_r. split; [auto|lia].
  - destruct y as [|m v|m| |]; try discriminate; destruct p as [|p]; try discriminate; simpl in H.
    + destruct (has_value m values); [discriminate|]. simpl in H. rewrite Nat.sub_0_r in H.
      destruct (IH _ _ _ _ H) as (n' & values' & -> & Q). exists n', values'. simpl. split; [auto|lia].
    + rewrite Nat.sub_0_r in H. destruct (IH _ _ _ _ H) as (n' & values' & -> & Q). exists n', values'. simpl. split; [auto|lia].
Qed.

Lemma sum_dead b (l : list payload) a : sum b Dead l = Some a -> (l = [] /\ a = Dead) \/ exists n, l = [Init n] /\ a = Born n.
Proof.
  destruct l as [|y l]; simpl; intro H; [inversion H; auto|]. right.
  destruct y as [| | | |n]; try discriminate. exists n. destruct l as [|z l]; simpl in H; [inversion H; auto|].
  destruct z; discriminate.
Qed.

Definition arrivals y := match y with Count a _ _ _ => a | _ => 0 end.
Definition expected y := match y with Count _ _ x _ => x | _ => 0 end.
Definition completed y := match y with Count _ _ _ c => c | _ => 0 end.
Fixpoint total (g : payload -> nat) l := match l with [] => 0 | y :: l' => g y + total g l' end.

Lemma sum_mbarrier b (l : list payload) : forall e p x a, sum b (Mbarrier e p x) l = Some a ->
  exists e', a = Mbarrier e' (p - total arrivals l) (x + Z.of_nat (total expected l) - Z.of_nat (total completed l)) /\
    total arrivals l <= p.
Proof.
  induction l as [|y l IH]; intros e p x a H; simpl in H.
  - inversion H; subst. exists e. simpl. split; [|lia]. f_equal; lia.
  - destruct y as [| | |ar dr ex co|]; try discriminate. destruct (ar <=? p) eqn:E; [|discriminate]. apply Nat.leb_le in E.
    destruct (IH _ _ _ _ H) as (e' & -> & Q). exists e'. simpl. split; [|lia]. f_equal; lia.
Qed.

Lemma sum_mbarrier_counts b (l : list payload) : forall e p x a, sum b (Mbarrier e p x) l = Some a ->
  forall y, In y l -> exists ar dr ex co, y = Count ar dr ex co.
Proof.
  induction l as [|y l IH]; intros e p x a H z J; [easy|]. simpl in H.
  destruct y as [| | |ar dr ex co|]; try discriminate. destruct (ar <=? p); [|discriminate].
  destruct J as [<-|J]; eauto 6.
Qed.

Lemma sum_count b (l : list payload) : forall (a0 a : content) ar dr ex co, sum b a0 l = Some a -> In (Count ar dr ex co) l ->
  exists e p x, a0 = Mbarrier e p x.
Proof.
  intros a0 a ar dr ex co H J. destruct a0 as [k c r|n p values|e p x| |k]; eauto; exfalso.
  - destruct c as [c|].
    + destruct (sum_named_counts _ _ _ _ _ _ H _ J). discriminate.
    + destruct l as [|y l]; [easy|]. simpl in H. destruct y as [[|n] v| | | |]; try discriminate.
      destruct J as [J|J]; [discriminate J|]. destruct (sum_named_counts _ _ _ _ _ _ H _ J). discriminate.
  - revert n p values H. induction l as [|y l IH]; intros n p values H; [easy|]. simpl in H.
    destruct J as [->|J]; [discriminate H|]. destruct y as [|m v|m| |]; try discriminate.
    + destruct (_ && _); [eauto|discriminate H].
    + destruct p; [discriminate H|eauto].
  - destruct (sum_dead _ _ _ H) as [(-> & _)|(n & -> & _)]; simpl in J; intuition discriminate.
  - destruct l as [|y l]; [easy|]. simpl in H. destruct y; discriminate.
Qed.

Lemma total_parts (g : payload -> nat) (D : event -> bool) (l : list (event * payload)) :
  total g (map snd l) = total g (map snd (filter (fun r => D (fst r)) l)) +
                        total g (map snd (filter (fun r => negb (D (fst r))) l)).
Proof. induction l as [|[e y] l IH]; simpl; auto. destruct (D e); simpl; lia. Qed.

Lemma total_in (g : payload -> nat) l y : In y l -> g y <= total g l.
Proof. induction l; simpl; intros []; subst; try lia. specialize (IHl H). lia. Qed.

Lemma total_zero (g : payload -> nat) l : (forall y, In y l -> g y = 0) -> total g l = 0.
Proof. induction l; simpl; intros H; auto. rewrite H, IHl; auto. Qed.

Lemma filter_takes_all {X} (g : X -> bool) l : length l <= length (filter g l) -> forall x, In x l -> g x = true.
Proof.
  assert (B : forall l', length (filter g l') <= length l') by (induction l'; simpl; [lia|destruct (g a); simpl; lia]).
  induction l as [|a l IH]; simpl; intros H x []; subst.
  - destruct (g x) eqn:E; auto. specialize (B l). lia.
  - destruct (g a); simpl in H; [apply IH; auto; lia|]. specialize (B l). lia.
Qed.

(** ** The rules for bytes *)
Section Rules56.
Variable T : list (entry gpu).

(** R5: in a phase that has all its arrivals, each expect-tx operation includes an arrival or happens before one. *)
Definition rule_expect := forall b g e0 x, closing T b g (Mbarrier e0 0 x) ->
  forall e ar dr ex co, In (e, (Register b (Count ar dr ex co), g)) T -> 0 < ex -> 0 < ar \/
  exists e' ar' dr' ex' co', In (e', (Register b (Count ar' dr' ex' co'), g)) T /\ 0 < ar' /\ before T e e'.
(** R6: no phase that has all its arrivals has more complete-tx bytes than expect-tx bytes. *)
Definition rule_balance := forall b g e0 x, closing T b g (Mbarrier e0 0 x) -> (0 <= x)%Z.
(** A registrant of an mbarrier adds at least one arrival or byte: a copy or an expect-tx operation of 0 bytes is not a registrant. *)
Definition rule_positive := forall e b ar dr ex co g,
  In (e, (Register b (Count ar dr ex co), g)) T -> 0 < ar + ex + co.

Hypothesis Hobjects : forall b, fresh (objects b).

Lemma opening_fresh b g a : opening T b g = Some a -> fresh a.
Proof.
  destruct g as [|g]; simpl; intro H.
  - inversion H; subst. apply Hobjects.
  - destruct (opening T b g); [|discriminate]. destruct (Rules.sum _ _ _) as [a'|]; [|discriminate].
    inversion H. unfold fresh. destruct a' as [] ; simpl; eauto.
Qed.

Hypothesis closing_exists : forall e b y g, In (e, (Register b y, g)) T -> exists a, closing T b g a.
Hypothesis unique : NoDup (map fst T).
Hypothesis R5 : rule_expect.
Hypothesis R6 : rule_balance.
Hypothesis RP : rule_positive.

(** If a closed set D fills a phase of an mbarrier, the registrants outside of D add nothing. *)
Lemma nothing_outside b g n D a a' : closed T D -> opening T b g = Some (Mbarrier n n 0) ->
  sum b (Mbarrier n n 0) (map snd (filter (fun r => D (fst r)) (registrants T b g))) = Some a -> is_full a = true ->
  sum b (Mbarrier n n 0) (map snd (registrants T b g)) = Some a' ->
  let rest := map snd (filter (fun r => negb (D (fst r))) (registrants T b g)) in
  total arrivals rest = 0 /\ total expected rest = 0 /\ total completed rest = 0.
Proof.
  intros Cl S0 Sm F Sm'.
  destruct (sum_mbarrier _ _ _ _ _ _ Sm) as (e1 & -> & _). destruct (sum_mbarrier _ _ _ _ _ _ Sm') as (e2 & E2 & Q).
  simpl in F. apply andb_true_iff in F as [F1 F2]. apply Nat.eqb_eq in F1. apply Z.eqb_eq in F2.
  pose proof (total_parts arrivals D (registrants T b g)) as SA. pose proof (total_parts expected D (registrants T b g)) as SE.
  pose proof (total_parts completed D (registrants T b g)) as SC.
  assert (In_T : forall e y, In (e, y) (registrants T b g) <-> In (e, (Register b y, g)) T) by (intros; apply in_registrants).
  assert (Close : forall a, sum b (Mbarrier n n 0) (map snd (registrants T b g)) = Some a -> closing T b g a)
    by (intros a1 Ha1; exists (Mbarrier n n 0); auto).
  clear S0. set (l := registrants T b g) in *. clearbody l. concrete.
  set (inside := map snd (filter (fun r => D (fst r)) l)) in *.
  set (rest := map snd (filter (fun r => negb (D (fst r))) l)) in *.
  set (whole := map snd l) in *.
  assert (A0 : total arrivals rest = 0) by lia.
  assert (La : closing T b g (Mbarrier e2 0 (Z.of_nat (total expected whole) - Z.of_nat (total completed whole)))).
  { apply Close. rewrite Sm', E2. do 2 f_equal; lia. }
  assert (X0 : total expected rest = 0).
  { apply total_zero. intros z Jz. unfold rest in Jz. apply in_map_iff in Jz as [[ez z'] [Ez Jz]]. simpl in Ez; subst z'.
    pose proof Jz as Kz. apply filter_In in Jz as [Jz Dz]. simpl in Dz. apply negb_true_iff in Dz.
    apply In_T in Jz. destruct z as [| | |ar dr ex co|]; try reflexivity. simpl.
    destruct ex as [|ex]; auto. exfalso.
    assert (Ar : ar = 0).
    { apply (in_map snd) in Kz. apply (total_in arrivals) in Kz. fold rest in Kz. simpl in Kz. lia. }
    destruct (R5 _ _ _ _ La _ _ _ _ _ Jz) as [K|(e' & ar' & dr' & ex' & co' & J' & P' & B')]; try lia.
    assert (De : D e' = true).
    { destruct (D e') eqn:De; auto. exfalso.
      assert (K : In (Count ar' dr' ex' co') rest).
      { unfold rest. apply in_map_iff. exists (e', Count ar' dr' ex' co'). split; auto. apply filter_In. simpl. rewrite De.
        split; auto. now apply In_T. }
      apply (total_in arrivals) in K. simpl in K. lia. }
    rewrite (closed_before T D Cl _ _ B' De) in Dz. discriminate. }
  pose proof (R6 _ _ _ _ La) as Bal. intro outside. unfold outside. lia.
Qed.

Lemma gpu_cover : cover T.
Proof.
  intros b g D a0 a Cl S0 Sm F e y J.
  destruct (closing_exists _ _ _ _ J) as (a' & a0' & S0' & Sm'). rewrite S0 in S0'. inversion S0'; subst a0'. clear S0'.
  pose proof (proj2 (in_registrants _ _ _ _ _) J) as Jr.
  assert (Len : forall l : list (event * payload), length (map snd l) = length l) by (intro; apply map_length).
  pose proof (nothing_outside b g) as Outside.
  set (l := registrants T b g) in *. concrete. change (is_full a = true) in F.
  destruct (opening_fresh _ _ _ S0) as [->|[(n & ->)|[(n & ->)| ->]]].
  - (* a named barrier: its count is the number of registrants *)
    apply (filter_takes_all (fun r => D (fst r)) l) with (x := (e, y)); auto.
    assert (Sub : forall r, In r (filter (fun r => D (fst r)) l) -> In r l)
      by (intros r K; apply filter_In in K; tauto).
    destruct (filter (fun r => D (fst r)) l) as [|[e1 y1] l1] eqn:E.
    { cbn in Sm. inversion Sm; subst a. discriminate F. }
    cbn [map snd] in Sm. destruct (sum_named_first _ _ _ _ _ Sm) as (n1 & v1 & r1 & -> & -> & _).
    unfold is_full in F. apply Nat.eqb_eq in F. rewrite Len in F.
    pose proof (Sub _ (or_introl eq_refl)) as K. apply (in_map snd) in K. simpl in K.
    destruct l as [|[e2 y2] l2]; [easy|].
    cbn [map snd] in Sm', K. destruct (sum_named_first _ _ _ _ _ Sm') as (n2 & v2 & r2 & -> & _ & Q). rewrite Len in Q.
    assert (n1 = n2).
    { simpl in K. destruct K as [K|K]; [congruence|]. simpl in Sm'. destruct n2 as [|n2]; [lia|].
      destruct (sum_named_counts _ _ _ _ _ _ Sm' _ K) as (v & Ev). congruence. }
    subst n2. simpl. lia.
  - (* a group: each thread that has not exited registers once *)
    apply (filter_takes_all (fun r => D (fst r)) l) with (x := (e, y)); auto.
    destruct (sum_group _ _ _ _ _ _ Sm) as (n1 & values1 & -> & Q). destruct (sum_group _ _ _ _ _ _ Sm') as (n2 & values2 & _ & Q2).
    simpl in F. apply Nat.eqb_eq in F. rewrite Len in *. lia.
  - (* an mbarrier: the others would add nothing *)
    destruct (Outside n D a a' Cl S0 Sm F Sm') as (A0 & X0 & C0).
    destruct (D e) eqn:De; auto. exfalso.
    assert (K : In y (map snd (filter (fun r => negb (D (fst r))) l))).
    { apply in_map_iff. exists (e, y). split; auto. apply filter_In. simpl. rewrite De. auto. }
    destruct (sum_mbarrier_counts _ _ _ _ _ _ Sm' _ (in_map snd _ _ Jr)) as (ar & dr & ex & co & E). simpl in E. subst y.
    pose proof (total_in arrivals _ _ K). pose proof (total_in expected _ _ K). pose proof (total_in completed _ _ K).
    simpl in *. pose proof (RP _ _ _ _ _ _ _ J). lia.
  - (* an initialization: there is exactly one *)
    apply (filter_takes_all (fun r => D (fst r)) l) with (x := (e, y)); auto.
    rewrite <- (Len l), <- (Len (filter _ _)).
    destruct (sum_dead _ _ _ Sm) as [(E1 & ->)|(n & -> & ->)]; [discriminate|].
    destruct (sum_dead _ _ _ Sm') as [(-> & _)|(n' & -> & _)]; simpl; lia.
Qed.

Lemma gpu_last_ends : last_ends T.
Proof.
  intros b g D e y a Cl J De All (a0 & S0 & Sm) F. destruct y as [| | |ar dr ex co|]; try reflexivity.
  destruct ar as [|ar]; [|reflexivity]. destruct co as [|co]; [|reflexivity]. exfalso.
  pose proof (RP _ _ _ _ _ _ _ J) as Po.
  pose proof (in_map snd _ _ (proj2 (in_registrants T _ _ _ _) J)) as K. cbn [snd] in K. concrete.
  destruct (sum_count _ _ _ _ _ _ _ _ Sm K) as (e1 & p1 & x1 & ->).
  destruct (sum_mbarrier _ _ _ _ _ _ Sm) as (e2 & Ea & _). subst a. cbn in F. apply andb_true_iff in F as [F _]. apply Nat.eqb_eq in F.
  rewrite F in Sm.
  assert (La : closing T b g (Mbarrier e2 0 (x1 + Z.of_nat (total expected (map snd (registrants T b g)))
    - Z.of_nat (total completed (map snd (registrants T b g)))))) by (exists (Mbarrier e1 p1 x1); auto).
  destruct (R5 _ _ _ _ La _ _ _ _ _ J) as [Q|(e' & ar' & dr' & ex' & co' & J' & P' & B)]; try lia.
  destruct (All _ _ J') as [->|D'].
  - pose proof (unique_value _ e _ _ unique J J') as Q. inversion Q. lia.
  - rewrite (closed_before T D Cl _ _ B D') in De. discriminate.
Qed.
End Rules56.

(** ** The theorem for GPU objects *)

(** The rules of docs/semantics.md. *)
Record rules (T : list (entry gpu)) : Prop := {
  recycle : rule_recycle T;      (* R1 *)
  early : rule_early T;          (* R2 *)
  late : rule_late T;            (* R3 *)
  init : rule_init T;            (* R4 *)
  expect : rule_expect T;        (* R5 *)
  balance : rule_balance T;      (* R6 *)
  positive : rule_positive T     (* no empty registrant *)
}.

Section Reference.
Hypothesis Hobjects : forall b, fresh (objects b).
Variables (s0 f : state gpu) (r0 : list process) (T : list (entry gpu)).
Hypothesis H : reference s0 r0 T f.

Lemma rules_suffice : rules T -> well_synchronized T.
Proof.
  intros [R1 R2 R3 R4 R5 R6 RP].
  pose proof (distinct (reference_complete _ _ _ _ H)) as U.
  pose proof (reference_closing gpu_commutative _ _ _ _ H R1 R2) as Cl.
  split; auto.
  - apply gpu_cover; auto.
  - apply gpu_last_ends; auto.
Qed.

Theorem gpu_decides : rules T -> no_race T -> decides s0 r0 T f.
Proof. intros R RR. apply one_run_decides; auto using gpu_commutative, rules_suffice. Qed.
End Reference.
End Gpu.
