(** * Fewer kinds of objects need fewer rules *)
From Coq Require Import List Arith Lia Bool ZArith Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun Gpu.

Section Stages.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.
Notation M := (gpu L V next resume objects strict).

(** All registrants of mbarriers are arrivals, without bytes. *)
Definition only_arrivals (T : list (entry M)) := forall e b ar dr ex co g,
  In (e, (Register b (Count ar dr ex co), g)) T -> 0 < ar /\ ex = 0 /\ co = 0.

Lemma only_arrivals_rules (T : list (entry M)) : (forall b, fresh (objects b)) -> only_arrivals T ->
  rule_expect _ _ _ _ _ _ T /\ rule_balance _ _ _ _ _ _ T /\ rule_positive _ _ _ _ _ _ T.
Proof.
  intros Hf Hc. split; [|split].
  - intros b g e0 x _ e ar dr ex co J P. apply Hc in J. lia.
  - intros b g e0 x (a0 & S0 & Sm).
    assert (Z : forall y, In y (map snd (registrants T b g)) -> expected y = 0 /\ completed y = 0).
    { intros y J. apply in_map_iff in J as [[e y'] [<- J]]. apply in_registrants in J.
      destruct y' as [| | |ar dr ex co|]; simpl; auto. apply Hc in J. tauto. }
    destruct (opening_fresh _ _ _ _ _ _ T Hf _ _ _ S0) as [->|[(n & ->)|[(n & ->)| ->]]].
    + destruct (registrants T b g) as [|[e y] l]; [discriminate|].
      destruct (sum_named_first _ _ _ _ _ _ _ _ _ _ _ Sm) as (n & v & r & _ & E & _). discriminate.
    + destruct (sum_group _ _ _ _ _ _ _ _ _ _ _ _ Sm) as (n' & said & E & _). discriminate.
    + destruct (sum_mbarrier _ _ _ _ _ _ _ _ _ _ _ _ Sm) as (e' & E & _). inversion E.
      rewrite (total_zero expected), (total_zero completed) by (intros y J; apply Z in J; tauto). lia.
    + destruct (sum_dead _ _ _ _ _ _ _ _ _ Sm) as [(_ & E)|(n & _ & E)]; discriminate.
  - intros e b ar dr ex co g J. apply Hc in J. lia.
Qed.

Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.
Hypothesis H1 : rule_recycle T.
Hypothesis HR : no_race T.

(** An object with a [Count] registrant is an mbarrier. *)
Lemma count_closing e b ar dr ex co g : rule_early T -> In (e, (Register b (Count ar dr ex co), g)) T ->
  exists e0 p0 x0, opening T b g = Some (Mbarrier e0 p0 x0).
Proof.
  intros H2 J. destruct (reference_closing (gpu_commutative _ _ _ _ _ _) _ _ _ _ H H1 H2 _ _ _ _ J) as (a & a0 & S0 & Sm).
  pose proof (in_map snd _ _ (proj2 (in_registrants T _ _ _ _) J)) as K.
  destruct (sum_count _ _ _ _ _ _ _ _ _ _ _ _ _ _ Sm K) as (e0 & p0 & x0 & ->). eauto.
Qed.

(** For mbarriers with arrivals only, named barriers and groups: R1, R2, R3 and race freedom suffice. *)
Theorem arrivals_decide :
  (forall b, fresh (objects b) /\ objects b <> Dead) ->
  (forall e b ar dr ex co g, In (e, (Register b (Count ar dr ex co), g)) T -> 0 < ar /\ ex = 0 /\ co = 0) ->
  rule_early T -> rule_late T -> decides s0 r0 T f.
Proof.
  intros Hb Hc H2 H3. assert (Hf : forall b, fresh (objects b)) by apply Hb.
  destruct (only_arrivals_rules T Hf Hc) as (H5 & H6 & H7). apply gpu_decides; auto. split; auto.
  intros b p e h c y Rb. simpl in Rb. destruct (Hb b) as (_ & N). destruct (objects b); easy.
Qed.

(** For named barriers and groups: R1 and race freedom suffice. *)
Theorem barriers_decide :
  (forall b, objects b = Named 0 None 0 \/ exists n, objects b = Group n n []) ->
  (forall e b p h, ~ In (e, (Wait b (Parity p), h)) T) -> decides s0 r0 T f.
Proof.
  intros Hb Hw. assert (H2 : rule_early T) by (intros b p e g c y J; elim (Hw _ _ _ _ J)).
  apply arrivals_decide; auto.
  - intro b. split.
    + unfold fresh. destruct (Hb b); auto.
    + intro E. destruct (Hb b) as [Q|(n & Q)]; rewrite E in Q; discriminate.
  - intros e b ar dr ex co g J. exfalso. destruct (count_closing _ _ _ _ _ _ _ H2 J) as (e0 & p0 & x0 & S0).
    assert (K : forall g a, opening T b g = Some a -> a = Named 0 None 0 \/ exists n, a = Group n n []).
    { clear - Hb. induction g as [|g IH]; intros a E; simpl in E; [inversion E; subst; apply Hb|].
      destruct (opening T b g) as [a1|]; [|discriminate E]. destruct (sum b a1 _) as [a2|] eqn:Sm; [|discriminate E].
      inversion E; subst a. destruct (IH _ eq_refl) as [->|(n & ->)].
      - left. destruct (registrants T b g) as [|[e y] l]; [inversion Sm; subst; reflexivity|].
        destruct (sum_named_first _ _ _ _ _ _ _ _ _ _ _ Sm) as (n & v & r & _ & -> & _). reflexivity.
      - right. destruct (sum_group _ _ _ _ _ _ _ _ _ _ _ _ Sm) as (n' & values & -> & _). exists n'. reflexivity. }
    destruct (K _ _ S0) as [E|(n & E)]; discriminate.
  - intros b p e h J. elim (Hw _ _ _ _ J).
Qed.
End Stages.
