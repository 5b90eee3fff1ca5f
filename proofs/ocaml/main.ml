(* Read programs, one a line, in the notation of tests/properties/phase_explorer.py and compare.py.  Execute each with the greedy schedule,
   and print the verdict of the extracted checker: "verified", the violated rules, or the feature that the model lacks.  After the steps of
   phase_explorer.py:

   I(b,n)                               mbarrier.init, of an mbarrier whose count on the line is 0
   a(b,k)  U(b,s,v)  M(b,v,b',v',...)   k arrivals; a bulk copy from variable s to v; a multicast, one agent for each destination
   c(v)  k  D                           cp.async into v, its commit_group, wait_all (g is c and k)
   o(v)  K                              bulk store of v, its commit_group (O is o and K)
   Y  y                                 barrier.cluster.arrive and .wait.  A thread that exits leaves the barrier; if it arrived and
                                        did not wait, an agent leaves for it after that phase
   m(v)  F(k)                           wgmma of all warps with an m, on v, in a group of its own; wait_group k *)
open Proven

type step = { kind : char; numbers : int list }

let parse_steps text =
  let rec parse i steps =
    if i >= String.length text then List.rev steps
    else if text.[i] = ' ' then parse (i + 1) steps
    else if i + 1 < String.length text && text.[i + 1] = '(' then
      let last = String.index_from text i ')' in
      let numbers = List.map int_of_string (String.split_on_char ',' (String.sub text (i + 2) (last - i - 2))) in
      parse (last + 1) ({ kind = text.[i]; numbers } :: steps)
    else parse (i + 1) ({ kind = text.[i]; numbers = [] } :: steps) in
  parse 0 []

exception Unsupported of string

let variables = 3  (* as in phase_explorer.py *)
let source = 999  (* the address that loads read; nothing writes it *)
let sink thread v = 1000 + 100 * thread + v
let named_barriers = 16

(* Objects: the mbarriers with the counts of the line, the named barriers, the group of all threads of the cluster, and one for each
   asynchronous operation with groups. *)
