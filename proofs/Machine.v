(** * The machine: processes, memory, synchronization objects, steps and runs

    A process is a deterministic automaton: a warp, a lane, or an asynchronous copy.  Its next operation, with
    address, value, object number and count, may depend on everything that it has read.  Processes share
    memory and synchronization objects (barriers, mbarriers).  An object has a current phase and the contents of
    that phase.  A registration (an arrive, for example) adds its payload to the contents.  When the contents are full,
    the phase completes and the next one begins.  A wait names a phase by number or by parity.

    A schedule is a list of processes: any process that can step may step next. *)
From Coq Require Import List Arith Bool.
Import ListNotations.

Notation process := nat (only parsing).
Notation address := nat (only parsing).
Notation object := nat (only parsing).

(** The condition of a wait.  [Over g]: phase g has completed.  [Parity p]: the current phase does not have parity p,
    which is the condition of PTX's [mbarrier.test_wait.parity]. *)
Inductive condition := Over (g : nat) | Parity (p : bool).

(** An operation, which is one step of a process.  [Start q l] starts process q in local state l. *)
Inductive operation (L V P : Type) :=
| Read (x : address)
| Write (x : address) (v : V)
| Register (b : object) (y : P)
| Wait (b : object) (w : condition)
| Start (q : process) (l : L).
Arguments Read {L V P}. Arguments Write {L V P}. Arguments Register {L V P}. Arguments Wait {L V P}.
Arguments Start {L V P}.

(** The result of an operation: a value of memory, the phase of a registration, the final contents of a
    phase, or nothing. *)
Inductive response (V C : Type) := Value (v : V) | InPhase (g : nat) | Contents (c : C) | Done.
Arguments Value {V C}. Arguments InPhase {V C}. Arguments Contents {V C}. Arguments Done {V C}.

Record machine := Machine {
  local : Type;
  value : Type;
  payload : Type;
  content : Type;
  (** the next operation of a process, or none if it has ended *)
  next : local -> option (operation local value payload);
  resume : local -> response value content -> local;
  (** the contents after a registration, or none if it is an error, such as an excess arrival *)
  add : object -> content -> payload -> option content;
  full : object -> content -> bool;
  (** whether a registration can complete a phase whose contents are full *)
  ends : payload -> bool;
  (** the contents at the beginning of the next phase *)
  reset : object -> content -> content;
  (** the contents before the run *)
  initial_contents : object -> content;
  (** whether phase 0 of an object ends with its initialization; parities then count from phase 1 *)
  raw : object -> bool
}.

Definition update {X} (f : nat -> X) (k : nat) (v : X) : nat -> X := fun j => if Nat.eqb j k then v else f j.

Ltac by_place := unfold update in *; repeat
  match goal with
  | |- context [Nat.eqb ?a ?b] => destruct (Nat.eqb_spec a b); subst
  | H : context [Nat.eqb ?a ?b] |- _ => destruct (Nat.eqb_spec a b); subst
  end.

(** Whether a wait with condition w succeeds in phase h; [first] is the first phase that has a parity. *)
Definition passes (first : nat) (w : condition) (h : nat) : bool :=
  match w with
  | Over g => Nat.ltb g h
  | Parity p => Nat.leb first h && negb (Bool.eqb (Nat.odd (h - first)) p)
  end.

(** An event: process p, operation number i of p. *)
Definition event := (process * nat)%type.

Section Steps.
Context {M : machine}.
Notation op := (operation (local M) (value M) (payload M)).

Record state := State {
  locals : process -> option (local M);       (* none if not started *)
  executed : process -> nat;                      (* the number of executed operations *)
  memory : address -> value M;
  phase : object -> nat;                      (* the current phase *)
  contents : object -> content M;                 (* of the current phase *)
  history : object -> nat -> content M          (* the final contents of completed phases *)
}.

Definition same (s s' : state) :=
  (forall p, locals s p = locals s' p) /\ (forall p, executed s p = executed s' p) /\
  (forall x, memory s x = memory s' x) /\ (forall b, phase s b = phase s' b) /\
  (forall b, contents s b = contents s' b) /\ (forall b g, history s b g = history s' b g).

Definition first_phase b := if raw M b then 1 else 0.

Definition advance s p l :=
  State (update (locals s) p (Some l)) (update (executed s) p (S (executed s p)))
    (memory s) (phase s) (contents s) (history s).
Definition store s x v :=
  State (locals s) (executed s) (update (memory s) x v) (phase s) (contents s) (history s).
Definition spawn s q l :=
  State (update (locals s) q (Some l)) (executed s) (memory s) (phase s) (contents s) (history s).
(** Give object b the contents a, after registration y: the phase completes, or continues. *)
Definition update_object s b a y :=
  if full M b a && ends M y
  then State (locals s) (executed s) (memory s) (update (phase s) b (S (phase s b))) (update (contents s) b (reset M b a))
         (update (history s) b (update (history s b) (phase s b) a))
  else State (locals s) (executed s) (memory s) (phase s) (update (contents s) b a) (history s).

(** The next operation of a process, with its local state. *)
Definition pending s p : option (local M * op) :=
  match locals s p with
  | Some l => match next M l with Some o => Some (l, o) | None => None end
  | None => None
  end.

Definition wait_result s b (w : condition) : response (value M) (content M) :=
  match w with Over g => Contents (history s b g) | Parity _ => Done end.

Definition effect p l (o : op) s : option state :=
  match o with
  | Read x => Some (advance s p (resume M l (Value (memory s x))))
  | Write x v => Some (store (advance s p (resume M l Done)) x v)
  | Register b y =>
      match add M b (contents s b) y with
      | Some a => Some (update_object (advance s p (resume M l (InPhase (phase s b)))) b a y)
      | None => None
      end
  | Wait b w => if passes (first_phase b) w (phase s b) then Some (advance s p (resume M l (wait_result s b w))) else None
  | Start q l' =>
      match locals s q with
      | None => Some (spawn (advance s p (resume M l Done)) q l')
      | Some _ => None
      end
  end.

(** One step of process p; none if it has ended, or if its wait does not succeed yet. *)
Definition step p s : option state := match pending s p with Some (l, o) => effect p l o s | None => None end.

(** The next operation of p is an error: an excess arrival, a count mismatch, a second start of a process, or a wait by
    parity on an uninitialized mbarrier. *)
Definition error p s :=
  match pending s p with
  | Some (_, Register b y) => add M b (contents s b) y = None
  | Some (_, Start q _) => locals s q <> None
  | Some (_, Wait b (Parity _)) => phase s b < first_phase b
  | _ => False
  end.

Definition conflict (o o' : op) :=
  match o, o' with
  | Read x, Write y _ | Write x _, Read y | Write x _, Write y _ => x = y
  | _, _ => False
  end.

(** A data race: the next operations of two processes are conflicting accesses. *)
Definition racing s := exists p q l o l' o',
  p <> q /\ pending s p = Some (l, o) /\ pending s q = Some (l', o') /\ conflict o o'.

(** An entry of a trace: the event, its operation, and the phase in which it was executed.  A wait for the completion of
    phase g has the label g + 1, the first phase in which it can succeed. *)
Definition entry := (event * (op * nat))%type.

Definition label (o : op) s :=
  match o with
  | Register b _ | Wait b (Parity _) => phase s b
  | Wait _ (Over g) => S g
  | _ => 0
  end.

Definition entry_at p s : option entry :=
  match pending s p with Some (_, o) => Some ((p, executed s p), (o, label o s)) | None => None end.

(** The run of a schedule from s: its trace and its final state, if each process of the schedule can step in its turn. *)
Fixpoint run s (schedule : list process) : option (list entry * state) :=
  match schedule with
  | [] => Some ([], s)
  | p :: schedule' =>
      match entry_at p s, step p s with
      | Some e, Some s1 => match run s1 schedule' with Some (T, s') => Some (e :: T, s') | None => None end
      | _, _ => None
      end
  end.

Definition initial s :=
  (forall p, executed s p = 0) /\ (forall b, phase s b = 0) /\ (forall b, contents s b = initial_contents M b).
(** Every process has ended. *)
Definition finished s := forall p, pending s p = None.
(** No process can step. *)
Definition stuck s := forall p, step p s = None.

Definition done s (e : event) := snd e < executed s (fst e).
Definition is_done s (e : event) := Nat.ltb (snd e) (executed s (fst e)).
End Steps.
Arguments state : clear implicits.
Arguments entry : clear implicits.
Arguments first_phase : clear implicits.
