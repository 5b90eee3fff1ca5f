(** * Happens-before is exact for races: conflicting accesses that it does not order race in some schedule

    So no weaker race rule would be sound, and each reported race is real.  The idea: remove from the reference run the first
    access and every event that happens after it, up to the second access.  Then both accesses are next. *)
From Coq Require Import List Arith Lia Bool Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun.

Section Exact.
Context {M : machine}.
Variable T : list (entry M).
Variable f : state M.
Implicit Types s k : state M.
Hypothesis comm : commutative M.
Hypothesis C : traced T f.
Hypothesis closings : forall e b y g, In (e, (Register b y, g)) T -> exists a, closing T b g a.
Hypothesis H1 : rule_recycle T.
Hypothesis HC : cover T.
Hypothesis HL : last_ends T.

(** A consistent state in which completed phases have all their registrants, and the current phase is not full after a registration. *)
Definition exact_state k := consistent T k /\
  (forall e b y g, In (e, (Register b y, g)) T -> g < phase k b -> done k e) /\
  (forall b g, g < phase k b -> registrants T b g <> [] /\ closing T b g (history k b g) /\ full M b (history k b g) = true) /\
  (forall e b y, In (e, (Register b y, phase k b)) T -> done k e -> full M b (contents k b) = false).

Lemma exact_step k u k2 x : exact_state k -> step u k = Some k2 -> entry_at u k = Some x -> In x T ->
  (forall e, edge T e (u, executed k u) -> done k e) -> exact_state k2.
