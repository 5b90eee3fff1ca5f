(** * Groups: barriers of a fixed set of threads, which may exit

    __syncwarp, votes and shuffles, __syncthreads, the barrier of a cluster or a grid: each thread waits for a phase before it
    registers again, and a thread that has exited does not register.  Such a group keeps R1 by itself ([disciplined_recycles]), so that
    race freedom is all that remains to be checked ([groups_decide]). *)
From Coq Require Import List Arith Lia Bool ZArith Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun Phases Gpu Stages.

(** ** Groups keep R1 *)
Section Groups.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.
Notation M := (gpu L V next resume objects strict).

(** Object b is used as a barrier of n threads; thread numbers are below n, and [number p] is that of process p.  Each process registers as its own
    thread, waits for the phase before it registers again, and does not register after it has left. *)
Record disciplined (T : list (entry M)) (b : object) (n : nat) (number : process -> nat) : Prop := {
  own_number : forall e y g, In (e, (Register b y, g)) T ->
    number (fst e) < n /\ ((exists v, y = Join (number (fst e)) v) \/ y = Leave (number (fst e)));
  one_process : forall e y g e' y' g', In (e, (Register b y, g)) T -> In (e', (Register b y', g')) T ->
    number (fst e) = number (fst e') -> fst e = fst e';
  waits_between : forall p i y g j y' g', In ((p, i), (Register b y, g)) T -> In ((p, j), (Register b y', g')) T -> i < j ->
    (exists v, y = Join (number p) v) /\ exists k h, i < k < j /\ In ((p, k), (Wait b (Over g), h)) T
}.

Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.

Section OneGroup.
Variables (b : object) (n : nat) (number : process -> nat).
Hypothesis Hb : objects b = Group n n [].
Hypothesis D : disciplined T b n number.

Lemma facts : phases_of T f b.
Proof. eapply run_phases; [exact (from_start H)|exact (executed_run H)]. Qed.

