(** * From the memory model of a GPU to interleavings

    In a weak execution a read returns the value of any earlier write of its address, or the initial value.  The axioms Coherence and Causality
    of PTX restrict which.  Theorem [weak_executions_are_runs]: if no run has a race, then each weak execution is a run, so each theorem about
    runs holds for weak executions.  No axiom on the strong operations of PTX is needed: processes synchronize by objects alone.

    Proxies: causality orders two accesses by different proxies only through a proxy fence ([visible]).

    [Axioms] is about executions with release and acquire patterns on flags. *)
From Coq Require Import List Arith Lia Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun Exact Decidable Phases Converse.

Section Weak.
Context {M : machine}.
Implicit Types s : state M.

(** ** Proxy-preserved causality *)

(** [direct x y]: x precedes y in causality without a proxy fence, as two accesses by the generic proxy do.  [fence z x y]: z is a proxy fence
    between the proxies of x and y. *)
Variable direct : entry M -> entry M -> Prop.
Variable fence : entry M -> entry M -> entry M -> Prop.
(** Event e1 precedes e2 in proxy-preserved causality order: their order needs no fence, or a fence is between them. *)
Definition visible (t : list (entry M)) (e1 e2 : event) := before t e1 e2 /\
  exists x1 x2, In (e1, x1) t /\ In (e2, x2) t /\
    (direct (e1, x1) (e2, x2) \/
     exists z x, In (z, x) t /\ fence (z, x) (e1, x1) (e2, x2) /\ before t e1 z /\ before t z e2).
(** Causality orders conflicting accesses. *)
Definition no_visible_race (t : list (entry M)) := forall e1 o1 n1 e2 o2 n2, In (e1, (o1, n1)) t -> In (e2, (o2, n2)) t ->
  e1 <> e2 -> conflict o1 o2 -> visible t e1 e2 \/ visible t e2 e1.

(** ** Weak executions *)

(** The write from which a read takes its value; none: the initial value. *)
Variable from : event -> option event.
Definition reads_value s0 (t : list (entry M)) x e v := match from e with
  | Some w => exists n, In (w, (Write x v, n)) t
  | None => v = memory s0 x
  end.
(** A sequence of steps in which a read may return the value of any earlier write of its address. *)
Inductive weak_run s0 : list process -> list (entry M) -> state M -> Prop :=
| weak_start : weak_run s0 [] [] s0
| weak_read sg t s p l x v : weak_run s0 sg t s -> pending s p = Some (l, Read x) -> reads_value s0 t x (p, executed s p) v ->
    weak_run s0 (sg ++ [p]) (t ++ [((p, executed s p), (Read x, 0))]) (advance s p (resume M l (Value v)))
| weak_other sg t s p l o s1 : weak_run s0 sg t s -> pending s p = Some (l, o) -> (forall x, o <> Read x) -> step p s = Some s1 ->
    weak_run s0 (sg ++ [p]) (t ++ [((p, executed s p), (o, label o s))]) s1.

(** PTX's axioms of the trace t of a weak execution; co: coherence order. *)
Record ptx (t : list (entry M)) (co : event -> event -> Prop) : Prop := {
  (** Coherence: of two overlapping writes, the first one in causality order is the first one in coherence order. *)
  coherence : forall w v n w' v' n' x, In (w, (Write x v, n)) t -> In (w', (Write x v', n')) t -> visible t w w' -> co w w';
  (** Causality: a read does not return a value that coherence order has before a write that precedes the read in causality order.
      Initial values are before all writes. *)
  causality : forall r x n w' v' n', In (r, (Read x, n)) t -> In (w', (Write x v', n')) t -> visible t w' r ->
    match from r with Some w => ~ co w w' | None => False end
}.

Lemma visible_incl t t' e1 e2 : incl t' t -> visible t' e1 e2 -> visible t e1 e2.
Proof.
  intros I (B & x1 & x2 & J1 & J2 & D). split; [exact (before_incl _ _ _ _ I B)|]. exists x1, x2.
  split; [now apply I|]. split; [now apply I|]. destruct D as [D|(z & x & J & F & B1 & B2)]; [left; exact D|right]. exists z, x.
  split; [now apply I|]. split; [exact F|]. split; [exact (before_incl _ _ _ _ I B1)|exact (before_incl _ _ _ _ I B2)].
