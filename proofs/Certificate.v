(** * Certificates: the trace of a run, checked for R1 to R6 and races in one pass

    A certificate has the operations of a launch's run without values ([shape]).  [replay] executes them and adds their phases; [certified]
    tests the rules on the result with maps, in time proportional to its length and to the number of processes.  [judge_certificate] does
    both.  If it accepts the operations of a complete run of a program, with values, this run decides every schedule ([accepted_sound]).
    Nothing is proven about a refusal, nor about the reading of a file, nor that a file has the operations of a launch. *)
From Coq Require Import List Arith Lia Bool ZArith FMapPositive Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant OneRun Gpu Clocks.

(** ** Maps from numbers *)
Module Map := PositiveMap.
Arguments Map.Leaf {A}.
Arguments Map.Node {A} l o r : rename.
Definition key := Pos.of_succ_nat.
Definition fetch {A} (default : A) (m : Map.t A) (n : nat) : A := match Map.find (key n) m with Some a => a | None => default end.
Definition put {A} (n : nat) (a : A) (m : Map.t A) := Map.add (key n) a m.

Lemma find_put {A} n (a : A) m k : Map.find (key k) (put n a m) = if Nat.eqb k n then Some a else Map.find (key k) m.
Proof.
  unfold put. destruct (Nat.eqb_spec k n) as [->|N]; [apply Map.gss|]. apply Map.gso. intro E. apply N.
  now apply SuccNat2Pos.inj.
Qed.
Lemma fetch_put {A} d n (a : A) m k : fetch d (put n a m) k = if Nat.eqb k n then a else fetch d m k.
Proof. unfold fetch. rewrite find_put. now destruct (Nat.eqb k n). Qed.
Lemma fetch_empty {A} (d : A) k : fetch d (Map.empty A) k = d.
Proof. unfold fetch. now rewrite Map.gempty. Qed.

(** ** Operations without values *)
Notation bare := (operation unit unit payload).
Definition shape {L V} (o : operation L V payload) : bare :=
  match o with
  | Read x => Read x | Write x _ => Write x tt | Register b y => Register b y | Wait b w => Wait b w | Start q _ => Start q tt
  end.

Section Certificate.
Variable objects : object -> content.
Notation M0 := (gpu unit unit (fun _ => None) (fun l _ => l) objects false).
Definition line := (event * (bare * nat))%type.

(** ** The clocks of [Clocks.v], as maps that share their parts

    A [known] has what happens before the next operation of a process: a map, which processes that waited for the same phases share, and a few
    processes of which more is known: itself, and those that started it.  A phase has the join of its registrants, and the map of the last of
    them.  So the cost of an operation depends on what its process did not know, not on the number of processes. *)
Notation tree := (Map.t nat).
Definition same_number (x y : option nat) := match x, y with Some m, Some n => Nat.eqb m n | None, None => true | _, _ => false end.
(** Equality of maps.  [Extract.v] replaces it by equality of addresses, which implies it: it only saves work. *)
Fixpoint same_tree (a b : tree) : bool :=
  match a, b with
  | Map.Leaf, Map.Leaf => true
  | Map.Node l x r, Map.Node l' x' r' => same_number x x' && same_tree l l' && same_tree r r'
  | _, _ => false
  end.
Definition larger (x y : option nat) := match x, y with Some m, Some n => Some (Nat.max m n) | None, _ => y | _, None => x end.
Fixpoint join_trees (a b : tree) : tree :=
  if same_tree a b then b else
  match a, b with
  | Map.Leaf, _ => b
  | _, Map.Leaf => a
  | Map.Node l x r, Map.Node l' x' r' =>
      let l2 := join_trees l l' in let r2 := join_trees r r' in let x2 := larger x x' in
      if same_number x2 x' && same_tree l2 l' && same_tree r2 r' then b
      else if same_number x2 x && same_tree l2 l && same_tree r2 r then a
      else Map.Node l2 x2 r2
  end.
Definition value_of (x : option nat) := match x with Some n => n | None => 0 end.
Fixpoint leq (a b : tree) : bool :=
  if same_tree a b then true else
  match a, b with
  | Map.Leaf, _ => true
  | Map.Node l x r, Map.Leaf => Nat.eqb (value_of x) 0 && leq l Map.Leaf && leq r Map.Leaf
  | Map.Node l x r, Map.Node l' x' r' => Nat.leb (value_of x) (value_of x') && leq l l' && leq r r'
  end.
Definition val (t : tree) k := value_of (Map.find k t).