(** Of two registrations of one process, the later one is in a later phase. *)
Lemma later_phase p i y g j y' g' : In ((p, i), (Register b y, g)) T -> In ((p, j), (Register b y', g')) T -> i < j -> g < g'.
Proof.
  intros J J' Lt. destruct (waits_between _ _ _ _ D _ _ _ _ _ _ _ J J' Lt) as (_ & k & h & K & W).
  exact (in_turn _ _ _ facts _ _ _ _ _ _ _ W J' (proj2 K)).
Qed.

Definition leaves_in g m := existsb (fun r => match snd r with Leave k => k =? m | _ => false end) (registrants T b g).
(** The threads that have not left before phase g. *)
Fixpoint alive g := match g with 0 => seq 0 n | S g' => filter (fun m => negb (leaves_in g' m)) (alive g') end.

Lemma alive_unique g : NoDup (alive g).
Proof. induction g; simpl; [apply seq_NoDup|now apply NoDup_filter]. Qed.

(** A thread that is not alive in phase g left in an earlier phase. *)
Lemma not_alive m g : m < n -> In m (alive g) \/ exists g' e, g' < g /\ In (e, (Register b (Leave m), g')) T.
Proof.
  intro Lt. induction g as [|g [IH|(g' & e & Lg & J)]]; simpl.
  - left. apply in_seq. lia.
  - destruct (leaves_in g m) eqn:E; [|left; apply filter_In; rewrite E; auto]. right.
    unfold leaves_in in E. apply existsb_exists in E as [[e y] [J E]]. destruct y; try discriminate. simpl in E. apply Nat.eqb_eq in E. subst m0.
    exists g, e. split; auto. now apply (in_registrants T).
  - right. exists g', e. split; auto.
Qed.

Lemma registrant_alive e y g : In (e, (Register b y, g)) T -> In (number (fst e)) (alive g).
Proof.
  intro J. destruct (own_number _ _ _ _ D _ _ _ J) as (Lt & _).
  destruct (not_alive (number (fst e)) g Lt) as [|(g' & e' & Lg & J')]; auto. exfalso.
  destruct (own_number _ _ _ _ D _ _ _ J') as (_ & [(v & Q)|Q]); [discriminate|]. inversion Q as [E].
  pose proof (one_process _ _ _ _ D _ _ _ _ _ _ J J' E) as P. destruct e as [p i], e' as [p' i']. simpl in *. subst p'.
  destruct (lt_eq_lt_dec i i') as [[Li|Li]|Li].
  - pose proof (later_phase _ _ _ _ _ _ _ J J' Li). lia.
  - subst i'. pose proof (unique_value _ _ _ _ (distinct (reference_complete _ _ _ _ H)) J J') as Q'. inversion Q'. lia.
  - destruct (waits_between _ _ _ _ D _ _ _ _ _ _ _ J' J Li) as ((v & Q') & _). discriminate.
Qed.

Definition numbers g := map (fun r => number (fst (fst r))) (registrants T b g).

(** Each thread registers at most once in a phase. *)
Lemma numbers_unique g : NoDup (numbers g).
Proof.
  unfold numbers. pose proof (unique_registrants T b g (distinct (reference_complete _ _ _ _ H))) as U.
  assert (I : forall r, In r (registrants T b g) -> In (fst r, (Register b (snd r), g)) T)
    by (intros [e y] J; now apply (in_registrants T)).
  induction (registrants T b g) as [|[e y] l IH]; simpl in *; [constructor|]. inversion U as [|? ? U1 U2]; subst.
  constructor; [|apply IH; auto]. intro J. apply in_map_iff in J as [[e' y'] [E J]]. simpl in E.
  pose proof (I _ (or_introl eq_refl)) as J1. pose proof (I _ (or_intror J)) as J2. simpl in J1, J2.
  pose proof (one_process _ _ _ _ D _ _ _ _ _ _ J1 J2 (eq_sym E)) as P. destruct e as [p i], e' as [p' i']. simpl in P. subst p'.
  destruct (lt_eq_lt_dec i i') as [[Li|Li]|Li].
  - pose proof (later_phase _ _ _ _ _ _ _ J1 J2 Li). lia.
  - subst i'. apply U1. now apply (in_map fst) in J.
  - pose proof (later_phase _ _ _ _ _ _ _ J2 J1 Li). lia.
Qed.

Lemma numbers_alive g : incl (numbers g) (alive g).
Proof.
  intros m J. apply in_map_iff in J as [[e y] [<- J]]. apply (in_registrants T) in J. exact (registrant_alive _ _ _ J).
Qed.

Definition is_leave (r : event * payload) := match snd r with Leave _ => true | _ => false end.

Lemma sum_group_members (l : list payload) : forall k p values a, sum (M := M) b (Group k p values) l = Some a -> p <= k ->
  exists values', a = Group (k - length (filter (fun y => match y with Leave _ => true | _ => false end) l)) (p - length l) values' /\ length l <= p.
Proof.
  induction l as [|y l IH]; intros k p values a S Le; simpl in S.
  - inversion S; subst. simpl. rewrite !Nat.sub_0_r. eexists. split; [reflexivity|lia].
  - destruct y as [|m v|m| |]; try discriminate; destruct p as [|p]; try discriminate; simpl in S; rewrite Nat.sub_0_r in S.
    + destruct (has_value m values); [discriminate|]. simpl in S. destruct (IH _ _ _ _ S) as (values' & -> & Q); [lia|].
      exists values'. simpl. split; [auto|lia].
    + destruct (IH _ _ _ _ S) as (values' & -> & Q); [lia|]. exists values'. simpl. split; [f_equal; lia|lia].
Qed.

Lemma leaves_count g : length (filter (fun m => leaves_in g m) (alive g)) = length (filter is_leave (registrants T b g)).
Proof.
  rewrite <- (map_length (fun r : event * payload => number (fst (fst r))) (filter is_leave (registrants T b g))).
  apply Permutation_length. apply NoDup_Permutation.
  - apply NoDup_filter, alive_unique.
  - pose proof (numbers_unique g) as U. unfold numbers in U.
    induction (registrants T b g) as [|r l IH]; simpl in *; [constructor|]. inversion U as [|? ? U1 U2]; subst.
    destruct (is_leave r); simpl; auto. constructor; auto. intro J. apply U1.
    apply in_map_iff in J as [r' [E J]]. apply filter_In in J as [J _]. apply in_map_iff. exists r'. auto.
  - intro m. rewrite filter_In, in_map_iff. split.
    + intros (_ & E). unfold leaves_in in E. apply existsb_exists in E as [[e y] [J E]]. destruct y as [| |k| |]; try discriminate.
      simpl in E. apply Nat.eqb_eq in E. subst k. exists (e, Leave m). split.
      * destruct (own_number _ _ _ _ D e (Leave m) g) as (_ & [(v & Q)|Q]); [now apply (in_registrants T)|discriminate|]. simpl. congruence.
      * apply filter_In. auto.
    + intros ([e y] & <- & J). apply filter_In in J as [J Le]. simpl. unfold is_leave in Le. simpl in Le. destruct y as [| |k| |]; try discriminate.
      assert (Jt : In (e, (Register b (Leave k), g)) T) by now apply (in_registrants T).
      destruct (own_number _ _ _ _ D _ _ _ Jt) as (_ & [(v & Q)|Q]); [discriminate|]. inversion Q; subst k. split.
      * exact (registrant_alive _ _ _ Jt).
      * unfold leaves_in. apply existsb_exists. exists (e, Leave (number (fst e))). split; auto. simpl. apply Nat.eqb_refl.
Qed.

Lemma filter_complement (p : nat -> bool) l : length (filter (fun m => negb (p m)) l) = length l - length (filter p l).
Proof.
  assert (E : length (filter (fun m => negb (p m)) l) + length (filter p l) = length l).
  { induction l as [|x l IH]; simpl; auto. destruct (p x); simpl; lia. }
  lia.
Qed.

Lemma opening_group g : g <= phase f b -> opening T b g = Some (Group (length (alive g)) (length (alive g)) []).
Proof.
  induction g as [|g IH]; intro Le.
  - simpl. rewrite Hb, seq_length. reflexivity.
  - destruct (completed_before _ _ _ facts g) as (a & Cl & F); [lia|]. rewrite (opening_next _ _ _ _ Cl).
    destruct Cl as (a0 & S0 & Sm). rewrite IH in S0 by lia. inversion S0; subst a0.
    destruct (sum_group_members _ _ _ _ _ Sm) as (values & -> & Q); auto. simpl. do 2 f_equal.
    all: rewrite filter_complement, leaves_count; f_equal.
    all: clear; induction (registrants T b g) as [|[e y] l IH]; simpl; auto; unfold is_leave; simpl; destruct y; simpl; auto.
Qed.

(** A phase that completes has all threads that have not left. *)
Lemma everyone_registers g m : g < phase f b -> In m (alive g) -> exists e y, In (e, (Register b y, g)) T /\ number (fst e) = m.
Proof.
  intros Lt J. destruct (completed_before _ _ _ facts g Lt) as (a & (a0 & S0 & Sm) & F).
  rewrite opening_group in S0 by lia. inversion S0; subst a0.
  destruct (sum_group_members _ _ _ _ _ Sm) as (values & -> & Q); auto. simpl in F. apply Nat.eqb_eq in F. rewrite map_length in F, Q.
  assert (K : incl (alive g) (numbers g)).
  { apply NoDup_length_incl; [apply numbers_unique| |apply numbers_alive]. unfold numbers. rewrite map_length. apply Nat.sub_0_le. exact F. }
  apply K in J. apply in_map_iff in J as [[e y] [E J]]. exists e, y. split; [now apply (in_registrants T)|exact E].
Qed.

(** R1 holds at a disciplined group. *)
Lemma disciplined_recycles g c1 y1 c2 y2 : In (c1, (Register b y1, g)) T -> In (c2, (Register b y2, S g)) T -> before T c1 c2.
Proof.
  intros J1 J2. pose proof (no_later _ _ _ facts _ _ _ J2) as Le.
  pose proof (registrant_alive _ _ _ J2) as A2. simpl in A2. apply filter_In in A2 as [A2 _].
  destruct (everyone_registers g _ Le A2) as (e & y & J & E).
  pose proof (one_process _ _ _ _ D _ _ _ _ _ _ J J2 E) as P. destruct e as [p i], c2 as [p' j]. simpl in P. subst p'.
  assert (Lt : i < j).
  { destruct (lt_eq_lt_dec i j) as [[Li|Li]|Li]; auto; exfalso.
    - subst j. pose proof (unique_value _ _ _ _ (distinct (reference_complete _ _ _ _ H)) J J2) as Q. inversion Q. lia.
    - pose proof (later_phase _ _ _ _ _ _ _ J2 J Li). lia. }
  destruct (waits_between _ _ _ _ D _ _ _ _ _ _ _ J J2 Lt) as (_ & k & h & K & W).
  assert (h = S g) as ->.
  { destruct (waits (reference_complete _ _ _ _ H) _ _ _ _ W) as (_ & Q). exact (Q _ eq_refl). }
  eapply t_trans; [apply t_step; right; exists b, y1, g, (Over g); split; [exact J1|exact W]|].
  apply t_step. left. left. simpl. lia.
Qed.
End OneGroup.

(** If every object is a disciplined group, race freedom suffices. *)
Theorem groups_decide :
  (forall b, exists n number, objects b = Group n n [] /\ disciplined T b n number) ->
  (forall e b p h, ~ In (e, (Wait b (Parity p), h)) T) ->
  no_race T -> decides s0 r0 T f.
Proof.
  intros Hg Hw RR. eapply barriers_decide; eauto.
  - intros b g c1 y1 c2 y2. destruct (Hg b) as (n & number & Hb & D). eapply disciplined_recycles; eauto.
  - intro b. destruct (Hg b) as (n & _ & Hb & _). eauto.
Qed.
End Groups.