Qed.

(** Happens-before leads forward in a run. *)
Lemma before_forward s0 sg t s m e : initial s0 -> run s0 sg = Some (t, s) -> before t m e ->
  forall ta x tb, t = ta ++ (e, x) :: tb -> In m (map fst ta).
Proof.
  intros I0 R B. apply clos_trans_tn1 in B.
  assert (Edge : forall m e ta x tb, edge t m e -> t = ta ++ (e, x) :: tb -> In m (map fst ta)).
  { intros m' e' ta x tb Ed E. pose proof (edge_forward s0 s sg t I0 R (length ta) (e', x) m') as F.
    rewrite E in F at 1. rewrite nth_error_app2, Nat.sub_diag in F by lia. specialize (F eq_refl Ed).
    rewrite E, firstn_app, Nat.sub_diag, firstn_all, app_nil_r in F. exact F. }
  induction B as [e Ed|z e Ed B IH]; intros ta x tb E; [eauto|].
  pose proof (Edge _ _ _ _ _ Ed E) as J. apply in_map_iff in J as ([z' xz] & Ez & J). simpl in Ez. subst z'.
  apply in_split in J as (ta1 & ta2 & ->). rewrite map_app, in_app_iff. left.
  eapply (IH ta1 xz (ta2 ++ (e, x) :: tb)). now rewrite E, <- app_assoc.
Qed.

Lemma not_backward s0 sg t s m e ta x tb : initial s0 -> run s0 sg = Some (t, s) -> t = ta ++ (e, x) :: tb -> In m (map fst tb) ->
  ~ before t m e.
Proof.
  intros I0 R E J B. pose proof (before_forward _ _ _ _ _ _ I0 R B _ _ _ E) as K. destruct (run_events _ _ _ _ R) as (U & _).
  rewrite E, map_app in U. simpl in U. clear - U J K. induction (map fst ta) as [|a l IH]; [easy|]. simpl in U.
  inversion U as [|? ? U1 U2]; subst. destruct K as [->|K]; [|auto]. apply U1. apply in_or_app. right. now right.
Qed.

(** The memory after a run has the last writes. *)
Lemma last_write sg : forall s0 t s x, run s0 sg = Some (t, s) ->
  (memory s x = memory s0 x /\ forall w v n, ~ In (w, (Write x v, n)) t) \/
  exists ta w n tb, t = ta ++ (w, (Write x (memory s x), n)) :: tb /\ forall w' v n', ~ In (w', (Write x v, n')) tb.
Proof.
  induction sg as [|u sg IH] using rev_ind; intros s0 t s x R.
  { simpl in R. inversion R; subst. left. split; [reflexivity|intros ? ? ? []]. }
  destruct (run_last _ _ _ _ _ R) as (t1 & s1 & y & R1 & En & St & ->).
  destruct (step_inv _ _ _ St) as (l & o & At & Ef & _ & _ & En'). rewrite En in En'. inversion En'; subst y. clear En En'.
  assert (D : (exists v, o = Write x v) \/ (forall v, o <> Write x v)).
  { destruct o as [x0|x0 v|b y|b w|q l']; try (right; congruence).
    destruct (Nat.eq_dec x0 x) as [->|N]; [eauto|right; congruence]. }
  destruct D as [(v & ->)|N].
  - right. exists t1, (u, executed s1 u), (label (Write x v) s1), []. split; [|intros ? ? ? []].
    simpl in Ef. inversion Ef; subst s. simpl. unfold update. rewrite Nat.eqb_refl. reflexivity.
  - assert (Em : memory s x = memory s1 x).
    { destruct o as [x0|x0 v|b y|b w|q l']; simpl in Ef.
      - inversion Ef; reflexivity.
      - inversion Ef; subst s. simpl. unfold update. destruct (Nat.eqb_spec x x0) as [->|]; [elim (N v eq_refl)|reflexivity].
      - destruct (add M b (contents s1 b) y) as [a|]; inversion Ef; subst s. unfold update_object.
        destruct (full M b a && ends M y); reflexivity.
      - destruct (passes _ w (phase s1 b)); inversion Ef; reflexivity.
      - destruct (locals s1 q); inversion Ef; reflexivity. }
    rewrite Em. destruct (IH _ _ _ x R1) as [(E & No)|(ta & w & n & tb & -> & No)].
    + left. split; auto. intros w v n J. apply in_app_or in J as [J|[J|[]]]; [exact (No _ _ _ J)|]. inversion J. elim (N v); auto.
    + right. exists ta, w, n, (tb ++ [((u, executed s1 u), (o, label o s1))]). rewrite <- app_assoc. split; [reflexivity|].
      intros w' v n' J. apply in_app_or in J as [J|[J|[]]]; [exact (No _ _ _ J)|]. inversion J. elim (N v); auto.
Qed.

(** If no run has a race, each weak execution is a run. *)
Theorem weak_executions_are_runs s0 : initial s0 ->
  (forall sg t s, run s0 sg = Some (t, s) -> no_visible_race t) ->
  forall sg t s co, weak_run s0 sg t s -> ptx t co -> run s0 sg = Some (t, s).
Proof.
  intros I0 RF sg t s co W [Co Ca].
  assert (G : forall sg' t' s', weak_run s0 sg' t' s' -> incl t' t -> run s0 sg' = Some (t', s')).
  2: { apply G; [exact W|apply incl_refl]. }
  clear W. intros sg' t' s' W. induction W as [|sg1 t1 s1 p l x v W IH At Rd|sg1 t1 s1 p l o s2 W IH At N St]; intro Inc; [reflexivity| |].
  - assert (Inc1 : incl t1 t) by (intros z Z; apply Inc, in_or_app; auto). specialize (IH Inc1).
    set (e := (p, executed s1 p)) in *.
    assert (Ev : v = memory s1 x).
    { assert (R1 : run s0 (sg1 ++ [p]) = Some (t1 ++ [(e, (Read x, 0))], advance s1 p (resume M l (Value (memory s1 x))))).
      { eapply run_app; [exact IH|]. simpl. unfold step. rewrite (entry_pending _ _ _ _ At), At. reflexivity. }
      set (t2 := t1 ++ [(e, (Read x, 0))]) in *.
      assert (Je : In (e, (Read x, 0)) t2) by (apply in_or_app; right; now left).
      destruct (run_events _ _ _ _ R1) as (U & _).
      assert (Vis : forall w v' n, In (w, (Write x v', n)) t1 -> visible t2 w e).
      { intros w v' n J. assert (J2 : In (w, (Write x v', n)) t2) by (apply in_or_app; auto).
        assert (Ne : w <> e) by (intros ->; pose proof (unique_value _ _ _ _ U J2 Je) as Q; discriminate).
        destruct (RF _ _ _ R1 _ _ _ _ _ _ J2 Je Ne eq_refl) as [V|(B & _)]; auto. exfalso.
        apply in_split in J as (ta & tb & E). apply (not_backward _ _ _ _ e w ta (Write x v', n) (tb ++ [(e, (Read x, 0))]) I0 R1); auto.
        - unfold t2. now rewrite E, <- app_assoc.
        - rewrite map_app. apply in_or_app. right. now left. }
      unfold reads_value in Rd. destruct (last_write _ _ _ _ x IH) as [(Em & No)|(ta & w0 & n0 & tb & E1 & No)].
      - destruct (from e) as [w|]; [destruct Rd as (n & J); elim (No _ _ _ J)|congruence].
      - assert (J0 : In (w0, (Write x (memory s1 x), n0)) t1) by (rewrite E1; apply in_or_app; right; now left).
        pose proof (Ca _ _ _ _ _ _ (Inc _ Je) (Inc1 _ J0) (visible_incl _ _ _ _ Inc (Vis _ _ _ J0))) as Cz.
        destruct (from e) as [w|]; [|easy]. destruct Rd as (n & J).
        destruct (event_dec w w0) as [->|Ne].
        + destruct (run_events _ _ _ _ IH) as (U1 & _). pose proof (unique_value _ _ _ _ U1 J J0) as Q. now inversion Q.
        + exfalso. apply Cz. apply (Co _ _ _ _ _ _ _ (Inc1 _ J) (Inc1 _ J0)).
          apply (visible_incl t t1); [exact Inc1|].
          destruct (RF _ _ _ IH _ _ _ _ _ _ J J0 Ne eq_refl) as [V|(B & _)]; auto. exfalso.
          assert (Jta : In (w, (Write x v, n)) ta).
          { rewrite E1 in J. apply in_app_or in J as [J|[J|J]]; auto; [congruence|elim (No _ _ _ J)]. }
          apply in_split in Jta as (ta1 & ta2 & Eta).
          assert (E1' : t1 = ta1 ++ (w, (Write x v, n)) :: (ta2 ++ (w0, (Write x (memory s1 x), n0)) :: tb))
            by (rewrite E1, Eta, <- app_assoc; reflexivity).
          eapply (not_backward _ _ _ _ w0 w _ _ _ I0 IH E1'); [|exact B].
          rewrite map_app. apply in_or_app. right. now left. }
    subst v. eapply run_app; [exact IH|]. simpl. unfold step. rewrite (entry_pending _ _ _ _ At), At. reflexivity.
  - assert (Inc1 : incl t1 t) by (intros z Z; apply Inc, in_or_app; auto). specialize (IH Inc1).
    eapply run_app; [exact IH|]. simpl. rewrite (entry_pending _ _ _ _ At), St. reflexivity.
Qed.
End Weak.

(** ** The weak executions of a program with one run that keeps the rules *)
Section Reference.
Context {M : machine}.
Variable direct : entry M -> entry M -> Prop.
Variable fence : entry M -> entry M -> entry M -> Prop.
Hypothesis comm : commutative M.
Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis H : reference s0 r0 T f.
Hypothesis R : well_synchronized T.
Hypothesis RV : no_visible_race direct fence T.

Lemma visible_no_race : no_race T.
Proof.
  intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf. destruct (RV _ _ _ _ _ _ J1 J2) as [(B & _)|(B & _)]; auto. congruence.
Qed.

(** The trace of each run has the causality of T, up to its end. *)
Lemma runs_have_no_visible_race sg t s : run s0 sg = Some (t, s) -> no_visible_race direct fence t.
Proof.
  intro Hs. pose proof (reference_complete _ _ _ _ H) as C.
  destruct (residuals T f comm C R visible_no_race _ _ _ _ _ (reference_consistent _ _ _ _ H) (reference_replays _ _ _ _ H) Hs)
    as ((Cl & _) & Inc & _).
  assert (In_t : forall e x, In (e, x) T -> done s e -> In (e, x) t).
  { intros e x J D. pose proof (run_done _ _ _ _ e Hs D (nothing_done s0 (from_start H) e)) as K.
    apply in_map_iff in K as ([e' x'] & E & K). simpl in E. subst e'.
    now rewrite (unique_value _ _ _ _ (distinct C) J (Inc _ K)). }
  assert (Done : forall e x, In (e, x) t -> done s e) by (intros e x J; destruct (run_events _ _ _ _ Hs) as (_ & D & _); exact (proj2 (D _ _ J))).
  assert (Edge : forall a b, edge T a b -> done s b -> edge t a b /\ done s a).
  { intros a b E D. pose proof (Cl _ _ E D) as Da. split; [|exact Da].
    destruct E as [[P|(l & n & J)]|(o & y & g & w & J1 & J2)].
    - left. now left.
    - left. right. eauto.
    - right. exists o, y, g, w. eauto. }
  assert (Before : forall a b, before T a b -> done s b -> before t a b /\ done s a).
  { intros a b B. apply clos_trans_tn1 in B. induction B as [b E|z b E B IH]; intro D; destruct (Edge _ _ E D) as (E' & Dz).
    - split; [now apply t_step|exact Dz].
    - destruct (IH Dz) as (B' & Da). split; [|exact Da]. eapply t_trans; [exact B'|now apply t_step]. }
  assert (Vis : forall a b, visible direct fence T a b -> done s b -> visible direct fence t a b).
  { intros a b (B & x1 & x2 & J1 & J2 & D) Db. destruct (Before _ _ B Db) as (B' & Da). split; [exact B'|].
    exists x1, x2. split; [auto|]. split; [auto|]. destruct D as [D|(z & x & J & F & B1 & B2)]; [now left|]. right.
    destruct (Before _ _ B2 Db) as (B2' & Dz). destruct (Before _ _ B1 Dz) as (B1' & _). exists z, x. auto. }
  intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf.
  destruct (RV _ _ _ _ _ _ (Inc _ J1) (Inc _ J2) N Cf) as [V|V]; [left|right]; eapply Vis; eauto.
Qed.

Theorem weak_executions_decided : forall from sg t s co, weak_run from s0 sg t s -> ptx direct fence from t co ->
  run s0 sg = Some (t, s) /\ agrees_with_reference r0 T f sg t s.
Proof.
  intros from sg t s co W P.
  assert (Hs : run s0 sg = Some (t, s)).
  { eapply weak_executions_are_runs; eauto using runs_have_no_visible_race. exact (from_start H). }
  split; [exact Hs|]. exact (one_run_decides comm _ _ _ _ H R visible_no_race _ _ _ Hs).
Qed.
End Reference.

(** Without proxies, race freedom is [no_race]. *)
Definition all_direct {M : machine} (x y : entry M) := True.
Definition no_fence {M : machine} (z x y : entry M) := False.
Lemma no_race_visible {M : machine} (T : list (entry M)) : no_race T -> no_visible_race all_direct no_fence T.
Proof.
  intros RR e1 o1 n1 e2 o2 n2 J1 J2 N Cf.
  assert (B : before T e1 e2 \/ before T e2 e1).
  { destruct (Nat.eq_dec (fst e1) (fst e2)) as [E|E]; [|exact (RR _ _ _ _ _ _ J1 J2 E Cf)].
    destruct e1 as [p i], e2 as [q j]. simpl in E. subst q. destruct (lt_eq_lt_dec i j) as [[L|L]|L].
    - left. apply t_step. left. left. auto.
    - congruence.
    - right. apply t_step. left. left. auto. }
  destruct B as [B|B]; [left|right]; (split; [exact B|]).
  - exists (o1, n1), (o2, n2). split; [exact J1|]. split; [exact J2|]. now left.
  - exists (o2, n2), (o1, n1). split; [exact J2|]. split; [exact J1|]. now left.
Qed.

(** ** Executions with release and acquire patterns, as graphs

    [E]: the operations on memory of one execution, of any program, with initial writes; a read-modify-write reads and writes.  The axioms are
    those of PTX that the theorem needs.  Atomicity, SC-per-location, Fence-SC and No-Thin-Air are not among them. *)
Section Axioms.
Variable E : Type.
Variables reads writes : E -> address -> Prop.
(** program order; reads-from; coherence order; synchronization by barriers; a read-modify-write that continues a chain of observation *)
Variables po rf co barrier : E -> E -> Prop.
Variable rmw : E -> Prop.
(** [release a w]: a begins a release pattern with the strong write w.  [acquire r b]: b ends an acquire pattern with the strong read r. *)
Variables release acquire morally_strong : E -> E -> Prop.

Definition overlap e1 e2 x := (writes e1 x /\ (writes e2 x \/ reads e2 x)) \/ (reads e1 x /\ writes e2 x).
Inductive observes : E -> E -> Prop :=
| observes_read w r : rf w r -> observes w r
| observes_chain w z r : observes w z -> rmw z -> observes z r -> observes w r.
Definition synchronizes a b := barrier a b \/ exists w r, release a w /\ observes w r /\ acquire r b /\ morally_strong a b.
(** Base causality order, causality order. *)
Definition base := clos_trans E (fun a b => po a b \/ synchronizes a b).
Definition cause a b := base a b \/ exists z, observes a z /\ base z b.
Definition from_read r w := r <> w /\ exists w', rf w' r /\ co w' w.

Record axioms : Prop := {
  sources : forall w r, rf w r -> w <> r /\ exists x, writes w x /\ reads r x;
  places : forall w w', co w w' -> exists x, writes w x /\ writes w' x;
  order : forall w w', co w w' -> ~ co w' w /\ w <> w';
  Strict : forall e, ~ cause e e;                                                                          (* causality order is strict *)
  Coherence : forall w w' x, writes w x -> writes w' x -> cause w w' -> co w w';
  Causality_past : forall r w, rf w r -> ~ cause r w;                           (* a read does not return a value of its future *)
  Causality : forall w w' r, rf w r -> co w w' -> (exists x, writes w' x /\ reads r x) -> ~ cause w' r   (* nor one overwritten in its past *)
}.

(** Each access is of one address. *)
Hypothesis one_place : forall e x y, (reads e x \/ writes e x) -> (reads e y \/ writes e y) -> x = y.
(** Flags: locations for strong operations, whose conflicts need no order. *)
Variable flag : address -> Prop.
(** Data-race freedom of one execution. *)
Definition race_free := forall e1 e2 x, ~ flag x -> overlap e1 e2 x -> e1 <> e2 -> base e1 e2 \/ base e2 e1.
Definition data (relation : E -> E -> Prop) a b := relation a b /\ exists x, ~ flag x /\ overlap a b x.

Hypothesis A : axioms.
Hypothesis RF : race_free.

Lemma data_communication a b : data rf a b \/ data co a b \/ data from_read a b -> base a b.
Proof.
  intros [(Q & x & F & O)|[(Q & x & F & O)|((N & w & Q & K) & x & F & O)]].
  - destruct (sources A _ _ Q) as (N & _). destruct (RF _ _ _ F O N) as [B|B]; auto. destruct (Causality_past A _ _ Q). now left.
  - destruct (order A _ _ Q) as (K & N). destruct (RF _ _ _ F O N) as [B|B]; auto. elim K.
    destruct (places A _ _ Q) as (y & W1 & W2). apply (Coherence A) with y; auto. now left.
  - destruct (RF _ _ _ F O N) as [B|B]; auto. exfalso. eapply (Causality A w b a Q K); [|now left].
    destruct (sources A _ _ Q) as (_ & y & W1 & R1). destruct (places A _ _ K) as (z & W3 & W4).
    assert (y = z) by (apply (one_place w); auto). subst z. exists y. auto.
Qed.

(** A race-free execution is sequentially consistent: no cycle of program order, synchronization, and communication through data. *)
Theorem race_free_executions_are_sequentially_consistent e :
  ~ clos_trans E (fun a b => base a b \/ data rf a b \/ data co a b \/ data from_read a b) e e.
Proof.
  assert (B : forall a b, clos_trans E (fun a b => base a b \/ data rf a b \/ data co a b \/ data from_read a b) a b -> base a b).
  { induction 1 as [a b [K|K]|a b c _ IH1 _ IH2]; [exact K|now apply data_communication|]. eapply t_trans; eauto. }
  intro K. apply (Strict A e). left. auto.
Qed.

(** Each read of data returns the last write before it in base causality order: its value depends on the order of synchronization alone. *)
Theorem data_reads_return_the_last_write w r x : ~ flag x -> rf w r -> reads r x -> base w r /\
  forall w', writes w' x -> w' <> w -> w' <> r -> base w' w \/ base r w'.
Proof.
  intros F Q R. destruct (sources A _ _ Q) as (N & y & W & R'). assert (y = x) by (apply (one_place r); auto). subst y.
  assert (B : base w r) by (apply data_communication; left; split; auto; exists x; split; auto; left; auto). split; auto.
  intros w' W' N1 N2. destruct (RF w' w x F) as [B1|B1]; auto; [left; auto|]. right.
  destruct (RF w' r x F) as [B2|B2]; auto; [left; auto|]. exfalso.
  apply (Causality A w w' r Q); [apply (Coherence A) with x; auto; now left|eauto|now left].
Qed.
End Axioms.
