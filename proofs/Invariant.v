(** * The invariant holds in every schedule, and no operation is an error *)
From Coq Require Import List Arith Lia Bool Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual.

Section Invariant.
Context {M : machine}.
Variable T : list (entry M).
Variable f : state M.
Implicit Types s k : state M.
Hypothesis comm : commutative M.

Lemma sum_permutation b l l' : Permutation l l' -> forall a : content M, sum b a l = sum b a l'.
Proof.
  induction 1; intro a; simpl; auto.
  - destruct (add M b a x); auto.
  - transitivity (match add_two M b a y x with Some a' => sum b a' l | None => None end).
    + unfold add_two. destruct (add M b a y); auto.
    + rewrite comm. unfold add_two. destruct (add M b a x); auto.
  - now rewrite IHPermutation1.
Qed.

Section Traced.
Hypothesis C : traced T f.
(** The step from s to s1 adds the payload of its registration to the sum. *)
Lemma sum_step s t s1 l b y a : consistent T s -> step t s = Some s1 ->
  pending s t = Some (l, Register b y) -> In ((t, executed s t), (Register b y, phase s b)) T -> add M b (contents s b) y = Some a ->
  exists a0, opening T b (phase s b) = Some a0 /\
    sum b a0 (map snd (filter (fun r => is_done s1 (fst r)) (registrants T b (phase s b)))) = Some a.
Proof.
  intros (_ & I2 & _) H E J Ea. destruct (I2 b) as (a0 & S0 & Sm). exists a0; split; auto.
  assert (Pm : Permutation (map snd (filter (fun r => is_done s1 (fst r)) (registrants T b (phase s b))))
     (map snd (filter (fun r => is_done s (fst r)) (registrants T b (phase s b))) ++ [y])).
  { rewrite <- Permutation_cons_append.
    apply filter_plus with (e := (t, executed s t)).
    - apply unique_registrants. exact (distinct C).
    - now apply in_registrants.
    - apply not_true_is_false. rewrite is_done_iff. apply not_done_next.
    - apply is_done_iff. apply (step_done _ _ _ _ H). auto.
    - intros e' N. eapply is_done_other; eauto. }
  rewrite (sum_permutation _ _ _ Pm), sum_app, Sm. simpl. now rewrite Ea.
Qed.

End Traced.

Hypothesis C : complete T f.

Section Rules12.
Hypothesis H1 : rule_recycle T.
Hypothesis H2 : rule_early T.

Lemma register_phase s r t l b y : consistent T s -> replays T f s r -> pending s t = Some (l, Register b y) ->
  In ((t, executed s t), (Register b y, phase s b)) T.
Proof. intros. eapply same_phase_register; eauto. Qed.

(** Every event that happens before a step of any schedule is executed. *)
Lemma edges_done s r t s1 : consistent T s -> replays T f s r -> step t s = Some s1 ->
  forall e1, edge T e1 (t, executed s t) -> done s e1.
Proof.
  intros I X H e1 B. destruct (step_inv _ _ _ H) as (l & o & E & Ef & _).
  destruct B as [B|(b & y & g & w & J1 & J2)].
  - eapply done_precedes; eauto.
  - destruct (done_dec s e1) as [|N]; auto. exfalso.
    destruct (future_own T f C _ _ _ _ _ X E) as (n & J). pose proof (only_one T f C _ _ _ J J2) as Q. inversion Q; subst.
    pose proof (future_phase T f C _ _ _ _ _ b X J1 N eq_refl) as Le.
    simpl in Ef. destruct (passes _ w (phase s b)) eqn:Pa; [|easy]. destruct w as [k|p].
    + destruct (waits C _ _ _ _ J2) as (_ & K). specialize (K k eq_refl). simpl in Pa. apply Nat.ltb_lt in Pa. lia.
    + pose proof (same_phase_wait T f C _ _ I X _ _ _ _ H2 E Pa) as J3. pose proof (only_one T f C _ _ _ J2 J3) as Q3. inversion Q3. lia.
Qed.

Lemma closed_step s r t s1 : consistent T s -> replays T f s r -> step t s = Some s1 ->
  forall e1 e2, edge T e1 e2 -> done s1 e2 -> done s1 e1.
Proof.
  intros I X H e1 e2 B D. apply (step_done _ _ _ _ H) in D. apply (step_done _ _ _ _ H).
  destruct D as [D| ->].
  - left. destruct I as (I1 & _). eauto.
  - left. eapply edges_done; eauto.
Qed.

Lemma is_done_closed s : consistent T s -> closed T (is_done s).
Proof. intros (I1 & _) e1 e2 B D. apply is_done_iff in D. apply is_done_iff. eauto. Qed.

(** If a phase completes only with all its registrants, the next state is consistent. *)
Lemma consistent_step_if s r t s1 : consistent T s -> replays T f s r -> step t s = Some s1 ->
  (forall l b y a, pending s t = Some (l, Register b y) -> add M b (contents s b) y = Some a -> full M b a && ends M y = true ->
     forall e y', In (e, (Register b y', phase s b)) T -> done s1 e) -> consistent T s1.