let translate line =
  let counts, threads = match String.split_on_char '|' line with
    | [] -> [], []
    | counts :: threads -> List.filter_map int_of_string_opt (String.split_on_char ' ' counts), threads in
  let steps = List.map (fun text ->
    let colon = String.index text ':' in
    parse_steps (String.sub text (colon + 1) (String.length text - colon - 1))) threads in
  let size = List.length steps in
  let has kind = List.exists (fun s -> s.kind = kind) in
  let kinds = ref (List.rev_map (fun n -> if n = 0 then IsDead else IsMbarrier n) counts) in  (* newest first *)
  let new_object kind = kinds := kind :: !kinds; List.length !kinds - 1 in
  let named = List.init named_barriers (fun _ -> new_object IsNamed) in
  let cluster = new_object (IsGroup size) in
  let meets = List.exists (has 'Y') steps in
  let agents = ref 0 and values = ref 100000 in
  let fork commands = incr agents; [Fork (size + !agents - 1, commands)] in
  let put b payload = Put (b, fun _ -> payload) in
  let count arrivals drop expect complete = Count (arrivals, drop, expect, complete) in
  let rec without_last n groups = match n, groups with 0, _ -> groups | _, [] -> [] | n, _ :: rest -> without_last (n - 1) rest in
  let wait_for = List.map (fun b -> Test (b, false)) in
  let newest results = List.hd results in
  (* wgmma: the warps that execute number k, the object at which they meet, the one at which it completes *)
  let warpgroup = List.length (List.filter (has 'm') steps) in
  let multiplies = Hashtbl.create 8 in
  let multiply k = match Hashtbl.find_opt multiplies k with
    | Some found -> found
    | None -> let made = new_object (IsMbarrier warpgroup), new_object (IsMbarrier 1) in Hashtbl.add multiplies k made; made in
  let first_of_warpgroup = let rec find n = function [] -> -1 | s :: rest -> if has 'm' s then n else find (n + 1) rest in find 0 steps in
  let commands thread steps =
    let copies = ref [] and stores = ref [] in  (* the objects of committed groups, newest first *)
    let open_copies = ref [] and open_stores = ref [] and multiplied = ref 0 and met = ref 0 in
    let bulk_copy b from target = fork [Load from; Save (target, newest); put b (count 0 0 0 16)] in
    let copy v = let group = new_object (IsMbarrier 1) in open_copies := group :: !open_copies;
      fork [Load source; Save (v, newest); put group (count 1 0 0 0)] in
    let commit groups opened = groups := !opened :: !groups; opened := [] in
    let store v = let read = new_object (IsMbarrier 1) in let written = new_object (IsMbarrier 1) in
      open_stores := (read, written) :: !open_stores;
      fork [Load v; put read (count 1 0 0 0); Save (sink thread v, newest); put written (count 1 0 0 0)] in
    let copied () = wait_for (!open_copies @ List.concat !copies) in
    let body = List.concat_map (fun { kind; numbers } ->
      let b, n = match numbers with [] -> 0, 0 | [b] -> b, 0 | b :: n :: _ -> b, n in
      match kind with
      | 'a' -> [put b (count (max 1 n) 0 0 0)]
      | 'd' -> [put b (count 1 1 0 0)]
      | 'x' -> [put b (count 1 0 n 0)]
      | 'e' -> if n = 0 then [] else [put b (count 0 0 n 0)]
      | 'w' | 'p' -> [Test (b, n = 1)]
      | 'T' -> bulk_copy b source n
      | 'V' -> bulk_copy b (n mod variables) (n / variables)
      | 'U' -> bulk_copy b n (List.nth numbers 2)
      | 'M' -> let rec each = function b :: v :: rest -> bulk_copy b source v @ each rest | _ -> [] in each numbers
      | 'c' -> copy b
      | 'k' -> commit copies open_copies; []
      | 'g' -> let made = copy b in commit copies open_copies; made
      | 'n' -> fork (copied () @ [put b (count 1 0 0 0)])
      | 'i' -> put b (count 0 0 1 0) :: fork (copied () @ [put b (count 0 0 0 1)])
      | 'C' -> wait_for (List.concat (without_last b !copies))
      | 'D' -> commit copies open_copies; wait_for (List.concat !copies)
      | 'o' -> store b
      | 'K' -> commit stores open_stores; []
      | 'O' -> let made = store b in commit stores open_stores; made
      | 'G' -> wait_for (List.map snd (List.concat (without_last b !stores)))
      | 'Q' -> wait_for (List.map fst (List.concat (without_last b !stores)))
      | 'R' -> [Load b]
      | 'W' -> incr values; let v = !values in [Save (b, fun _ -> v)]
      | 'S' | 'Z' -> let b = List.nth named b in [Enter (b, (fun _ -> Arrive (n, 0))); Await (b, fun _ -> [])]
      | 'A' -> [put (List.nth named b) (Arrive (n, 0))]
      | 'Y' -> if !met land 1 = 1 then raise (Unsupported "barrier.cluster.arrive twice");
        incr met; [put cluster (Join (thread, 0))]
      | 'y' -> if !met land 1 = 0 then raise (Unsupported "barrier.cluster.wait without arrive");
        incr met; [Test (cluster, !met land 3 = 0)]  (* the waits have parities 0, 1, 0, ... *)
      | 'm' -> let k = !multiplied in incr multiplied;
        let issued, completed = multiply k in
        let before = if k = 0 then [] else [snd (multiply (k - 1))] in  (* one accumulator: in order *)
        put issued (count 1 0 0 0) :: (if thread <> first_of_warpgroup then [] else
          fork (wait_for (issued :: before) @ [Load b; put completed (count 1 0 0 0)]))
      | 'F' -> wait_for (List.init (max 0 (!multiplied - b)) (fun k -> snd (multiply k)))
      | 'I' -> [put b (Init n)]
      | 'P' -> []
      | c -> raise (Unsupported (Printf.sprintf "step %c" c))) steps in
    let leave = [put cluster (Leave thread)] in
    body @ if not meets then [] else if !met land 1 = 0 then leave
      else fork (Test (cluster, !met land 3 = 3) :: leave) in  (* it has arrived, and leaves after this phase *)
  let programs = List.mapi commands steps in
  List.rev !kinds, List.map (fun c -> Some (c, [])) programs @ List.init !agents (fun _ -> None)

let verdict line =
  let kinds, programs = translate line in
  let schedule = greedy kinds 10000 (List.length programs) (start kinds programs) in
  match judge_program kinds programs schedule with
  | None -> "none"
  | Some j ->
    let rules = [ "ends", j.ends_ok; "R1", j.recycle_ok; "R2", j.early_ok; "R3", j.late_ok; "R4", j.init_ok; "R5", j.expect_ok;
                  "R6", j.balance_ok; "empty", j.positive_ok; "race", j.race_ok ] in
    match List.filter (fun (_, holds) -> not holds) rules with
    | [] -> "verified"
    | violated -> String.concat "," (List.map fst violated)

let () =
  try while true do
    let line = input_line stdin in
    print_endline (try verdict line with Unsupported feature -> "out of reach: " ^ feature)
  done with End_of_file -> ()
