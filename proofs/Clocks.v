(** * Vector clocks

    The clock of a process holds, for each process, the number of operations that are ordered before the next one.  A registration
    joins the clock of its process to the clock of the phase; a wait joins the clock of the phase to the clock of its process. *)
From Coq Require Import List Arith Lia Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps.

Definition clock := list nat.
Definition get (c : clock) p := nth p c 0.

Fixpoint join (c d : clock) : clock :=
  match c, d with
  | [], _ => d
  | _, [] => c
  | x :: c', y :: d' => Nat.max x y :: join c' d'
  end.

(** The clock c with at least n operations of process p. *)
Fixpoint tick p n (c : clock) : clock :=
  match p, c with
  | 0, [] => [n]
  | 0, x :: c' => Nat.max x n :: c'
  | S p', [] => 0 :: tick p' n []
  | S p', x :: c' => x :: tick p' n c'
  end.

Lemma get_nil p : get [] p = 0. Proof. now destruct p. Qed.
Lemma get_join c : forall d p, get (join c d) p = Nat.max (get c p) (get d p).
Proof.
  induction c as [|x c IH]; intros d p; simpl; [now rewrite get_nil|].
  destruct d as [|y d]; [rewrite get_nil; lia|]. destruct p; [reflexivity|]. exact (IH d p).
Qed.
Lemma get_tick n : forall p c q, get (tick p n c) q = if Nat.eqb q p then Nat.max (get c q) n else get c q.
Proof.
  induction p as [|p IH]; intros [|x c] [|q]; simpl; auto.
  - now rewrite ?get_nil; destruct q.
  - specialize (IH [] q). unfold get in *. simpl in *. rewrite IH. destruct q; auto.
  - specialize (IH c q). unfold get in *. auto.
Qed.

Definition includes (c : clock) (e : event) := Nat.ltb (snd e) (get c (fst e)).

Lemma includes_nil e : includes [] e = false. Proof. unfold includes. now rewrite get_nil. Qed.
Lemma includes_join c d e : includes (join c d) e = includes c e || includes d e.
Proof.
  apply eq_true_iff_eq. rewrite orb_true_iff. unfold includes. rewrite get_join, !Nat.ltb_lt. lia.
Qed.
Lemma includes_tick p i c e : includes (tick p (S i) c) e = includes c e || (Nat.eqb (fst e) p && Nat.leb (snd e) i).
Proof.
  apply eq_true_iff_eq. rewrite orb_true_iff, andb_true_iff. unfold includes. rewrite get_tick, !Nat.ltb_lt, Nat.leb_le, Nat.eqb_eq.
  destruct (Nat.eqb_spec (fst e) p); lia.
Qed.

Section Clocks.
Context {M : machine}.

(** Each entry of l with the clock of its process just before it; K: the clocks of processes, G: the clocks of phases. *)
Fixpoint clocks (l : list (entry M)) (K : process -> clock) (G : object -> nat -> clock) : list (entry M * clock) :=
  match l with
  | [] => []
  | ((p, i), (o, n)) :: l' =>
    let pre := K p in
    let acquired := match o, n with Wait b _, S g => join pre (G b g) | _, _ => pre end in
    let post := tick p (S i) acquired in
    let K' := update K p post in
    let K'' := match o with Start q _ => update K' q post | _ => K' end in
    let G' := match o with
      | Register b _ => let given := join (G b n) post in
                        fun b' g' => if Nat.eqb b' b && Nat.eqb g' n then given else G b' g'
      | _ => G
      end in
    (((p, i), (o, n)), pre) :: clocks l' K'' G'
  end.

Definition clocked (T : list (entry M)) := clocks T (fun _ => []) (fun _ _ => []).

Lemma clocks_entries l : forall K G, map fst (clocks l K G) = l.
Proof. induction l as [|[[p i] [o n]] l IH]; intros; simpl; auto. now rewrite IH. Qed.

(** The operations of each process are in program order. *)
Fixpoint in_order (l : list (entry M)) :=
  match l with
  | [] => True
  | x :: l' => (forall y, In y l' -> fst (fst y) = fst (fst x) -> snd (fst x) < snd (fst y)) /\ in_order l'
  end.