Proof.
  intros I X H FA.
  assert (I3' : forall e b y g, In (e, (Register b y, g)) T -> done s1 e -> g <= phase s b).
  { intros e b y g J D. apply (step_done _ _ _ _ H) in D. destruct D as [D| ->].
    - destruct I as (_ & _ & I3). eauto.
    - destruct (step_inv _ _ _ H) as (l & o & E & _). destruct (future_own T f C _ _ _ _ _ X E) as (n & J').
      pose proof (only_one T f C _ _ _ J J') as Q. inversion Q; subst.
      pose proof (only_one T f C _ _ _ J (register_phase _ _ _ _ _ _ I X E)) as Q'. inversion Q'. lia. }
  split; [eapply closed_step; eauto|split].
  - intro b. destruct (step_object _ _ _ b H) as [(K1 & K2 & _ & K3)|(l & y & a & E & Ea & K)].
    + rewrite K1, K2. destruct I as (I1 & I2 & I3). destruct (I2 b) as (a0 & S0 & Sm). exists a0; split; auto.
      rewrite <- Sm. do 2 f_equal. apply filter_ext_in. intros [e y] J. simpl. eapply is_done_other; eauto.
      intros ->. apply in_registrants in J. destruct (step_inv _ _ _ H) as (l & o & E & _).
      destruct (future_own T f C _ _ _ _ _ X E) as (n & J'). pose proof (only_one T f C _ _ _ J J') as Q. inversion Q; subst.
      eapply K3; eauto.
    + destruct (sum_step C _ _ _ _ _ _ _ I H E (register_phase _ _ _ _ _ _ I X E) Ea) as (a0 & S0 & Sm).
      destruct K as [(F & K1 & K2 & _)|(F & K1 & K2 & _)]; rewrite K1, K2; [eauto|].
      pose proof (FA _ _ _ _ E Ea F) as All.
      rewrite filter_all in Sm by (intros [e z] J; apply is_done_iff; apply in_registrants in J; eapply All; eauto).
      exists (reset M b a). simpl. rewrite S0, Sm. split; auto.
      rewrite filter_none; auto. intros [e z] J. apply in_registrants in J. apply not_true_is_false.
      rewrite is_done_iff. intro D. specialize (I3' _ _ _ _ J D). simpl in *; lia.
  - intros e b y g J D. specialize (I3' _ _ _ _ J D). pose proof (step_phase _ _ _ b H). lia.
Qed.

(** ** The sums of the reference run are defined (by R1 and R2 only) *)

Lemma consistent_reference s r : replays T f s r -> consistent T s -> exists f', same f' f /\ consistent T f'.
Proof.
  intros X. induction X as [s H|s u r s2 e Hs He Hi X IH]; intros I; [eauto|]. apply IH.
  pose proof (replays_cons _ _ _ _ _ _ _ Hs He Hi X) as X'. eapply consistent_step_if; eauto.
  intros l b y a E Ea F e0 y' J. destruct (done_dec s2 e0) as [|N]; auto. exfalso.
  pose proof (future_phase T f C _ _ _ _ _ b X J N eq_refl) as Le.
  destruct (step_object _ _ _ b Hs) as [(_ & _ & _ & K)|(l' & y1 & a1 & E1 & Ea1 & K)]; [eapply K; eauto|].
  rewrite E in E1. inversion E1; subst. rewrite Ea in Ea1. inversion Ea1; subst.
  destruct K as [(K & _)|(_ & K & _)]; [congruence|lia].
Qed.

Lemma closing_before b n : forall g, opening T b (g + S n) <> None -> exists a, closing T b g a.
Proof.
  induction n as [|n IH]; intros g H.
  - rewrite Nat.add_1_r in H. simpl in H. unfold closing. destruct (opening T b g) as [a0|]; [|congruence].
    destruct (sum b a0 (map snd (registrants T b g))) as [a|] eqn:E; [|congruence]. eauto.
  - apply IH. rewrite (Nat.add_succ_r g (S n)) in H. simpl in H.
    intro K. rewrite K in H. congruence.
Qed.

Lemma closing_defined s r : replays T f s r -> consistent T s -> forall e b y g, In (e, (Register b y, g)) T ->
  exists a, closing T b g a.
Proof.
  intros X I e b y g J. destruct (consistent_reference _ _ X I) as (f' & Q & (_ & I2 & I3)).
  assert (Da : forall e0 x, In (e0, x) T -> done f' e0).
  { intros e0 x K. destruct Q as (_ & E & _). unfold done. rewrite E. exact (all_done C _ _ K). }
  specialize (I3 _ _ _ _ J (Da _ _ J)). destruct (I2 b) as (a0 & S0 & Sm).
  destruct (le_lt_eq_dec _ _ I3) as [Lt|Eq].
  - apply (closing_before b (phase f' b - S g)). replace (g + S (phase f' b - S g)) with (phase f' b) by lia. congruence.
  - subst g. rewrite filter_all in Sm; [exists (contents f' b), a0; auto|].
    intros [e0 z] K. apply is_done_iff. apply in_registrants in K. eapply Da; eauto.
Qed.
End Rules12.

Hypothesis R : well_synchronized T.

(** If a step of any schedule fills a phase, all registrants of the phase are executed. *)
Lemma full_has_all s r t s1 l b y a : consistent T s -> replays T f s r -> step t s = Some s1 ->
  pending s t = Some (l, Register b y) -> add M b (contents s b) y = Some a -> full M b a = true ->
  forall e y', In (e, (Register b y', phase s b)) T -> done s1 e.
Proof.
  intros I X H E Ea F e y' J.
  destruct (sum_step C _ _ _ _ _ _ _ I H E (register_phase (R1 R) _ _ _ _ _ _ I X E) Ea) as (a0 & S0 & Sm).
  apply is_done_iff. eapply (RC R); eauto. intros e1 e2 B D. apply is_done_iff in D. apply is_done_iff.
  eapply closed_step; eauto using R2.
Qed.

Lemma consistent_step s r t s1 : consistent T s -> replays T f s r -> step t s = Some s1 -> consistent T s1.
Proof.
  intros I X H. eapply consistent_step_if; eauto using R1, R2.
  intros l b y a E Ea F. apply andb_true_iff in F as [F _]. eapply full_has_all; eauto.
Qed.

(** The next operation of a process is never an error. *)
Lemma never_error s r : replays T f s r -> consistent T s -> forall t, ~ error t s.
Proof.
  intros X. induction X as [s H|s u r s2 e0 Hs He Hi X IH]; intros I t.
  { unfold error. rewrite (same_pending _ _ t H), (ended C). tauto. }
  pose proof (replays_cons _ _ _ _ _ _ _ Hs He Hi X) as X'. pose proof (consistent_step _ _ _ _ I X' Hs) as I'.
  destruct (Nat.eq_dec t u) as [ ->|N].
  { unfold error. unfold step in Hs. destruct (pending s u) as [[l o]|]; [|tauto]. destruct o; simpl in *; try tauto.
    - destruct (add M b (contents s b) y); congruence.
    - destruct w as [|p]; [tauto|]. unfold passes in Hs. destruct (Nat.leb_spec (first_phase M b) (phase s b)); [lia|discriminate].
    - destruct (locals s q); congruence. }
  specialize (IH I' t). intro Er. apply IH. clear IH. unfold error in *.
  destruct (pending s t) as [[l o]|] eqn:E; [|easy]. rewrite (pending_other _ _ _ _ _ Hs N E).
  destruct o as [x|x v|b y|b w|q l']; try easy.
  - (* an excess arrival *)
    destruct (step_object _ _ _ b Hs) as [(_ & -> & _ & _)|(l' & y' & a & E' & Ea & [(F & _ & K & _)|(F & _ & _)])]; auto.
    + rewrite K. pose proof (comm b (contents s b) y y') as Q. unfold add_two in Q. rewrite Er, Ea in Q. auto.
    + apply andb_true_iff in F as [F _]. exfalso.
      pose proof (full_has_all _ _ _ _ _ _ _ _ I X' Hs E' Ea F _ _ (register_phase (R1 R) _ _ _ _ _ _ I X' E)) as D.
      apply (step_done _ _ _ _ Hs) in D. destruct D as [D|D]; [exact (not_done_next _ _ D)|congruence].
  - (* a wait on an uninitialized mbarrier *)
    destruct w as [|p]; [easy|]. destruct (future_own T f C _ _ _ _ _ X' E) as (n & J).
    destruct (waits C _ _ _ _ J) as (Pn & _). unfold passes in Pn. apply andb_true_iff in Pn as [Pn _]. apply Nat.leb_le in Pn.
    destruct (future_registrant T f C _ _ _ _ _ b (phase s b) X' J (not_done_next s t) eq_refl) as (c & y' & Ic & Nc); [lia|].
    unfold first_phase in *. destruct (raw M b) eqn:Rb; [|lia].
    replace (phase s b) with 0 in Ic by lia. destruct (R4 R _ _ _ _ _ _ Rb J Ic) as (e1 & B0 & K0).
    pose proof (done_precedes T f C _ _ X' _ _ _ E B0) as D0. exfalso. apply Nc. destruct K0 as [->|K0]; eauto using done_before.
  - (* a second start *)
    eapply step_started; eauto.
Qed.
End Invariant.
