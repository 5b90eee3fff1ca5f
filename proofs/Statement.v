(** * The theorems

    Read this file first.  It states the theorems with all their hypotheses; those on execution graphs are in MemoryModel.v, and those that
    no rule can be dropped in Needed.v.  It prints the assumptions of all.  README.md explains the theorems in English; its section "Not
    covered" is the list of all that no theorem covers.  The definitions on which the main theorem depends, in the order in which to read them:

    - [Machine.v]  [operation]: read, write, register, wait, start.  [effect]: what one does to a state, or none if it cannot happen yet.
                   [passes], [first_phase]: when a wait succeeds.  [label]: the number that an operation has in a trace.  For a registration
                   and a wait by parity, it is the phase in which they were executed; for [Over g] it is g + 1.  [run]: the trace and the final
                   state of a schedule.  [initial], [finished], [stuck], [error], [racing]: of states.  [conflict]: of accesses.  [same]: equal states.
    - [Gpu.v]      [content], [payload], [add_payload], [is_full], [completing], [next_phase], [fresh], [gpu]: named barriers, groups, mbarriers.
    - [Rules.v]    [precedes], [releases], [before]: happens-before.  [opening], [closing]: the contents of a phase before and after all its
                   registrants.  [completes].  [rule_recycle], [rule_early], [rule_late], [rule_init]: R1 to R4.  [no_race].
    - [Gpu.v]      [rule_expect], [rule_balance], [rule_positive]: R5, R6, no empty registrant.  [rules]: all of them.
    - [OneRun.v]   [reference]: a complete run.  [agrees_with_reference], [decides]: the conclusion, which later theorems have by name.

    For some theorems alone: [disciplined] (Groups.v); [only_arrivals] (Stages.v); [visible], [no_visible_race], [weak_run], [ptx] (MemoryModel.v);
    [verify] (Checker.v, Programs.v); [operations_of], [judge_certificate], [replay], [certified], [shape_of] (Certificate.v). *)
From Coq Require Import List Arith Permutation.
Import ListNotations.
From Wsemu Require Import Machine Rules Steps Residual Invariant Diamond OneRun Exact Decidable Phases Converse Gpu Stages Groups Clocks Checker Programs Examples Needed Certificate MemoryModel Proxies.

(** Processes are arbitrary deterministic automata ([next], [resume]) with local states L and values V.  [objects] gives the kind of each
    object: a named barrier, a group of n threads, an mbarrier with count n, or an uninitialized mbarrier.  [strict] selects
    whether an expect-tx operation alone can complete a phase. *)
Section Statement.
Variables L V : Type.
Variable next : L -> option (operation L V payload).
Variable resume : L -> response V content -> L.
Variable objects : object -> content.
Variable strict : bool.
Hypothesis objects_fresh : forall b, fresh (objects b).
Notation M := (gpu L V next resume objects strict).

(** The reference run: schedule r0 leads from the initial state s0 to f, in which every process has ended; T is its trace. *)
Variables (s0 f : state M) (r0 : list process) (T : list (entry M)).
Hypothesis starts : initial s0.
Hypothesis trace : run s0 r0 = Some (T, f).
Hypothesis ends : finished f.

