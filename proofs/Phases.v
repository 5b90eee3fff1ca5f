(** * The phases of a run: facts that need no rule *)
From Coq Require Import List Arith Lia Bool.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps.

Section Phases.
Context {M : machine}.
Implicit Types s : state M.

Lemma run_last schedule : forall s u T s', run s (schedule ++ [u]) = Some (T, s') ->
  exists T1 s1 x, run s schedule = Some (T1, s1) /\ entry_at u s1 = Some x /\ step u s1 = Some s' /\ T = T1 ++ [x].
Proof.
  induction schedule as [|v sg IH]; simpl; intros s u T s' H.
  - destruct (entry_at u s) as [x|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:St; [|easy]. inversion H; subst.
    exists [], s, x. auto.
  - destruct (entry_at v s) as [x|] eqn:En; [|easy]. destruct (step v s) as [s1|] eqn:St; [|easy].
    destruct (run s1 (sg ++ [u])) as [[T2 s2]|] eqn:E; [|easy]. inversion H; subst.
    destruct (IH _ _ _ _ E) as (T1 & s3 & x1 & R1 & E1 & S1 & ->). rewrite R1.
    exists (x :: T1), s3, x1. auto.
Qed.

Lemma registrants_app (T1 T2 : list (entry M)) b g : registrants (T1 ++ T2) b g = registrants T1 b g ++ registrants T2 b g.
Proof. apply flat_map_app. Qed.

Lemma opening_same (T1 T2 : list (entry M)) b g : (forall g', g' < g -> registrants T1 b g' = registrants T2 b g') ->
  opening T1 b g = opening T2 b g.
Proof.
  induction g as [|g IH]; intro H; simpl; auto. rewrite IH by (intros; apply H; lia). now rewrite (H g) by lia.
Qed.

Lemma opening_next (T : list (entry M)) b g a : closing T b g a -> opening T b (S g) = Some (reset M b a).
Proof. intros (a0 & S0 & Sm). simpl. now rewrite S0, Sm. Qed.

(** What the trace of a run from an initial state tells about object b in its final state s. *)
Record phases_of (T : list (entry M)) s b : Prop := {
  current : exists a0, opening T b (phase s b) = Some a0 /\
    sum b a0 (map snd (registrants T b (phase s b))) = Some (contents s b);
  completed_before : forall g, g < phase s b -> exists a, closing T b g a /\ full M b a = true;
  no_later : forall e y g, In (e, (Register b y, g)) T -> g <= phase s b;
  waited : forall e g h, In (e, (Wait b (Over g), h)) T -> g < phase s b;
  in_turn : forall p k g h j y g', In ((p, k), (Wait b (Over g), h)) T -> In ((p, j), (Register b y, g')) T -> k < j -> g < g'
}.