Lemma same_number_equal x y : same_number x y = true -> x = y.
Proof. destruct x, y; simpl; try discriminate; auto. intro H. apply Nat.eqb_eq in H. now subst. Qed.
Lemma same_tree_equal a : forall b, same_tree a b = true -> a = b.
Proof.
  induction a as [|l IHl x r IHr]; intros [|l' x' r']; simpl; try discriminate; auto. intro H.
  apply andb_true_iff in H as [H H3]. apply andb_true_iff in H as [H1 H2]. apply same_number_equal in H1. apply IHl in H2. apply IHr in H3. now subst.
Qed.
Lemma val_node l x r k : val (Map.Node l x r) k = match k with xH => value_of x | xO k' => val l k' | xI k' => val r k' end.
Proof. now destruct k. Qed.
Lemma val_leaf k : val Map.Leaf k = 0. Proof. now destruct k. Qed.
Lemma val_join a : forall b k, val (join_trees a b) k = Nat.max (val a k) (val b k).
Proof.
  induction a as [|l IHl x r IHr]; intros b k; cbn [join_trees].
  - rewrite val_leaf. now destruct (same_tree _ b), b.
  - destruct (same_tree (Map.Node l x r) b) eqn:E; [apply same_tree_equal in E; subst b; lia|].
    destruct b as [|l' x' r']; [rewrite val_leaf; lia|].
    assert (V : val (Map.Node (join_trees l l') (larger x x') (join_trees r r')) k = Nat.max (val (Map.Node l x r) k) (val (Map.Node l' x' r') k)).
    { rewrite !val_node. destruct k; auto. destruct x, x'; simpl; lia. }
    destruct (same_number _ x' && _ && _) eqn:E1; [|destruct (same_number _ x && _ && _) eqn:E2; auto].
    + apply andb_true_iff in E1 as [E1 Q3]. apply andb_true_iff in E1 as [Q1 Q2].
      apply same_number_equal in Q1. apply same_tree_equal in Q2. apply same_tree_equal in Q3. now rewrite Q1, Q2, Q3 in V.
    + apply andb_true_iff in E2 as [E2 Q3]. apply andb_true_iff in E2 as [Q1 Q2].
      apply same_number_equal in Q1. apply same_tree_equal in Q2. apply same_tree_equal in Q3. now rewrite Q1, Q2, Q3 in V.
Qed.
Lemma leq_val a : forall b, leq a b = true -> forall k, val a k <= val b k.
Proof.
  induction a as [|l IHl x r IHr]; intros b H k; cbn [leq] in H; [rewrite val_leaf; lia|].
  destruct (same_tree (Map.Node l x r) b) eqn:E; [apply same_tree_equal in E; now subst b|].
  destruct b as [|l' x' r']; apply andb_true_iff in H as [H H3]; apply andb_true_iff in H as [H1 H2]; rewrite !val_node.
  - apply Nat.eqb_eq in H1. rewrite val_leaf. destruct k; [|specialize (IHl _ H2 k); rewrite val_leaf in IHl; auto|lia].
    specialize (IHr _ H3 k). now rewrite val_leaf in IHr.
  - apply Nat.leb_le in H1. destruct k; auto.
Qed.

Definition known := (tree * list (process * nat))%type.
Definition timed := (line * known)%type.
Definition registrant := (event * payload * known)%type.
Definition nothing_known : known := (Map.Leaf, []).
Definition within (e : event) (y : process * nat) := Nat.eqb (fst e) (fst y) && Nat.ltb (snd e) (snd y).
Definition has_tree (t : tree) (e : event) := Nat.ltb (snd e) (val t (key (fst e))).
Definition has (k : known) (e : event) := has_tree (fst k) e || existsb (within e) (snd k).
Definition record_at_least (t : tree) (y : process * nat) := if Nat.leb (snd y) (val t (key (fst y))) then t else put (fst y) (snd y) t.
(** The map alone. *)
Definition flatten (k : known) : tree := fold_left record_at_least (snd k) (fst k).
Fixpoint bump p n (l : list (process * nat)) : list (process * nat) :=
  match l with
  | [] => [(p, n)]
  | (q, m) :: l' => if Nat.eqb q p then (q, Nat.max m n) :: l' else (q, m) :: bump p n l'
  end.
(** The clock of a phase after a registrant that knows k, and of a process after a wait for the phase. *)
Definition release (k : known) (phase : tree * tree) : tree * tree :=
  (fold_left record_at_least (snd k) (if same_tree (snd phase) (fst k) then fst phase else join_trees (fst phase) (fst k)), fst k).
Definition acquire (k : known) (phase : tree * tree) : known :=
  (if same_tree (snd phase) (fst k) then fst phase else join_trees (fst k) (fst phase), snd k).

Lemma has_join a b e : has_tree (join_trees a b) e = has_tree a e || has_tree b e.
Proof. apply eq_true_iff_eq. unfold has_tree. rewrite orb_true_iff, val_join, !Nat.ltb_lt. lia. Qed.
Lemma has_record t y e : has_tree (record_at_least t y) e = has_tree t e || within e y.
Proof.
  apply eq_true_iff_eq. unfold record_at_least, has_tree, within. rewrite orb_true_iff, andb_true_iff, Nat.eqb_eq.
  destruct (Nat.leb_spec (snd y) (val t (key (fst y)))) as [Le|Lt].
  - rewrite !Nat.ltb_lt. split; [auto|]. intros [H|(E & H)]; auto. rewrite E. lia.
  - unfold val at 1. rewrite find_put. destruct (Nat.eqb_spec (fst e) (fst y)) as [E|N]; simpl; rewrite !Nat.ltb_lt.
    + rewrite E. intuition lia.
    + unfold val. intuition.
Qed.
Lemma has_records l : forall t e, has_tree (fold_left record_at_least l t) e = has_tree t e || existsb (within e) l.
Proof.
  induction l as [|y l IH]; intros t e; simpl; [now rewrite orb_false_r|]. now rewrite IH, has_record, orb_assoc.
Qed.
Lemma has_flatten k e : has_tree (flatten k) e = has k e.
Proof. apply has_records. Qed.
Lemma leq_has a b e : leq a b = true -> has_tree a e = true -> has_tree b e = true.
Proof. unfold has_tree. intros H K. apply Nat.ltb_lt in K. apply Nat.ltb_lt. pose proof (leq_val _ _ H (key (fst e))). lia. Qed.
Lemma has_bump e p n l : existsb (within e) (bump p n l) = existsb (within e) l || within e (p, n).
Proof.
  induction l as [|[q m] l IH]; simpl; [now rewrite orb_false_r|]. destruct (Nat.eqb_spec q p) as [->|N]; simpl.
  - apply eq_true_iff_eq. unfold within. simpl. rewrite !orb_true_iff, !andb_true_iff, !Nat.ltb_lt, !Nat.eqb_eq. intuition lia.
  - now rewrite IH, orb_assoc.
Qed.
Lemma has_nothing e : has nothing_known e = false.
Proof. unfold has, has_tree. simpl. now rewrite val_leaf. Qed.

Lemma release_grows k G e : has_tree (fst G) e = true -> has_tree (fst (release k G)) e = true.
Proof.
  intro H. unfold release. simpl. rewrite has_records. apply orb_true_iff. left. destruct (same_tree _ _); auto. rewrite has_join, H. reflexivity.
Qed.
Lemma release_extra k G e : existsb (within e) (snd k) = true -> has_tree (fst (release k G)) e = true.
Proof. intro H. unfold release. simpl. rewrite has_records, H. apply orb_true_r. Qed.
Lemma release_sound k G e : has_tree (fst (release k G)) e = true -> has_tree (fst G) e = true \/ has k e = true.
Proof.
  unfold release, has. simpl. rewrite has_records. intro H. apply orb_true_iff in H as [H|H]; [|right; rewrite H; apply orb_true_r].
  destruct (same_tree _ _); auto. rewrite has_join in H. apply orb_true_iff in H as [H|H]; auto. right. now rewrite H.
Qed.
(** The map of the last registrant is in the join. *)
Definition last_in (G : tree * tree) := forall e, has_tree (snd G) e = true -> has_tree (fst G) e = true.
Lemma release_has k G e : last_in G -> has_tree (fst (release k G)) e = has_tree (fst G) e || has k e.
Proof.
  intro Li. apply eq_true_iff_eq. rewrite orb_true_iff. split; [apply release_sound|]. intros [H|H]; [now apply release_grows|].
  unfold has in H. apply orb_true_iff in H as [H|H]; [|now apply release_extra].
  unfold release. simpl. rewrite has_records. apply orb_true_iff. left. destruct (same_tree _ _) eqn:E.
  - apply same_tree_equal in E. apply Li. now rewrite E.
  - rewrite has_join, H. apply orb_true_r.
Qed.
Lemma release_last k G : last_in G -> last_in (release k G).
Proof. intros Li e H. rewrite release_has by auto. simpl in H. unfold has. rewrite H. apply orb_true_r. Qed.
Lemma acquire_has k G e : last_in G -> has (acquire k G) e = has k e || has_tree (fst G) e.
Proof.
  intro Li. apply eq_true_iff_eq. unfold acquire, has. simpl. rewrite !orb_true_iff. destruct (same_tree _ _) eqn:E.
  - apply same_tree_equal in E. rewrite <- E. intuition.
  - rewrite has_join, orb_true_iff. intuition.
Qed.

(** Maps by object and phase. *)
Definition look_in {A} (d : A) (G : Map.t (Map.t A)) b g := fetch d (fetch (Map.empty _) G b) g.
Definition enter {A} (G : Map.t (Map.t A)) b g (a : A) := put b (put g a (fetch (Map.empty _) G b)) G.
Lemma look_enter {A} (d : A) G b g a b' g' :
  look_in d (enter G b g a) b' g' = if Nat.eqb b' b && Nat.eqb g' g then a else look_in d G b' g'.
Proof.
  unfold look_in, enter. rewrite fetch_put. destruct (Nat.eqb_spec b' b) as [->|]; simpl; auto. now rewrite fetch_put.
Qed.
Lemma look_empty {A} (d : A) b g : look_in d (Map.empty (Map.t A)) b g = d.
Proof. unfold look_in. now rewrite !fetch_empty. Qed.
Notation look := (look_in []).
Notation phases := (Map.t (Map.t (tree * tree))).
Notation phase_at := (look_in (@Map.Leaf nat, @Map.Leaf nat)).

Definition after_step p i (o : bare) n (K : Map.t known) (G : phases) : Map.t known * phases :=
  let pre := fetch nothing_known K p in
  let acquired := match o, n with Wait b _, S g => acquire pre (phase_at G b g) | _, _ => pre end in
  let post := (fst acquired, bump p (S i) (snd acquired)) in
  let K' := put p post K in
  (match o with Start q _ => put q post K' | _ => K' end,
   match o with Register b _ => enter G b n (release post (phase_at G b n)) | _ => G end).
(** Each operation with what is known before it; the clocks of the phases in the end. *)
Fixpoint add_clocks (l : list line) (K : Map.t known) (G : phases) : list timed * phases :=
  match l with
  | [] => ([], G)
  | ((p, i), (o, n)) :: l' =>
    let '(K', G') := after_step p i o n K G in
    let '(C, G'') := add_clocks l' K' G' in
    ((((p, i), (o, n)), fetch nothing_known K p) :: C, G'')
  end.

Definition denotes (k : known) (c : clock) := forall e, has k e = includes c e.
Lemma add_clocks_next p i o n l K G : let next := after_step p i o n K G in
  add_clocks (((p, i), (o, n)) :: l) K G =
    ((((p, i), (o, n)), fetch nothing_known K p) :: fst (add_clocks l (fst next) (snd next)), snd (add_clocks l (fst next) (snd next))).
Proof. simpl. now destruct (add_clocks l _ _). Qed.
Lemma denotes_tick p i k c : denotes k c -> denotes (fst k, bump p (S i) (snd k)) (tick p (S i) c).
Proof. intros H e. rewrite includes_tick, <- H. unfold has. simpl. rewrite has_bump, orb_assoc. reflexivity. Qed.
Lemma denotes_put p k c K K1 : denotes k c -> (forall q, denotes (fetch nothing_known K q) (K1 q)) ->
  forall q, denotes (fetch nothing_known (put p k K) q) (update K1 p c q).
Proof. intros H HK q. rewrite fetch_put. unfold update. destruct (Nat.eqb q p); auto. Qed.
Lemma add_clocks_correct l : forall K G K1 G1, (forall p, denotes (fetch nothing_known K p) (K1 p)) ->
  (forall b g e, has_tree (fst (phase_at G b g)) e = includes (G1 b g) e) -> (forall b g, last_in (phase_at G b g)) ->
  Forall2 (fun x y => fst x = fst y /\ denotes (snd x) (snd y)) (fst (add_clocks l K G)) (clocks (M := M0) l K1 G1).
Proof.
  induction l as [|[[p i] [o n]] l IH]; intros K G K1 G1 HK HG HL; [constructor|].
  rewrite add_clocks_next. cbn [clocks fst]. constructor; [split; [reflexivity|exact (HK p)]|].
  pose proof (denotes_tick p i _ _ (HK p)) as Hp.
  destruct o as [x|x v|b y|b w|q' u]; apply IH; auto; cbn [after_step fst snd].
  - apply denotes_put; auto.
  - apply denotes_put; auto.
  - apply denotes_put; auto.
  - intros b' g' e. rewrite look_enter. destruct (Nat.eqb_spec b' b), (Nat.eqb_spec g' n); cbn [andb]; auto. subst.
    rewrite release_has, includes_join, HG, Hp by auto. reflexivity.
  - intros b' g'. rewrite look_enter. destruct (Nat.eqb b' b && Nat.eqb g' n); auto using release_last.
  - apply denotes_put; auto. destruct n as [|g]; [exact Hp|]. apply (denotes_tick p i). intro e.
    rewrite acquire_has, includes_join, HK, HG by auto. reflexivity.
  - apply denotes_put; [exact Hp|]. apply denotes_put; auto.
Qed.
Lemma add_clocks_lines l : forall K G, map fst (fst (add_clocks l K G)) = l.
Proof. induction l as [|[[p i] [o n]] l IH]; intros K G; [reflexivity|]. rewrite add_clocks_next. cbn [fst map]. now rewrite IH. Qed.

(** The clock of a phase in the end has its registrants and what happens before one of them. *)
Lemma step_grows p i o n K G b g e : has_tree (fst (phase_at G b g)) e = true -> has_tree (fst (phase_at (snd (after_step p i o n K G)) b g)) e = true.
Proof.
  intro H. destruct o as [x|x v|b0 y|b0 w|q' u]; auto. cbn [after_step snd]. rewrite look_enter.
  destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); cbn [andb]; auto. subst. now apply release_grows.
Qed.
Lemma phase_grows l : forall K G b g e, has_tree (fst (phase_at G b g)) e = true ->
  has_tree (fst (phase_at (snd (add_clocks l K G)) b g)) e = true.
Proof.
  induction l as [|[[p i] [o n]] l IH]; intros K G b g e H; [exact H|]. rewrite add_clocks_next. cbn [snd]. apply IH. now apply step_grows.
Qed.
Lemma phase_includes l : forall K G c b y g pre, In ((c, (Register b y, g)), pre) (fst (add_clocks l K G)) ->
  has_tree (fst (phase_at (snd (add_clocks l K G)) b g)) c = true.
Proof.
  induction l as [|[[p i] [o n]] l IH]; intros K G c b y g pre J; [easy|]. rewrite add_clocks_next in *. cbn [fst snd] in *.
  destruct J as [J|J]; [|eapply IH; exact J]. inversion J; subst. apply phase_grows. cbn [after_step snd].
  rewrite look_enter, !Nat.eqb_refl. cbn [andb]. apply release_extra. cbn [snd]. rewrite has_bump.
  unfold within at 2. cbn [fst snd].
  rewrite Nat.eqb_refl, (proj2 (Nat.ltb_lt i (S i))) by lia. apply orb_true_r.
Qed.
Lemma phase_sound l : forall K G b g e, has_tree (fst (phase_at (snd (add_clocks l K G)) b g)) e = true ->
  has_tree (fst (phase_at G b g)) e = true \/
  exists c y pre, In ((c, (Register b y, g)), pre) (fst (add_clocks l K G)) /\ (has pre e = true \/ (fst e = fst c /\ snd e <= snd c)).
Proof.
  induction l as [|[[p i] [o n]] l IH]; intros K G b g e H; [now left|]. rewrite add_clocks_next in *. cbn [fst snd] in *.
  destruct (IH _ _ _ _ _ H) as [H'|(c & y & pre & J & Q)]; [|right; exists c, y, pre; split; [now right|exact Q]].
  destruct o as [x|x v|b0 y0|b0 w|q' u]; auto. cbn [after_step snd] in H'. rewrite look_enter in H'.
  destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); cbn [andb] in H'; auto. subst. apply release_sound in H' as [H'|H']; auto.
  right. exists (p, i), y0, (fetch nothing_known K p). split; [now left|]. unfold has in *. cbn [fst snd] in *. rewrite has_bump in H'.
  apply orb_true_iff in H' as [H'|H']; [left; now rewrite H'|]. apply orb_true_iff in H' as [H'|H']; [left; rewrite H'; apply orb_true_r|].
  right. unfold within in H'. cbn [fst snd] in H'. apply andb_true_iff in H' as [E1 E2]. apply Nat.eqb_eq in E1. apply Nat.ltb_lt in E2. lia.
Qed.

(** ** The registrants of each phase *)
Fixpoint index (C : list timed) : Map.t (Map.t (list registrant)) :=
  match C with
  | [] => Map.empty _
  | ((e, (Register b y, g)), pre) :: C' => let R := index C' in enter R b g ((e, y, pre) :: look R b g)
  | _ :: C' => index C'
  end.
Definition registrant_at b g (x : timed) : list registrant :=
  match x with
  | ((e, (Register b' y, g')), pre) => if Nat.eqb b b' && Nat.eqb g g' then [(e, y, pre)] else []
  | _ => []
  end.
Lemma look_index C b g : look (index C) b g = flat_map (registrant_at b g) C.
Proof.
  induction C as [|[[e [o n]] pre] C IH]; [apply look_empty|].
  destruct o; simpl; auto. rewrite look_enter. destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); subst; simpl; auto. now rewrite IH.
Qed.
Lemma in_look C b g e y pre : In (e, y, pre) (look (index C) b g) <-> In ((e, (Register b y, g)), pre) C.
Proof.
  rewrite look_index, in_flat_map. split.
  - intros ([[e' [o n]] pre'] & J & K). destruct o; simpl in K; try easy.
    destruct (Nat.eqb_spec b b0), (Nat.eqb_spec g n); simpl in K; try easy. destruct K as [K|[]]. inversion K; subst. exact J.
  - intro J. eexists. split; [exact J|]. simpl. rewrite !Nat.eqb_refl. now left.
Qed.
Lemma registrants_look C b g :
  registrants (M := M0) (map fst C) b g = map fst (look (index C) b g).
Proof.
  rewrite look_index. induction C as [|[[e [o n]] pre] C IH]; [reflexivity|].
  change (registers (M := M0) b g (e, (o, n)) ++ registrants (M := M0) (map fst C) b g =
    map fst (registrant_at b g ((e, (o, n)), pre) ++ flat_map (registrant_at b g) C)).
  rewrite IH, map_app. f_equal.
  destruct o; simpl; auto. now destruct (Nat.eqb b b0 && Nat.eqb g n).
Qed.

Fixpoint add_all (a : content) (l : list registrant) : option content :=
  match l with
  | [] => Some a
  | (_, y, _) :: l' => match add_payload a y with Some a' => add_all a' l' | None => None end
  end.
Lemma add_all_sum b l : forall a, add_all a l = sum (M := M0) b a (map snd (map fst l)).
Proof. induction l as [|[[e y] pre] l IH]; intro a; simpl; auto. destruct (add_payload a y); auto. Qed.

(** The final contents of the phases g, g + 1, ... of an object, at most n of them. *)
Fixpoint close_phases (Rb : Map.t (list registrant)) (a : content) g n (m : Map.t content) : Map.t content :=
  match n with
  | 0 => m
  | S n' => match add_all a (fetch [] Rb g) with
            | Some a' => close_phases Rb (next_phase a') (S g) n' (put g a' m)
            | None => m end
  end.
Fixpoint close_objects (l : list (Map.key * Map.t (list registrant))) (m : Map.t (Map.t content)) : Map.t (Map.t content) :=
  match l with
  | [] => m
  | (k, Rb) :: l' => let b := pred (Pos.to_nat k) in
      close_objects l' (put b (close_phases Rb (objects b) 0 (Map.cardinal Rb) (Map.empty _)) m)
  end.

Section Tests.
Variable C : list timed.
Variable R : Map.t (Map.t (list registrant)).  (* [index C] *)
Let T0 : list (entry M0) := map fst C.
Variable G : phases.  (* the clocks of the phases in the end *)
Variable Z : Map.t (Map.t content).
Definition closed_as b g := Map.find (key g) (fetch (Map.empty _) Z b).

(** All registrants of phase g of b are known, or one of them knows e. *)
Definition precedes_all (pre : known) b g := leq (fst (phase_at G b g)) (flatten pre).
Definition precedes_one (e : event) b g := has_tree (fst (phase_at G b g)) e.
Definition may_complete b g :=
  match look R b g with [] => false | _ => match closed_as b g with Some a => is_full a | None => true end end.
Definition arrives (r : registrant) := match snd (fst r) with Count ar _ _ _ => negb (Nat.eqb ar 0) | _ => false end.

(** The rules that an operation must keep, by number; 0 is a registrant that adds nothing. *)
Definition R1_at (x : timed) := match x with
  | ((_, (Register b _, S g)), pre) => precedes_all pre b g | _ => true end.
Definition R2_at (x : timed) := match x with
  | ((_, (Wait b (Parity _), S (S g))), pre) => precedes_all pre b g | _ => true end.
Definition R3_at (x : timed) := match x with
  | ((e, (Wait b (Parity _), h)), _) => negb (may_complete b h) || precedes_one e b h | _ => true end.
Definition R4_at (x : timed) := match x with
  | ((_, (Wait b (Parity _), _)), pre) => negb (is_dead (objects b)) || precedes_all pre b 0 | _ => true end.
Definition R5_at (x : timed) := match x with
  | ((e, (Register b (Count ar _ ex _), g)), _) => Nat.eqb ex 0 || negb (Nat.eqb ar 0) ||
      match closed_as b g with
      | Some (Mbarrier _ 0 _) | None => existsb (fun r => arrives r && has (snd r) e) (look R b g)
      | Some _ => true
      end
  | _ => true end.
Definition R6_at (x : timed) := match x with
  | ((_, (Register b _, g)), _) =>
      match closed_as b g with Some (Mbarrier _ 0 x) => (0 <=? x)%Z | Some _ => true | None => false end
  | _ => true end.
Definition nonempty_at (x : timed) := match x with
  | ((_, (Register _ (Count ar _ ex co), _)), _) => negb (Nat.eqb (ar + ex + co) 0) | _ => true end.

(** Races: for each address the last write and the reads since then, each process once. *)
Definition ordered (pre : known) (e r : event) := Nat.eqb (fst r) (fst e) || has pre r.
Definition ordered_last (pre : known) (e : event) (w : option event) := match w with Some r => ordered pre e r | None => true end.
Notation accesses := (Map.t (option event * list event)).
Definition race_step (x : timed) (S : accesses) : option accesses :=
  match x with
  | ((e, (Read a, _)), pre) =>
      let '(w, rs) := fetch (None, []) S a in
      if ordered_last pre e w then Some (put a (w, e :: filter (fun r => negb (Nat.eqb (fst r) (fst e))) rs) S) else None
  | ((e, (Write a _, _)), pre) =>
      let '(w, rs) := fetch (None, []) S a in
      if ordered_last pre e w && forallb (ordered pre e) rs then Some (put a (Some e, []) S) else None
  | _ => Some S
  end.
Fixpoint race_free (l : list timed) (S : accesses) : option timed :=
  match l with [] => None | x :: l' => match race_step x S with Some S' => race_free l' S' | None => Some x end end.

(** Z has the final contents of phases. *)
Definition closes := forall b g a, closed_as b g = Some a -> closing T0 b g a.
Hypothesis HZ : closes.
Hypothesis HR : R = index C.

Lemma closing_unique b g a a' : closing T0 b g a -> closing T0 b g a' -> a = a'.
Proof. intros (x & E & F) (x' & E' & F'). rewrite E in E'. inversion E'; subst. rewrite F in F'. now inversion F'. Qed.

Hypothesis known_sound : forall e x pre e1, In ((e, x), pre) C -> has pre e1 = true ->
  exists e0, precedes T0 e0 e /\ (e1 = e0 \/ before T0 e1 e0).
Hypothesis registrants_known : forall c b y g pre, In ((c, (Register b y, g)), pre) C -> has_tree (fst (phase_at G b g)) c = true.
Hypothesis phase_known : forall b g e, has_tree (fst (phase_at G b g)) e = true ->
  exists c y pre, In ((c, (Register b y, g)), pre) C /\ (has pre e = true \/ (fst e = fst c /\ snd e <= snd c)).
Hypothesis Or : in_order T0.

Lemma in_T0 x : In x T0 -> exists pre, In (x, pre) C.
Proof. intro J. apply in_map_iff in J as ([y pre] & E & J). simpl in E. subst. eauto. Qed.
Lemma T0_in x pre : In (x, pre) C -> In x T0.
Proof. intro J. exact (in_map fst _ _ J). Qed.
Lemma precedes_of x e pre e1 : In ((e, x), pre) C -> has pre e1 = true ->
  exists e0, precedes T0 e0 e /\ (e1 = e0 \/ before T0 e1 e0).
Proof. apply known_sound. Qed.
Lemma before_of x e pre e1 : In ((e, x), pre) C -> has pre e1 = true -> before T0 e1 e.
Proof. intros J H. destruct (precedes_of _ _ _ _ J H) as (e0 & B & Q). eapply upto_edge; [exact Q|]. now left. Qed.
Lemma all_precede pre b g c y : precedes_all pre b g = true -> In (c, (Register b y, g)) T0 -> has pre c = true.
Proof.
  intros H J. destruct (in_T0 _ J) as (pre' & J'). rewrite <- has_flatten. eapply leq_has; [exact H|]. eapply registrants_known; eauto.
Qed.
Lemma in_order_unique (l : list (entry M0)) e x y : in_order l -> In (e, x) l -> In (e, y) l -> x = y.
Proof.
  induction l as [|z l IH]; simpl; [easy|]. intros (A & B) [->|J] [E|J']; auto.
  - now inversion E.
  - specialize (A _ J' eq_refl). simpl in A. lia.
  - subst z. specialize (A _ J eq_refl). simpl in A. lia.
Qed.
Lemma one_follows e b w h : In (e, (Wait b w, h)) T0 -> precedes_one e b h = true ->
  exists c y, In (c, (Register b y, h)) T0 /\ before T0 e c.
Proof.
  intros Je H. destruct (phase_known _ _ _ H) as (c & y & pre & J & Q). exists c, y. pose proof (T0_in _ _ J) as Jc. split; auto.
  destruct Q as [Q|(Q1 & Q2)]; [eapply before_of; eauto|]. destruct (Nat.eq_dec (snd e) (snd c)) as [E|N].
  - exfalso. assert (e = c) by (destruct e, c; simpl in *; congruence). subst c. pose proof (in_order_unique _ _ _ _ Or Je Jc). discriminate.
  - apply t_step. left. left. split; [auto|lia].
Qed.

Lemma R1_sound : forallb R1_at C = true -> rule_recycle T0.
Proof.
  rewrite forallb_forall. intros H b g c1 y1 c2 y2 J1 J2. destruct (in_T0 _ J2) as (pre & J). specialize (H _ J). simpl in H.
  eapply before_of; [exact J|]. eapply all_precede; eauto.
Qed.
Lemma R2_sound : forallb R2_at C = true -> rule_early T0.
Proof.
  rewrite forallb_forall. intros H b p e g c y J1 J2. destruct (in_T0 _ J1) as (pre & J). specialize (H _ J). simpl in H.
  eapply precedes_of; [exact J|]. eapply all_precede; eauto.
Qed.
Lemma R4_sound : forallb R4_at C = true -> rule_init T0.
Proof.
  rewrite forallb_forall. intros H b p e h c y Rb J1 J2. destruct (in_T0 _ J1) as (pre & J). specialize (H _ J). simpl in H, Rb.
  rewrite Rb in H. simpl in H. eapply precedes_of; [exact J|]. exact (all_precede _ _ _ _ _ H J2).
Qed.
Lemma completes_may b g : completes T0 b g -> may_complete b g = true.
Proof.
  intros (N & a & Ca & F). unfold may_complete. unfold T0 in N. rewrite registrants_look, <- HR in N.
  destruct (look R b g); [easy|]. destruct (closed_as b g) as [a'|] eqn:E; auto.
  pose proof (closing_unique _ _ _ _ Ca (HZ _ _ _ E)). subst. exact F.
Qed.
Lemma R3_sound : forallb R3_at C = true -> rule_late T0.
Proof.
  rewrite forallb_forall. intros H b p e h J1 Cm. destruct (in_T0 _ J1) as (pre & J). specialize (H _ J). simpl in H.
  rewrite (completes_may _ _ Cm) in H. simpl in H. eapply one_follows; eauto.
Qed.
Lemma R5_sound : forallb R5_at C = true -> rule_expect _ _ _ _ objects false T0.
Proof.
  rewrite forallb_forall. intros H b g e0 x Cl e ar dr ex co J1 P. destruct (in_T0 _ J1) as (pre & J). specialize (H _ J).
  cbn [R5_at] in H. destruct (Nat.eqb_spec ex 0); [lia|]. destruct (Nat.eqb_spec ar 0); [|left; lia]. right. simpl in H.
  assert (K : existsb (fun r => arrives r && has (snd r) e) (look R b g) = true).
  { destruct (closed_as b g) as [a|] eqn:E; auto. pose proof (closing_unique _ _ _ _ Cl (HZ _ _ _ E)). subst a. exact H. }
  apply existsb_exists in K as ([[c y] pre'] & K & I). apply andb_true_iff in I as [A I]. simpl in I.
  unfold arrives in A. simpl in A. destruct y as [| | |ar' dr' ex' co'|]; try discriminate.
  apply negb_true_iff, Nat.eqb_neq in A. rewrite HR in K. apply in_look in K. exists c, ar', dr', ex', co'.
  split; [eapply T0_in; eauto|]. split; [lia|eapply before_of; eauto].
Qed.
Hypothesis Hobjects : forall b, fresh (objects b).
Lemma R6_sound : forallb R6_at C = true -> rule_balance _ _ _ _ objects false T0.
Proof.
  rewrite forallb_forall. intros H b g e0 x Cl. pose proof Cl as (a0 & S0 & Sm).
  destruct (registrants T0 b g) as [|[e y] l] eqn:E.
  - cbn in Sm. inversion Sm; subst. apply opening_fresh in S0; auto.
    destruct S0 as [S0|[(n & S0)|[(n & S0)|S0]]]; inversion S0. lia.
  - assert (J1 : In (e, (Register b y, g)) T0) by (apply (in_registrants T0); rewrite E; now left).
    destruct (in_T0 _ J1) as (pre & J). specialize (H _ J). cbn [R6_at] in H.
    destruct (closed_as b g) as [a|] eqn:Ea; [|discriminate]. pose proof (closing_unique _ _ _ _ Cl (HZ _ _ _ Ea)). subst a.
    now apply Z.leb_le in H.
Qed.
Lemma nonempty_sound : forallb nonempty_at C = true -> rule_positive _ _ _ _ objects false T0.
Proof.
  rewrite forallb_forall. intros H e b ar dr ex co g J1. destruct (in_T0 _ J1) as (pre & J). specialize (H _ J).
  cbn [nonempty_at] in H. rewrite negb_true_iff, Nat.eqb_neq in H. lia.
Qed.

(** The invariant of [race_free] after the operations P. *)
Definition covers (P : list timed) (S : accesses) := forall a,
  (forall r, (fst (fetch (None, []) S a) = Some r \/ In r (snd (fetch (None, []) S a))) -> exists x, In (r, x) (map fst P)) /\
  (forall e v n, In (e, (Write a v, n)) (map fst P) ->
     exists w, fst (fetch (None, []) S a) = Some w /\ upto T0 e w) /\
  (forall e n, In (e, (Read a, n)) (map fst P) ->
     (exists w, fst (fetch (None, []) S a) = Some w /\ upto T0 e w) \/
     exists r, In r (snd (fetch (None, []) S a)) /\ upto T0 e r).
Definition race_free_so_far (P : list timed) := forall e1 o1 n1 e2 o2 n2,
  In (e1, (o1, n1)) (map fst P) -> In (e2, (o2, n2)) (map fst P) -> fst e1 <> fst e2 -> conflict (M := M0) o1 o2 ->
  before T0 e1 e2 \/ before T0 e2 e1.

Lemma in_order_app (l l' : list (entry M0)) x y : in_order (l ++ l') -> In x l -> In y l' -> fst (fst y) = fst (fst x) ->
  snd (fst x) < snd (fst y).
Proof.
  induction l as [|z l IH]; simpl; intros A J J' E; [easy|]. destruct A as (A & B). destruct J as [->|J]; [|eauto].
  apply A; auto. apply in_or_app. auto.
Qed.
Lemma upto_before e1 e2 e3 : upto T0 e1 e2 -> before T0 e2 e3 -> before T0 e1 e3.
Proof. intros [->|H] K; auto. eapply t_trans; eauto. Qed.

Section Step.
Variables (P : list timed) (e : event) (o : bare) (n : nat) (pre : known) (Q : list timed) (S S' : accesses).
Hypothesis split : C = P ++ ((e, (o, n)), pre) :: Q.
Hypothesis covered : covers P S.

Lemma in_C : In ((e, (o, n)), pre) C.
Proof. rewrite split. apply in_or_app. right. now left. Qed.
Lemma earlier_before r x : In (r, x) (map fst P) -> ordered pre e r = true -> before T0 r e.
Proof.
  intros J H. unfold ordered in H. apply orb_true_iff in H as [H|H].
  - apply Nat.eqb_eq in H. apply t_step. left. left. split; auto.
    pose proof Or as Or'. unfold T0 in Or'. rewrite split, map_app in Or'.
    apply (in_order_app _ _ (r, x) (e, (o, n)) Or' J); [now left|auto].
  - eapply before_of; [exact in_C|exact H].
Qed.
Lemma last_before a w : fst (fetch (None, []) S a) = Some w -> ordered_last pre e (fst (fetch (None, []) S a)) = true ->
  before T0 w e.
Proof.
  intros E H. rewrite E in H. destruct (proj1 (covered a) w) as (x & J); [now left|]. eapply earlier_before; eauto.
Qed.
Lemma reads_before a r : forallb (ordered pre e) (snd (fetch (None, []) S a)) = true ->
  In r (snd (fetch (None, []) S a)) -> before T0 r e.
Proof.
  intros H J. destruct (proj1 (covered a) r) as (x & K); [now right|]. rewrite forallb_forall in H. eapply earlier_before; eauto.
Qed.
End Step.
Lemma in_next (P : list timed) y pre x : In x (map fst (P ++ [(y, pre)])) <-> In x (map fst P) \/ x = y.
Proof. rewrite map_app, in_app_iff. simpl. intuition. Qed.

Lemma race_step_sound P e o n pre Q S S' : C = P ++ ((e, (o, n)), pre) :: Q -> covers P S -> race_free_so_far P -> race_step ((e, (o, n)), pre) S = Some S' ->
  covers (P ++ [((e, (o, n)), pre)]) S' /\ race_free_so_far (P ++ [((e, (o, n)), pre)]).
Proof.
  intros split covered F St.
  assert (W : forall a, ordered_last pre e (fst (fetch (None, []) S a)) = true ->
    forall e' v m, In (e', (Write a v, m)) (map fst P) -> before T0 e' e).
  { intros a H e' v m J. destruct (proj1 (proj2 (covered a)) _ _ _ J) as (w & E & U). eapply upto_before; [exact U|].
    eapply last_before; eauto. }
  assert (D : forall a, ordered_last pre e (fst (fetch (None, []) S a)) = true ->
    forallb (ordered pre e) (snd (fetch (None, []) S a)) = true ->
    forall e' m, In (e', (Read a, m)) (map fst P) -> before T0 e' e).
  { intros a H H' e' m J. destruct (proj2 (proj2 (covered a)) _ _ J) as [(w & E & U)|(r & K & U)].
    - eapply upto_before; [exact U|]. eapply last_before; eauto.
    - eapply upto_before; [exact U|]. eapply reads_before; eauto. }
  assert (Same : S' = S -> (forall a, o <> Read a) -> (forall a v, o <> Write a v) -> covers (P ++ [((e, (o, n)), pre)]) S' /\
      race_free_so_far (P ++ [((e, (o, n)), pre)])).
  { intros -> NR NW. split.
    - intro a. destruct (covered a) as (A & B & A'). split; [|split].
      + intros r H. destruct (A r H) as (x & J). exists x. apply in_next. now left.
      + intros e' v m J. apply in_next in J as [J|J]; [eauto|]. inversion J; subst. now destruct (NW a v).
      + intros e' m J. apply in_next in J as [J|J]; [eauto|]. inversion J; subst. now destruct (NR a).
    - intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf. apply in_next in J1 as [J1|J1], J2 as [J2|J2]; [eauto| | |].
      + inversion J2; subst. destruct o1, o; simpl in Cf; try easy; exfalso; first [eapply NR; reflexivity | eapply NW; reflexivity].
      + inversion J1; subst. destruct o, o2; simpl in Cf; try easy; exfalso; first [eapply NR; reflexivity | eapply NW; reflexivity].
      + inversion J1; inversion J2; subst. congruence. }
  destruct o as [a|a v|b y|b w|q u]; cbn [race_step] in St;
    try (inversion St; subst; apply Same; congruence).
  - destruct (fetch (None, []) S a) as [w rs] eqn:Ea. destruct (ordered_last pre e w) eqn:Ow; [|discriminate].
    inversion St; subst S'; clear St. pose proof (W a) as Wa. rewrite Ea in Wa. specialize (Wa Ow). split.
    + intro z. rewrite fetch_put. destruct (covered z) as (A & B & A'). destruct (Nat.eqb_spec z a) as [->|Nz].
      * rewrite Ea in A, B, A'. simpl in *. split; [|split].
        -- intros r [H|[->|H]].
           ++ destruct (A r) as (x & J); [now left|]. exists x. apply in_next. now left.
           ++ exists (Read a, n). apply in_next. now right.
           ++ apply filter_In in H as [H _]. destruct (A r) as (x & J); [now right|]. exists x. apply in_next. now left.
        -- intros e' v m J. apply in_next in J as [J|J]; [eauto|discriminate].
        -- intros e' m J. apply in_next in J as [J|J].
           ++ destruct (A' _ _ J) as [K|(r & K & U)]; [now left|]. right.
              destruct (Nat.eqb_spec (fst r) (fst e)) as [Er|Nr].
              ** exists e. split; [now left|]. right. eapply upto_before; [exact U|].
                 destruct (A r) as (x & Jr); [now right|]. eapply earlier_before; [exact split|exact Jr|]. unfold ordered.
                 now rewrite Er, Nat.eqb_refl.
              ** exists r. split; auto. right. apply filter_In. split; auto. now apply negb_true_iff, Nat.eqb_neq.
           ++ inversion J; subst. right. exists e. split; [now left|now left].
      * split; [|split].
        -- intros r H. destruct (A r H) as (x & J). exists x. apply in_next. now left.
        -- intros e' v m J. apply in_next in J as [J|J]; [eauto|discriminate].
        -- intros e' m J. apply in_next in J as [J|J]; [eauto|]. inversion J; subst. congruence.
    + intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf. apply in_next in J1 as [J1|J1], J2 as [J2|J2]; [eauto| | |].
      * inversion J2; subst. destruct o1; simpl in Cf; try easy. subst. left. eauto.
      * inversion J1; subst. destruct o2; simpl in Cf; try easy. subst. right. eauto.
      * inversion J1; inversion J2; subst. congruence.
  - destruct (fetch (None, []) S a) as [w rs] eqn:Ea. destruct (ordered_last pre e w) eqn:Ow; [|discriminate].
    destruct (forallb (ordered pre e) rs) eqn:Fr; [|discriminate]. simpl in St.
    inversion St; subst S'; clear St. pose proof (W a) as Wa. pose proof (D a) as Da. rewrite Ea in Wa, Da.
    specialize (Wa Ow). specialize (Da Ow Fr). split.
    + intro z. rewrite fetch_put. destruct (covered z) as (A & B & A'). destruct (Nat.eqb_spec z a) as [->|Nz].
      * simpl. split; [|split].
        -- intros r [H|[]]. inversion H; subst. exists (Write a v, n). apply in_next. now right.
        -- intros e' v' m J. exists e. split; auto. apply in_next in J as [J|J]; [right; eauto|]. inversion J; subst. now left.
        -- intros e' m J. left. exists e. split; auto. apply in_next in J as [J|J]; [right; eauto|discriminate].
      * split; [|split].
        -- intros r H. destruct (A r H) as (x & J). exists x. apply in_next. now left.
        -- intros e' v' m J. apply in_next in J as [J|J]; [eauto|]. inversion J; subst. congruence.
        -- intros e' m J. apply in_next in J as [J|J]; [eauto|discriminate].
    + intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf. apply in_next in J1 as [J1|J1], J2 as [J2|J2]; [eauto| | |].
      * inversion J2; subst. destruct o1; simpl in Cf; try easy; subst; left; eauto.
      * inversion J1; subst. destruct o2; simpl in Cf; try easy; subst; right; eauto.
      * inversion J1; inversion J2; subst. congruence.
Qed.

Lemma race_free_from l : forall P S, C = P ++ l -> covers P S -> race_free_so_far P -> race_free l S = None -> race_free_so_far C.
Proof.
  induction l as [|[[e [o n]] pre] l IH]; intros P S E Cv F H.
  - rewrite app_nil_r in E. now rewrite E.
  - cbn [race_free] in H. destruct (race_step _ S) as [S'|] eqn:St; [|discriminate].
    destruct (race_step_sound P e o n pre l S S' E Cv F St) as (Cv' & F').
    apply (IH (P ++ [((e, (o, n)), pre)]) S'); auto. now rewrite <- app_assoc.
Qed.
Lemma race_free_sound : race_free C (Map.empty _) = None -> no_race T0.
Proof.
  intros H. assert (F : race_free_so_far C).
  { apply (race_free_from C [] (Map.empty _)); auto; [|now intros ? ? ? ? ? ? []].
    intro a. rewrite fetch_empty. simpl. split; [|split].
    - intros r [K|[]]. discriminate.
    - easy.
    - easy. }
  intros e1 o1 n1 e2 o2 n2. apply F.
Qed.
End Tests.

Lemma close_phases_correct C b n : forall a g m,
  opening (M := M0) (map fst C) b g = Some a ->
  (forall g' a', Map.find (key g') m = Some a' -> closing (M := M0) (map fst C) b g' a') ->
  forall g' a', Map.find (key g') (close_phases (fetch (Map.empty _) (index C) b) a g n m) = Some a' ->
  closing (M := M0) (map fst C) b g' a'.
Proof.
  induction n as [|n IH]; intros a g m Op Hm g' a' H; [eauto|]. cbn [close_phases] in H.
  destruct (add_all a _) as [a1|] eqn:E; [|eauto].
  assert (Sm : sum (M := M0) b a (map snd (registrants (M := M0) (map fst C) b g)) = Some a1).
  { rewrite registrants_look. rewrite <- add_all_sum. exact E. }
  apply IH in H; auto.
  - cbn [opening]. rewrite Op, Sm. reflexivity.
  - intros g2 a2 F. rewrite find_put in F. destruct (Nat.eqb_spec g2 g) as [->|N]; [|eauto]. inversion F; subst. now exists a.
Qed.
Definition all_closed C := close_objects (Map.elements (index C)) (Map.empty _).
Lemma close_objects_correct C l : forall m, incl l (Map.elements (index C)) -> closes C m -> closes C (close_objects l m).
Proof.
  induction l as [|[k Rb] l IH]; intros m Il Hm; auto. cbn [close_objects]. apply IH; [intros x J; apply Il; now right|].
  intros b g a. unfold closed_as. rewrite fetch_put. destruct (Nat.eqb_spec b (pred (Pos.to_nat k))) as [E|N]; [|apply Hm].
  assert (Ek : key b = k).
  { unfold key. subst b. rewrite Pos.of_nat_succ, Nat.succ_pred_pos, Pos2Nat.id; auto using Pos2Nat.is_pos. }
  assert (Er : Rb = fetch (Map.empty _) (index C) b).
  { unfold fetch. rewrite Ek. specialize (Il (k, Rb) (or_introl eq_refl)). apply Map.elements_complete in Il.
    rewrite Il. reflexivity. }
  rewrite <- E. rewrite Er. apply close_phases_correct; [reflexivity|]. intros g' a'. now rewrite Map.gempty.
Qed.
Lemma all_closed_correct C : closes C (all_closed C).
Proof.
  apply close_objects_correct; [apply incl_refl|]. intros b g a. unfold closed_as. rewrite fetch_empty, Map.gempty. discriminate.
Qed.

(** ** The checker *)
Inductive rule := Rule1 | Rule2 | Rule3 | Rule4 | Rule5 | Rule6 | Empty_registrant | Race.
(** The first operation that breaks a rule. *)
Definition first_broken (test : timed -> bool) (r : rule) C : option (rule * line) :=
  match find (fun x => negb (test x)) C with Some x => Some (r, fst x) | None => None end.
Definition first_violation (l : list line) : option (rule * line) :=
  let '(C, G) := add_clocks l (Map.empty _) (Map.empty _) in
  let Z := all_closed C in
  let R := index C in
  let tests := [(R1_at G, Rule1); (R2_at G, Rule2); (R3_at R G Z, Rule3); (R4_at G, Rule4); (R5_at R Z, Rule5);
                (R6_at Z, Rule6); (nonempty_at, Empty_registrant)] in
  match find (fun x => match x with Some _ => true | None => false end) (map (fun t => first_broken (fst t) (snd t) C) tests) with
  | Some x => x
  | None => match race_free C (Map.empty _) with Some x => Some (Race, fst x) | None => None end
  end.
Definition certified l := match first_violation l with None => true | Some _ => false end.

Lemma first_broken_none test r C : first_broken test r C = None -> forallb test C = true.
Proof.
  unfold first_broken. destruct (find _ C) eqn:E; [discriminate|]. intros _. apply forallb_forall. intros x J.
  pose proof (find_none _ _ E x J) as H. simpl in H. now apply negb_false_iff in H.
Qed.

Theorem certified_rules (l : list (entry M0)) : (forall b, fresh (objects b)) -> in_order l -> certified l = true ->
  rules _ _ _ _ objects false l /\ no_race l.
Proof.
  intros Hf Or H. unfold certified, first_violation in H.
  destruct (add_clocks l (Map.empty _) (Map.empty _)) as [C G] eqn:Eac.
  pose proof (add_clocks_lines l (Map.empty _) (Map.empty _)) as El. rewrite Eac in El. simpl in El.
  assert (Or' : in_order (M := M0) (map fst C)) by now rewrite El.
  assert (HK : forall e x pre e1, In ((e, x), pre) C -> has pre e1 = true ->
    exists e0, precedes (M := M0) (map fst C) e0 e /\ (e1 = e0 \/ before (M := M0) (map fst C) e1 e0)).
  { intros e x pre e1 J Hh. rewrite El.
    assert (F : Forall2 (fun x y => fst x = fst y /\ denotes (snd x) (snd y)) C (clocked (M := M0) l)).
    { replace C with (fst (add_clocks l (Map.empty _) (Map.empty _))) by now rewrite Eac. apply add_clocks_correct.
      - intros p e2. rewrite fetch_empty, has_nothing, includes_nil. reflexivity.
      - intros b g e2. rewrite look_empty, includes_nil. unfold has_tree. simpl. now rewrite val_leaf.
      - intros b g e2. now rewrite look_empty. }
    assert (K : exists c, In ((e, x), c) (clocked (M := M0) l) /\ denotes pre c).
    { clear - F J. induction F as [|[x1 k1] [x2 k2] l1 l2 (Q1 & Q2) F IH]; [easy|]. simpl in *. destruct J as [J|J].
      - inversion J; subst. exists k2. auto.
      - destruct (IH J) as (c & Jc & D). eauto. }
    destruct K as (c & Jc & D). rewrite D in Hh. exact (included_precedes (M := M0) l Or e x c e1 Jc Hh). }
  assert (HI : forall c b y g pre, In ((c, (Register b y, g)), pre) C -> has_tree (fst (phase_at G b g)) c = true).
  { intros c b y g pre J. pose proof (phase_includes l (Map.empty _) (Map.empty _) c b y g pre) as P. rewrite Eac in P. exact (P J). }
  assert (HS : forall b g e, has_tree (fst (phase_at G b g)) e = true ->
    exists c y pre, In ((c, (Register b y, g)), pre) C /\ (has pre e = true \/ (fst e = fst c /\ snd e <= snd c))).
  { intros b g e He. pose proof (phase_sound l (Map.empty _) (Map.empty _) b g e) as P. rewrite Eac in P. destruct (P He) as [Q|Q]; auto.
    rewrite look_empty in Q. unfold has_tree in Q. simpl in Q. now rewrite val_leaf in Q. }
  pose proof (all_closed_correct C) as HZ. set (Z := all_closed C) in *.
  set (R := index C) in *.
  destruct (find _ _) as [x|] eqn:E.
  { apply find_some in E as [_ E]. destruct x; discriminate. }
  assert (Each : forall test r, In (test, r) [(R1_at G, Rule1); (R2_at G, Rule2); (R3_at R G Z, Rule3); (R4_at G, Rule4); (R5_at R Z, Rule5);
      (R6_at Z, Rule6); (nonempty_at, Empty_registrant)] -> forallb test C = true).
  { intros test r J. apply (first_broken_none test r). destruct (first_broken test r C) eqn:B; auto. exfalso.
    apply (in_map (fun t => first_broken (fst t) (snd t) C)) in J. apply (find_none _ _ E) in J. simpl in J. now rewrite B in J. }
  destruct (race_free C (Map.empty _)) eqn:Rc; [discriminate|]. rewrite <- El. split; [split|].
  - apply (R1_sound C G); auto. eapply Each. simpl. eauto 10.
  - apply (R2_sound C G); auto. eapply Each. simpl. eauto 10.
  - apply (R3_sound C R G Z); auto. eapply Each. simpl. eauto 10.
  - apply (R4_sound C G); auto. eapply Each. simpl. eauto 10.
  - apply (R5_sound C R Z); auto. eapply Each. simpl. eauto 10.
  - apply (R6_sound C Z); auto. eapply Each. simpl. eauto 10.
  - apply nonempty_sound; auto. eapply Each. simpl. eauto 10.
  - apply race_free_sound; auto.
Qed.
End Certificate.

(** ** Programs with values *)
Section Programs.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.
Hypothesis objects_fresh : forall b, fresh (objects b).
Notation M := (gpu L V next resume objects strict).
Notation M0 := (gpu unit unit (fun _ => None) (fun l _ => l) objects false).

Definition shape_entry (x : entry M) : entry M0 := let '(e, (o, n)) := x in (e, (shape o, n)).
Definition shape_of (T : list (entry M)) : list line := map shape_entry T.

Section Trace.
Variable T : list (entry M).
Let T0 : list (entry M0) := map shape_entry T.

Lemma to_shape e o n : In (e, (o, n)) T -> In (e, (shape o, n)) T0.
Proof. intro J. exact (in_map shape_entry _ _ J). Qed.
Lemma of_shape e o0 n : In (e, (o0, n)) T0 -> exists o, In (e, (o, n)) T /\ shape o = o0.
Proof.
  intro J. apply in_map_iff in J as ([e' [o n']] & E & J). simpl in E. inversion E; subst. eauto.
Qed.
Lemma of_register e b y g : In (e, (Register b y, g)) T0 -> In (e, (Register b y, g)) T.
Proof. intro J. destruct (of_shape _ _ _ J) as (o & K & E). destruct o; simpl in E; inversion E; subst. exact K. Qed.
Lemma shape_precedes e1 e2 : precedes T0 e1 e2 -> precedes T e1 e2.
Proof.
  intros [H|(l & n & J)]; [now left|]. destruct (of_shape _ _ _ J) as (o & K & E).
  destruct o; simpl in E; inversion E; subst. right. eauto.
Qed.
Lemma shape_before e1 e2 : before T0 e1 e2 -> before T e1 e2.
Proof.
  induction 1 as [e1 e2 [H|(b & y & g & w & J & K)]|]; [apply t_step; left; now apply shape_precedes| |eapply t_trans; eauto].
  apply t_step. right. destruct (of_shape _ _ _ K) as (o & K' & E). destruct o; simpl in E; inversion E; subst.
  exists b, y, g, w. split; [now apply of_register|exact K'].
Qed.
Lemma shape_predecessor e c : (exists e0, precedes T0 e0 e /\ (c = e0 \/ before T0 c e0)) ->
  exists e0, precedes T e0 e /\ (c = e0 \/ before T c e0).
Proof. intros (e0 & P & Q). exists e0. split; [now apply shape_precedes|]. destruct Q; auto using shape_before. Qed.
Lemma shape_registrants b g : registrants T0 b g = registrants T b g.
Proof.
  unfold T0. induction T as [|[e [o n]] l IH]; [reflexivity|].
  change (registers (M := M0) b g (e, (shape o, n)) ++ registrants (M := M0) (map shape_entry l) b g =
    registers (M := M) b g (e, (o, n)) ++ registrants l b g).
  rewrite IH. now destruct o.
Qed.
Lemma shape_sum b (l : list payload) : forall a : content, sum (M := M0) b a l = sum (M := M) b a l.
Proof. induction l as [|y l IH]; intro a; simpl; auto. Qed.
Lemma shape_opening b g : opening T0 b g = opening T b g.
Proof.
  induction g as [|g IH]; simpl; auto. rewrite IH. destruct (opening T b g) as [a|]; auto.
  rewrite shape_registrants, shape_sum. reflexivity.
Qed.
Lemma shape_closing b g a : closing T b g a -> closing T0 b g a.
Proof. intros (a0 & E & F). exists a0. now rewrite shape_opening, shape_registrants, shape_sum. Qed.
Lemma shape_completes b g : completes T b g -> completes T0 b g.
Proof.
  intros (N & a & Ca & F). split; [rewrite shape_registrants; exact N|]. exists a. split; [now apply shape_closing|exact F].
Qed.
Lemma shape_in_order : in_order T -> in_order (M := M0) T0.
Proof.
  unfold T0. induction T as [|[e [o n]] l IH]; simpl; auto. intros (A & B). split; auto.
  intros y J E. apply in_map_iff in J as ([e' [o' n']] & Ey & J). subst y. simpl in *. exact (A _ J E).
Qed.

Theorem shape_rules : rules unit unit _ _ objects false T0 -> no_race T0 -> rules L V next resume objects strict T /\ no_race T.
Proof.
  intros [A1 A2 A3 A4 A5 A6 A7] N. split; [split|].
  - intros b g c1 y1 c2 y2 J1 J2. apply shape_before. eapply A1; [exact (to_shape _ _ _ J1)|exact (to_shape _ _ _ J2)].
  - intros b p e g c y J1 J2. apply shape_predecessor. eapply A2; [exact (to_shape _ _ _ J1)|exact (to_shape _ _ _ J2)].
  - intros b p e h J Cm. destruct (A3 b p e h (to_shape _ _ _ J) (shape_completes _ _ Cm)) as (c & y & K & B).
    exists c, y. split; [now apply of_register|now apply shape_before].
  - intros b p e h c y Rb J1 J2. apply shape_predecessor. eapply A4; [exact Rb|exact (to_shape _ _ _ J1)|exact (to_shape _ _ _ J2)].
  - intros b g e0 x Cl e ar dr ex co J P.
    destruct (A5 b g e0 x (shape_closing _ _ _ Cl) e ar dr ex co (to_shape _ _ _ J) P) as [K|(e' & ar' & dr' & ex' & co' & K & P' & B)]; [now left|].
    right. exists e', ar', dr', ex', co'. split; [now apply of_register|]. split; [exact P'|now apply shape_before].
  - intros b g e0 x Cl. exact (A6 b g e0 x (shape_closing _ _ _ Cl)).
  - intros e b ar dr ex co g J. exact (A7 e b ar dr ex co g (to_shape _ _ _ J)).
  - intros e1 o1 n1 e2 o2 n2 J1 J2 Ne Cf.
    destruct (N e1 (shape o1) n1 e2 (shape o2) n2 (to_shape _ _ _ J1) (to_shape _ _ _ J2) Ne) as [B|B];
      [destruct o1, o2; exact Cf|left|right]; now apply shape_before.
Qed.
End Trace.

(** If the checker accepts the trace of a complete run, the run decides every schedule. *)
Theorem certified_sound (s0 f : state M) r0 T : reference s0 r0 T f -> certified objects (shape_of T) = true -> decides s0 r0 T f.
Proof.
  intros H Ce. assert (Or : in_order T) by (destruct H as [_ Er _]; exact (run_in_order _ _ _ _ Er)).
  destruct (certified_rules objects (shape_of T) objects_fresh (shape_in_order T Or) Ce) as (R & N).
  destruct (shape_rules T R N) as (R' & N'). eapply gpu_decides; eauto.
Qed.
End Programs.

(** ** Operations without phases: [replay] executes them, and adds the phases *)
Inductive verdict :=
| Accepted
| Impossible (n : nat)                  (* [replay] cannot execute operation n: a wait that does not succeed, an excess arrival *)
| Broken (r : rule) (x : line).         (* the rule, and the operation that breaks it *)

Section Replay.
Variable objects : object -> content.
Record replayed := Replayed { done_ops : Map.t nat; begun : Map.t bool; state_of : Map.t (nat * content) }.

Definition replay_step (p : process) (o : bare) (s : replayed) : option (line * replayed) :=
  let i := fetch 0 (done_ops s) p in
  let first b := if is_dead (objects b) then 1 else 0 in
  let give n begun' state' := Some (((p, i), (o, n)), Replayed (put p (S i) (done_ops s)) begun' state') in
  if fetch false (begun s) p then
    match o with
    | Read _ | Write _ _ => give 0 (begun s) (state_of s)
    | Register b y =>
        let '(g, a) := fetch (0, objects b) (state_of s) b in
        match add_payload a y with
        | Some a' => give g (begun s) (put b (if is_full a' && completing false y then (S g, next_phase a') else (g, a')) (state_of s))
        | None => None
        end
    | Wait b w =>
        let '(g, _) := fetch (0, objects b) (state_of s) b in
        if passes (first b) w g then give (match w with Over h => S h | Parity _ => g end) (begun s) (state_of s) else None
    | Start q _ => if fetch false (begun s) q then None else give 0 (put q true (begun s)) (state_of s)
    end
  else None.

(** The trace, newest first, or the number of the operation that cannot be executed. *)
Fixpoint replay n (l : list (process * bare)) (s : replayed) (T : list line) : nat + list line :=
  match l with
  | [] => inr T
  | (p, o) :: l' => match replay_step p o s with Some (x, s') => replay (S n) l' s' (x :: T) | None => inl n end
  end.

(** The verdict on the operations l of a run, of which the processes 0, ..., n - 1 have started before. *)
Definition judge_certificate (n : nat) (l : list (process * bare)) : verdict :=
  let started := fold_left (fun m p => put p true m) (seq 0 n) (Map.empty bool) in
  match replay 0 l (Replayed (Map.empty _) started (Map.empty _)) [] with
  | inl k => Impossible k
  | inr T => match first_violation objects (rev_append T []) with Some (r, x) => Broken r x | None => Accepted end
  end.

Theorem accepted_certified n l : judge_certificate n l = Accepted -> exists T, certified objects T = true /\
  replay 0 l (Replayed (Map.empty _) (fold_left (fun m p => put p true m) (seq 0 n) (Map.empty bool)) (Map.empty _)) [] = inr (rev T).
Proof.
  unfold judge_certificate, certified. destruct (replay _ _ _ _) as [k|T]; [discriminate|]. intro H.
  rewrite <- rev_alt in H.
  exists (rev T). rewrite rev_involutive. destruct (first_violation objects (rev T)) as [[r x]|]; [discriminate|]. auto.
Qed.
End Replay.

(** ** [replay] adds the phases of the run, so an accepted list of the operations of a run decides every schedule *)
Section Runs.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Hypothesis objects_fresh : forall b, fresh (objects b).
Notation M := (gpu L V next resume objects false).

(** The operations of a trace, without phases and values, each with its process: the input of [judge_certificate]. *)
Definition operations_of (T : list (entry M)) : list (process * bare) := map (fun x => (fst (fst x), shape (fst (snd x)))) T.

(** The replay has executed as many operations of each process, and its objects have the phases and contents of state st. *)
Definition follows (s : replayed) (st : state M) :=
  (forall p, fetch 0 (done_ops s) p = executed st p) /\
  (forall b, fetch (0, objects b) (state_of s) b = (phase st b, contents st b)).

Lemma follows_step p s st st1 l o x s1 : follows s st -> pending st p = Some (l, o) -> effect p l o st = Some st1 ->
  replay_step objects p (shape o) s = Some (x, s1) -> x = ((p, executed st p), (shape o, label o st)) /\ follows s1 st1.
Proof.
  intros (D & O) Ep Es Er. unfold replay_step in Er. destruct (fetch false (begun s) p); [|discriminate].
  assert (D1 : forall q, fetch 0 (put p (S (fetch 0 (done_ops s) p)) (done_ops s)) q = update (executed st) p (S (executed st p)) q).
  { intro q. rewrite fetch_put. unfold update. rewrite !D. destruct (Nat.eqb_spec q p); subst; auto. }
  destruct o as [a|a v|b y|b w|q l']; cbn [shape] in *.
  - inversion Er; inversion Es; subst. rewrite <- D. split; [reflexivity|]. split; [exact D1|exact O].
  - inversion Er; inversion Es; subst. rewrite <- D. split; [reflexivity|]. split; [exact D1|exact O].
  - rewrite O in Er. simpl in Es. destruct (add_payload (contents st b) y) as [a|] eqn:A; [|discriminate].
    inversion Er; inversion Es; subst. rewrite <- D. split; [reflexivity|]. unfold update_object. split.
    + simpl. destruct (is_full a && completing false y); exact D1.
    + intro b'. cbn [state_of]. rewrite fetch_put. simpl.
      destruct (is_full a && completing false y); simpl; unfold update; destruct (Nat.eqb_spec b' b); subst; auto.
  - rewrite O in Er. simpl in Es. unfold first_phase in Es. simpl in Es.
    destruct (passes _ w (phase st b)); [|discriminate].
    inversion Er; inversion Es; subst. rewrite <- D. split; [destruct w; reflexivity|]. split; [exact D1|exact O].
  - destruct (fetch false (begun s) q); [discriminate|]. simpl in Es. destruct (locals st q); [discriminate|].
    inversion Er; inversion Es; subst. rewrite <- D. split; [reflexivity|]. split; [exact D1|exact O].
Qed.

Lemma replay_follows r : forall n s st T f acc found, follows s st -> run st r = Some (T, f) ->
  replay objects n (operations_of T) s acc = inr found -> found = rev (shape_of L V next resume objects false T) ++ acc.
Proof.
  induction r as [|p r IH]; intros n s st T f acc found F Hr E; simpl in Hr.
  { inversion Hr; subst. simpl in E. injection E as E. now subst. }
  unfold entry_at, step in Hr. destruct (pending st p) as [[l o]|] eqn:Ep; [|discriminate].
  destruct (effect p l o st) as [st1|] eqn:Es; [|discriminate].
  destruct (run st1 r) as [[T1 f1]|] eqn:Er; [|discriminate]. inversion Hr; subst. cbn [operations_of map replay fst snd] in E.
  destruct (replay_step objects p (shape o) s) as [[x s1]|] eqn:Ex; [|discriminate].
  destruct (follows_step _ _ _ _ _ _ _ _ F Ep Es Ex) as (-> & F1).
  rewrite (IH _ _ _ _ _ _ _ F1 Er E). simpl. now rewrite <- app_assoc.
Qed.

(** If the checker accepts the operations of a complete run, in their order, the run decides every schedule. *)
Theorem accepted_sound (s0 f : state M) r0 T n : reference s0 r0 T f ->
  judge_certificate objects n (operations_of T) = Accepted -> decides s0 r0 T f.
Proof.
  intros H A. destruct (accepted_certified _ _ _ A) as (T1 & Ce & Er).
  assert (E : T1 = shape_of L V next resume objects false T).
  { destruct H as [(E0 & P0 & C0) Hr _]. eapply replay_follows in Er; [|split|exact Hr].
    - rewrite app_nil_r in Er. rewrite <- (rev_involutive T1), Er. apply rev_involutive.
    - intro p. simpl. now rewrite fetch_empty, E0.
    - intro b. simpl. now rewrite fetch_empty, P0, C0. }
  subst T1. eapply certified_sound; eauto.
Qed.
End Runs.
