(** * Residuals of the reference run

    [replays T f s r]: schedule r leads from state s to the final state f, and each step is an entry of T.  Such a residual r
    determines which registrants remain, and therefore the current phase of each object. *)
From Coq Require Import List Arith Lia Bool Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps.

Section Residual.
Context {M : machine}.
Variable T : list (entry M).
Variable f : state M.
Implicit Types s k : state M.

(** The properties of the trace T and the last state f of a run, and of a complete run. *)
Record traced : Prop := {
  distinct : NoDup (map fst T);
  waits : waits_succeed T;
  all_done : forall e x, In (e, x) T -> done f e
}.
Record complete : Prop := {
  is_traced : traced;
  ended : finished f
}.

Inductive replays : state M -> list process -> Prop :=
| replays_nil s : same s f -> replays s []
| replays_cons s u r s2 e :
    step u s = Some s2 -> entry_at u s = Some e -> In e T -> replays s2 r -> replays s (u :: r).

(** The invariant.  The executed events are closed under happens-before; the contents of each object are the sum of
    the executed registrants of its current phase; no registrant of a later phase is executed.  It says nothing about memory. *)
Definition consistent s :=
  (forall e1 e2, edge T e1 e2 -> done s e2 -> done s e1) /\
  (forall b, exists a0, opening T b (phase s b) = Some a0 /\
     sum b a0 (map snd (filter (fun r => is_done s (fst r)) (registrants T b (phase s b)))) = Some (contents s b)) /\
  (forall e b y g, In (e, (Register b y, g)) T -> done s e -> g <= phase s b).

Section Traced.
Hypothesis C : traced.

Lemma only_one e x y : In (e, x) T -> In (e, y) T -> x = y.
Proof. apply unique_value. exact (distinct C). Qed.

Lemma replays_same s s' r : same s s' -> replays s r -> replays s' r.
Proof.
  intros E X. revert s' E. induction X as [s H|s u r s2 e Hs He Hi X IH]; intros s' E.
  - constructor. eapply same_trans; [apply same_sym; eauto|auto].
  - destruct (same_step _ _ _ _ E Hs) as (s1' & Ha & E'). econstructor; eauto.
    now rewrite <- (same_entry _ _ u E).
Qed.