Lemma run_phases schedule : forall s0 T s b, initial s0 -> run s0 schedule = Some (T, s) -> phases_of T s b.
Proof.
  induction schedule as [|u sg IH] using rev_ind; intros s0 T s b I0 H.
  { simpl in H. inversion H; subst. destruct I0 as (_ & P0 & A0). split; simpl; try easy.
    - exists (initial_contents M b). rewrite P0, A0. auto.
    - intros g Lt. rewrite P0 in Lt. lia. }
  destruct (run_last _ _ _ _ _ H) as (T1 & s1 & x & R1 & En & St & ->).
  destruct (IH _ _ _ b I0 R1) as [(a0 & S0 & Sm) Cb Nl Wa It].
  destruct (run_events _ _ _ _ R1) as (_ & Ev & _).
  destruct (step_inv _ _ _ St) as (l & o & At & Ef & _ & _ & En'). rewrite En in En'.
  assert (Ex : x = ((u, executed s1 u), (o, label o s1))) by congruence. clear En En'.
  pose proof (step_phase _ _ _ b St) as Mono.
  set (T2 := T1 ++ [x]) in *.
  assert (New : forall e z, In (e, z) T2 -> In (e, z) T1 \/ (e = (u, executed s1 u) /\ z = (o, label o s1))).
  { intros e z J. apply in_app_or in J as [J|[J|[]]]; auto. rewrite Ex in J. inversion J; auto. }
  assert (Other : forall g, (forall y, o = Register b y -> g <> phase s1 b) ->
    registrants T2 b g = registrants T1 b g).
  { intros g N. unfold T2. rewrite registrants_app, Ex. simpl. destruct o as [x'|x' v|b' y|b' w|q l']; rewrite ?app_nil_r; auto. simpl.
    destruct (Nat.eqb_spec b b') as [<-|]; simpl; rewrite ?app_nil_r; auto.
    destruct (Nat.eqb_spec g (phase s1 b)) as [->|]; simpl; rewrite ?app_nil_r; auto. elim (N y); auto. }
  assert (Rg : forall y, o = Register b y ->
    registrants T2 b (phase s1 b) = registrants T1 b (phase s1 b) ++ [((u, executed s1 u), y)]).
  { intros y ->. unfold T2. rewrite registrants_app, Ex. simpl. now rewrite !Nat.eqb_refl. }
  clearbody T2. clear x Ex.
  assert (Op : forall g, g <= phase s1 b ->
    opening T2 b g = opening T1 b g).
  { intros g Le. apply opening_same. intros g' Lt. apply Other. intros; lia. }
  assert (Wa' : forall e g h, In (e, (Wait b (Over g), h)) T2 -> g < phase s b).
  { intros e g h J. destruct (New _ _ J) as [K|(_ & K)].
    - specialize (Wa _ _ _ K). lia.
    - inversion K; subst. simpl in Ef. destruct (Nat.ltb_spec g (phase s1 b)); [lia|discriminate]. }
  destruct (step_object _ _ _ b St) as [(K1 & K2 & _ & K3)|(l' & y & a & E & Ea & K)].
  - assert (N : forall y, o <> Register b y) by (intros y ->; exact (K3 _ _ At)). split; auto.
    + exists a0. rewrite K1, K2, Op by auto. split; auto. rewrite Other; auto. intros y E. elim (N y E).
    + intros g Lt. rewrite K1 in Lt. destruct (Cb g Lt) as (a & (a1 & S1 & Sm1) & F). exists a. split; auto.
      exists a1. rewrite Op by lia. rewrite Other; auto. intros y E. elim (N y E).
    + intros e y g J. rewrite K1. destruct (New _ _ J) as [J'|(_ & J')]; eauto. inversion J'. elim (N y). auto.
    + intros p k g h j y g' J J' Lt. destruct (New _ _ J') as [L'|(L1 & L2)]; [|inversion L2; elim (N y); auto].
      destruct (New _ _ J) as [L|(L & _)]; eauto. inversion L; subst.
      destruct (Ev _ _ L') as (_ & D). unfold done in D. simpl in D. lia.
  - rewrite At in E. inversion E; subst l' o.
    specialize (Rg _ eq_refl).
    assert (Cl : closing T2 b (phase s1 b) a).
    { exists a0. rewrite Op by auto. split; auto. rewrite Rg, map_app, sum_app, Sm. simpl. now rewrite Ea. }
    assert (Cb' : forall g, g < phase s1 b -> exists a, closing T2 b g a /\ full M b a = true).
    { intros g Lt. destruct (Cb g Lt) as (a1 & (a2 & S1 & Sm1) & F). exists a1. split; auto.
      exists a2. rewrite Op by lia. rewrite Other; auto. intros; lia. }
    assert (Nl' : forall e y' g, In (e, (Register b y', g)) T2 -> g <= phase s1 b).
    { intros e y' g J. destruct (New _ _ J) as [J'|(_ & J')]; eauto. inversion J'. simpl. lia. }
    assert (It' : forall p k g h j y' g', In ((p, k), (Wait b (Over g), h)) T2 ->
      In ((p, j), (Register b y', g')) T2 -> k < j -> g < g').
    { intros p k g h j y' g' J J' Lt. destruct (New _ _ J) as [L|(_ & L)]; [|discriminate].
      destruct (New _ _ J') as [L'|(_ & L')]; eauto. inversion L'; subst. simpl. exact (Wa _ _ _ L). }
    destruct K as [(F & K1 & K2 & _)|(F & K1 & K2 & _)].
    + split; auto.
      * destruct Cl as (a1 & S1 & Sm1). exists a1. rewrite K1, K2. auto.
      * intros g Lt. apply Cb'. lia.
      * intros e y' g J. rewrite K1. eauto.
    + apply andb_true_iff in F as [F _]. split; auto.
      * destruct Cl as (a1 & S1 & Sm1). exists (reset M b a). rewrite K1, K2. simpl. rewrite S1, Sm1. split; auto.
        rewrite Other by (intros; lia).
        destruct (registrants T1 b (S (phase s1 b))) as [|[e z] r] eqn:Er; auto. exfalso.
        assert (J : In (e, (Register b z, S (phase s1 b))) T1) by (apply (in_registrants T1); rewrite Er; now left).
        specialize (Nl _ _ _ J). lia.
      * intros g Lt. rewrite K1 in Lt. destruct (Nat.eq_dec g (phase s1 b)) as [->|]; [eauto|]. apply Cb'. lia.
      * intros e y' g J. specialize (Nl' _ _ _ J). lia.
Qed.
End Phases.
