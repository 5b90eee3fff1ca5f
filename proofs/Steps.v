(** * Steps and runs: basic facts *)
From Coq Require Import List Arith Lia Bool Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules.

(** ** Lists *)

Lemma unique_value {X Y} (l : list (X * Y)) e x y :
  NoDup (map fst l) -> In (e, x) l -> In (e, y) l -> x = y.
Proof.
  induction l as [|[e0 z] l IH]; simpl; [easy|].
  intros N [E|I] [E'|I']; inversion N as [|? ? N1 N2]; subst.
  - congruence.
  - inversion E; subst. elim N1. now apply (in_map fst) in I'.
  - inversion E'; subst. elim N1. now apply (in_map fst) in I.
  - auto.
Qed.

Lemma filter_all {Z} (g : Z -> bool) l : (forall x, In x l -> g x = true) -> filter g l = l.
Proof. induction l; simpl; intros H; auto. rewrite H; auto. f_equal; auto. Qed.

Lemma filter_none {Z} (g : Z -> bool) l : (forall x, In x l -> g x = false) -> filter g l = [].
Proof. induction l; simpl; intros H; auto. rewrite H; auto. Qed.

Lemma filter_parts {Z} (g : Z -> bool) l : Permutation l (filter g l ++ filter (fun x => negb (g x)) l).
Proof.
  induction l as [|x l IH]; simpl; auto. destruct (g x); simpl; [now constructor|].
  rewrite IH at 1. apply Permutation_middle.
Qed.