Lemma run_replays schedule : forall s t, run s schedule = Some (t, f) -> incl t T -> replays s schedule.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s t H J.
  { inversion H; subst. constructor. apply same_refl. }
  destruct (entry_at u s) as [e|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  econstructor; eauto. { apply J. now left. } eapply IH; eauto. intros x K. apply J. now right.
Qed.

Lemma replays_run s r : replays s r -> exists t' f', run s r = Some (t', f') /\ same f' f.
Proof.
  induction 1 as [s H|s u r s2 e Hs He Hi X IH]; simpl; [eauto|].
  rewrite Hs, He. destruct IH as (t' & f' & -> & Q). eauto.
Qed.

(** ** Remaining events *)

(** The object whose phase is the label of the operation. *)
Definition phase_object (o : operation (local M) (value M) (payload M)) :=
  match o with Register b _ | Wait b (Parity _) => Some b | _ => None end.

Lemma label_phase o b s : phase_object o = Some b -> label o s = phase s b.
Proof. destruct o as [| | |? [|]|]; simpl; congruence. Qed.

Lemma nothing_left s e x : same s f -> In (e, x) T -> ~ done s e -> False.
Proof. intros (_ & E & _) I N. apply N. unfold done. rewrite E. exact (all_done C _ _ I). Qed.

(** A remaining event belongs to the current phase or a later one. *)
Lemma future_phase s r e o n b : replays s r -> In (e, (o, n)) T -> ~ done s e -> phase_object o = Some b -> phase s b <= n.
Proof.
  intros X. induction X as [s H|s u r s2 e0 Hs He Hi X IH]; intros I N Pb. { exfalso; eauto using nothing_left. }
  destruct (not_done_step _ _ _ _ Hs N) as [ ->|N'].
  - apply step_inv in Hs as (l & o' & _ & _ & _ & _ & E). rewrite E in He. inversion He; subst.
    pose proof (only_one _ _ _ I Hi) as K. inversion K; subst. rewrite (label_phase _ _ _ Pb). lia.
  - specialize (IH I N' Pb). pose proof (step_phase _ _ _ b Hs). lia.
Qed.

(** If an event of phase n remains, then a registrant of each phase from the current one up to n - 1 remains. *)
Lemma future_registrant s r e o n b m : replays s r -> In (e, (o, n)) T -> ~ done s e -> phase_object o = Some b ->
  phase s b <= m < n -> exists c y, In (c, (Register b y, m)) T /\ ~ done s c.
Proof.
  intros X. induction X as [s H|s u r s2 e0 Hs He Hi X IH]; intros I N Pb Le. { exfalso; eauto using nothing_left. }
  destruct (not_done_step _ _ _ _ Hs N) as [ ->|N'].
  - apply step_inv in Hs as (l & o' & _ & _ & _ & _ & E). rewrite E in He. inversion He; subst.
    pose proof (only_one _ _ _ I Hi) as K. inversion K; subst. rewrite (label_phase _ _ _ Pb) in Le. lia.
  - destruct (le_gt_dec (phase s2 b) m).
    + destruct IH as (c & y & Ic & Nc); auto; [lia|]. exists c, y; split; auto.
      intro D. apply Nc. apply (step_done _ _ _ _ Hs). auto.
    + destruct (step_object _ _ _ b Hs) as [(K & _)|(l & y & a & E & _ & [(_ & K & _)|(_ & K & _)])]; try lia.
      rewrite (entry_pending _ _ _ _ E) in He. inversion He; subst. exists (u, executed s u), y. split.
      * replace m with (phase s b) by lia. exact Hi.
      * apply not_done_next.
Qed.

(** No start of a started process remains. *)
Lemma future_start s r e q l n : replays s r -> locals s q <> None -> In (e, (Start q l, n)) T -> ~ done s e -> False.
Proof.
  intros X. induction X as [s H|s u r s2 e0 Hs He Hi X IH]; intros Q I N. { eauto using nothing_left. }
  destruct (not_done_step _ _ _ _ Hs N) as [ ->|N'].
  - apply step_inv in Hs as (l' & o' & _ & Ef & _ & _ & E). rewrite E in He. inversion He; subst.
    pose proof (only_one _ _ _ I Hi) as K. inversion K; subst. simpl in Ef. destruct (locals s q); congruence.
  - eapply IH; eauto using step_started.
Qed.

(** Every event that happens before the next event of the residual is executed. *)
Lemma edges_done_next s u r : replays s (u :: r) -> forall m, edge T m (u, executed s u) -> done s m.
Proof.
  intros X m B. destruct (done_dec s m) as [|N]; auto. exfalso. pose proof X as X'.
  inversion X' as [|? ? ? s2 e St En J X2]; subst. destruct (step_inv _ _ _ St) as (l & o & At & Ef & Lo & _ & En').
  rewrite En in En'. inversion En'; subst e.
  destruct B as [[(P1 & P2)|(l' & k & B)]|(b & y & g & w & J1 & J2)].
  - apply N. unfold done. simpl in P1, P2. rewrite P1. exact P2.
  - eapply (future_start s); eauto. simpl. congruence.
  - pose proof (only_one _ _ _ J J2) as Q. inversion Q; subst o. pose proof (future_phase _ _ _ _ _ b X J1 N eq_refl) as Le.
    unfold effect in Ef. destruct w as [g0|p]; simpl label in *.
    + assert (g0 = g) by congruence. subst g0. simpl in Ef. destruct (Nat.ltb_spec g (phase s b)); [lia|discriminate].
    + lia.
Qed.
End Traced.

Hypothesis C : complete.
Let C' : traced := is_traced C.

(** The next operation of each process is in T. *)
Lemma future_own s r t l o : replays s r -> pending s t = Some (l, o) -> exists n, In ((t, executed s t), (o, n)) T.
Proof.
  intros X. induction X as [s H|s u r s2 e0 Hs He Hi X IH]; intro E. { rewrite (same_pending _ _ t H), (ended C) in E. easy. }
  destruct (Nat.eq_dec t u) as [ ->|N].
  - rewrite (entry_pending _ _ _ _ E) in He. inversion He; subst. eauto.
  - destruct IH as (n & I). { eapply pending_other; eauto. }
    rewrite (step_executed _ _ _ _ Hs) in I. destruct (Nat.eqb_spec t u); [congruence|eauto].
Qed.

Lemma before_last e1 e2 : before T e1 e2 -> exists m, edge T m e2 /\ (e1 = m \/ before T e1 m).
Proof.
  intro H. apply clos_trans_tn1 in H. destruct H.
  - eauto.
  - exists y; split; auto. right. now apply clos_tn1_trans.
Qed.

Lemma closed_before (D : event -> bool) : closed T D -> forall e1 e2, before T e1 e2 -> D e2 = true -> D e1 = true.
Proof. intros Cl. induction 1; eauto. Qed.

Lemma done_before s : consistent s -> forall e1 e2, before T e1 e2 -> done s e2 -> done s e1.
Proof. intros (I1 & _). induction 1; eauto. Qed.

(** ** The phase of the next operation *)
Section Present.
Variables (s : state M) (r : list process).
Hypothesis I : consistent s.
Hypothesis X : replays s r.

Lemma done_precedes e t lo : pending s t = Some lo -> precedes T e (t, executed s t) -> done s e.
Proof.
  intros E [(A1 & A2)|(l & n & A1)].
  - simpl in *. unfold done. rewrite A1. exact A2.
  - destruct (done_dec s e) as [|N]; auto. exfalso. eapply (future_start C' _ _ _ t l n X); eauto.
    unfold pending in E. destruct (locals s t); congruence.
Qed.

(** Every event that happens before the next operation of a process is executed, unless that operation is a wait. *)
Lemma done_pending e t l o : pending s t = Some (l, o) -> (forall b w, o <> Wait b w) -> before T e (t, executed s t) -> done s e.
Proof.
  intros E N H. destruct (before_last _ _ H) as (m & Hm & K).
  assert (Dm : done s m).
  { destruct Hm as [Hm|(b & y & g & w & _ & J)]; [eapply done_precedes; eauto|].
    destruct (future_own _ _ _ _ _ X E) as (n & J'). pose proof (only_one C' _ _ _ J J') as Q. inversion Q. elim (N b w); auto. }
  destruct K as [ ->|K]; eauto using done_before.
Qed.

(** By R1, a registration is executed in the same phase as in the reference run. *)
Lemma same_phase_register t l b y : rule_recycle T ->
  pending s t = Some (l, Register b y) -> In ((t, executed s t), (Register b y, phase s b)) T.
Proof.
  intros R1 E. destruct (future_own _ _ _ _ _ X E) as (n & J).
  pose proof (future_phase C' _ _ _ _ _ b X J (not_done_next s t) eq_refl) as Le.
  destruct (Nat.eq_dec (phase s b) n) as [ ->|K]; auto. exfalso.
  destruct n as [|n]; [lia|].
  destruct (future_registrant C' _ _ _ _ _ b n X J (not_done_next s t) eq_refl) as (c & y' & Ic & Nc); [lia|].
  apply Nc. eapply done_pending; eauto. discriminate.
Qed.

Lemma odd_differs n : Nat.odd (S n) <> Nat.odd n.
Proof. rewrite Nat.odd_succ, <- Nat.negb_odd. now destruct (Nat.odd n). Qed.

(** By R2 at the current operation of process t: while e, a wait by parity for phase h, remains, its condition
    holds in phase h only. *)
Lemma same_phase_parity t e b p h : In (e, (Wait b (Parity p), h)) T -> ~ done s e -> pending s t <> None ->
  (forall g c y, h = S (S g) -> In (c, (Register b y, g)) T ->
     exists e0, precedes T e0 (t, executed s t) /\ (c = e0 \/ before T c e0)) ->
  passes (first_phase M b) (Parity p) (phase s b) = true -> phase s b = h.
Proof.
  intros J N At R2 Pa. pose proof (future_phase C' _ _ _ _ _ b X J N eq_refl) as Le.
  destruct (Nat.eq_dec (phase s b) h) as [|K]; auto. exfalso.
  destruct (waits C' _ _ _ _ J) as (Pn & _). unfold passes in Pa, Pn.
  apply andb_true_iff in Pa as [Pa1 Pa], Pn as [Pn1 Pn]. apply Nat.leb_le in Pa1, Pn1.
  assert (O : Nat.odd (phase s b - first_phase M b) = Nat.odd (h - first_phase M b))
    by (destruct (Nat.odd (phase s b - _)), (Nat.odd (h - _)), p; simpl in *; congruence).
  destruct (Nat.eq_dec h (S (phase s b))) as [E|Ne].
  { replace (h - first_phase M b) with (S (phase s b - first_phase M b)) in O by lia. symmetry in O. exact (odd_differs _ O). }
  destruct h as [|[|g]]; [lia|lia|].
  destruct (future_registrant C' _ _ _ _ _ b g X J N eq_refl) as (c & y & Ic & Nc); [lia|].
  destruct (R2 _ _ _ eq_refl Ic) as (e0 & B0 & K0). destruct (pending s t) as [lo|] eqn:E; [|congruence].
  pose proof (done_precedes _ _ _ E B0) as D0. apply Nc. destruct K0 as [->|K0]; eauto using done_before.
Qed.

(** By R2, a wait by parity succeeds in the same phase as in the reference run. *)
Lemma same_phase_wait t l b p : rule_early T ->
  pending s t = Some (l, Wait b (Parity p)) -> passes (first_phase M b) (Parity p) (phase s b) = true ->
  In ((t, executed s t), (Wait b (Parity p), phase s b)) T.
Proof.
  intros R2 E Pa. destruct (future_own _ _ _ _ _ X E) as (n & J).
  rewrite (same_phase_parity t _ _ _ _ J (not_done_next s t)); auto; [congruence|].
  intros g c y -> Ic. exact (R2 _ _ _ _ _ _ J Ic).
Qed.

(** If T has no race, the state has no data race. *)
Lemma never_racing : no_race T -> ~ racing s.
Proof.
  intros HR (p & q & l & o & l' & o' & N & E & E' & Cf).
  destruct (future_own _ _ _ _ _ X E) as (n & J), (future_own _ _ _ _ _ X E') as (n' & J').
  destruct (HR _ _ _ _ _ _ J J' N Cf) as [K|K].
  - apply (not_done_next s p). refine (done_pending _ _ _ _ E' _ K). destruct o, o'; simpl in Cf; try easy; discriminate.
  - apply (not_done_next s q). refine (done_pending _ _ _ _ E _ K). destruct o, o'; simpl in Cf; try easy; discriminate.
Qed.
End Present.
End Residual.
Arguments distinct {M T f}. Arguments waits {M T f}. Arguments ended {M T f}. Arguments all_done {M T f}. Arguments is_traced {M T f}.
Coercion is_traced : complete >-> traced.
