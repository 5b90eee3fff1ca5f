(** * A checker for one run, and its soundness

    [judge] executes a program with a given schedule, and tests each rule on the trace with the clocks of [Clocks.v].  If all tests succeed, the
    theorem holds for the program ([checker_sound]).  [Extract.v] extracts the checker to OCaml. *)
From Coq Require Import List Arith Lia Bool ZArith Permutation Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun Gpu Clocks.

Section Checker.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.
Notation M := (gpu L V next resume objects strict).
Notation op := (operation L V payload).

(** ** The rules as tests *)
Definition conflicts (o o' : op) := match o, o' with
  | Read x, Write y _ | Write x _, Read y | Write x _, Write y _ => Nat.eqb x y | _, _ => false end.
Definition is_register b g (o : op) n := match o with Register b' _ => Nat.eqb b' b && Nat.eqb n g | _ => false end.

(** The contents of phase g after all its registrants. *)
Definition closing_of (T : list (entry M)) b g : option content := match opening T b g with
  | Some a0 => sum (M := M) b a0 (map snd (registrants T b g)) | None => None end.
Definition does_complete (T : list (entry M)) b g : bool :=
  match registrants T b g with
  | [] => false
  | _ => match closing_of T b g with Some a => is_full a | None => false end
  end.
(** The tx-count at the end of a phase that has all its arrivals. *)
Definition bytes_left (T : list (entry M)) b g : option Z :=
  match closing_of T b g with Some (Mbarrier _ 0 x) => Some x | _ => None end.

Section Tests.
Variable T : list (entry M).

Definition test_recycle := forallb (fun x => match x with
  | ((_, (Register b _, S g)), pre) =>
      forallb (fun y => match y with (e1, (o, n)) => negb (is_register b g o n) || includes pre e1 end) T
  | _ => true end) (clocked T).
Definition test_early := forallb (fun x => match x with
  | ((_, (Wait b (Parity _), S (S g))), pre) =>
      forallb (fun y => match y with (e1, (o, n)) => negb (is_register b g o n) || includes pre e1 end) T
  | _ => true end) (clocked T).
Definition test_init := forallb (fun x => match x with
  | ((_, (Wait b (Parity _), _)), pre) => negb (is_dead (objects b)) ||
      forallb (fun y => match y with (e1, (o, n)) => negb (is_register b 0 o n) || includes pre e1 end) T
  | _ => true end) (clocked T).
Definition test_late := forallb (fun x => match x with
  | (e, (Wait b (Parity _), h)) => negb (does_complete T b h) ||
      existsb (fun y => match y with ((_, (o, n)), pre) => is_register b h o n && includes pre e end) (clocked T)
  | _ => true end) T.
Definition test_expect := forallb (fun x => match x with
  | (e, (Register b (Count ar _ ex _), g)) => Nat.eqb ex 0 || negb (Nat.eqb ar 0) ||
      match bytes_left T b g with
      | None => true
      | Some _ => existsb (fun y => match y with
          | ((_, (Register b' (Count ar' _ _ _), g')), pre) =>
              Nat.eqb b' b && Nat.eqb g' g && negb (Nat.eqb ar' 0) && includes pre e
          | _ => false end) (clocked T)
      end
  | _ => true end) T.
Definition test_balance := forallb (fun x => match x with
  | (_, (Register b _, g)) => match bytes_left T b g with Some z => (0 <=? z)%Z | None => true end
  | _ => true end) T.
Definition test_positive := forallb (fun x => match x with
  | (_, (Register _ (Count ar _ ex co), _)) => negb (Nat.eqb (ar + ex + co) 0) | _ => true end) T.
Definition test_race := forallb (fun x => forallb (fun y => match x, y with
  | ((e1, (o1, _)), c1), ((e2, (o2, _)), c2) =>
      Nat.eqb (fst e1) (fst e2) || negb (conflicts o1 o2) || includes c2 e1 || includes c1 e2 end) (clocked T)) (clocked T).

Hypothesis Or : in_order T.

Lemma is_register_refl b g y : is_register b g (Register b y) g = true.
Proof. simpl. now rewrite !Nat.eqb_refl. Qed.
Lemma is_register_inv b g o n : is_register b g o n = true -> exists y, o = Register b y /\ n = g.
Proof.
  destruct o; simpl; try discriminate. rewrite andb_true_iff, !Nat.eqb_eq. intros (-> & ->). eauto.
Qed.

Lemma recycle_sound : test_recycle = true -> rule_recycle T.
Proof.
  unfold test_recycle. rewrite forallb_forall. intros H b g c1 y1 c2 y2 J1 J2.
  destruct (clocked_in T _ J2) as (pre & J). specialize (H _ J). cbv beta iota in H. rewrite forallb_forall in H.
  specialize (H _ J1). cbv beta iota in H. rewrite is_register_refl in H. eapply included_before; eauto.
Qed.
Lemma early_sound : test_early = true -> rule_early T.
Proof.
  unfold test_early. rewrite forallb_forall. intros H b p e g c y J1 J2.
  destruct (clocked_in T _ J1) as (pre & J). specialize (H _ J). cbv beta iota in H. rewrite forallb_forall in H.
  specialize (H _ J2). cbv beta iota in H. rewrite is_register_refl in H. eapply included_precedes; eauto.
Qed.
Lemma init_sound : test_init = true -> rule_init T.
Proof.
  unfold test_init. rewrite forallb_forall. intros H b p e h c y Rb J1 J2. simpl in Rb.
  destruct (clocked_in T _ J1) as (pre & J). specialize (H _ J). cbv beta iota in H. rewrite Rb in H. simpl in H.
  rewrite forallb_forall in H.
  specialize (H _ J2). cbv beta iota in H. rewrite is_register_refl in H. eapply included_precedes; eauto.
Qed.
Lemma late_sound : test_late = true -> rule_late T.
Proof.
  unfold test_late. rewrite forallb_forall. intros H b p e h J (Ne & a & (a0 & S0 & Sm) & F).
  specialize (H _ J). cbv beta iota in H. unfold does_complete, closing_of in H.
  destruct (registrants T b h) as [|r0 l0]; [easy|]. rewrite S0, Sm in H.
  change (is_full a = true) in F. rewrite F in H. simpl in H.
  apply existsb_exists in H as [[[r [o n]] pre] [J' H]]. apply andb_true_iff in H as [H K].
  apply is_register_inv in H as (y & -> & ->). exists r, y. split; [eapply in_clocked; eauto|eapply included_before; eauto].
Qed.
Lemma expect_sound : test_expect = true -> rule_expect _ _ _ _ _ _ T.
Proof.
  unfold test_expect. rewrite forallb_forall. intros H b g e0 x (a0 & S0 & Sm) e ar dr ex co J P.
  specialize (H _ J). cbv beta iota in H. unfold bytes_left, closing_of in H. rewrite S0, Sm in H.
  destruct (Nat.eqb_spec ex 0); [lia|]. destruct (Nat.eqb_spec ar 0); [|left; lia]. right. simpl in H.
  apply existsb_exists in H as [[[r [o n']] pre] [J' H]]. destruct o as [| |b' [| | |ar' dr' ex' co'|]| |]; try discriminate.
  rewrite !andb_true_iff, !Nat.eqb_eq, negb_true_iff, Nat.eqb_neq in H. destruct H as (((-> & ->) & N) & K).
  exists r, ar', dr', ex', co'. split; [exact (in_clocked (M := M) T _ _ J')|].
  split; [lia|exact (included_before (M := M) T Or _ _ _ _ J' K)].
Qed.
Lemma positive_sound : test_positive = true -> rule_positive _ _ _ _ _ _ T.
Proof.
  unfold test_positive. rewrite forallb_forall. intros H e b ar dr ex co g J. specialize (H _ J).
  cbv beta iota in H. rewrite negb_true_iff, Nat.eqb_neq in H. lia.
Qed.
Hypothesis Hobjects : forall b, fresh (objects b).
Lemma balance_sound : test_balance = true -> rule_balance _ _ _ _ _ _ T.
Proof.
  unfold test_balance. rewrite forallb_forall. intros H b g e0 x (a0 & S0 & Sm).
  destruct (registrants T b g) as [|[e y] l] eqn:E.
  - cbn in Sm. inversion Sm; subst. apply opening_fresh in S0; auto.
    destruct S0 as [S0|[(n & S0)|[(n & S0)|S0]]]; inversion S0. lia.
  - assert (J : In (e, (Register b y, g)) T) by (apply (in_registrants T); rewrite E; now left).
    specialize (H _ J). cbv beta iota in H. unfold bytes_left, closing_of in H. rewrite S0, E, Sm in H. now apply Z.leb_le in H.
Qed.
Lemma race_sound : test_race = true -> no_race T.
Proof.
  unfold test_race. rewrite forallb_forall. intros H e1 o1 n1 e2 o2 n2 J1 J2 N Cf.
  destruct (clocked_in T _ J1) as (c1 & K1), (clocked_in T _ J2) as (c2 & K2). specialize (H _ K1). cbv beta in H.
  rewrite forallb_forall in H. specialize (H _ K2). cbv beta iota in H.
  destruct (Nat.eqb_spec (fst e1) (fst e2)); [easy|].
  assert (Cb : conflicts o1 o2 = true).
  { destruct o1, o2; simpl in *; try easy; subst; apply Nat.eqb_refl. }
  rewrite Cb in H. simpl in H. apply orb_true_iff in H as [H|H]; [left|right]; eapply included_before; eauto.
Qed.
End Tests.

(** ** Programs: a finite list of processes (none for a process that another one starts) *)
Variable memory0 : address -> V.
Variable programs : list (option L).
Definition boot : state M :=
  State (M := M) (fun p => nth p programs None) (fun _ => 0) memory0 (fun _ => 0) objects (fun b _ => objects b).

(** All processes have ended, and only processes of the list were started. *)
Definition all_ended (f : state M) (T : list (entry M)) :=
  forallb (fun p => match pending f p with None => true | Some _ => false end) (seq 0 (length programs)) &&
  forallb (fun x => match x with (_, (Start q _, _)) => Nat.ltb q (length programs) | _ => true end) T.

Record judgement := Judgement { ends_ok : bool; recycle_ok : bool; early_ok : bool; late_ok : bool; init_ok : bool;
  expect_ok : bool; balance_ok : bool; positive_ok : bool; race_ok : bool }.
Definition judge r0 : option judgement := match run boot r0 with
  | Some (T, f) => Some (Judgement (all_ended f T) (test_recycle T) (test_early T) (test_late T) (test_init T) (test_expect T)
                                 (test_balance T) (test_positive T) (test_race T))
  | None => None end.
Definition verified r0 := match judge r0 with
  | Some (Judgement true true true true true true true true true) => true | _ => false end.

Lemma run_locals schedule : forall (s : state M) t s' p, run s schedule = Some (t, s') -> locals s' p <> None ->
  locals s p <> None \/ exists e l n, In (e, (Start p l, n)) t.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s t s' p H N; [inversion H; subst; auto|].
  destruct (entry_at u s) as [e|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  destruct (IH _ _ _ p E N) as [K|(e1 & l1 & n1 & J)]; [|right; simpl; eauto 6].
  destruct (step_inv _ _ _ A1) as (lu & o & Eu & Ef & Pu & _ & En'). rewrite En in En'. inversion En'; subst.
  destruct (Nat.eq_dec p u) as [->|Npu]; [left; congruence|].
  destruct o as [x|x v|b y|b w|q l']; simpl in Ef.
  - inversion Ef; subst; simpl in K; by_place; [congruence|auto].
  - inversion Ef; subst; simpl in K; by_place; [congruence|auto].
  - destruct (add_payload (contents s b) y) as [a|]; inversion Ef; subst. unfold update_object in K.
    destruct (full M b a && ends M y); simpl in K; by_place; try congruence; auto.
  - destruct (passes _ w (phase s b)); inversion Ef; subst; simpl in K; by_place; [congruence|auto].
  - destruct (locals s q); inversion Ef; subst; simpl in K; by_place; try congruence; auto.
    right. exists (u, executed s u), l', 0. simpl. auto.
Qed.

(** The checker is sound. *)
Theorem checker_sound r0 : (forall b, fresh (objects b)) -> verified r0 = true ->
  exists T f, reference boot r0 T f /\ decides boot r0 T f.
Proof.
  intros Hi H. unfold verified, judge in H. destruct (run boot r0) as [[T f]|] eqn:E; [|easy].
  destruct (all_ended f T) eqn:V0; [|easy]. destruct (test_recycle T) eqn:V1; [|easy]. destruct (test_early T) eqn:V2; [|easy].
  destruct (test_late T) eqn:V3; [|easy]. destruct (test_init T) eqn:V4; [|easy]. destruct (test_expect T) eqn:V5; [|easy].
  destruct (test_balance T) eqn:V6; [|easy]. destruct (test_positive T) eqn:V7; [|easy]. destruct (test_race T) eqn:V8; [|easy].
  pose proof (run_in_order _ _ _ _ E) as Or.
  assert (R : reference boot r0 T f).
  { split; auto; [repeat split|]. unfold all_ended in V0. apply andb_true_iff in V0 as [A B].
    rewrite forallb_forall in A, B. intro p. destruct (lt_dec p (length programs)) as [Lt|Ge].
    - specialize (A p). rewrite in_seq in A. specialize (A ltac:(lia)). destruct (pending f p); [discriminate|auto].
    - unfold pending. destruct (locals f p) eqn:Ep; auto. exfalso.
      destruct (run_locals _ _ _ _ p E) as [K|(e & l1 & n & J)]; [congruence| |].
      + simpl in K. rewrite nth_overflow in K; [congruence|lia].
      + specialize (B _ J). simpl in B. apply Nat.ltb_lt in B. lia. }
  exists T, f. split; auto. apply gpu_decides; auto using race_sound.
  split; auto using recycle_sound, early_sound, late_sound, init_sound, expect_sound, balance_sound, positive_sound.
Qed.
End Checker.