(** If D' is D with event e, then D' selects the payload of e and the payloads that D selects. *)
Lemma filter_plus {P} (D D' : event -> bool) e y (l : list (event * P)) :
  NoDup (map fst l) -> In (e, y) l -> D e = false -> D' e = true ->
  (forall e', e' <> e -> D' e' = D e') ->
  Permutation (map snd (filter (fun r => D' (fst r)) l)) (y :: map snd (filter (fun r => D (fst r)) l)).
Proof.
  intros N I De De' Q. induction l as [|[e0 z] l IH]; simpl in *; [easy|].
  inversion N as [|? ? N1 N2]; subst. destruct I as [E|I].
  - inversion E; subst. rewrite De, De'. simpl. constructor.
    rewrite (filter_ext_in (fun r => D' (fst r)) (fun r => D (fst r))); auto.
    intros [e1 z1] I1. simpl. apply Q. intros ->. apply N1. now apply (in_map fst) in I1.
  - assert (e0 <> e) by (intros ->; apply N1; now apply (in_map fst) in I).
    rewrite (Q e0); auto. specialize (IH N2 I). destruct (D e0); simpl; auto.
    rewrite IH. apply perm_swap.
Qed.

Lemma event_dec (e e' : event) : {e = e'} + {e <> e'}.
Proof. decide equality; apply Nat.eq_dec. Qed.

Section Steps.
Context {M : machine}.
Implicit Types s : state M.

(** ** Extensional equality of states *)

Lemma same_refl s : same s s. Proof. repeat split. Qed.
Lemma same_sym s s' : same s s' -> same s' s.
Proof. intros (a & b & c & d & e & f). repeat split; intros; symmetry; auto. Qed.
Lemma same_trans s s' s'' : same s s' -> same s' s'' -> same s s''.
Proof. intros (a & b & c & d & e & f) (a' & b' & c' & d' & e' & f'). repeat split; intros; etransitivity; eauto. Qed.

Lemma same_pending s s' p : same s s' -> pending s p = pending s' p.
Proof. intros (a & _). unfold pending. now rewrite a. Qed.

Lemma same_step s s' p s1 : same s s' -> step p s = Some s1 -> exists s1', step p s' = Some s1' /\ same s1 s1'.
Proof.
  intros E H. unfold step in *. rewrite <- (same_pending _ _ p E). destruct (pending s p) as [[l o]|]; [|easy].
  destruct E as (a & b & c & d & e & f). destruct o as [x|x v|b0 y|b0 w|q l']; simpl in *.
  - inversion H; subst. eexists; split; [reflexivity|]. rewrite c. repeat split; simpl; intros; by_place; auto.
  - inversion H; subst. eexists; split; [reflexivity|]. repeat split; simpl; intros; by_place; auto.
  - rewrite <- e. destruct (add M b0 (contents s b0) y) as [a'|]; [|easy]. inversion H; subst.
    eexists; split; [reflexivity|]. unfold update_object. simpl. rewrite <- d.
    destruct (full M b0 a' && ends M y); repeat split; simpl; intros; by_place; auto.
  - rewrite <- d. destruct (passes _ w (phase s b0)); [|easy]. inversion H; subst.
    eexists; split; [reflexivity|]. assert (wait_result s b0 w = wait_result s' b0 w) as <- by (destruct w; simpl; congruence).
    repeat split; simpl; intros; by_place; auto.
  - rewrite <- a. destruct (locals s q); [easy|]. inversion H; subst.
    eexists; split; [reflexivity|]. repeat split; simpl; intros; by_place; auto.
Qed.

Lemma same_entry s s' p : same s s' -> entry_at p s = entry_at p s'.
Proof.
  intros E. unfold entry_at. rewrite <- (same_pending _ _ p E). destruct E as (a & b & c & d & _).
  destruct (pending s p) as [[l o]|]; auto. rewrite b. f_equal. f_equal. f_equal.
  destruct o as [| | |b0 [|]|]; simpl; auto.
Qed.

(** ** One step *)

Lemma step_inv p s s1 : step p s = Some s1 ->
  exists l o, pending s p = Some (l, o) /\ effect p l o s = Some s1 /\ locals s p = Some l /\ next M l = Some o /\
              entry_at p s = Some ((p, executed s p), (o, label o s)).
Proof.
  unfold step, entry_at, pending. destruct (locals s p) as [l|] eqn:E; [|easy]. destruct (next M l) as [o|] eqn:E'; [|easy].
  intro H. exists l, o. auto.
Qed.

Lemma entry_pending s p l o : pending s p = Some (l, o) -> entry_at p s = Some ((p, executed s p), (o, label o s)).
Proof. unfold entry_at. intros ->. reflexivity. Qed.

Lemma step_executed p s s1 q : step p s = Some s1 -> executed s1 q = if Nat.eqb q p then S (executed s p) else executed s q.
Proof.
  intro H. apply step_inv in H as (l & o & _ & H & _).
  destruct o; simpl in H; try (inversion H; subst; reflexivity).
  - destruct (add M b (contents s b) y) as [a|]; inversion H; subst. unfold update_object. now destruct (full M b a && ends M y).
  - destruct (passes _ w (phase s b)); inversion H; subst; reflexivity.
  - destruct (locals s q0); inversion H; subst; reflexivity.
Qed.

(** A step executes one event. *)
Lemma step_done p s s1 e : step p s = Some s1 -> (done s1 e <-> done s e \/ e = (p, executed s p)).
Proof.
  intro H. unfold done. rewrite (step_executed _ _ _ _ H). destruct e as [q i]; simpl.
  destruct (Nat.eqb_spec q p); subst.
  - split; [intro; destruct (Nat.eq_dec i (executed s p)); subst; auto; left; lia | intros [K|K]; [lia|inversion K; lia]].
  - split; [auto | intros [K|K]; [auto|inversion K; congruence]].
Qed.

(** A step does not change another process that has started. *)
Lemma step_others p s s1 q : step p s = Some s1 -> q <> p -> locals s q <> None -> locals s1 q = locals s q.
Proof.
  intros H N S. apply step_inv in H as (l & o & _ & H & _). destruct o; simpl in H.
  - inversion H; subst; simpl; by_place; congruence.
  - inversion H; subst; simpl; by_place; congruence.
  - destruct (add M b (contents s b) y) as [a|]; inversion H; subst. unfold update_object. destruct (full M b a && ends M y); simpl; by_place; congruence.
  - destruct (passes _ w (phase s b)); inversion H; subst; simpl; by_place; congruence.
  - destruct (locals s q0) eqn:E; inversion H; subst; simpl; by_place; congruence.
Qed.

(** A started process remains started. *)
Lemma step_started p s s1 q : step p s = Some s1 -> locals s q <> None -> locals s1 q <> None.
Proof.
  intros H N. destruct (Nat.eq_dec q p) as [ ->|K].
  - apply step_inv in H as (l & o & _ & H & _). destruct o; simpl in H.
    + inversion H; subst; simpl; by_place; congruence.
    + inversion H; subst; simpl; by_place; congruence.
    + destruct (add M b (contents s b) y) as [a|]; inversion H; subst. unfold update_object. destruct (full M b a && ends M y); simpl; by_place; congruence.
    + destruct (passes _ w (phase s b)); inversion H; subst; simpl; by_place; congruence.
    + destruct (locals s q) eqn:E; inversion H; subst; simpl; by_place; congruence.
  - now rewrite (step_others _ _ _ _ H K N).
Qed.

Lemma pending_other p s s1 q lo : step p s = Some s1 -> q <> p -> pending s q = Some lo -> pending s1 q = Some lo.
Proof.
  intros H N S. unfold pending in *. destruct (locals s q) eqn:E; [|easy].
  rewrite (step_others _ _ _ _ H N); rewrite E; congruence.
Qed.

(** A step changes an object only if it registers there; the phase then continues or completes. *)
Lemma step_object p s s1 b : step p s = Some s1 ->
  (phase s1 b = phase s b /\ contents s1 b = contents s b /\ history s1 b = history s b /\
     (forall l y, pending s p <> Some (l, Register b y))) \/
  exists l y a, pending s p = Some (l, Register b y) /\ add M b (contents s b) y = Some a /\
    ((full M b a && ends M y = false /\ phase s1 b = phase s b /\ contents s1 b = a /\ history s1 b = history s b) \/
     (full M b a && ends M y = true /\ phase s1 b = S (phase s b) /\ contents s1 b = reset M b a /\
        history s1 b = update (history s b) (phase s b) a)).
Proof.
  intro H. apply step_inv in H as (l & o & E & H & _). rewrite E. destruct o as [x|x v|b0 y|b0 w|q l']; simpl in H.
  - inversion H; subst; left; repeat split; congruence.
  - inversion H; subst; left; repeat split; congruence.
  - destruct (add M b0 (contents s b0) y) as [a|] eqn:Ea; inversion H; subst. unfold update_object.
    destruct (Nat.eq_dec b b0) as [ ->|N].
    + right. exists l, y, a. repeat split; auto.
      destruct (full M b0 a && ends M y); [right|left]; simpl; unfold update; rewrite Nat.eqb_refl; auto.
    + left. destruct (full M b0 a && ends M y); simpl; by_place; repeat split; congruence.
  - destruct (passes _ w (phase s b0)); inversion H; subst. left; repeat split; congruence.
  - destruct (locals s q); inversion H; subst. left; repeat split; congruence.
Qed.

Lemma step_phase p s s1 b : step p s = Some s1 -> phase s b <= phase s1 b.
Proof. intro H. destruct (step_object _ _ _ b H) as [(a & _)|(l & y & a & _ & _ & [(_ & K & _)|(_ & K & _)])]; lia. Qed.

(** ** Executed events *)

Lemma is_done_iff s e : is_done s e = true <-> done s e. Proof. apply Nat.ltb_lt. Qed.
Lemma not_done_next s p : ~ done s (p, executed s p). Proof. unfold done; simpl; lia. Qed.
Lemma done_dec s e : done s e \/ ~ done s e. Proof. unfold done. lia. Qed.

Lemma is_done_other p s s1 e : step p s = Some s1 -> e <> (p, executed s p) -> is_done s1 e = is_done s e.
Proof. intros H N. apply eq_true_iff_eq. rewrite !is_done_iff, (step_done _ _ _ _ H). intuition. Qed.

Lemma not_done_step s p s1 e : step p s = Some s1 -> ~ done s e -> e = (p, executed s p) \/ ~ done s1 e.
Proof.
  intros H N. destruct e as [q i]. destruct (Nat.eq_dec q p) as [ ->|K].
  - destruct (Nat.eq_dec i (executed s p)) as [ ->|K']; [now left|]. right. rewrite (step_done _ _ _ _ H). intros [?|E]; [auto|congruence].
  - right. rewrite (step_done _ _ _ _ H). intros [?|E]; [auto|congruence].
Qed.

(** ** Registrants and sums *)

Lemma in_registrants (T : list (entry M)) e y b g : In (e, y) (registrants T b g) <-> In (e, (Register b y, g)) T.
Proof.
  unfold registrants. rewrite in_flat_map. split.
  - intros [[e' [o n]] [I J]]. destruct o; simpl in J; try easy.
    destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); simpl in J; try easy.
    destruct J as [J|[]]. inversion J; subst. exact I.
  - intro I. eexists; split; [exact I|]. simpl. rewrite !Nat.eqb_refl. now left.
Qed.

Lemma unique_registrants (T : list (entry M)) b g : NoDup (map fst T) -> NoDup (map fst (registrants T b g)).
Proof.
  unfold registrants. induction T as [|[e0 [o n]] l IH]; simpl; intro N; [constructor|].
  inversion N as [|? ? N1 N2]; subst. specialize (IH N2).
  destruct o; simpl; auto. destruct (_ && _) eqn:E; simpl; auto.
  constructor; auto. intro I. apply N1. apply in_map_iff in I as [[e' y'] [E' I]]. simpl in E'; subst.
  fold (registrants l b g) in I. apply in_registrants in I. now apply (in_map fst) in I.
Qed.

Lemma sum_app b l1 : forall (a : content M) l2,
  sum b a (l1 ++ l2) = match sum b a l1 with Some a' => sum b a' l2 | None => None end.
Proof. induction l1 as [|y l1 IH]; intros a l2; simpl; auto. destruct (add M b a y); auto. Qed.

(** ** Runs *)

Lemma run_executed schedule : forall s T s' p, run s schedule = Some (T, s') -> executed s p <= executed s' p.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s T s' p H; [inversion H; auto|].
  destruct (entry_at u s); [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  specialize (IH _ _ _ p E). rewrite (step_executed _ _ _ _ A1) in IH. destruct (Nat.eqb_spec p u); subst; lia.
Qed.

Lemma run_phase schedule : forall s T s' b, run s schedule = Some (T, s') -> phase s b <= phase s' b.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s T s' b H; [inversion H; auto|].
  destruct (entry_at u s); [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  specialize (IH _ _ _ b E). pose proof (step_phase _ _ _ b A1). lia.
Qed.

Lemma run_app sg1 : forall s t1 s1 sg2 t2 s2, run s sg1 = Some (t1, s1) -> run s1 sg2 = Some (t2, s2) ->
  run s (sg1 ++ sg2) = Some (t1 ++ t2, s2).
Proof.
  induction sg1 as [|u sg IH]; simpl; intros s t1 s1 sg2 t2 s2 Ha Hb; [inversion Ha; subst; auto|].
  destruct (entry_at u s); [|easy]. destruct (step u s) as [s3|]; [|easy].
  destruct (run s3 sg) as [[l s4]|] eqn:E; [|easy]. inversion Ha; subst. now rewrite (IH _ _ _ _ _ _ E Hb).
Qed.

(** An event that a run has executed is in its trace. *)
Lemma run_done schedule : forall s T s' e, run s schedule = Some (T, s') -> done s' e -> ~ done s e -> In e (map fst T).
Proof.
  induction schedule as [|u sg IH]; simpl; intros s T s' e H D N; [inversion H; subst; contradiction|].
  destruct (entry_at u s) as [e0|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst. simpl.
  destruct (not_done_step _ _ _ _ A1 N) as [->|N1]; [left|right; eauto].
  unfold entry_at in En. destruct (pending s u) as [[? ?]|]; [|easy]. inversion En. reflexivity.
Qed.

(** Each wait of the trace succeeds in the phase of its label. *)
Definition waits_succeed (T : list (entry M)) := forall e b w h, In (e, (Wait b w, h)) T ->
  passes (first_phase M b) w h = true /\ forall g, w = Over g -> h = S g.

(** The events of a run are distinct, and executed in its final state. *)
Lemma run_events schedule : forall s T s', run s schedule = Some (T, s') ->
  NoDup (map fst T) /\ (forall e x, In (e, x) T -> ~ done s e /\ done s' e) /\ length T = length schedule /\ waits_succeed T.
Proof.
  induction schedule as [|u sg IH]; simpl; intros s T s' H.
  { inversion H; subst. repeat split; simpl; try easy. constructor. }
  destruct (entry_at u s) as [e|] eqn:En; [|easy]. destruct (step u s) as [s1|] eqn:A1; [|easy].
  destruct (run s1 sg) as [[l s2]|] eqn:E; [|easy]. inversion H; subst.
  destruct (IH _ _ _ E) as (N & D & Ln & W).
  destruct (step_inv _ _ _ A1) as (lu & ou & Eu & Ef & _ & _ & En'). rewrite En in En'. inversion En'; subst.
  split; [|split; [|split]].
  - simpl. constructor; auto. intro J. apply in_map_iff in J as [[e' x] [Q J]]. simpl in Q; subst.
    destruct (D _ _ J) as (D1 & _). apply D1. apply (step_done _ _ _ _ A1). auto.
  - intros e x [Q|J].
    + inversion Q; subst. split; [apply not_done_next|]. pose proof (run_executed _ _ _ _ u E) as K.
      rewrite (step_executed _ _ _ _ A1), Nat.eqb_refl in K. unfold done; simpl; lia.
    + destruct (D _ _ J) as (D1 & D2). split; auto. intro K. apply D1. apply (step_done _ _ _ _ A1). auto.
  - simpl; auto.
  - intros e b w h [Q|J]; [|eauto]. inversion Q; subst. unfold effect in Ef.
    destruct w as [g|p]; simpl label in *.
    + split; [|congruence]. simpl. apply Nat.ltb_lt. lia.
    + destruct (passes (first_phase M b) (Parity p) (phase s b)) eqn:Pa; [|discriminate]. split; [reflexivity|discriminate].
Qed.
End Steps.