Proof.
  intros (I & I4 & I5 & I6) H En J Pd. destruct (step_inv _ _ _ H) as (l & o & E & Ef & _ & _ & En').
  rewrite En in En'. inversion En'; subst x. clear En'.
  assert (Cl : forall e1 e2, edge T e1 e2 -> done k2 e2 -> done k2 e1).
  { intros e1 e2 B D. apply (step_done _ _ _ _ H) in D. apply (step_done _ _ _ _ H). left.
    destruct D as [D| ->]; auto. destruct I as (I1 & _). eauto. }
  assert (FA : forall b y a, o = Register b y -> add M b (contents k b) y = Some a -> full M b a = true ->
     forall e y', In (e, (Register b y', phase k b)) T -> done k2 e).
  { intros b y a -> Ea F e y' J'. destruct (sum_step T f comm C _ _ _ _ _ _ _ I H E J Ea) as (a0 & S0 & Sm).
    apply is_done_iff. eapply HC; eauto. intros e1 e2 B D. apply is_done_iff in D. apply is_done_iff. eauto. }
  assert (I3' : forall e b y g, In (e, (Register b y, g)) T -> done k2 e -> g <= phase k b).
  { intros e b y g J' D. apply (step_done _ _ _ _ H) in D. destruct D as [D| ->].
    - destruct I as (_ & _ & I3). eauto.
    - pose proof (only_one T f C _ _ _ J J') as Q. inversion Q; subst. simpl. lia. }
  assert (Fa : forall b y a, o = Register b y -> add M b (contents k b) y = Some a -> full M b a = true ->
     exists a0, opening T b (phase k b) = Some a0 /\ sum b a0 (map snd (registrants T b (phase k b))) = Some a).
  { intros b y a -> Ea F. destruct (sum_step T f comm C _ _ _ _ _ _ _ I H E J Ea) as (a0 & S0 & Sm).
    rewrite filter_all in Sm by (intros [e z] K; apply is_done_iff; apply in_registrants in K; eapply FA; eauto). eauto. }
  split; [split; [exact Cl|split]|split; [|split]].
  - intro b. destruct (step_object _ _ _ b H) as [(K1 & K2 & K3b & K3)|(l' & y & a & E' & Ea & K)].
    + rewrite K1, K2. destruct I as (I1 & I2 & I3). destruct (I2 b) as (a0 & S0 & Sm). exists a0; split; auto.
      rewrite <- Sm. do 2 f_equal. apply filter_ext_in. intros [e y] J'. simpl. eapply is_done_other; eauto.
      intros ->. apply in_registrants in J'. pose proof (only_one T f C _ _ _ J J') as Q. inversion Q; subst. eapply K3; eauto.
    + rewrite E in E'. inversion E'; subst. destruct (sum_step T f comm C _ _ _ _ _ _ _ I H E J Ea) as (a0 & S0 & Sm).
      destruct K as [(F & K1 & K2 & Kb)|(F & K1 & K2 & Kb)]; rewrite K1, K2; [eauto|]. apply andb_true_iff in F as [F _].
      destruct (Fa _ _ _ eq_refl Ea F) as (a1 & S1 & Sm1).
      exists (reset M b a). simpl. rewrite S1, Sm1. split; auto.
      rewrite filter_none; auto. intros [e z] J'. apply in_registrants in J'. apply not_true_is_false.
      rewrite is_done_iff. intro D. specialize (I3' _ _ _ _ J' D). simpl in *; lia.
  - intros e b y g J' D. specialize (I3' _ _ _ _ J' D). pose proof (step_phase _ _ _ b H). lia.
  - intros e b y g J' Lt. destruct (step_object _ _ _ b H) as [(K1 & K2 & K3b & K3)|(l' & y' & a & E' & Ea & K)].
    + rewrite K1 in Lt. apply (step_done _ _ _ _ H). left. eauto.
    + rewrite E in E'. inversion E'; subst. destruct K as [(F & K1 & K2 & Kb)|(F & K1 & K2 & Kb)]; [|apply andb_true_iff in F as [F _]]; rewrite K1 in Lt.
      * apply (step_done _ _ _ _ H). left. eauto.
      * destruct (Nat.eq_dec g (phase k b)) as [->|]; [eapply FA; eauto|].
        apply (step_done _ _ _ _ H). left. eapply I4; eauto. lia.
  - intros b g Lt. destruct (step_object _ _ _ b H) as [(K1 & K2 & K3b & K3)|(l' & y' & a & E' & Ea & K)].
    + rewrite K1 in Lt. rewrite K3b. eauto.
    + rewrite E in E'. inversion E'; subst. destruct K as [(F & K1 & K2 & Kb)|(F & K1 & K2 & Kb)]; rewrite K1 in Lt; rewrite Kb; [eauto|]. apply andb_true_iff in F as [F _].
      unfold update. destruct (Nat.eqb_spec g (phase k b)) as [->|]; [|apply I5; lia].
      split; [|split; [exact (Fa _ _ _ eq_refl Ea F)|exact F]].
      intro Z. pose proof (proj2 (in_registrants _ _ _ _ _) J) as K. simpl in K. rewrite Z in K. destruct K.
  - intros e b y J' D. destruct (step_object _ _ _ b H) as [(K1 & K2 & K3b & K3)|(l' & y' & a & E' & Ea & K)].
    + rewrite K1 in J'. rewrite K2. apply (step_done _ _ _ _ H) in D. destruct D as [D| ->]; [eauto|].
      exfalso. pose proof (only_one T f C _ _ _ J J') as Q. inversion Q; subst. eapply K3; eauto.
    + rewrite E in E'. inversion E'; subst. destruct K as [(F & K1 & K2 & Kb)|(F & K1 & K2 & Kb)].
      * rewrite K2. apply not_true_is_false. intro Fu. rewrite Fu in F. simpl in F.
        assert (ends M y' = true); [|congruence]. eapply (HL b (phase k b) (is_done k)); eauto.
        { exact (is_done_closed T k I). }
        { apply not_true_is_false. rewrite is_done_iff. apply not_done_next. }
        2: exact (Fa _ _ _ eq_refl Ea Fu).
        intros e' z K. pose proof (FA _ _ _ eq_refl Ea Fu _ _ K) as D1. apply (step_done _ _ _ _ H) in D1.
        destruct D1 as [D1|D1]; [right; now apply is_done_iff|auto].
      * exfalso. specialize (I3' _ _ _ _ J' D). lia.
Qed.

(** One step of the reference run. *)
Lemma reference_step s u r : exact_state s -> replays T f s (u :: r) -> exists s2 l o, step u s = Some s2 /\
  entry_at u s = Some ((u, executed s u), (o, label o s)) /\
  pending s u = Some (l, o) /\ In ((u, executed s u), (o, label o s)) T /\ exact_state s2 /\ replays T f s2 r.
Proof.
  intros I X. inversion X as [|? ? ? s2 e A1 En J X2]; subst. destruct (step_inv _ _ _ A1) as (l & o & At & _ & _ & _ & En').
  pose proof En' as En2. rewrite En in En'. inversion En'; subst e.
  assert (I2 : exact_state s2).
  { apply exact_step with (k := s) (u := u) (x := ((u, executed s u), (o, label o s))); auto.
    intros e B. eapply edges_done_next; eauto. }
  exists s2, l, o. repeat (split; [assumption|]). assumption.
Qed.

Lemma reference_prefix ra : forall s rb t s', exact_state s -> replays T f s (ra ++ rb) -> run s ra = Some (t, s') ->
  exact_state s' /\ replays T f s' rb /\ incl t T.
Proof.
  induction ra as [|u ra IH]; simpl; intros s rb t s' I X H; [inversion H; subst; split; [exact I|split; [exact X|intros ? []]]|].
  destruct (reference_step _ _ _ I X) as (s3 & l & o & Ha & En & _ & J & I3 & X3).
  rewrite En, Ha in H. destruct (run s3 ra) as [[t3 s4]|] eqn:E; [|easy]. inversion H; subst.
  destruct (IH _ _ _ _ I3 X3 E) as (A & B & K). split; [exact A|split; [exact B|]]. intros z [<-|Z]; auto.
Qed.

(** ** A set F of events that is closed under "happens after" can be removed from a run *)
Section Skip.
Variable F : event -> bool.
Hypothesis later : forall e1 e2, edge T e1 e2 -> F e1 = true -> F e2 = true.
(** R3, for the waits outside of F. *)
Hypothesis late : forall b p e h, F e = false -> In (e, (Wait b (Parity p), h)) T -> completes T b h ->
  exists c y, In (c, (Register b y, h)) T /\ before T e c.

Lemma later_before e1 e2 : before T e1 e2 -> F e1 = true -> F e2 = true.
Proof. induction 1; eauto. Qed.

(** Process p has reached s without an event of F. *)
Definition untouched s p := (forall e, fst e = p -> done s e -> F e = false) /\
  (forall e l n, In (e, (Start p l, n)) T -> done s e -> F e = false).
(** State k is state s without the events of F. *)
Definition omits s k :=
  (forall e, done k e <-> done s e /\ F e = false) /\
  (forall p, untouched s p -> locals k p = locals s p) /\
  (forall q, locals s q = None -> locals k q = None) /\
  (forall x, (forall e v n, In (e, (Write x v, n)) T -> done s e -> F e = false) -> memory k x = memory s x).

Lemma phase_reached s k b m : exact_state s -> exact_state k -> m <= phase s b ->
  (forall g c y, g < m -> In (c, (Register b y, g)) T -> done k c) -> m <= phase k b.
Proof.
  intros (Is & I4s & I5s & I6s) (Ik & I4 & I5 & I6) Le Al. destruct (le_lt_dec m (phase k b)) as [|Lt]; auto. exfalso.
  destruct (I5s b (phase k b)) as (Ne & (a0 & S0 & Sm) & Fu); [lia|].
  destruct Ik as (_ & I2 & _). destruct (I2 b) as (a0' & S0' & Sm'). rewrite S0 in S0'. inversion S0'; subst a0'.
  rewrite filter_all in Sm' by (intros [e z] K; apply is_done_iff; apply in_registrants in K; eapply Al; eauto).
  rewrite Sm in Sm'. inversion Sm' as [Ea]. rewrite Ea in Fu.
  destruct (registrants T b (phase k b)) as [|[e y] l] eqn:Er; [easy|].
  assert (K : In (e, (Register b y, phase k b)) T) by (apply in_registrants; rewrite Er; now left).
  pose proof (I6 _ _ _ K (Al _ _ _ Lt K)). congruence.
Qed.

(** If the registrants of phase m happen before e, so do the registrants of all earlier phases. *)
Lemma chain s b m e : exact_state s -> m < phase s b -> (forall c y, In (c, (Register b y, m)) T -> before T c e) ->
  forall n g c y, m = g + n -> In (c, (Register b y, g)) T -> before T c e.
Proof.
  intros (_ & _ & I5 & _) Lt Bm. induction n as [|n IH]; intros g c y E J.
  - replace m with g in Bm by lia. eauto.
  - destruct (I5 b (S g)) as (Ne & _); [lia|]. destruct (registrants T b (S g)) as [|[c' y'] l] eqn:Er; [easy|].
    assert (K : In (c', (Register b y', S g)) T) by (apply in_registrants; rewrite Er; now left).
    eapply t_trans; [eapply H1; eauto|]. eapply IH; eauto. lia.
Qed.

Lemma executed_untouched s k p : omits s k -> untouched s p -> executed k p = executed s p.
Proof.
  intros (Rd & _) (W & _). apply Nat.le_antisymm.
  - destruct (le_lt_dec (executed k p) (executed s p)) as [|Lt]; auto.
    assert (D : done k (p, executed s p)) by exact Lt. apply Rd in D. destruct D as (D & _). elim (not_done_next _ _ D).
  - destruct (le_lt_dec (executed s p) (executed k p)) as [|Lt]; auto.
    assert (D : done s (p, executed k p)) by exact Lt. elim (not_done_next k p). apply Rd. auto.
Qed.

(** A step outside of F is enabled without F. *)
Lemma skip_step s r u s2 k l o : exact_state s -> replays T f s (u :: r) -> step u s = Some s2 -> pending s u = Some (l, o) ->
  In ((u, executed s u), (o, label o s)) T -> exact_state k -> omits s k -> F (u, executed s u) = false ->
  (forall w ow nw, In (w, (ow, nw)) T -> done s w -> fst w <> u -> conflict ow o ->
     before T w (u, executed s u) \/ before T (u, executed s u) w) ->
  exists k2, step u k = Some k2 /\ entry_at u k = entry_at u s /\ exact_state k2 /\ omits s2 k2.
Proof.
  intros Is X Ha At J Ik Th Fe Rf.
  pose proof Is as (Is0 & I4s & I5s & I6s). pose proof Ik as (Ik0 & I4k & I5k & I6k).
  pose proof Th as (Rd & Rp & Rn & Rm).
  assert (Pd : forall e, edge T e (u, executed s u) -> done k e).
  { intros e B. apply Rd. split; [eapply edges_done_next; eauto|].
    destruct (F e) eqn:Q; auto. rewrite (later _ _ B Q) in Fe. discriminate. }
  assert (Pdh : forall e, before T e (u, executed s u) -> done k e).
  { intros e B. destruct (before_last T _ _ B) as (m & Bm & [->|B']); auto. eapply (done_before T k Ik0); eauto. }
  assert (Wu : untouched s u).
  { split.
    - intros [p i] E D. simpl in E. subst p. destruct (F (u, i)) eqn:Q; auto.
      assert (B : edge T (u, i) (u, executed s u)) by (left; left; auto). rewrite (later _ _ B Q) in Fe. discriminate.
    - intros e l' n K D. destruct (F e) eqn:Q; auto.
      assert (B : edge T e (u, executed s u)) by (left; right; eauto). rewrite (later _ _ B Q) in Fe. discriminate. }
  pose proof (Rp _ Wu) as Pu. pose proof (executed_untouched _ _ _ Th Wu) as Cu.
  assert (Atk : pending k u = Some (l, o)) by (unfold pending in *; rewrite Pu; exact At).
  (* the memory that the step reads *)
  assert (Var : forall x, (forall ow, match ow with Write y _ => y = x | _ => False end -> conflict ow o) -> memory k x = memory s x).
  { intros x Cx. apply Rm. intros e v n K D. destruct (F e) eqn:Q; auto. exfalso.
    destruct (Nat.eq_dec (fst e) u) as [E|N].
    - destruct Wu as (W & _). rewrite (W _ E D) in Q. discriminate.
    - destruct (Rf _ _ _ K D N) as [B|B]; [apply (Cx (Write x v)); reflexivity| |].
      + rewrite (later_before _ _ B Q) in Fe. discriminate.
      + apply (not_done_next s u). eapply (done_before T s Is0); eauto. }
  (* the phase of its object *)
  assert (Ph : forall b, phase_object o = Some b -> phase k b = phase s b).
  { intros b Pb. assert (Lb : label o s = phase s b) by (now apply label_phase). rewrite Lb in J.
    assert (Ge : phase s b <= phase k b).
    { apply (phase_reached s k b (phase s b)); auto. intros g c y Lt K. apply Pdh.
      apply (chain s b (phase s b - 1) (u, executed s u) Is) with (n := phase s b - 1 - g) (g := g) (y := y); auto; try lia.
      intros c' y' K'. destruct o as [| |b' y0|b' [|p]|]; try discriminate; inversion Pb; subst b'.
      - eapply H1; eauto. replace (S (phase s b - 1)) with (phase s b) by lia. exact J.
      - apply t_step. right. exists b, y', (phase s b - 1), (Parity p). split; auto.
        replace (S (phase s b - 1)) with (phase s b) by lia. exact J. }
    destruct (Nat.eq_dec (phase k b) (phase s b)) as [|N]; auto. exfalso.
    assert (Nk : ~ done k (u, executed s u)) by (rewrite <- Cu; apply not_done_next).
    destruct o as [| |b' y0|b' [|p]|]; try discriminate; inversion Pb; subst b'.
    - apply Nk. eapply I4k; eauto. lia.
    - destruct (late _ _ _ _ Fe J) as (c & y & K & B). { destruct (I5k b (phase s b)) as (Ne & Cg & Fu); [lia|]. split; eauto. }
      apply Nk. eapply (done_before T k Ik0); [exact B|]. eapply I4k; eauto. lia. }
  assert (Lb : label o k = label o s).
  { destruct o as [| |b y|b [|p]|]; simpl; auto; apply Ph; reflexivity. }
  (* the step without F *)
  assert (St : exists k2, step u k = Some k2 /\ (forall q, locals s2 q = None -> locals k2 q = None) /\
     (forall p, untouched s p -> locals k2 p = locals s2 p) /\
     (forall x, memory k x = memory s x -> memory k2 x = memory s2 x)).
  { assert (Ha' : effect u l o s = Some s2) by (unfold step in Ha; rewrite At in Ha; exact Ha).
    assert (NN : forall q, locals s q = None -> q <> u).
    { intros q E ->. unfold pending in At. rewrite E in At. discriminate. }
    unfold step. rewrite Atk. clear Ha.
    destruct o as [x|x v|b y|b w|q l']; simpl in Ha' |- *.
    - inversion Ha'; subst s2. rewrite (Var x) by (intros [] Z; simpl in *; congruence || easy).
      eexists; split; [reflexivity|]. simpl. split; [|split].
      + intros q Z. by_place; auto.
      + intros p W. by_place; auto.
      + intros x0 Z. auto.
    - inversion Ha'; subst s2. eexists; split; [reflexivity|]. simpl. split; [|split].
      + intros q Z. by_place; auto.
      + intros p W. by_place; auto.
      + intros x0 Z. by_place; auto.
    - destruct (add M b (contents s b) y) as [a|] eqn:Ea; [|discriminate]. inversion Ha'; subst s2.
      assert (Ek : exists a', add M b (contents k b) y = Some a').
      { destruct (closings _ _ _ _ J) as (a1 & a0 & S0 & Sm). simpl in S0, Sm.
        destruct Ik0 as (_ & I2k & _). destruct (I2k b) as (a0' & S0' & Sm'). rewrite (Ph b eq_refl) in S0', Sm'.
        rewrite S0 in S0'. inversion S0'; subst a0'.
        set (D' := fun e : event => is_done k e || (Nat.eqb (fst e) u && Nat.eqb (snd e) (executed s u))).
        assert (Pm : Permutation (map snd (registrants T b (phase s b)))
          (map snd (filter (fun r => is_done k (fst r)) (registrants T b (phase s b))) ++ y :: map snd (filter (fun r => negb (D' (fst r))) (registrants T b (phase s b))))).
        { transitivity (map snd (filter (fun r => D' (fst r)) (registrants T b (phase s b)) ++ filter (fun r => negb (D' (fst r))) (registrants T b (phase s b)))).
          - apply Permutation_map. apply filter_parts.
          - rewrite map_app. rewrite (filter_plus (is_done k) D' (u, executed s u) y).
            + simpl. apply Permutation_middle.
            + apply unique_registrants. exact (distinct C).
            + now apply in_registrants.
            + apply not_true_is_false. rewrite is_done_iff, <- Cu. apply not_done_next.
            + unfold D'. simpl. rewrite !Nat.eqb_refl. apply orb_true_r.
            + intros [p i] Ne. unfold D'. simpl. destruct (Nat.eqb_spec p u), (Nat.eqb_spec i (executed s u)); simpl;
                rewrite ?orb_false_r; auto. congruence. }
        rewrite (sum_permutation comm _ _ _ Pm), sum_app, Sm' in Sm. simpl in Sm. destruct (add M b (contents k b) y); [eauto|discriminate]. }
      destruct Ek as (a' & ->). rewrite (Ph b eq_refl). eexists; split; [reflexivity|].
      unfold update_object. destruct (full M b a && ends M y), (full M b a' && ends M y); simpl; (split; [|split]).
      all: try (intros q Z; by_place; auto; fail).
      all: try (intros p W; by_place; auto; fail).
      all: intros x0 Z; auto.
    - destruct (passes (first_phase M b) w (phase s b)) eqn:Pa; [|discriminate]. inversion Ha'; subst s2.
      assert (Pk : passes (first_phase M b) w (phase k b) = true).
      { destruct w as [g|p]; [|now rewrite (Ph b eq_refl)]. simpl in Pa |- *. apply Nat.ltb_lt in Pa. apply Nat.ltb_lt.
        apply (phase_reached s k b (S g)); auto. intros g' c y Lt K. apply Pdh.
        apply (chain s b g (u, executed s u) Is) with (n := g - g') (g := g') (y := y); auto; try lia.
        intros c' y' K'. apply t_step. right. exists b, y', g, (Over g). auto. }
      assert (Hw : wait_result k b w = wait_result s b w).
      { destruct w as [g|p]; [|reflexivity]. simpl in Pa, Pk |- *. apply Nat.ltb_lt in Pa, Pk. f_equal.
        destruct (I5k b g Pk) as (_ & (a0 & S0 & Sm) & _), (I5s b g Pa) as (_ & (a0' & S0' & Sm') & _). congruence. }
      rewrite Pk, Hw. eexists; split; [reflexivity|]. simpl. split; [|split].
      + intros q Z. by_place; auto.
      + intros p W. by_place; auto.
      + intros x0 Z. auto.
    - destruct (locals s q) eqn:Eq; [discriminate|]. inversion Ha'; subst s2. rewrite (Rn _ Eq).
      eexists; split; [reflexivity|]. simpl. split; [|split].
      + intros q0 Z. by_place; auto; discriminate.
      + intros p W. by_place; auto.
      + intros x0 Z. auto. }
  destruct St as (k2 & Hk & Sn & Sp & Sx).
  assert (Ee : entry_at u k = entry_at u s) by (rewrite (entry_pending _ _ _ _ At), (entry_pending _ _ _ _ Atk), Cu, Lb; reflexivity).
  exists k2. split; auto. split; auto. split.
  - refine (exact_step _ _ _ _ Ik Hk _ J _); [rewrite Ee; exact (entry_pending _ _ _ _ At)|rewrite Cu; exact Pd].
  - assert (Mo : forall e, done s e -> done s2 e) by (intros e D; apply (step_done _ _ _ _ Ha); auto).
    split; [|split; [|split]].
    + intro e. rewrite (step_done _ _ _ _ Ha), (step_done _ _ _ _ Hk), Cu, Rd. split.
      * intros [[D Q]| ->]; auto.
      * intros [[D| ->] Q]; auto.
    + intros p (W1 & W2). apply Sp. split; eauto.
    + exact Sn.
    + intros x Hx. apply Sx. apply Rm. eauto.
Qed.

(** A step in F is removed. *)
Lemma skip_later s u s2 k : step u s = Some s2 -> omits s k -> F (u, executed s u) = true ->
  (forall l o, pending s u = Some (l, o) -> In ((u, executed s u), (o, label o s)) T) -> omits s2 k.
Proof.
  intros Ha (Rd & Rp & Rn & Rm) Fe J.
  assert (Mo : forall e, done s e -> done s2 e) by (intros e D; apply (step_done _ _ _ _ Ha); auto).
  destruct (step_inv _ _ _ Ha) as (l & o & At & Ef & _). specialize (J _ _ At).
  split; [|split; [|split]].
  - intro e. rewrite (step_done _ _ _ _ Ha), Rd. split.
    + intros [D Q]; auto.
    + intros [[D| ->] Q]; [auto|congruence].
  - intros p (W1 & W2). assert (p <> u).
    { intros ->. specialize (W1 (u, executed s u) eq_refl). rewrite Fe in W1. discriminate W1. apply (step_done _ _ _ _ Ha). auto. }
    rewrite (Rp p) by (split; eauto). symmetry.
    destruct (locals s p) eqn:E; [rewrite <- E; apply (step_others _ _ _ _ Ha); congruence|].
    destruct o as [x|x v|b y|b w|q l']; simpl in Ef.
    + inversion Ef; subst; simpl; by_place; congruence.
    + inversion Ef; subst; simpl; by_place; congruence.
    + destruct (add M b (contents s b) y) as [a|]; inversion Ef; subst. unfold update_object. destruct (full M b a && ends M y); simpl; by_place; congruence.
    + destruct (passes (first_phase M b) w (phase s b)); inversion Ef; subst; simpl; by_place; congruence.
    + destruct (locals s q) eqn:Eq; inversion Ef; subst; simpl; by_place; try congruence. exfalso.
      specialize (W2 _ _ _ J). rewrite Fe in W2. discriminate W2. apply (step_done _ _ _ _ Ha). auto.
  - intros q Z. apply Rn. destruct (locals s q) eqn:E; auto. exfalso.
    apply (step_started _ _ _ q Ha); congruence.
  - intros x Hx. rewrite Rm by eauto. destruct o as [x0|x0 v|b y|b w|q l']; simpl in Ef.
    + inversion Ef; subst; reflexivity.
    + inversion Ef; subst; simpl. by_place; auto. exfalso. specialize (Hx _ _ _ J). rewrite Fe in Hx. discriminate Hx.
      apply (step_done _ _ _ _ Ha). auto.
    + destruct (add M b (contents s b) y) as [a|]; inversion Ef; subst. unfold update_object. destruct (full M b a && ends M y); reflexivity.
    + destruct (passes (first_phase M b) w (phase s b)); inversion Ef; subst; reflexivity.
    + destruct (locals s q); inversion Ef; subst; reflexivity.
Qed.
(** A part ra of the reference run without F; the next operation of p1 does not change. *)
Lemma skip_run p1 lo1 ra : forall s rb k t s', exact_state s -> replays T f s (ra ++ rb) -> run s ra = Some (t, s') ->
  exact_state k -> omits s k -> (forall i, executed s p1 <= i -> F (p1, i) = true) -> pending k p1 = Some lo1 ->
  (forall e1 o1 n1 e2 o2 n2, In (e1, (o1, n1)) T -> In (e2, (o2, n2)) T -> done s' e1 -> done s' e2 ->
     fst e1 <> fst e2 -> conflict o1 o2 -> before T e1 e2 \/ before T e2 e1) ->
  exists rk tk k', run k rk = Some (tk, k') /\ omits s' k' /\ pending k' p1 = Some lo1 /\ exact_state k'.
Proof.
  induction ra as [|u ra IH]; intros s rb k t s' Is X H Ik Th Fp At1 Rf.
  { simpl in H. inversion H; subst. exists [], [], k. auto 6. }
  simpl app in X. destruct (reference_step _ _ _ Is X) as (s2 & l & o & Ha & En & At & J & Is2 & X2).
  simpl in H. rewrite En, Ha in H. destruct (run s2 ra) as [[t2 s3]|] eqn:E; [|easy]. inversion H; subst.
  assert (Fp2 : forall i, executed s2 p1 <= i -> F (p1, i) = true).
  { intros i Hi. apply Fp. rewrite (step_executed _ _ _ _ Ha) in Hi. destruct (Nat.eqb_spec p1 u); subst; lia. }
  assert (Mo : forall e, done s2 e -> done s' e).
  { intros e D. unfold done in *. pose proof (run_executed _ _ _ _ (fst e) E). lia. }
  assert (Mo0 : forall e, done s e -> done s' e).
  { intros e D. apply Mo. apply (step_done _ _ _ _ Ha). auto. }
  destruct (F (u, executed s u)) eqn:Fe.
  - eapply IH; eauto. eapply skip_later; eauto. intros l' o' At'. congruence.
  - assert (Nu : u <> p1). { intros ->. rewrite Fp in Fe by lia. discriminate. }
    assert (K : exists k2, step u k = Some k2 /\ entry_at u k = entry_at u s /\ exact_state k2 /\ omits s2 k2).
    { assert (De : done s' (u, executed s u)) by (apply Mo; apply (step_done _ _ _ _ Ha); auto).
      eapply skip_step; eauto. }
    destruct K as (k2 & Hk & Enk & Ik2 & Th2).
    pose proof (pending_other _ _ _ _ _ Hk (not_eq_sym Nu) At1) as At2.
    destruct (IH _ _ _ _ _ Is2 X2 E Ik2 Th2 Fp2 At2 Rf) as (rk & tk & k' & Tk & Rk & Ak & Ek).
    exists (u :: rk), (((u, executed s u), (o, label o s)) :: tk), k'. split; auto. simpl. now rewrite Enk, En, Hk, Tk.
Qed.
End Skip.


(** Two conflicting accesses that happens-before does not order. *)
Definition unordered_pair (e1 e2 : event) := exists o1 n1 o2 n2,
  In (e1, (o1, n1)) T /\ In (e2, (o2, n2)) T /\ fst e1 <> fst e2 /\ conflict o1 o2 /\
  ~ before T e1 e2 /\ ~ before T e2 e1.

(** Remove from the reference run, up to state s2, the event of p1 in state s1 and every event that happens after it. *)
Lemma remove_later s0 ra1 p1 ra2 rb ta1 s1 ta2 s2 lo1 (F : event -> bool) :
  exact_state s0 -> replays T f s0 (ra1 ++ p1 :: ra2 ++ rb) ->
  run s0 ra1 = Some (ta1, s1) -> run s1 (p1 :: ra2) = Some (ta2, s2) -> pending s1 p1 = Some lo1 ->
  (forall e, F e = true <-> e = (p1, executed s1 p1) \/ before T (p1, executed s1 p1) e) ->
  (forall b p e h, F e = false -> In (e, (Wait b (Parity p), h)) T -> completes T b h ->
     exists c y, In (c, (Register b y, h)) T /\ before T e c) ->
  (forall e1 o1 n1 e2 o2 n2, In (e1, (o1, n1)) T -> In (e2, (o2, n2)) T -> done s2 e1 -> done s2 e2 ->
     fst e1 <> fst e2 -> conflict o1 o2 -> before T e1 e2 \/ before T e2 e1) ->
  exists schedule t k, run s0 schedule = Some (t, k) /\ omits F s2 k /\ pending k p1 = Some lo1 /\ exact_state k.
Proof.
  intros I0 X0 Ta Tb At1 HF late Rf.
  destruct (reference_prefix _ _ _ _ _ I0 X0 Ta) as (I1 & X1 & _).
  set (e1 := (p1, executed s1 p1)) in *.
  assert (later : forall a b, edge T a b -> F a = true -> F b = true).
  { intros a b B Q. apply HF in Q. apply HF. right. destruct Q as [->|Q]; [now apply t_step|].
    eapply t_trans; [exact Q|now apply t_step]. }
  assert (N1 : forall e, done s1 e -> F e = false).
  { intros e D. apply not_true_is_false. intro Q. apply HF in Q. apply (not_done_next s1 p1).
    destruct Q as [->|Q]; auto. destruct I1 as (I1 & _). eapply (done_before T s1 I1); eauto. }
  assert (R11 : omits F s1 s1).
  { split; [intro e; split; [auto|tauto]|]. repeat split; auto. }
  destruct (reference_step _ _ _ I1 X1) as (s1' & l & o & Ha & En & At & J & I1' & X2).
  simpl in Tb. rewrite En, Ha in Tb. destruct (run s1' ra2) as [[t3 s4]|] eqn:E; [|easy]. inversion Tb; subst s4 ta2. clear Tb.
  assert (Fe : F e1 = true) by (apply HF; auto).
  assert (R1' : omits F s1' s1).
  { eapply skip_later; eauto. intros l' o' Q. rewrite At in Q. inversion Q; subst. exact J. }
  assert (Fp : forall i, executed s1' p1 <= i -> F (p1, i) = true).
  { intros i Hi. rewrite (step_executed _ _ _ _ Ha), Nat.eqb_refl in Hi. apply HF. right. apply t_step. left. left. simpl. lia. }
  destruct (skip_run F later late p1 lo1 ra2 _ _ _ _ _ I1' X2 E I1 R1' Fp At1 Rf) as (rk & tk & k' & Tk & Om & Ak & Ek).
  exists (ra1 ++ rk), (ta1 ++ tk), k'. split; [eapply run_app; eauto|auto].
Qed.

(** If no predecessor of the next event of u is e1 or happens after e1, then u reaches that event without them. *)
Lemma untouched_by s e1 u (F : event -> bool) :
  (forall e, F e = true -> e = e1 \/ before T e1 e) ->
  (forall e0, precedes T e0 (u, executed s u) -> ~ (e1 = e0 \/ before T e1 e0)) -> untouched F s u.
Proof.
  intros HF N. split.
  - intros [p i] Ep D. simpl in Ep. subst p. apply not_true_is_false. intro Q. apply HF in Q.
    apply (N (u, i)); [left; simpl; auto|]. destruct Q as [->|Q]; auto.
  - intros e l n K D. apply not_true_is_false. intro Q. apply HF in Q.
    apply (N e); [right; eauto|]. destruct Q as [->|Q]; auto.
Qed.

(** If the next access of u2 in s2 is the first one that is unordered with an earlier conflicting access, of p1, then both race in some schedule. *)
Lemma first_race s0 ra1 p1 ra2 u2 rb ta1 s1 ta2 s2 l1 o1 l2 o2 (F : event -> bool) :
  exact_state s0 -> replays T f s0 (ra1 ++ p1 :: ra2 ++ u2 :: rb) ->
  run s0 ra1 = Some (ta1, s1) -> run s1 (p1 :: ra2) = Some (ta2, s2) ->
  pending s1 p1 = Some (l1, o1) -> pending s2 u2 = Some (l2, o2) -> p1 <> u2 -> conflict o1 o2 ->
  ~ before T (p1, executed s1 p1) (u2, executed s2 u2) ->
  (forall e, F e = true <-> e = (p1, executed s1 p1) \/ before T (p1, executed s1 p1) e) ->
  (forall b p e h, F e = false -> In (e, (Wait b (Parity p), h)) T -> completes T b h ->
     exists c y, In (c, (Register b y, h)) T /\ before T e c) ->
  (forall e1 o1 n1 e2 o2 n2, In (e1, (o1, n1)) T -> In (e2, (o2, n2)) T -> done s2 e1 -> done s2 e2 ->
     fst e1 <> fst e2 -> conflict o1 o2 -> before T e1 e2 \/ before T e2 e1) ->
  exists schedule t k, run s0 schedule = Some (t, k) /\ racing k.
Proof.
  intros I0 X0 Ta Tb At1 At2 Np Cf Nh HF late Rf.
  destruct (remove_later _ _ _ _ _ _ _ _ _ _ _ I0 X0 Ta Tb At1 HF late Rf) as (sg & t & k & Hk & (_ & Rp & _) & Ak & _).
  exists sg, t, k. split; auto. exists p1, u2, l1, o1, l2, o2. repeat split; auto.
  unfold pending in *. rewrite Rp; auto.
  apply (untouched_by s2 (p1, executed s1 p1)); [intros e Q; now apply HF|].
  intros e0 B [<-|Q]; apply Nh; [now apply t_step; left|]. eapply t_trans; [exact Q|]. apply t_step. now left.
Qed.

Hypothesis decide : forall e1 e2, {before T e1 e2} + {~ before T e1 e2}.

Lemma conflict_sym (o o' : operation (local M) (value M) (payload M)) : conflict o o' -> conflict o' o.
Proof. destruct o, o'; simpl; auto. Qed.

(** The position of an event in its schedule. *)
Lemma run_split schedule : forall s t s' e x, run s schedule = Some (t, s') -> In (e, x) t ->
  exists ra rb ta s1 tb, schedule = ra ++ fst e :: rb /\ run s ra = Some (ta, s1) /\ run s1 (fst e :: rb) = Some (tb, s') /\
    entry_at (fst e) s1 = Some (e, x).
Proof.
  induction schedule as [|u sg IH]; intros s t s' e x H J; simpl in H; [inversion H; subst; easy|].
  destruct (entry_at u s) as [e0|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  destruct J as [->|J].
  - assert (fst e = u) as Eu.
    { unfold entry_at in En. destruct (pending s u) as [[? ?]|]; [|easy]. inversion En. reflexivity. }
    rewrite Eu. exists [], sg, [], s, ((e, x) :: l). repeat split; auto. simpl. now rewrite En, A1, E.
  - destruct (IH _ _ _ _ _ E J) as (ra & rb & ta & s3 & tb & -> & Ra & Rb & Ee).
    exists (u :: ra), rb, (e0 :: ta), s3, tb. repeat split; auto. simpl. now rewrite En, A1, Ra.
Qed.

Definition unordered_done s := exists e1 e2, unordered_pair e1 e2 /\ done s e1 /\ done s e2.

(** If all executed pairs are ordered in s but not in f, some step creates the first unordered pair. *)
Lemma first_pair r : forall s, exact_state s -> replays T f s r -> ~ unordered_done s -> unordered_done f ->
  exists ra u rb ta s2 l o e1, r = ra ++ u :: rb /\ run s ra = Some (ta, s2) /\ pending s2 u = Some (l, o) /\
    ~ unordered_done s2 /\ done s2 e1 /\ unordered_pair e1 (u, executed s2 u).
Proof.
  induction r as [|u r IH]; intros s I X N E.
  { inversion X as [? Q|]; subst. elim N. destruct E as (e1 & e2 & P & D1 & D2). exists e1, e2.
    destruct Q as (_ & Q & _). unfold done in *. rewrite !Q. auto. }
  destruct (reference_step _ _ _ I X) as (s2 & l & o & Ha & En & At & J & I2 & X2).
  assert (K : (exists e1, unordered_pair e1 (u, executed s u) /\ done s e1) \/ ~ unordered_done s2).
  { destruct (find (fun x => if event_dec (fst x) (u, executed s u) then false else
        is_done s (fst x) && negb (Nat.eqb (fst (fst x)) u) &&
        (match fst (snd x), o with Read x, Write y _ | Write x _, Read y | Write x _, Write y _ => Nat.eqb x y | _, _ => false end) &&
        (if decide (fst x) (u, executed s u) then false else true) && (if decide (u, executed s u) (fst x) then false else true)) T)
      as [[e1 [o1 n1]]|] eqn:Fi.
    - left. apply find_some in Fi as (J1 & Fi). simpl in Fi. destruct (event_dec e1 (u, executed s u)); [discriminate|].
      destruct (decide e1 (u, executed s u)); [rewrite andb_false_r in Fi; discriminate|].
      destruct (decide (u, executed s u) e1); [rewrite andb_false_r in Fi; discriminate|].
      rewrite !andb_true_r, !andb_true_iff, negb_true_iff, Nat.eqb_neq in Fi. destruct Fi as ((Fd & Fp) & Fc).
      apply is_done_iff in Fd. exists e1. split; auto. exists o1, n1, o, (label o s). repeat split; auto.
      destruct o1, o; simpl in *; try discriminate; now apply Nat.eqb_eq.
    - right. intros (e1 & e2 & P & D1 & D2). apply (step_done _ _ _ _ Ha) in D1, D2.
      assert (Sym : forall a b, unordered_pair a b -> unordered_pair b a).
      { intros a b (oa & na & ob & nb & ? & ? & ? & ? & ? & ?). exists ob, nb, oa, na. repeat split; auto using conflict_sym. }
      assert (Found : forall e, done s e -> unordered_pair e (u, executed s u) -> False).
      { intros e D (oa & na & ob & nb & Ja & Jb & Np & Cf & B1 & B2).
        pose proof (only_one T f C _ _ _ J Jb) as Q. inversion Q; subst.
        apply (find_none _ _ Fi) in Ja. simpl in Ja, Np. destruct (event_dec e (u, executed s u)) as [->|].
        { apply (not_done_next _ _ D). }
        destruct (decide e (u, executed s u)); [easy|]. destruct (decide (u, executed s u) e); [easy|].
        rewrite (proj2 (is_done_iff s e) D) in Ja. destruct (Nat.eqb_spec (fst e) u); [easy|]. simpl in Ja.
        destruct oa, ob; simpl in Cf, Ja; try easy; subst; rewrite Nat.eqb_refl in Ja; discriminate. }
      destruct D1 as [D1| ->], D2 as [D2| ->]; eauto.
      + apply N. exists e1, e2. auto.
      + destruct P as (? & ? & ? & ? & _ & _ & Np & _). now elim Np. }
  destruct K as [(e1 & P & D)|K].
  - exists [], u, r, [], s, l, o, e1. repeat split; auto.
  - destruct (IH _ I2 X2 K E) as (ra & u' & rb & ta & s3 & l3 & o3 & e1 & -> & Ra & A3 & N3 & D3 & P3).
    exists (u :: ra), u', rb, (((u, executed s u), (o, label o s)) :: ta), s3, l3, o3, e1. repeat split; auto.
    simpl. now rewrite En, Ha, Ra.
Qed.
End Exact.

Lemma initial_exact {M : machine} (T : list (entry M)) s0 : initial s0 -> exact_state T s0.
Proof.
  intro I. split; [now apply initial_consistent|]. destruct I as (E0 & P0 & A0). split; [|split].
  - intros e b y g _ Lt. rewrite P0 in Lt. lia.
  - intros b g Lt. rewrite P0 in Lt. lia.
  - intros e b y _ D. unfold done in D. rewrite E0 in D. lia.
Qed.

Section Races.
Context {M : machine}.
Hypothesis comm : commutative M.
Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.

Lemma exact_initially : exact_state T s0.
Proof. apply initial_exact. exact (from_start H). Qed.

(** If the other rules hold, and two conflicting accesses of the reference run are unordered, then some schedule has a data race. *)
Theorem races_are_real : well_synchronized T -> (forall e1 e2, {before T e1 e2} + {~ before T e1 e2}) ->
  (exists e1 e2, unordered_pair T e1 e2) -> exists schedule t k, run s0 schedule = Some (t, k) /\ racing k.
Proof.
  intros R decide (e1 & e2 & P).
  pose proof (reference_complete _ _ _ _ H) as C. pose proof (reference_replays _ _ _ _ H) as X0.
  destruct (first_pair T f comm C (RC R) (RL R) decide _ _ exact_initially X0) as (ra & u & rb & ta & s2 & l & o & e & E & Ra & At & N2 & D & P2).
  { intros (a & b & _ & D & _). destruct (from_start H) as (E0 & _). unfold done in D. rewrite E0 in D. lia. }
  { exists e1, e2. split; auto. destruct P as (o1 & n1 & o2 & n2 & J1 & J2 & _). split; eapply (all_done C); eauto. }
  destruct P2 as (o1 & n1 & o2 & n2 & J1 & J2 & Np & Cf & B1 & B2).
  rewrite E in X0. destruct (reference_prefix T f comm C (RC R) (RL R) _ _ _ _ _ exact_initially X0 Ra) as (I2 & X2 & It).
  assert (Jt : In (e, (o1, n1)) ta).
  { destruct (in_dec event_dec e (map fst ta)) as [K|K].
    - apply in_map_iff in K as ([e' x] & Q & K). simpl in Q. subst e'. rewrite (only_one T f C _ _ _ J1 (It _ K)). exact K.
    - exfalso. apply K. clear - D Ra H. destruct (from_start H) as (E0 & _).
      eapply run_done; eauto. unfold done. rewrite E0. lia. }
  destruct (run_split _ _ _ _ _ _ Ra Jt) as (ra1 & ra2 & ta1 & s1 & tb & -> & Ra1 & Ra2 & Ee).
  unfold entry_at in Ee. destruct (pending s1 (fst e)) as [[l1 o1']|] eqn:At1; [|easy]. inversion Ee as [[Ee1 Ee2 Ee3]].
  assert (Ee1' : e = (fst e, executed s1 (fst e))) by congruence. subst o1'.
  destruct (future_own T f C _ _ _ _ _ X2 At) as (n & Jo). pose proof (only_one T f C _ _ _ J2 Jo) as Q. inversion Q; subst o2 n.
  rewrite <- app_assoc in X0. simpl in X0.
  pose proof (reference_closing comm _ _ _ _ H (R1 R) (R2 R)) as Cl.
  apply (first_race T f comm C Cl (R1 R) (RC R) (RL R) s0 ra1 (fst e) ra2 u rb ta1 s1 tb s2 l1 o1 l o
    (fun e' => if event_dec e' e then true else if decide e e' then true else false)); auto using exact_initially.
  - rewrite <- Ee1'. exact B1.
  - intro e'. rewrite <- Ee1'. destruct (event_dec e' e) as [->|Ne]; [tauto|]. destruct (decide e e'); intuition congruence.
  - intros b p e0 h _ Jw Cm. exact (R3 R _ _ _ _ Jw Cm).
  - intros a oa na b ob nb Ja Jb Da Db Nab Cab. destruct (decide a b) as [|N]; auto. destruct (decide b a) as [|N']; auto.
    elim N2. exists a, b. split; auto. exists oa, na, ob, nb. repeat split; auto.
Qed.
End Races.
