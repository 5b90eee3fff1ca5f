(** * A program that needs a proxy fence

    Without it, a weak execution that the axioms allow is not a run. *)
From Coq Require Import List Arith Bool Relations.
Import ListNotations.
From Wsemu Require Import Machine Rules OneRun Gpu Checker Programs MemoryModel.

(** Process 0 writes address 5; process 1 waits for it at an mbarrier and reads by another proxy. *)
Definition handed_over (fence : bool) := [
  process_of [ [Save 5 (fun _ => 1)]; (if fence then [Load 9] else []); mbarrier_arrive 0 1 ];
  process_of [ mbarrier_wait 0 false; [Load 5; Save 6 (hd 0)] ] ].
(** A read of address 9 is the fence.  Accesses of one process are by one proxy. *)
Definition one_proxy {M : machine} (x y : entry M) := fst (fst x) = fst (fst y).
Definition reads_9 {M : machine} (z x y : entry M) := match fst (snd z) with Read a => a = 9 | _ => False end.

(** All rules hold with and without the fence. *)
Example handed_over_verified : forall fence, verify_greedily [IsMbarrier 1] (handed_over fence) = true.
Proof. intros []; vm_compute; reflexivity. Qed.

(** Without the fence, process 1 may read the initial value: the memory after this execution is that of no run. *)
Example proxy_needed : exists t s, weak_run (fun _ => None) (start [IsMbarrier 1] (handed_over false)) [0; 0; 1; 1; 1] t s /\
  ptx one_proxy reads_9 (fun _ => None) t (before t) /\ finished s /\ memory s 6 = 500 /\
  forall schedule t' s', run (start [IsMbarrier 1] (handed_over false)) schedule = Some (t', s') -> finished s' -> memory s' 6 = 1.
Proof.
  set (s0 := start [IsMbarrier 1] (handed_over false)).
  assert (Run : forall schedule t s, run s0 schedule = Some (t, s) -> finished s -> memory s 6 = 1).
  { intros schedule t s Hs Fi. destruct (verify_sound [IsMbarrier 1] (handed_over false) [0; 0; 1; 1; 1]) as (T & f & Ref & D).
    { vm_compute. reflexivity. }
    destruct (D _ _ _ Hs) as [_ _ _ _ _ End].
    assert (St : stuck s) by (intro p; unfold step; now rewrite (Fi p)).
    destruct (End St) as ((_ & _ & Em & _) & _). rewrite Em. destruct Ref as [_ Hr _].
    assert (E : run (start [IsMbarrier 1] (handed_over false)) [0; 0; 1; 1; 1] = Some (T, f)) by exact Hr.
    clear - E. assert (Q : match run (start [IsMbarrier 1] (handed_over false)) [0; 0; 1; 1; 1] with Some (_, s) => memory s 6 | None => 0 end = 1)
      by (vm_compute; reflexivity).
    now rewrite E in Q. }
  set (T := ((((([] ++ [((0, 0), (Write 5 1, 0))]) ++ [((0, 1), (Register 0 (Count 1 0 0 0), 0))]) ++ [((1, 0), (Wait 0 (Parity false), 1))])
    ++ [((1, 1), (Read 5, 0))]) ++ [((1, 2), (Write 6 500, 0))]) : list (entry (machine_of [IsMbarrier 1]))).
  assert (P : ptx one_proxy reads_9 (fun _ => None) T (before T)).
  { split; [intros w v n w' v' n' x _ _ (B & _); exact B|].
    intros r x n w' v' n' J1 J2 (_ & x1 & x2 & K1 & K2 & D).
    assert (W : w' = (0, 0) /\ r = (1, 1)).
    { simpl in J1, J2. clear - J1 J2.
      repeat match goal with H : _ \/ _ |- _ => destruct H as [H|H] end; try contradiction; inversion J1; inversion J2; subst; auto; discriminate. }
    destruct W as (-> & ->). destruct D as [D|(z & y & J & F & _)]; [discriminate D|].
    clear - J F. simpl in J. repeat destruct J as [J|J]; try contradiction; inversion J; subst; simpl in F; try contradiction; discriminate. }
  assert (W : exists t s, weak_run (fun _ => None) s0 [0; 0; 1; 1; 1] t s /\ t = T /\ finished s /\ memory s 6 = 500).
  { eexists. eexists. split.
    - change [0; 0; 1; 1; 1] with (((((([] ++ [0]) ++ [0]) ++ [1]) ++ [1])) ++ [1]).
      eapply weak_other; [eapply weak_read; [eapply weak_other; [eapply weak_other; [eapply weak_other; [apply weak_start|..]|..]|..]|..]|..];
        try reflexivity; discriminate.
    - split; [vm_compute; reflexivity|]. split; [intros [|[|p]]; [reflexivity|reflexivity|destruct p; reflexivity]|vm_compute; reflexivity]. }
  destruct W as (t & s & W & -> & Fi & Em). exists T, s. auto.
Qed.

(** With the fence, causality orders the accesses, so that each weak execution is a run ([weak_executions_decided]). *)
Example fence_suffices : exists T f, run (start [IsMbarrier 1] (handed_over true)) [0; 0; 0; 1; 1; 1] = Some (T, f) /\
  no_visible_race one_proxy reads_9 T.
Proof.
  set (T := [ ((0, 0), (Write 5 1, 0)); ((0, 1), (Read 9, 0)); ((0, 2), (Register 0 (Count 1 0 0 0), 0));
    ((1, 0), (Wait 0 (Parity false), 1)); ((1, 1), (Read 5, 0)); ((1, 2), (Write 6 1, 0)) ] : list (entry (machine_of [IsMbarrier 1]))).
  exists T. eexists. split; [vm_compute; reflexivity|].
  assert (V : visible one_proxy reads_9 T (0, 0) (1, 1)).
  { assert (B1 : before T (0, 0) (0, 1)) by (apply t_step; left; left; simpl; auto).
    assert (B2 : before T (0, 1) (1, 1)).
    { apply t_trans with (0, 2); [apply t_step; left; left; simpl; auto|].
      apply t_trans with (1, 0); [|apply t_step; left; left; simpl; auto].
      apply t_step. right. exists 0, (Count 1 0 0 0), 0, (Parity false). unfold T. simpl. auto 10. }
    split; [eapply t_trans; eauto|]. exists (Write 5 1, 0), (Read 5, 0). unfold T at 1 2. simpl. split; [auto|]. split; [auto 10|].
    right. exists (0, 1), (Read 9, 0). split; [unfold T; simpl; auto|]. split; [reflexivity|auto]. }
  intros e1 o1 n1 e2 o2 n2 J1 J2 N Cf. unfold T in J1, J2. simpl in J1, J2.
  repeat match goal with H : _ \/ _ |- _ => destruct H as [H|H] end; try contradiction; inversion J1; inversion J2; subst;
    simpl in Cf; try contradiction; try discriminate; try congruence; auto.
Qed.
