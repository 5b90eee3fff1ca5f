(** * Diamonds: two enabled steps of different processes commute

    [commute]: compatible steps lead to the same state in either order.  [always_compatible]: by the rules, any two enabled
    steps are compatible.  Accesses do not conflict, because there is no race.  Two registrations at one object belong
    to its current phase (R1), and neither fills it without the other ([cover]).  A wait by parity happens before some
    registrant of the current phase (R3), so no enabled registration completes the phase. *)
From Coq Require Import List Arith Lia Bool Relations Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant.

Section Commute.
Context {M : machine}.
Hypothesis comm : commutative M.
Implicit Types s : state M.

Definition compatible s (o o' : operation (local M) (value M) (payload M)) :=
  match o, o' with
  | Read x, Write x' _ | Write x _, Read x' | Write x _, Write x' _ => x <> x'
  | Register b y, Register b' y' => b = b' ->
      (forall a, add M b (contents s b) y = Some a -> full M b a = false) /\
      (forall a, add M b (contents s b) y' = Some a -> full M b a = false) /\
      (exists a, add_two M b (contents s b) y y' = Some a) /\
      (forall a, add_two M b (contents s b) y y' = Some a -> full M b a = true -> ends M y = ends M y')
  | Register b y, Wait b' w | Wait b' w, Register b y => b = b' ->
      forall a, add M b (contents s b) y = Some a -> full M b a = true -> exists g, w = Over g
  | Start q _, Start q' _ => q <> q'
  | _, _ => True
  end.

(** A compatible registration changes neither the success nor the result of an enabled wait. *)
Lemma wait_undisturbed s p l b y a b' w :
  add M b (contents s b) y = Some a -> passes (first_phase M b') w (phase s b') = true ->
  (b = b' -> full M b a = true -> exists g, w = Over g) ->
  let s1 := update_object (advance s p l) b a y in
  passes (first_phase M b') w (phase s1 b') = true /\ wait_result s1 b' w = wait_result s b' w /\
  label (Wait (L := local M) (V := value M) (P := payload M) b' w) s1 = label (Wait (L := local M) (V := value M) (P := payload M) b' w) s.
Proof.
  intros Ea Pa Q. unfold update_object. simpl. destruct (full M b a && ends M y) eqn:F; simpl.
  - apply andb_true_iff in F as [F _]. destruct (Nat.eq_dec b b') as [<-|N].
    + destruct (Q eq_refl F) as (g & ->). simpl in *. apply Nat.ltb_lt in Pa. unfold update. rewrite Nat.eqb_refl.
      split; [apply Nat.ltb_lt; lia|]. destruct (Nat.eqb_spec g (phase s b)); [lia|auto].
    + unfold update. destruct (Nat.eqb_spec b' b); [congruence|]. split; [exact Pa|]. split; auto.
      destruct w; simpl; auto. destruct (Nat.eqb_spec b' b); [congruence|auto].
  - split; [exact Pa|]. destruct w; auto.
Qed.

Ltac rewrite_known := repeat match goal with
    | E : add ?m ?b ?a ?y = _ |- context [add ?m ?b ?a ?y] => rewrite E
    | E : locals ?z ?q = _ |- context [locals ?z ?q] => rewrite E
    | E : passes ?o ?z ?q = _ |- context [passes ?o ?z ?q] => rewrite E end.
Ltac agree := split; [repeat split; simpl; intros; by_place; first [congruence | reflexivity] | split; simpl; auto].

Lemma commute s t u lt ot lu ou s1 s2 : t <> u ->
  step t s = Some s1 -> step u s = Some s2 ->
  pending s t = Some (lt, ot) -> pending s u = Some (lu, ou) -> compatible s ot ou ->
  exists s12 s12', step u s1 = Some s12 /\ step t s2 = Some s12' /\ same s12 s12' /\
    label ou s1 = label ou s /\ label ot s2 = label ot s.
Proof.
  intros N Ht Hu Et Eu C.
  pose proof (pending_other _ _ _ _ _ Ht (not_eq_sym N) Eu) as Eu1.
  pose proof (pending_other _ _ _ _ _ Hu N Et) as Et2.
  assert (Pt : locals s t = Some lt) by (unfold pending in Et; destruct (locals s t) as [z|]; [destruct (next M z)|]; congruence).
  assert (Pu : locals s u = Some lu) by (unfold pending in Eu; destruct (locals s u) as [z|]; [destruct (next M z)|]; congruence).
  unfold step in *. rewrite Et in Ht. rewrite Eu in Hu. rewrite Eu1, Et2. clear Eu1 Et2 Et Eu.
  destruct ot as [x|x v|b y|b w|q l], ou as [x'|x' v'|b' y'|b' w'|q' l']; simpl in Ht, Hu, C;
    repeat match goal with
    | H : match add ?m ?b ?a ?y with _ => _ end = Some _ |- _ => let E := fresh "E" in destruct (add m b a y) eqn:E; [|discriminate]
    | H : (if passes ?o ?w ?a then _ else _) = Some _ |- _ => let E := fresh "E" in destruct (passes o w a) eqn:E; [|discriminate]
    | H : match locals ?s ?q with _ => _ end = Some _ |- _ => let E := fresh "E" in destruct (locals s q) eqn:E; [discriminate|]
    end;
    repeat match goal with H : Some _ = Some _ |- _ => inversion H; clear H end; subst; simpl.
  all: repeat match goal with
    | H : locals ?z ?q = None, H1 : locals ?z ?p = Some _ |- _ =>
       lazymatch goal with K : q <> p |- _ => fail | _ => assert (q <> p) by congruence end end.
  all: try (rewrite_known; by_place; try congruence; rewrite_known; eexists; eexists; (split; [reflexivity|split; [reflexivity|]]; agree; fail)).
  all: try (rewrite_known; unfold update_object; destruct (full _ _ _ && ends _ _) eqn:?; simpl; by_place; try congruence; rewrite_known;
            eexists; eexists; (split; [reflexivity|split; [reflexivity|]]; agree; fail)).
  - (* two registrations *)
    destruct (Nat.eq_dec b b') as [<-|Nb].
    + destruct (C eq_refl) as (C1 & C2 & (d & C3) & C5). specialize (C5 d C3). specialize (C1 _ eq_refl). specialize (C2 _ E).
      pose proof C3 as C4. rewrite comm in C4. unfold add_two in C3, C4. rewrite E0 in C3. rewrite E in C4.
      unfold update_object. rewrite C1, C2. simpl.
      assert (U : forall z, update (contents s) b z b = z) by (intro; unfold update; now rewrite Nat.eqb_refl).
      rewrite !U, C3, C4. eexists; eexists; (split; [reflexivity|split; [reflexivity|]]).
      destruct (full M b d) eqn:Fc; [rewrite (C5 eq_refl); destruct (ends M y')|]; simpl; agree.
    + assert (U : forall z f', update f' b z b' = f' b' :> content M) by (intros; unfold update; destruct (Nat.eqb_spec b' b); congruence).
      assert (U' : forall z f', update f' b' z b = f' b :> content M) by (intros; unfold update; destruct (Nat.eqb_spec b b'); congruence).
      unfold update_object. simpl. destruct (full M b c0 && ends M y) eqn:F0, (full M b' c && ends M y') eqn:F1; simpl; rewrite U, U', E, E0, ?F0, ?F1;
        (eexists; eexists; split; [reflexivity|split; [reflexivity|]]); agree; by_place; congruence.
  - (* a registration and a wait *)
    destruct (wait_undisturbed s t (resume M lt (InPhase (phase s b))) b y c b' w') as (Q1 & Q2 & Q3); auto.
    { intros <-. eauto. }
    unfold first_phase in *. rewrite Q1, Q2. rewrite_known. eexists; eexists; split; [reflexivity|split; [reflexivity|]].
    split; [|auto]. unfold update_object. simpl. destruct (full M b c && ends M y); repeat split; simpl; intros; by_place; congruence.
  - (* a wait and a registration *)
    destruct (wait_undisturbed s u (resume M lu (InPhase (phase s b'))) b' y' c b w) as (Q1 & Q2 & Q3); auto.
    { intros <-. eauto. }
    unfold first_phase in *. rewrite Q1, Q2. rewrite_known. eexists; eexists; split; [reflexivity|split; [reflexivity|]].
    split; [|auto]. unfold update_object. simpl. destruct (full M b' c && ends M y'); repeat split; simpl; intros; by_place; congruence.
Qed.
End Commute.

Section Compatible.
Context {M : machine}.
Variable T : list (entry M).
Variable f : state M.
Implicit Types s : state M.
Hypothesis comm : commutative M.
Hypothesis C : complete T f.
Hypothesis R : well_synchronized T.
Hypothesis RR : no_race T.

(** By R3: while a wait by parity is enabled, no enabled registration fills the phase. *)
Lemma wait_compatible s r t u s1 lt lu b y w s2 : t <> u -> consistent T s -> replays T f s r ->
  step t s = Some s1 -> step u s = Some s2 ->
  pending s t = Some (lt, Register b y) -> pending s u = Some (lu, Wait b w) ->
  forall a, add M b (contents s b) y = Some a -> full M b a = true -> exists g, w = Over g.
Proof.
  intros N I X Ht Hu Et Eu a Ea F. destruct w as [g|p]; [eauto|]. exfalso.
  assert (Pa : passes (first_phase M b) (Parity p) (phase s b) = true).
  { unfold step in Hu. rewrite Eu in Hu. unfold effect in Hu.
    destruct (passes (first_phase M b) (Parity p) (phase s b)); [reflexivity|discriminate]. }
  pose proof (same_phase_wait T f C _ _ I X _ _ _ _ (R2 R) Eu Pa) as J.
  pose proof (register_phase T f C (R1 R) _ _ _ _ _ _ I X Et) as Jt.
  pose proof (full_has_all T f comm C R _ _ _ _ _ _ _ _ I X Ht Et Ea F) as All.
  assert (Cm : completes T b (phase s b)).
  { destruct (sum_step T f comm C _ _ _ _ _ _ _ I Ht Et Jt Ea) as (a0 & S0 & Sm).
    rewrite filter_all in Sm by (intros [e z] K; apply is_done_iff; apply in_registrants in K; eapply All; eauto).
    split; [|exists a; split; [exists a0|]; auto]. intro Z.
    apply in_registrants in Jt. rewrite Z in Jt. destruct Jt. }
  destruct (R3 R _ _ _ _ J Cm) as (e & y' & K & B). specialize (All _ _ K).
  apply (not_done_next s u). apply (step_done _ _ _ _ Ht) in All. destruct All as [D| ->].
  - eapply done_before; eauto.
  - refine (done_pending T f C _ _ I X _ _ _ _ Et _ B). discriminate.
Qed.

(** If two registrations together fill a phase, each of them can complete it. *)
Lemma last_registration_ends s r t u s2 lt lu b y y' c : t <> u -> consistent T s -> replays T f s r -> step u s = Some s2 ->
  pending s t = Some (lt, Register b y) -> pending s u = Some (lu, Register b y') ->
  add_two M b (contents s b) y y' = Some c -> full M b c = true -> ends M y = true.
Proof.
  intros N I X Hu Et Eu A2 F. rewrite comm in A2. unfold add_two in A2.
  destruct (add M b (contents s b) y') as [a|] eqn:Ea; [|discriminate].
  pose proof (register_phase T f C (R1 R) _ _ _ _ _ _ I X Et) as J.
  destruct (sum_step T f comm C _ _ _ _ _ _ _ I Hu Eu (register_phase T f C (R1 R) _ _ _ _ _ _ I X Eu) Ea) as (a0 & S0 & Sm).
  set (D2 := fun e : event => is_done s2 e || (Nat.eqb (fst e) t && Nat.eqb (snd e) (executed s t))).
  assert (Nt : is_done s2 (t, executed s t) = false).
  { apply not_true_is_false. rewrite is_done_iff. intro D. apply (step_done _ _ _ _ Hu) in D.
    destruct D as [D|D]; [exact (not_done_next _ _ D)|congruence]. }
  assert (Ot : forall e, e <> (t, executed s t) -> D2 e = is_done s2 e).
  { intros [p i] Ne. unfold D2. simpl. destruct (Nat.eqb_spec p t), (Nat.eqb_spec i (executed s t)); simpl; rewrite ?orb_false_r; auto. congruence. }
  assert (Tt : D2 (t, executed s t) = true) by (unfold D2; simpl; rewrite !Nat.eqb_refl; apply orb_true_r).
  pose proof (filter_plus (is_done s2) D2 (t, executed s t) y (registrants T b (phase s b))
    (unique_registrants _ _ _ (distinct C)) (proj2 (in_registrants _ _ _ _ _) J) Nt Tt Ot) as Pm.
  assert (S2 : sum b a0 (map snd (filter (fun r => D2 (fst r)) (registrants T b (phase s b)))) = Some c).
  { rewrite (sum_permutation comm _ _ _ Pm), (sum_permutation comm _ _ _ (Permutation_cons_append _ _)), sum_app, Sm. simpl. now rewrite A2. }
  assert (Ht : exists s1, step t s = Some s1).
  { unfold step. rewrite Et. simpl. pose proof (comm b (contents s b) y y') as Q. unfold add_two in Q. rewrite Ea, A2 in Q.
    destruct (add M b (contents s b) y); [eauto|discriminate]. }
  destruct Ht as (s1 & Ht).
  assert (Cl2 : closed T (is_done s2)).
  { intros e1 e2 B D. apply is_done_iff in D. apply is_done_iff. eapply closed_step; eauto using R2. }
  assert (Cl : closed T D2).
  { intros e1 e2 B D. unfold D2. apply orb_true_iff. left. destruct (event_dec e2 (t, executed s t)) as [->|Ne].
    - apply is_done_iff. apply (step_done _ _ _ _ Hu). left. eapply edges_done; eauto using R2.
    - rewrite Ot in D by auto. eapply Cl2; eauto. }
  pose proof (RC R _ _ _ _ _ Cl S0 S2 F) as All.
  rewrite filter_all in S2 by (intros [e z] K; apply in_registrants in K; eapply All; eauto).
  eapply (RL R b (phase s b) (is_done s2)); eauto.
  - intros e' z K. destruct (event_dec e' (t, executed s t)) as [->|Ne]; auto. right. rewrite <- Ot; auto. eapply All; eauto.
  - exists a0. auto.
Qed.

Lemma always_compatible s r t u s1 lt ot lu ou s2 r2 : t <> u -> consistent T s -> replays T f s r ->
  step t s = Some s1 -> step u s = Some s2 ->
  pending s t = Some (lt, ot) -> pending s u = Some (lu, ou) -> consistent T s2 -> replays T f s2 r2 -> compatible s ot ou.
Proof.
  intros N I X Ht Hu Et Eu I2 X2.
  assert (Rc : conflict ot ou -> False).
  { intro Cf. apply (never_racing T f C _ _ I X RR). exists t, u, lt, ot, lu, ou. auto. }
  pose proof (never_error T f comm C R _ _ X2 I2 t) as Ne. unfold error in Ne. rewrite (pending_other _ _ _ _ _ Hu N Et) in Ne.
  destruct ot as [x|x v|b y|b w|q l], ou as [x'|x' v'|b' y'|b' w'|q' l']; simpl in *; auto.
  - intros <-.
    assert (F1 : forall a, add M b (contents s b) y = Some a -> full M b a = false).
    { intros a Ea. apply not_true_is_false. intro F.
      pose proof (full_has_all T f comm C R _ _ _ _ _ _ _ _ I X Ht Et Ea F _ _ (register_phase T f C (R1 R) _ _ _ _ _ _ I X Eu)) as D.
      apply (step_done _ _ _ _ Ht) in D. destruct D as [D|D]; [exact (not_done_next _ _ D)|congruence]. }
    assert (F2 : forall a, add M b (contents s b) y' = Some a -> full M b a = false).
    { intros a Ea. apply not_true_is_false. intro F.
      pose proof (full_has_all T f comm C R _ _ _ _ _ _ _ _ I X Hu Eu Ea F _ _ (register_phase T f C (R1 R) _ _ _ _ _ _ I X Et)) as D.
      apply (step_done _ _ _ _ Hu) in D. destruct D as [D|D]; [exact (not_done_next _ _ D)|congruence]. }
    assert (F3 : forall a, add_two M b (contents s b) y y' = Some a -> full M b a = true -> ends M y = ends M y').
    { intros a A2 F. rewrite (last_registration_ends _ _ _ _ _ _ _ _ _ _ _ N I X Hu Et Eu A2 F).
      rewrite comm in A2. symmetry. exact (last_registration_ends _ _ _ _ _ _ _ _ _ _ _ (not_eq_sym N) I X Ht Eu Et A2 F). }
    split; [auto|split; [auto|split; [|auto]]].
    destruct (step_object _ _ _ b Hu) as [(_ & _ & _ & K)|(l' & z & a & E' & Ea & K)]; [exfalso; eapply K; eauto|].
    rewrite Eu in E'. inversion E'; subst. rewrite comm. unfold add_two. rewrite Ea.
    destruct K as [(F & _ & K & _)|(F & _ & _)]; [|simpl in F; rewrite (F2 _ Ea) in F; discriminate].
    rewrite K in Ne. destruct (add M b a y); [eauto|congruence].
  - intros <-. intros a Ea F. exact (wait_compatible _ _ _ _ _ _ _ _ _ _ _ N I X Ht Hu Et Eu a Ea F).
  - intros <-. intros a Ea F. exact (wait_compatible _ _ _ _ _ _ _ _ _ _ _ (not_eq_sym N) I X Hu Ht Eu Et a Ea F).
  - intros <-. apply Ne. unfold step in Hu. rewrite Eu in Hu. simpl in Hu.
    destruct (locals s q); [discriminate|]. inversion Hu. simpl. unfold update. rewrite Nat.eqb_refl. discriminate.
Qed.
End Compatible.
