(** * Happens-before on the trace of a run is decidable, because all its edges lead forward *)
From Coq Require Import List Arith Lia Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual OneRun Exact.

Lemma exists_in_dec {A} (l : list A) (P : A -> Prop) : (forall x, In x l -> {P x} + {~ P x}) ->
  {exists x, In x l /\ P x} + {~ exists x, In x l /\ P x}.
Proof.
  induction l as [|a l IH]; intro D.
  - right. intros (x & [] & _).
  - destruct (D a (or_introl eq_refl)) as [Y|N]; [left; exists a; simpl; auto|].
    destruct IH as [Y'|N']; [intros x J; apply D; now right| |].
    + left. destruct Y' as (x & J & Q). exists x. simpl. auto.
    + right. intros (x & [->|J] & Q); [auto|]. apply N'. eauto.
Qed.

Section Decidable.
Context {M : machine}.
Implicit Types s : state M.

Lemma run_started schedule : forall s T s' q, run s schedule = Some (T, s') -> locals s q <> None -> locals s' q <> None.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s T s' q H N; [inversion H; subst; auto|].
  destruct (entry_at u s); [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst. eauto using step_started.
Qed.

Lemma run_firstn schedule : forall s T s' n, run s schedule = Some (T, s') ->
  exists s1, run s (firstn n schedule) = Some (firstn n T, s1) /\ run s1 (skipn n schedule) = Some (skipn n T, s').
Proof.
  induction schedule as [|u sg IH]; intros s T s' n H.
  - simpl in H. inversion H; subst. exists s'. rewrite !firstn_nil, !skipn_nil. auto.
  - destruct n as [|n]; [exists s; simpl in *; auto|]. simpl in H |- *.
    destruct (entry_at u s) as [e|]; [|easy]. destruct (step u s) as [s1|]; [|easy].
    destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
    destruct (IH _ _ _ n E) as (s3 & R1 & R2). exists s3. simpl. now rewrite R1, R2.
Qed.

Variables (s0 f : state M) (schedule : list process) (T : list (entry M)).
Hypothesis start : initial s0.
Hypothesis R : run s0 schedule = Some (T, f).

Lemma nothing_done e : ~ done s0 e.
Proof. destruct start as (E0 & _). unfold done. rewrite E0. lia. Qed.

(** The source of an edge to the n-th event of the run is among the first n events. *)
Lemma edge_forward n x m : nth_error T n = Some x -> edge T m (fst x) -> In m (map fst (firstn n T)).
Proof.
  intros Nx B. destruct (run_firstn _ _ _ _ n R) as (s1 & R1 & R2).
  assert (Sk : exists rest, skipn n T = x :: rest).
  { clear - Nx. revert T Nx. induction n as [|n IH]; intros [|y l] Nx; simpl in *; try discriminate.
    - inversion Nx; subst. eauto.
    - eauto. }
  destruct Sk as (rest & Sk). rewrite Sk in R2.
  destruct (skipn n schedule) as [|u sg]; [simpl in R2; inversion R2|]. pose proof R2 as R3. simpl in R3.
  destruct (entry_at u s1) as [e|] eqn:En; [|easy]. destruct (step u s1) as [s2|] eqn:St; [|easy].
  destruct (run s2 sg) as [[l s3]|] eqn:R4; [|easy]. inversion R3; subst e l s3. clear R3.
  destruct (step_inv _ _ _ St) as (lu & o & At & Ef & Lo & _ & En'). rewrite En in En'. inversion En'; subst x. simpl in B.
  apply (run_done _ _ _ _ m R1); [|apply nothing_done].
  destruct (done_dec s1 m) as [|N]; auto. exfalso.
  assert (Later : forall z, In (m, z) T -> exists s4 t4 sg4, run s1 sg4 = Some (t4, s4) /\ entry_at (fst m) s4 = Some (m, z) /\ step (fst m) s4 <> None).
  { intros z J. rewrite <- (firstn_skipn n T) in J. apply in_app_or in J as [J|J].
    - elim N. destruct (run_events _ _ _ _ R1) as (_ & D & _). exact (proj2 (D _ _ J)).
    - rewrite Sk in J. destruct (run_split _ _ _ _ _ _ R2 J) as (ra & rb & ta & s4 & tb & _ & Ra & Rb & Ee).
      exists s4, ta, ra. repeat split; auto. simpl in Rb. rewrite Ee in Rb. destruct (step (fst m) s4); [discriminate|easy]. }
  destruct B as [[(P1 & P2)|(l & k & J)]|(b & y & g & w & J1 & J2)].
  - apply N. unfold done. simpl in P1, P2. rewrite P1. exact P2.
  - destruct (Later _ J) as (s4 & t4 & sg4 & R5 & Ee & Sp).
    assert (Q : locals s4 u <> None) by (eapply run_started; eauto; congruence).
    unfold entry_at in Ee. destruct (pending s4 (fst m)) as [[lm om]|] eqn:Pm; [|easy]. inversion Ee; subst om.
    apply Sp. unfold step. rewrite Pm. simpl. destruct (locals s4 u); congruence.
  - assert (Jx : In ((u, executed s1 u), (o, label o s1)) T).
    { rewrite <- (firstn_skipn n T), Sk. apply in_or_app. right. now left. }
    destruct (run_events _ _ _ _ R) as (U & _). pose proof (unique_value _ _ _ _ U J2 Jx) as Q. inversion Q; subst o.
    assert (Lt : g < phase s1 b).
    { unfold effect in Ef. destruct w as [g0|p]; simpl label in *.
      - assert (g0 = g) by congruence. subst g0. simpl in Ef. destruct (Nat.ltb_spec g (phase s1 b)); [lia|discriminate].
      - lia. }
    destruct (Later _ J1) as (s4 & t4 & sg4 & R5 & Ee & _). pose proof (run_phase _ _ _ _ b R5) as Mono.
    unfold entry_at in Ee. destruct (pending s4 (fst m)) as [[lm om]|]; [|easy]. inversion Ee; subst om. simpl in *. lia.
Qed.

Lemma start_dec m q : {exists l n, In (m, (Start q l, n)) T} + {~ exists l n, In (m, (Start q l, n)) T}.
Proof.
  destruct (exists_in_dec T (fun x => fst x = m /\ match fst (snd x) with Start q' _ => q' = q | _ => False end)) as [Y|N].
  - intros [e [o n]] _. simpl. destruct (event_dec e m); [|right; tauto].
    destruct o; try (right; tauto). destruct (Nat.eq_dec q0 q); [left; auto|right; tauto].
  - left. destruct Y as ([e [o n]] & J & E & Q). simpl in *. subst e. destruct o; try easy. subst q0. eauto.
  - right. intros (l & n & J). apply N. exists (m, (Start q l, n)). simpl. auto.
Qed.

Lemma wait_dec e b g : {exists w, In (e, (Wait b w, g)) T} + {~ exists w, In (e, (Wait b w, g)) T}.
Proof.
  destruct (exists_in_dec T (fun x => fst x = e /\ match fst (snd x) with Wait b' _ => b' = b /\ snd (snd x) = g | _ => False end)) as [Y|N].
  - intros [c [o n]] _. simpl. destruct (event_dec c e); [|right; tauto].
    destruct o as [| | |b' w|]; try (right; tauto). destruct (Nat.eq_dec b' b), (Nat.eq_dec n g); try (right; tauto). left. auto.
  - left. destruct Y as ([c [o n]] & J & E & Q). simpl in *. subst c. destruct o as [| | |b' w|]; try easy. destruct Q as (-> & ->). eauto.
  - right. intros (w & J). apply N. exists (e, (Wait b w, g)). simpl. auto.
Qed.

Lemma release_dec m e : {releases T m e} + {~ releases T m e}.
Proof.
  destruct (exists_in_dec T (fun x => fst x = m /\ match fst (snd x) with
    Register b _ => exists w, In (e, (Wait b w, S (snd (snd x)))) T | _ => False end)) as [Y|N].
  - intros [c [o n]] _. simpl. destruct (event_dec c m); [|right; tauto].
    destruct o as [| |b y| |]; try (right; tauto). destruct (wait_dec e b (S n)) as [Y|N]; [left; auto|right; tauto].
  - left. destruct Y as ([c [o n]] & J & E & Q). simpl in *. subst c. destruct o as [| |b y| |]; try easy. destruct Q as (w & J').
    exists b, y, n, w. auto.
  - right. intros (b & y & g & w & J1 & J2). apply N. exists (m, (Register b y, g)). simpl. eauto.
Qed.

Lemma edge_dec m e : {edge T m e} + {~ edge T m e}.
Proof.
  destruct (release_dec m e) as [Y|N]; [left; right; exact Y|].
  destruct (start_dec m (fst e)) as [Y|N']; [left; left; right; exact Y|].
  destruct (Nat.eq_dec (fst m) (fst e)) as [E|E]; [destruct (lt_dec (snd m) (snd e)) as [Lt|Lt]|].
  - left. left. left. auto.
  - right. intros [[(P1 & P2)|B]|B]; auto.
  - right. intros [[(P1 & P2)|B]|B]; auto.
Qed.

(** Whether e1 happens before one of the first n events. *)
Lemma before_first_dec e1 n : forall m, In m (map fst (firstn n T)) -> {before T e1 m} + {~ before T e1 m}.
Proof.
  induction n as [|n IH]; intros m J; [easy|].
  destruct (in_dec event_dec m (map fst (firstn n T))) as [J'|N]; auto.
  assert (X : exists x, nth_error T n = Some x /\ fst x = m).
  { clear - J N. revert n J N. induction T as [|x l IH]; intros n J N; [rewrite firstn_nil in J; easy|].
    destruct n as [|n]; simpl in *.
    - exists x. destruct J as [J|[]]; auto.
    - destruct J as [J|J]; [elim N; now left|]. apply IH; tauto. }
  destruct (exists_in_dec (map fst (firstn n T)) (fun k => edge T k m /\ (e1 = k \/ before T e1 k))) as [Y|N'].
  - intros k K. destruct (edge_dec k m) as [B|B]; [|right; tauto].
    destruct (event_dec e1 k) as [->|Ne]; [left; auto|]. destruct (IH k K) as [Bf|Bf]; [left; auto|right; intuition].
  - left. destruct Y as (k & K & B & [->|Bf]); [now apply t_step|]. eapply t_trans; [exact Bf|now apply t_step].
  - right. intro Bf. destruct X as (x & Nx & <-). apply N'. destruct (before_last T _ _ Bf) as (k & B & Q).
    exists k. split; [exact (edge_forward _ _ _ Nx B)|auto].
Qed.

(** Happens-before is decidable, for all events. *)
Theorem before_dec e1 e2 : {before T e1 e2} + {~ before T e1 e2}.
Proof.
  destruct e2 as [q j]. induction j as [j IH] using lt_wf_rec.
  destruct (in_dec event_dec (q, j) (map fst T)) as [J|N].
  { apply (before_first_dec e1 (length T)). now rewrite firstn_all. }
  destruct (exists_in_dec (seq 0 j) (fun i => e1 = (q, i) \/ before T e1 (q, i))) as [Y|N1].
  { intros i K. apply in_seq in K. destruct (event_dec e1 (q, i)) as [->|Ne]; [left; auto|].
    destruct (IH i) as [B|B]; [lia|left; auto|right; intuition]. }
  - left. destruct Y as (i & K & Q). apply in_seq in K.
    assert (B : edge T (q, i) (q, j)) by (left; left; simpl; split; [auto|lia]).
    destruct Q as [->|Q]; [now apply t_step|]. eapply t_trans; [exact Q|now apply t_step].
  - destruct (exists_in_dec (map fst T) (fun k => (exists l n, In (k, (Start q l, n)) T) /\ (e1 = k \/ before T e1 k))) as [Y|N2].
    + intros k K. destruct (start_dec k q) as [B|B]; [|right; tauto].
      destruct (event_dec e1 k) as [->|Ne]; [left; auto|].
      destruct (before_first_dec e1 (length T) k) as [Bf|Bf]; [now rewrite firstn_all|left; auto|right; intuition].
    + left. destruct Y as (k & K & B & Q). assert (Ek : edge T k (q, j)) by (left; right; exact B).
      destruct Q as [->|Q]; [now apply t_step|]. eapply t_trans; [exact Q|now apply t_step].
    + right. intro Bf. destruct (before_last T _ _ Bf) as (k & [[(P1 & P2)|B]|(b & y & g & w & _ & J2)] & Q).
      * apply N1. exists (snd k). simpl in P1, P2. split; [apply in_seq; lia|]. destruct k as [p i]. simpl in *. subst p. exact Q.
      * apply N2. exists k. destruct B as (l & n & B). split; [now apply (in_map fst) in B|]. split; eauto.
      * apply N. now apply (in_map fst) in J2.
Qed.
End Decidable.