(** The main theorem: if T satisfies R1 to R6 and has no race, then for every run of every schedule: *)
Theorem one_run_decides_every_schedule :
  rule_recycle T ->                               (* R1 *)
  rule_early T ->                                 (* R2 *)
  rule_late T ->                                  (* R3 *)
  rule_init T ->                                  (* R4 *)
  rule_expect L V next resume objects strict T -> (* R5 *)
  rule_balance L V next resume objects strict T -> (* R6 *)
  rule_positive L V next resume objects strict T -> (* no empty registrant *)
  no_race T ->
  forall schedule t s, run s0 schedule = Some (t, s) ->
    (* it has at most as many steps as the reference run; *)
    length schedule <= length r0 /\
    (* each operation is an operation of T, with equal operands and the same label; *)
    incl t T /\
    (* no excess arrival, no count mismatch, no second start of a process, no wait by parity on an uninitialized mbarrier; *)
    (forall p, ~ error p s) /\
    (* no data race; *)
    ~ racing s /\
    (* it can be completed, and then reaches the final state of the reference run; *)
    (exists rest t' f', run s rest = Some (t', f') /\ same f' f /\ Permutation r0 (schedule ++ rest)) /\
    (* if no process can step, every process has ended, with the memory, local states, phases and contents of the reference run. *)
    (stuck s -> same s f /\ finished s /\ Permutation schedule r0 /\ Permutation t T).
Proof.
  intros R1 R2 R3 R4 R5 R6 RP RR schedule t s Hs.
  assert (H : reference s0 r0 T f) by (split; assumption).
  destruct (gpu_decides _ _ _ _ _ _ objects_fresh _ _ _ _ H) with (1 := Build_rules _ _ _ _ _ _ T R1 R2 R3 R4 R5 R6 RP) (2 := RR) (3 := Hs)
    as [A1 A2 A3 A4 A5 A6].
  exact (conj A1 (conj A2 (conj A3 (conj A4 (conj A5 A6))))).
Qed.

(** For named barriers and groups (bar.sync, bar.red, __syncthreads, __syncwarp, votes, shuffles), R1 and race freedom suffice. *)
Theorem barriers_need_R1_alone :
  (forall b, objects b = Named 0 None 0 \/ exists n, objects b = Group n n []) ->
  (forall e b p h, ~ In (e, (Wait b (Parity p), h)) T) ->
  rule_recycle T -> no_race T -> decides s0 r0 T f.
Proof. intros Hb Hw R1 RR. eapply barriers_decide; eauto. split; assumption. Qed.

(** A group (warp-wide operations, __syncthreads, the barriers of clusters and grids) keeps R1 by itself, if each thread waits for the phase
    before it registers again and does not register after its exit ([disciplined]). *)
Theorem groups_keep_R1 : forall b n number,
  objects b = Group n n [] -> disciplined L V next resume objects strict T b n number ->
  forall g c1 y1 c2 y2, In (c1, (Register b y1, g)) T -> In (c2, (Register b y2, S g)) T -> before T c1 c2.
Proof.
  intros b n number Hb D. assert (H : reference s0 r0 T f) by (split; assumption).
  intros g c1 y1 c2 y2. eapply disciplined_recycles; eauto.
Qed.

(** So with groups alone, race freedom suffices. *)
Theorem groups_need_race_freedom_alone :
  (forall b, exists n number, objects b = Group n n [] /\ disciplined L V next resume objects strict T b n number) ->
  (forall e b p h, ~ In (e, (Wait b (Parity p), h)) T) ->
  no_race T -> decides s0 r0 T f.
Proof. intros Hg Hw RR. eapply groups_decide; eauto. split; assumption. Qed.

(** For mbarriers with arrivals only, R1 to R3 and race freedom suffice. *)
Theorem arrivals_need_R1_to_R3 :
  (forall b, fresh (objects b) /\ objects b <> Dead) ->
  only_arrivals L V next resume objects strict T ->
  rule_recycle T -> rule_early T -> rule_late T -> no_race T -> decides s0 r0 T f.
Proof. intros Hb Hc R1 R2 R3 RR. eapply arrivals_decide; eauto. split; assumption. Qed.

(** If a peek (a try_wait ahead of the wait for the same phase) succeeds, and R2 holds at the peek, the later wait succeeds. *)
Theorem peeks_hold : rules L V next resume objects strict T -> no_race T ->
  forall sg1 t1 s1 sg2 t2 s2 t e b p h,
  run s0 sg1 = Some (t1, s1) -> run s1 sg2 = Some (t2, s2) ->
  In (e, (Wait b (Parity p), h)) T -> ~ done s2 e -> pending s1 t <> None ->
  (forall g c y, h = S (S g) -> In (c, (Register b y, g)) T ->
     exists e0, precedes T e0 (t, executed s1 t) /\ (c = e0 \/ before T c e0)) ->
  passes (first_phase M b) (Parity p) (phase s1 b) = true -> passes (first_phase M b) (Parity p) (phase s2 b) = true.
Proof.
  intros R RR. assert (H : reference s0 r0 T f) by (split; assumption).
  exact (peek_holds (gpu_commutative _ _ _ _ _ _) _ _ _ _ H (rules_suffice _ _ _ _ _ _ objects_fresh _ _ _ _ H R) RR).
Qed.

(** Happens-before is exact for races: if the other rules hold, the race rule accepts T exactly if no schedule has a data race. *)
Theorem race_rule_is_exact : rules L V next resume objects strict T ->
  (no_race T <-> forall schedule t s, run s0 schedule = Some (t, s) -> ~ racing s).
Proof.
  intros R. assert (H : reference s0 r0 T f) by (split; assumption). split.
  - intros RR schedule t s Hs. destruct (gpu_decides _ _ _ _ _ _ objects_fresh _ _ _ _ H R RR _ _ _ Hs). assumption.
  - intros No e1 o1 n1 e2 o2 n2 J1 J2 N Cf.
    destruct (before_dec _ _ _ _ starts trace e1 e2) as [|B1]; [now left|].
    destruct (before_dec _ _ _ _ starts trace e2 e1) as [|B2]; [now right|]. exfalso.
    destruct (races_are_real (gpu_commutative _ _ _ _ _ _) _ _ _ _ H (rules_suffice _ _ _ _ _ _ objects_fresh _ _ _ _ H R)
      (before_dec _ _ _ _ starts trace)) as (schedule & t & k & Hs & Rk).
    + exists e1, e2, o1, n1, o2, n2. repeat split; auto.
    + exact (No _ _ _ Hs Rk).
Qed.

(** The converse: if T violates R1, R2, R3 or R4, then not all runs of all schedules agree with the reference run ([~ decides]).  T' is the trace
    up to the violation.  It keeps R1, R3 (of the waits other than the one that violates it), R5 and R6, and has no empty registrant and no
    race.  (Without bytes, R5 and R6 hold: [only_arrivals_rules].) *)
Section Converse.
Variables (ra rest : list process) (T' : list (entry M)) (s2 : state M).
Hypothesis prefix : r0 = ra ++ rest.
Hypothesis run_to_violation : run s0 ra = Some (T', s2).
Hypothesis R1_before : rule_recycle T'.
Hypothesis R5_before : rule_expect L V next resume objects strict T'.
Hypothesis R6_before : rule_balance L V next resume objects strict T'.
Hypothesis no_empty_registrant_before : rule_positive L V next resume objects strict T'.
Hypothesis no_race_before : no_race T'.

Lemma prefix_covers : reference s0 r0 T f -> cover T' /\ last_ends T'.
Proof.
  intro H. pose proof (prefix_closings _ _ _ _ H ra T' s2 run_to_violation) as Cl.
  pose proof (distinct (prefix_traced _ _ _ _ run_to_violation)) as U. split.
  - apply gpu_cover; auto.
  - apply gpu_last_ends; auto.
Qed.

(** R1: process u registers in phase g + 1, and a registrant of phase g does not happen before. *)
Theorem violations_of_R1_show : rule_late T' -> forall u rb c1 b y1 g l y,
  rest = u :: rb -> pending s2 u = Some (l, Register b y) -> phase s2 b = S g ->
  In (c1, (Register b y1, g)) T' -> ~ before T c1 (u, executed s2 u) -> ~ decides s0 r0 T f.
Proof.
  intros R3 u rb c1 b y1 g l y Eu At Ph J N. assert (H : reference s0 r0 T f) by (split; assumption).
  destruct (prefix_covers H) as (Cv & Le). eapply recycle_violation; eauto using gpu_commutative.
  intros e0 P Q. apply N. assert (B : edge T e0 (u, executed s2 u)) by (left; exact P).
  destruct Q as [->|Q]; [now apply Relation_Operators.t_step|].
  eapply Relation_Operators.t_trans; [exact Q|now apply Relation_Operators.t_step].
Qed.

(** R2: process u waits by parity for phase g + 1, and a registrant of phase g neither is nor happens before a predecessor of the wait. *)
Theorem violations_of_R2_show : rule_late T' -> forall u rb c1 b y1 g l p,
  rest = u :: rb -> pending s2 u = Some (l, Wait b (Parity p)) -> phase s2 b = S (S g) ->
  In (c1, (Register b y1, g)) T' ->
  (forall e0, precedes T e0 (u, executed s2 u) -> ~ (c1 = e0 \/ before T c1 e0)) -> ~ decides s0 r0 T f.
Proof.
  intros R3 u rb c1 b y1 g l p Eu At Ph J N. assert (H : reference s0 r0 T f) by (split; assumption).
  destruct (prefix_covers H) as (Cv & Le). eapply early_violation; eauto using gpu_commutative.
Qed.

(** R3: phase h completes, and the wait e3 by parity for the phase before it happens before no registrant of phase h. *)
Theorem violations_of_R3_show : forall e3 b p h,
  In (e3, (Wait b (Parity p), h)) T' -> h < phase s2 b ->
  (forall b' p' e h', e <> e3 -> In (e, (Wait b' (Parity p'), h')) T' -> completes T' b' h' ->
     exists c y, In (c, (Register b' y, h')) T' /\ before T' e c) ->
  (forall c y, In (c, (Register b y, h)) T' -> ~ before T' e3 c) -> ~ decides s0 r0 T f.
Proof.
  intros e3 b p h J Ph Others N. assert (H : reference s0 r0 T f) by (split; assumption).
  destruct (prefix_covers H) as (Cv & Le). eapply late_violation; eauto using gpu_commutative.
Qed.

(** R4: process u waits by parity at b, and the initialization c1 neither is nor happens before a predecessor of the wait. *)
Theorem violations_of_R4_show : rule_late T' -> forall u rb c1 b y1 l p, objects b = Dead ->
  rest = u :: rb -> pending s2 u = Some (l, Wait b (Parity p)) ->
  In (c1, (Register b y1, 0)) T' ->
  (forall e0, precedes T e0 (u, executed s2 u) -> ~ (c1 = e0 \/ before T c1 e0)) -> ~ decides s0 r0 T f.
Proof.
  intros R3 u rb c1 b y1 l p Eb Eu At J N. assert (H : reference s0 r0 T f) by (split; assumption).
  destruct (prefix_covers H) as (Cv & Le). eapply init_violation; eauto using gpu_commutative. simpl. now rewrite Eb.
Qed.
End Converse.

(** The memory model of a GPU.  In a weak execution ([weak_run]) a read returns the value of any earlier write of its address, or the initial
    value; PTX's axioms Coherence and Causality ([ptx]) restrict which, where causality orders accesses by different proxies only through
    a proxy fence ([visible]).  If T keeps the rules and causality orders conflicting accesses, each weak execution is a run. *)
Theorem weak_executions_are_decided : forall direct fence,
  rules L V next resume objects strict T -> no_visible_race direct fence T ->
  forall from schedule t s coherence_order, weak_run from s0 schedule t s -> ptx direct fence from t coherence_order ->
  run s0 schedule = Some (t, s) /\ agrees_with_reference r0 T f schedule t s.
Proof.
  intros direct fence R RV. assert (H : reference s0 r0 T f) by (split; assumption).
  exact (weak_executions_decided direct fence (gpu_commutative _ _ _ _ _ _) _ _ _ _ H (rules_suffice _ _ _ _ _ _ objects_fresh _ _ _ _ H R) RV).
Qed.

(** With one proxy, this race freedom is the race rule. *)
Theorem race_rule_suffices_for_weak_memory : no_race T -> no_visible_race all_direct no_fence T.
Proof. apply no_race_visible. Qed.
End Statement.

(** For all machines, whose schedules may differ: if no run has a race, each weak execution is a run. *)
Theorem race_free_programs_are_sequentially_consistent : forall (M : machine) direct fence from (s0 : state M), initial s0 ->
  (forall schedule t s, run s0 schedule = Some (t, s) -> no_visible_race direct fence t) ->
  forall schedule t s coherence_order, weak_run from s0 schedule t s -> ptx direct fence from t coherence_order -> run s0 schedule = Some (t, s).
Proof. intros M direct fence from. exact (weak_executions_are_runs direct fence from). Qed.

(** The checker that [Extract.v] extracts, for a program of commands ([Programs.v]), the kinds of its objects, and one schedule. *)
Theorem checker_is_sound : forall ks ps schedule, verify ks ps schedule = true ->
  exists T f, reference (start ks ps) schedule T f /\ decides (start ks ps) schedule T f.
Proof. exact verify_sound. Qed.

(** The checker of certificates ([judge_certificate] in Certificate.v, which [replay]s the operations and then tests [certified]).  A
    certificate has operations without values and phases ([operations_of]).  If they are accepted, then for every program, of any automata with
    any values, that has a complete run with these operations in this order, that run decides every schedule.  That the operations are those of
    such a run is a hypothesis ([reference]): no theorem says that [replay] accepts only operations of runs.  Each phase can be completed by an
    expect-tx operation, as on hardware ([strict] is false). *)
Theorem accepted_certificates_decide : forall (L V : Type) next resume objects,
  (forall b, fresh (objects b)) ->
  forall (s0 f : state (gpu L V next resume objects false)) r0 T processes,
  reference s0 r0 T f -> judge_certificate objects processes (operations_of L V next resume objects T) = Accepted -> decides s0 r0 T f.
Proof. exact accepted_sound. Qed.

(** Its two parts: [certified], of a trace with phases; and [replay], which yields one. *)
Theorem certificates_are_sound : forall (L V : Type) next resume objects strict,
  (forall b, fresh (objects b)) ->
  forall (s0 f : state (gpu L V next resume objects strict)) r0 T,
  reference s0 r0 T f -> certified objects (shape_of L V next resume objects strict T) = true -> decides s0 r0 T f.
Proof. exact certified_sound. Qed.
Theorem accepted_certificates_are_certified : forall objects n operations,
  judge_certificate objects n operations = Accepted -> exists T, certified objects T = true /\
  replay objects 0 operations (Replayed (Map.empty _) (fold_left (fun m p => put p true m) (seq 0 n) (Map.empty bool)) (Map.empty _)) [] = inr (rev T).
Proof. exact accepted_certified. Qed.

(** ** Assumptions: none.  Each line of output is "Closed under the global context". *)
Print Assumptions one_run_decides_every_schedule.
Print Assumptions barriers_need_R1_alone.
Print Assumptions arrivals_need_R1_to_R3.
Print Assumptions groups_keep_R1.
Print Assumptions groups_need_race_freedom_alone.
Print Assumptions peeks_hold.
Print Assumptions race_rule_is_exact.
Print Assumptions violations_of_R1_show.
Print Assumptions violations_of_R2_show.
Print Assumptions violations_of_R3_show.
Print Assumptions violations_of_R4_show.
Print Assumptions weak_executions_are_decided.
Print Assumptions race_rule_suffices_for_weak_memory.
Print Assumptions race_free_programs_are_sequentially_consistent.
Print Assumptions race_free_executions_are_sequentially_consistent.
Print Assumptions data_reads_return_the_last_write.
Print Assumptions checker_is_sound.
Print Assumptions accepted_certificates_decide.
Print Assumptions certificates_are_sound.
Print Assumptions accepted_certificates_are_certified.
Print Assumptions one_run_decides.
Print Assumptions recycle_needed.
Print Assumptions early_needed.
Print Assumptions late_needed.
Print Assumptions init_needed.
Print Assumptions expect_needed.
Print Assumptions balance_needed.
Print Assumptions positive_needed.
Print Assumptions race_needed.
Print Assumptions proxy_needed.
Print Assumptions fence_suffices.
