(** * One run decides every schedule

    [residual]: let r be a residual of the reference run in a state, and let any process t step in that state.  The next step of t in r
    moves to the front of r, one diamond at a time; r without it is a residual in the new state.
    The theorem follows by induction over the schedule. *)
From Coq Require Import List Arith Lia Bool Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant Diamond.

Section Residuals.
Context {M : machine}.
Variable T : list (entry M).
Variable f : state M.
Hypothesis comm : commutative M.
Hypothesis C : complete T f.
Hypothesis R : well_synchronized T.
Hypothesis RR : no_race T.

Lemma residual s r : replays T f s r -> consistent T s -> forall t s1, step t s = Some s1 ->
  exists r', replays T f s1 r' /\ Permutation r (t :: r') /\ exists e, entry_at t s = Some e /\ In e T.
Proof.
  intros X. induction X as [s H|s u r s2 e Hs He Hi X IH]; intros I t s1 Ht.
  { destruct (step_inv _ _ _ Ht) as (l & o & E & _). rewrite (same_pending _ _ t H), (ended C) in E. discriminate. }
  destruct (Nat.eq_dec t u) as [->|N].
  { rewrite Hs in Ht. inversion Ht; subst. exists r. repeat split; auto. eauto. }
  pose proof (replays_cons _ _ _ _ _ _ _ Hs He Hi X) as X'. pose proof (consistent_step T f comm C R _ _ _ _ I X' Hs) as I'.
  destruct (step_inv _ _ _ Ht) as (lt & ot & Et & _ & _ & _ & Ent).
  destruct (step_inv _ _ _ Hs) as (lu & ou & Eu & _ & _ & _ & Enu).
  pose proof (always_compatible T f comm C R RR _ _ _ _ _ _ _ _ _ _ _ N I X' Ht Hs Et Eu I' X) as Cp.
  destruct (commute comm _ _ _ _ _ _ _ _ _ N Ht Hs Et Eu Cp) as (s12 & s12' & A1 & A2 & Q & L1 & L2).
  destruct (IH I' t s12' A2) as (r' & X1 & Pm & e' & En' & J). exists (u :: r'). split; [|split].
  - apply replays_cons with (s2 := s12) (e := e); auto.
    + rewrite (entry_pending _ _ _ _ (pending_other _ _ _ _ _ Ht (not_eq_sym N) Eu)). rewrite L1, (step_executed _ _ _ _ Ht).
      destruct (Nat.eqb_spec u t); [congruence|]. congruence.
    + eapply replays_same; [apply same_sym|]; eauto.
  - rewrite Pm. apply perm_swap.
  - exists e'. split; auto. rewrite <- En'. rewrite Ent.
    rewrite (entry_pending _ _ _ _ (pending_other _ _ _ _ _ Hs N Et)). rewrite L2, (step_executed _ _ _ _ Hs).
    destruct (Nat.eqb_spec t u); [congruence|]. reflexivity.
Qed.

Lemma residuals schedule : forall s r t s', consistent T s -> replays T f s r -> run s schedule = Some (t, s') ->
  consistent T s' /\ incl t T /\ exists r', replays T f s' r' /\ Permutation r (schedule ++ r').
Proof.
  induction schedule as [|u sg IH]; simpl; intros s r t s' I X H.
  { inversion H; subst. split; auto. split; [easy|]. eauto. }
  destruct (entry_at u s) as [e|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  destruct (residual _ _ X I _ _ A1) as (r1 & X1 & P1 & e' & En' & J). rewrite En in En'. inversion En'; subst.
  destruct (IH _ _ _ _ (consistent_step T f comm C R _ _ _ _ I X A1) X1 E) as (I2 & J2 & r' & X2 & P2).
  split; auto. split. { intros x [<-|K]; auto. } exists r'. split; auto. now rewrite P1, P2.
Qed.
End Residuals.

Lemma initial_consistent {M : machine} (T : list (entry M)) s0 : initial s0 -> consistent T s0.
Proof.
  intros (E0 & P0 & A0).
  assert (N : forall e, ~ done s0 e) by (intro e; unfold done; rewrite E0; lia).
  split; [|split].
  - intros e1 e2 _ D. elim (N _ D).
  - intro b. rewrite P0, A0. exists (initial_contents M b). split; auto. rewrite filter_none; auto.
    intros x _. apply not_true_is_false. rewrite is_done_iff. apply N.
  - intros e b y g _ D. elim (N _ D).
Qed.

(** ** The statement *)

Section OneRun.
Context {M : machine}.

(** A complete run, called the reference run: schedule r0 leads from the initial state s0 to f, in which all processes have ended; T is its trace. *)
Record reference (s0 : state M) (r0 : list process) (T : list (entry M)) (f : state M) : Prop := {
  from_start : initial s0;
  executed_run : run s0 r0 = Some (T, f);
  to_end : finished f
}.

(** The guarantees about a run of another schedule from the initial state, which has reached s with trace t: *)
Record agrees_with_reference (r0 : list process) (T : list (entry M)) (f : state M)
    (schedule : list process) (t : list (entry M)) (s : state M) : Prop := {
  (** it has at most as many steps as the reference run, so every run is finite; *)
  bounded : length schedule <= length r0;
  (** each operation is an operation of the reference run, with equal operands, in the same phase; *)
  no_other_operation : incl t T;
  (** the next operation of a process is not an error; *)
  no_error : forall p, ~ error p s;
  (** there is no data race; *)
  no_data_race : ~ racing s;
  (** it can be completed, and then reaches the final state of the reference run; *)
  completable : exists rest t' f', run s rest = Some (t', f') /\ same f' f /\ Permutation r0 (schedule ++ rest);
  (** if no process can step, there is no deadlock: every process has ended, the final state (memory, local states,
      phases, contents) is that of the reference run, and so are the executed operations. *)
  same_end : stuck s -> same s f /\ finished s /\ Permutation schedule r0 /\ Permutation t T
}.

(** The guarantees hold for every run of every schedule. *)
Definition decides (s0 : state M) (r0 : list process) (T : list (entry M)) (f : state M) : Prop :=
  forall schedule t s, run s0 schedule = Some (t, s) -> agrees_with_reference r0 T f schedule t s.

Hypothesis comm : commutative M.
Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.

Lemma reference_complete : complete T f.
Proof.
  destruct H as [_ Hr Hf]. destruct (run_events _ _ _ _ Hr) as (N & D & _ & W).
  split; auto. split; auto. intros e x J. exact (proj2 (D _ _ J)).
Qed.

Lemma reference_replays : replays T f s0 r0.
Proof. eapply run_replays; [exact (executed_run _ _ _ _ H)|apply incl_refl]. Qed.

Lemma reference_consistent : consistent T s0.
Proof. apply initial_consistent. exact (from_start _ _ _ _ H). Qed.

(** By R1 and R2 only: the sums of the reference run are defined. *)
Lemma reference_closing : rule_recycle T -> rule_early T ->
  forall e b y g, In (e, (Register b y, g)) T -> exists a, closing T b g a.
Proof.
  intros H1 H2. eapply closing_defined; eauto using reference_complete, reference_replays, reference_consistent.
Qed.

(** The theorem, for all kinds of objects. *)
Theorem one_run_decides : well_synchronized T -> no_race T -> decides s0 r0 T f.
Proof.
  intros R RR sg t s Hs. pose proof reference_complete as C.
  destruct (residuals T f comm C R RR _ _ _ _ _ reference_consistent reference_replays Hs) as (I & J & r' & X & Pm).
  split; auto.
  - rewrite (Permutation_length Pm), app_length. lia.
  - eapply never_error; eauto.
  - eapply never_racing; eauto.
  - destruct (replays_run _ _ _ _ X) as (t' & f' & E & Q). exists r', t', f'. auto.
  - intro St. inversion X as [? E|? ? ? ? ? A1]; subst; [|rewrite St in A1; discriminate].
    rewrite app_nil_r in Pm. split; auto. split; [intro p; rewrite (same_pending _ _ p E); apply C|].
    split; [now apply Permutation_sym|].
    destruct (run_events _ _ _ _ Hs) as (N1 & _ & L1 & _), (run_events _ _ _ _ (executed_run _ _ _ _ H)) as (N2 & _ & L2 & _).
    apply NoDup_Permutation_bis; auto.
    + now apply NoDup_map_inv in N1.
    + rewrite L1, L2. now rewrite (Permutation_length Pm).
Qed.

(** A peek tests the condition of a wait by parity early, at an operation for which R2 holds as well.  If the condition holds at the
    peek, then it holds until the wait, in every schedule. *)
Theorem peek_holds : well_synchronized T -> no_race T -> forall sg1 t1 s1 sg2 t2 s2 t e b p h,
  run s0 sg1 = Some (t1, s1) -> run s1 sg2 = Some (t2, s2) ->
  In (e, (Wait b (Parity p), h)) T -> ~ done s2 e -> pending s1 t <> None ->
  (forall g c y, h = S (S g) -> In (c, (Register b y, g)) T ->
     exists e0, precedes T e0 (t, executed s1 t) /\ (c = e0 \/ before T c e0)) ->
  passes (first_phase M b) (Parity p) (phase s1 b) = true -> passes (first_phase M b) (Parity p) (phase s2 b) = true.
Proof.
  intros R RR sg1 t1 s1 sg2 t2 s2 t e b p h Ha Hb J N At Pk Pa. pose proof reference_complete as C.
  destruct (residuals T f comm C R RR _ _ _ _ _ reference_consistent reference_replays Ha) as (I1 & _ & r1 & X1 & _).
  destruct (residuals T f comm C R RR _ _ _ _ _ I1 X1 Hb) as (I2 & _ & r2 & X2 & _).
  assert (N1 : ~ done s1 e).
  { intro D. apply N. unfold done in *. pose proof (run_executed _ _ _ _ (fst e) Hb). lia. }
  assert (E1 : phase s1 b = h) by (eapply (same_phase_parity T f C); eauto).
  assert (Le : phase s2 b <= h) by (eapply (future_phase T f C); eauto; reflexivity).
  pose proof (run_phase _ _ _ _ b Hb). replace (phase s2 b) with h by lia. exact (proj1 (waits C _ _ _ _ J)).
Qed.
End OneRun.
Arguments from_start {M s0 r0 T f}. Arguments executed_run {M s0 r0 T f}. Arguments to_end {M s0 r0 T f}.