Lemma run_in_order schedule : forall (s : state M) t s', run s schedule = Some (t, s') -> in_order t.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s t s' H; [inversion H; simpl; auto|].
  destruct (entry_at u s) as [e|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst. simpl. split; [|eauto].
  intros [[q j] x] J Q. destruct (run_events _ _ _ _ E) as (_ & D & _).
  destruct (D _ _ J) as (D1 & _). unfold entry_at in En. destruct (pending s u) as [[lu o]|]; [|easy].
  inversion En; subst. simpl in *. subst q. unfold done in D1. simpl in D1.
  rewrite (step_executed _ _ _ _ A1), Nat.eqb_refl in D1. lia.
Qed.

Section Sound.
Variable T : list (entry M).

(** e1 is e2, or happens before it. *)
Definition upto e1 e2 := e1 = e2 \/ before T e1 e2.

Lemma upto_edge e1 e2 e3 : upto e1 e2 -> edge T e2 e3 -> before T e1 e3.
Proof. intros [->|H] K; [now apply t_step|]. eapply t_trans; [exact H|now apply t_step]. Qed.

(** The clock of a process includes only events up to a predecessor of each of its operations in l. *)
Definition sound_process (l : list (entry M)) (K : process -> clock) := forall p e, includes (K p) e = true ->
  forall j x, In ((p, j), x) l -> exists e0, precedes T e0 (p, j) /\ upto e e0.
(** The clock of a phase includes only events up to one of its registrants. *)
Definition sound_phase (G : object -> nat -> clock) := forall b g e, includes (G b g) e = true ->
  exists c y, In (c, (Register b y, g)) T /\ upto e c.

Lemma clocks_sound l : forall K G, incl l T -> in_order l -> sound_process l K -> sound_phase G ->
  forall e x pre, In ((e, x), pre) (clocks l K G) -> forall e1, includes pre e1 = true ->
  exists e0, precedes T e0 e /\ upto e1 e0.
Proof.
  induction l as [|[[p i] [o n]] l IH]; intros K G Il Or Ki Gi e x pre J e1 Kn; [easy|].
  cbn [clocks] in J. destruct J as [J|J].
  { inversion J; subst. eapply Ki; [exact Kn|]. now left. }
  assert (Ie : In ((p, i), (o, n)) T) by (apply Il; now left).
  destruct Or as (Or1 & Or2).
  set (acquired := match o, n with Wait b _, S g => join (K p) (G b g) | _, _ => K p end) in *.
  set (post := tick p (S i) acquired) in *.
  assert (Ka : forall e2, includes acquired e2 = true -> before T e2 (p, i)).
  { intros e2 H. assert (Pre : includes (K p) e2 = true -> before T e2 (p, i)).
    { intro H'. destruct (Ki _ _ H' i (o, n)) as (e0 & B & Q); [now left|]. eapply upto_edge; eauto. now left. }
    unfold acquired in H. destruct o as [| | |b w|]; auto. destruct n as [|g]; auto.
    rewrite includes_join in H. apply orb_true_iff in H as [H|H]; auto. destruct (Gi _ _ _ H) as (r & y & Jr & Q).
    eapply upto_edge; eauto. right. exists b, y, g, w. auto. }
  assert (Kp : forall e2, includes post e2 = true -> upto e2 (p, i)).
  { intros [q j] H. unfold post in H. rewrite includes_tick in H. apply orb_true_iff in H as [H|H]; [right; auto|].
    simpl in H. apply andb_true_iff in H as [Eq Le]. apply Nat.eqb_eq in Eq. apply Nat.leb_le in Le. subst q.
    destruct (Nat.eq_dec j i) as [->|]; [now left|]. right. apply t_step. left. left. simpl. lia. }
  eapply (IH _ _) in J; eauto.
  - intros z Z. apply Il. now right.
  - intros q e2 H j y Jy.
    assert (Base : includes (update K p post q) e2 = true -> exists e0, precedes T e0 (q, j) /\ upto e2 e0).
    { unfold update. destruct (Nat.eqb_spec q p) as [->|N]; intro H'.
      - exists (p, i). split; [|auto]. left. simpl. split; auto. exact (Or1 _ Jy eq_refl).
      - eapply Ki; [exact H'|]. right. exact Jy. }
    destruct o as [| | | |q' l']; auto.
    unfold update at 1 in H. destruct (Nat.eqb_spec q q') as [->|N]; auto.
    exists (p, i). split; auto. right. eauto.
  - intros b g e2 H. destruct o as [| |b0 y0| |]; auto.
    destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); simpl in H; auto. subst.
    rewrite includes_join in H. apply orb_true_iff in H as [H|H]; auto. exists (p, i), y0. auto.
Qed.

Hypothesis Or : in_order T.

(** The clock before an operation of T includes only events up to a predecessor of the operation. *)
Lemma included_precedes e x pre e1 : In ((e, x), pre) (clocked T) -> includes pre e1 = true ->
  exists e0, precedes T e0 e /\ (e1 = e0 \/ before T e1 e0).
Proof.
  intros J. eapply (clocks_sound T); eauto using incl_refl.
  - intros p e2 H. rewrite includes_nil in H. discriminate.
  - intros b g e2 H. rewrite includes_nil in H. discriminate.
Qed.

Lemma included_before e x pre e1 : In ((e, x), pre) (clocked T) -> includes pre e1 = true -> before T e1 e.
Proof. intros J H. destruct (included_precedes _ _ _ _ J H) as (e0 & B & Q). eapply upto_edge; eauto. now left. Qed.

Lemma clocked_in x : In x T -> exists pre, In (x, pre) (clocked T).
Proof.
  intro J. rewrite <- (clocks_entries T (fun _ => []) (fun _ _ => [])) in J.
  apply in_map_iff in J as [[x' pre] [E J]]. simpl in E. subst. eauto.
Qed.
Lemma in_clocked x pre : In (x, pre) (clocked T) -> In x T.
Proof. intro J. apply (in_map fst) in J. unfold clocked in J. now rewrite clocks_entries in J. Qed.
End Sound.
End Clocks.
