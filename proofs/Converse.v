(** * The converse: a run that violates R1, R2, R3 or R4 does not decide every schedule

    R1, R2, R4: consider the first violation: an operation c2 of process u, and a registrant c1 that does not happen before c2 (R1), or before
    a predecessor of c2 (R2, R4).  Remove c1 and every event that happens after it.  Then u reaches c2 in an earlier phase.
    R3: consider the first phase that completes although a wait for the previous phase does not happen before any of its registrants.
    Remove the wait and every event that happens after it.  The phase still completes, and the wait has missed its phase. *)
From Coq Require Import List Arith Lia Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual OneRun Exact Decidable Phases.

Lemma before_incl {M : machine} (T T' : list (entry M)) e1 e2 : incl T' T -> before T' e1 e2 -> before T e1 e2.
Proof.
  intros I. induction 1 as [a b B|]; [|eapply t_trans; eauto]. apply t_step.
  destruct B as [[P|(l & n & P)]|(o & y & g & w & P1 & P2)].
  - left. left. exact P.
  - left. right. eauto.
  - right. exists o, y, g, w. auto.
Qed.

Section Converse.
Context {M : machine}.
Hypothesis comm : commutative M.
Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.

(** The run up to the violation: schedule ra leads to s2 with trace T'.  T' violates no rule, except that R3 may fail for one wait. *)
Variables (ra rest : list process) (T' : list (entry M)) (s2 : state M).
Hypothesis Er : r0 = ra ++ rest.
Hypothesis Ra : run s0 ra = Some (T', s2).
Hypothesis H1 : rule_recycle T'.
Hypothesis HC : cover T'.
Hypothesis HL : last_ends T'.
Hypothesis RR : no_race T'.

Lemma prefix_traced : traced T' s2.
Proof.
  destruct (run_events _ _ _ _ Ra) as (N & D & _ & W). split; auto. intros e x J. exact (proj2 (D _ _ J)).
Qed.

Lemma prefix_closings e b y g : In (e, (Register b y, g)) T' -> exists a, closing T' b g a.
Proof.
  intro J. destruct (run_phases _ _ _ _ b (from_start H) Ra) as [(a0 & S0 & Sm) Cb Nl _ _].
  destruct (le_lt_eq_dec _ _ (Nl _ _ _ J)) as [Lt|E].
  - destruct (Cb _ Lt) as (a & Cl & _). eauto.
  - subst g. exists (contents s2 b), a0. auto.
Qed.

Lemma prefix_split : incl T' T /\ exists T2, run s2 rest = Some (T2, f) /\ incl T2 T.
Proof.
  pose proof (executed_run H) as Hr. rewrite Er in Hr.
  destruct (run_firstn _ _ _ _ (length ra) Hr) as (s1 & R1' & R2').
  rewrite firstn_app, Nat.sub_diag, firstn_all, firstn_O, app_nil_r, Ra in R1'. inversion R1' as [[E1 E2]]. subst s1.
  rewrite skipn_app, Nat.sub_diag, skipn_all, skipn_O in R2'. simpl in R2'. split.
  - intros z Z. rewrite <- (firstn_skipn (length ra) T). apply in_or_app. left. exact Z.
  - exists (skipn (length ra) T). split; [exact R2'|]. intros z Z. rewrite <- (firstn_skipn (length ra) T). apply in_or_app. right. exact Z.
Qed.

(** ** R1, R2 and R4 *)
Section Early.
Hypothesis H3 : rule_late T'.
Variables (u : process) (rb : list process).
Hypothesis Eu : rest = u :: rb.

Lemma next_of_u : exists x, entry_at u s2 = Some x /\ In x T /\ step u s2 <> None.
Proof.
  destruct prefix_split as (_ & T2 & Hr & Inc). rewrite Eu in Hr. simpl in Hr.
  destruct (entry_at u s2) as [x|]; [|easy]. destruct (step u s2) as [s3|]; [|easy].
  destruct (run s3 rb) as [[l s4]|]; [|easy]. inversion Hr; subst. exists x. repeat split; [|easy]. apply Inc. now left.
Qed.

Variable c1 : event.
Variables (b : object) (y1 : payload M) (g : nat).
Hypothesis J1 : In (c1, (Register b y1, g)) T'.
Hypothesis unordered : forall e0, precedes T e0 (u, executed s2 u) -> ~ (c1 = e0 \/ before T c1 e0).

(** A run without c1 and the events that happen after it, in which the next operation of u is the same. *)
Lemma run_without : exists schedule t k, run s0 schedule = Some (t, k) /\ exact_state T' k /\ exact_state T' s2 /\ ~ done k c1 /\
  pending k u = pending s2 u /\ executed k u = executed s2 u /\
  forall e x, In (e, x) T' -> ~ (e = c1 \/ before T' c1 e) -> done k e.
Proof.
  destruct (run_split _ _ _ _ _ _ Ra J1) as (ra1 & ra2 & ta1 & s1 & tb & Ea & Ra1 & Ra2 & Ee).
  unfold entry_at in Ee. destruct (pending s1 (fst c1)) as [[l1 o1]|] eqn:At1; [|easy].
  assert (Ec' : c1 = (fst c1, executed s1 (fst c1))) by congruence. clear Ee.
  pose proof prefix_traced as C.
  assert (X0 : replays T' s2 s0 ra) by (eapply run_replays; [exact Ra|apply incl_refl]).
  assert (I0 : exact_state T' s0) by (apply initial_exact; exact (from_start H)).
  assert (X0' : replays T' s2 s0 (ra1 ++ fst c1 :: ra2 ++ [])) by (rewrite app_nil_r, <- Ea; exact X0).
  set (F := fun e => if event_dec e c1 then true else if before_dec _ _ _ _ (from_start H) Ra c1 e then true else false).
  assert (HF : forall e, F e = true <-> e = c1 \/ before T' c1 e).
  { intro e. unfold F. destruct (event_dec e c1) as [->|Ne]; [tauto|].
    destruct (before_dec _ _ _ _ (from_start H) Ra c1 e); intuition congruence. }
  destruct (remove_later T' s2 comm C prefix_closings H1 HC HL s0 ra1 (fst c1) ra2 [] ta1 s1 tb s2 (l1, o1) F I0 X0' Ra1 Ra2 At1)
    as (sg & t & k & Hk & Om & _ & Ik).
  { intro e. rewrite <- Ec'. apply HF. }
  { intros b0 p0 e0 h0 _ Jw Cm. exact (H3 _ _ _ _ Jw Cm). }
  { intros e1 x1 n1 e2 x2 n2 K1 K2 _ _. apply RR with (1 := K1) (2 := K2). }
  pose proof Om as (Rd & Rp & _).
  assert (W : untouched T' F s2 u).
  { apply (untouched_by T' s2 c1); [intros e Q; now apply HF|]. intros e0 P Q. apply (unordered e0).
    - destruct P as [P|(l & n & P)]; [left; exact P|right; exists l, n; exact (proj1 prefix_split _ P)].
    - destruct Q as [Q|Q]; [auto|right; exact (before_incl _ _ _ _ (proj1 prefix_split) Q)]. }
  exists sg, t, k. split; [exact Hk|]. split; [exact Ik|]. split; [|split; [|split; [|split]]].
  - assert (X1 : replays T' s2 s0 (ra ++ [])) by (rewrite app_nil_r; exact X0).
    exact (proj1 (reference_prefix T' s2 comm C HC HL ra s0 [] T' s2 I0 X1 Ra)).
  - intro D. apply Rd in D as (_ & D). assert (Fc : F c1 = true) by (apply HF; auto). congruence.
  - unfold pending. now rewrite (Rp _ W).
  - exact (executed_untouched T' F s2 k u Om W).
  - intros e x J N. apply Rd. split; [exact (all_done C _ _ J)|]. apply not_true_is_false. intro Q. apply HF in Q. auto.
Qed.

Lemma phase_too_early k : exact_state T' k -> ~ done k c1 -> phase k b <= g.
Proof.
  intros (_ & I4 & _) N. destruct (le_lt_dec (phase k b) g) as [|Lt]; auto. elim N. exact (I4 _ _ _ _ J1 Lt).
Qed.

(** If u can execute its next operation with another label, the reference run does not decide every schedule. *)
Lemma another_label schedule t k k2 l o n : run s0 schedule = Some (t, k) -> pending k u = Some (l, o) -> step u k = Some k2 ->
  executed k u = executed s2 u -> In ((u, executed s2 u), (o, n)) T -> label o k <> n -> ~ decides s0 r0 T f.
Proof.
  intros Hk At St Ex J Ne D. pose proof (entry_pending _ _ _ _ At) as En.
  assert (Hk2 : run s0 (schedule ++ [u]) = Some (t ++ [((u, executed k u), (o, label o k))], k2)).
  { eapply run_app; [exact Hk|]. simpl. now rewrite En, St. }
  destruct (D _ _ _ Hk2) as [_ Inc _ _ _ _].
  assert (J' : In ((u, executed s2 u), (o, label o k)) T) by (rewrite <- Ex; apply Inc, in_or_app; right; now left).
  pose proof (unique_value _ _ _ _ (distinct (is_traced (reference_complete _ _ _ _ H))) J J') as Q. congruence.
Qed.

(** R1: the next operation of u is a registrant of phase g + 1. *)
Theorem recycle_violation l y : pending s2 u = Some (l, Register b y) -> phase s2 b = S g -> ~ decides s0 r0 T f.
Proof.
  intros At Ph D. destruct run_without as (sg & t & k & Hk & Ik & _ & N & Pk & Ex & _).
  pose proof (phase_too_early k Ik N) as Le. rewrite At in Pk.
  destruct (step u k) as [k2|] eqn:St.
  - destruct next_of_u as (x & En & J & _). rewrite (entry_pending _ _ _ _ At) in En. inversion En; subst x.
    apply (another_label _ _ _ _ _ _ _ Hk Pk St Ex J) in D; auto. simpl. lia.
  - destruct (D _ _ _ Hk) as [_ _ Ne _ _ _]. apply (Ne u). unfold error. rewrite Pk.
    unfold step in St. rewrite Pk in St. simpl in St. destruct (add M b (contents k b) y); [discriminate|reflexivity].
Qed.

(** R2: the next operation of u is a wait by parity for phase g + 1, which succeeds in phase g + 2. *)
Theorem early_violation l p : pending s2 u = Some (l, Wait b (Parity p)) -> phase s2 b = S (S g) -> ~ decides s0 r0 T f.
Proof.
  intros At Ph D. destruct run_without as (sg & t & k & Hk & Ik & I2 & N & Pk & Ex & Dn).
  pose proof (phase_too_early k Ik N) as Le. rewrite At in Pk.
  destruct next_of_u as (x & En & J & St2). rewrite (entry_pending _ _ _ _ At) in En. inversion En; subst x.
  (* every earlier phase completes without c1 *)
  assert (Acyclic : forall c, before T' c c1 -> ~ (c = c1 \/ before T' c1 c)).
  { intros c B Q. destruct (run_split _ _ _ _ _ _ Ra J1) as (ra1 & ra2 & ta1 & s1 & tb & Ea & Ra1 & _ & Ee).
    unfold entry_at in Ee. destruct (pending s1 (fst c1)) as [[l1 o1]|]; [|easy].
    assert (Ec' : c1 = (fst c1, executed s1 (fst c1))) by congruence. clear Ee.
    assert (X0 : replays T' s2 s0 ra) by (eapply run_replays; [exact Ra|apply incl_refl]). rewrite Ea in X0.
    destruct (reference_prefix T' s2 comm prefix_traced HC HL ra1 s0 (fst c1 :: ra2) ta1 s1) as ((I1 & _) & X1 & _);
      [apply initial_exact; exact (from_start H)|exact X0|exact Ra1|].
    assert (Dc : done s1 c).
    { destruct (before_last T' _ _ B) as (m & Bm & Q'). rewrite Ec' in Bm.
      pose proof (edges_done_next T' s2 prefix_traced _ _ _ X1 m Bm) as Dm.
      destruct Q' as [->|Q']; [exact Dm|exact (done_before T' s1 I1 _ _ Q' Dm)]. }
    assert (Dc1 : done s1 c1) by (destruct Q as [->|Q]; [exact Dc|exact (done_before T' s1 I1 _ _ Q Dc)]).
    rewrite Ec' in Dc1. exact (not_done_next _ _ Dc1). }
  assert (Ge : g <= phase k b).
  { apply (phase_reached T' s2 k b g I2 Ik); [lia|]. intros g' c y Lt Jc. apply (Dn _ _ Jc). apply Acyclic.
    apply (chain T' H1 s2 b (g - 1) c1 I2) with (n := g - 1 - g') (g := g') (y := y); auto; try lia.
    intros c' y' Jc'. eapply H1; [exact Jc'|]. replace (S (g - 1)) with g by lia. exact J1. }
  assert (E : phase k b = g) by lia.
  destruct (le_lt_dec (first_phase M b) g) as [Fg|Fg].
  - assert (Pa : passes (first_phase M b) (Parity p) g = true).
    { unfold step in St2. rewrite At in St2. unfold effect in St2. rewrite Ph in St2.
      destruct (passes (first_phase M b) (Parity p) (S (S g))) eqn:P2; [|easy]. unfold passes in *.
      apply andb_true_iff in P2 as [_ P2]. apply andb_true_iff. split; [now apply Nat.leb_le|].
      replace (S (S g) - first_phase M b) with (S (S (g - first_phase M b))) in P2 by lia. exact P2. }
    assert (St : exists k2, step u k = Some k2).
    { unfold step. rewrite Pk. unfold effect. rewrite E, Pa. eauto. }
    destruct St as (k2 & St). apply (another_label _ _ _ _ _ _ _ Hk Pk St Ex J) in D; auto. simpl. lia.
  - destruct (D _ _ _ Hk) as [_ _ Ne _ _ _]. apply (Ne u). unfold error. rewrite Pk. lia.
Qed.

(** R4: c1 initializes b, and the next operation of u is a wait by parity. *)
Theorem init_violation l p : raw M b = true -> g = 0 -> pending s2 u = Some (l, Wait b (Parity p)) -> ~ decides s0 r0 T f.
Proof.
  intros Rw G At D. destruct run_without as (sg & t & k & Hk & Ik & _ & N & Pk & _).
  pose proof (phase_too_early k Ik N) as Le. rewrite At in Pk.
  destruct (D _ _ _ Hk) as [_ _ Ne _ _ _]. apply (Ne u). unfold error, first_phase. rewrite Pk, Rw. lia.
Qed.
End Early.

(** ** R3 *)
Section Late.
(** The wait e3, by parity, for the phase before phase h of b; phase h has completed in s2; R3 holds for the other waits. *)
Variables (e3 : event) (b : object) (p : bool) (h : nat).
Hypothesis J3 : In (e3, (Wait b (Parity p), h)) T'.
Hypothesis Ph : h < phase s2 b.
Hypothesis other_waits : forall b' p' e h', e <> e3 -> In (e, (Wait b' (Parity p'), h')) T' -> completes T' b' h' ->
  exists c y, In (c, (Register b' y, h')) T' /\ before T' e c.
Hypothesis violated : forall c y, In (c, (Register b y, h)) T' -> ~ before T' e3 c.

Theorem late_violation : ~ decides s0 r0 T f.
Proof.
  intro D. destruct (run_split _ _ _ _ _ _ Ra J3) as (ra1 & ra2 & ta1 & s1 & tb & Ea & Ra1 & Ra2 & Ee).
  unfold entry_at in Ee. destruct (pending s1 (fst e3)) as [[l1 o1]|] eqn:At1; [|easy].
  assert (Ec : e3 = (fst e3, executed s1 (fst e3))) by congruence. clear Ee.
  pose proof prefix_traced as C.
  assert (X0 : replays T' s2 s0 ra) by (eapply run_replays; [exact Ra|apply incl_refl]).
  assert (I0 : exact_state T' s0) by (apply initial_exact; exact (from_start H)).
  assert (X0' : replays T' s2 s0 (ra1 ++ fst e3 :: ra2 ++ [])) by (rewrite app_nil_r, <- Ea; exact X0).
  set (F := fun e => if event_dec e e3 then true else if before_dec _ _ _ _ (from_start H) Ra e3 e then true else false).
  assert (HF : forall e, F e = true <-> e = e3 \/ before T' e3 e).
  { intro e. unfold F. destruct (event_dec e e3) as [->|Ne]; [tauto|].
    destruct (before_dec _ _ _ _ (from_start H) Ra e3 e); intuition congruence. }
  destruct (remove_later T' s2 comm C prefix_closings H1 HC HL s0 ra1 (fst e3) ra2 [] ta1 s1 tb s2 (l1, o1) F I0 X0' Ra1 Ra2 At1)
    as (sg & t & k & Hk & Om & _ & Ik).
  { intro e. rewrite <- Ec. apply HF. }
  { intros b0 p0 e0 h0 Fe Jw Cm. apply (other_waits b0 p0 e0 h0); auto. intros ->. assert (F e3 = true) by (apply HF; auto). congruence. }
  { intros e1 x1 n1 e2 x2 n2 K1 K2 _ _. apply RR with (1 := K1) (2 := K2). }
  pose proof Om as (Rd & _).
  assert (N3 : ~ done k e3).
  { intro Dk. apply Rd in Dk as (_ & Dk). assert (F e3 = true) by (apply HF; auto). congruence. }
  assert (X1 : replays T' s2 s0 (ra ++ [])) by (rewrite app_nil_r; exact X0).
  pose proof (proj1 (reference_prefix T' s2 comm C HC HL ra s0 [] T' s2 I0 X1 Ra)) as I2.
  (* the registrants of phase h and of the phases before are executed in k *)
  assert (All : forall g c y, g < S h -> In (c, (Register b y, g)) T' -> done k c).
  { intros g c y Lt Jc. apply Rd. split; [exact (all_done C _ _ Jc)|]. apply not_true_is_false. intro Q. apply HF in Q.
    assert (Ne : c <> e3). { intros ->. pose proof (only_one T' s2 C _ _ _ Jc J3) as Q'. discriminate. }
    destruct Q as [Q|Q]; [contradiction|].
    destruct (Nat.eq_dec g h) as [->|Ng]; [exact (violated _ _ Jc Q)|].
    destruct I2 as (I2 & I4 & I5 & I6). destruct (I5 b h Ph) as (Ne2 & _).
    destruct (registrants T' b h) as [|[c' y'] r] eqn:Er'; [easy|].
    assert (Jc' : In (c', (Register b y', h)) T') by (apply (in_registrants T'); rewrite Er'; now left).
    apply (violated _ _ Jc'). eapply t_trans; [exact Q|].
    apply (chain T' H1 s2 b (h - 1) c' (conj I2 (conj I4 (conj I5 I6)))) with (n := h - 1 - g) (g := g) (y := y); auto; try lia.
    intros c0 y0 J0. eapply H1; [exact J0|]. replace (S (h - 1)) with h by lia. exact Jc'. }
  assert (Ge : S h <= phase k b) by (apply (phase_reached T' s2 k b (S h) I2 Ik); [lia|exact All]).
  (* a completion of this run executes the wait in another phase *)
  destruct (D _ _ _ Hk) as [_ _ _ _ (more & t' & f' & Hr & Sf & _) _].
  pose proof (reference_complete _ _ _ _ H) as Cf.
  assert (Jf : In (e3, (Wait b (Parity p), h)) T) by exact (proj1 prefix_split _ J3).
  assert (De : done f' e3).
  { destruct Sf as (_ & Sf & _). unfold done. rewrite Sf. exact (all_done Cf _ _ Jf). }
  pose proof (run_done _ _ _ _ e3 Hr De N3) as In3. apply in_map_iff in In3 as ([e' x] & Q & In3). simpl in Q. subst e'.
  destruct (run_split _ _ _ _ _ _ Hr In3) as (rc & rd & tc & s4 & td & -> & Rc & _ & E4).
  pose proof (run_phase _ _ _ _ b Rc) as Mono.
  assert (Hall : run s0 (sg ++ rc ++ fst e3 :: rd) = Some (t ++ t', f')) by (eapply run_app; eauto).
  destruct (D _ _ _ Hall) as [_ Inc _ _ _ _].
  assert (Jx : In (e3, x) T) by (apply Inc, in_or_app; right; exact In3).
  pose proof (only_one T f Cf _ _ _ Jx Jf) as Q. subst x.
  unfold entry_at in E4. destruct (pending s4 (fst e3)) as [[l4 o4]|]; [|easy]. inversion E4; subst o4. simpl in *. lia.
Qed.
End Late.
End Converse.
