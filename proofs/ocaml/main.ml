(* Read programs in the notation of tests/properties/phase_explorer.py and programs.py, one a line.  Execute each with the greedy
   schedule, and print the verdict of the extracted checker: "verified", the violated rules, or the step that is not supported. *)
open Proven

type step = { kind : char; place : int; number : int }

let parse_steps text =
  let rec parse i steps =
    if i >= String.length text then List.rev steps
    else if text.[i] = ' ' then parse (i + 1) steps
    else if i + 1 < String.length text && text.[i + 1] = '(' then
      let last = String.index_from text i ')' in
      let numbers = String.split_on_char ',' (String.sub text (i + 2) (last - i - 2)) in
      let place, number = match List.map int_of_string numbers with
        | [] -> 0, 0 | [place] -> place, 0 | place :: number :: _ -> place, number in
      parse (last + 1) ({ kind = text.[i]; place; number } :: steps)
    else parse (i + 1) ({ kind = text.[i]; place = 0; number = 0 } :: steps) in
  parse 0 []

exception Unsupported of char

let variables = 3  (* as in phase_explorer.py *)

(* Objects 0 to 3 are mbarriers with the counts of the line, 4 to 7 named barriers; each group of copies adds an object. *)
let translate line =
  let counts, threads = match String.split_on_char '|' line with
    | [] -> [], []
    | counts :: threads -> List.filter_map int_of_string_opt (String.split_on_char ' ' counts), threads in
  let steps = List.map (fun text ->
    let colon = String.index text ':' in
    parse_steps (String.sub text (colon + 1) (String.length text - colon - 1))) threads in
  let agents = ref 0 and values = ref 1000 and objects = ref 8 in
  let new_agent () = incr agents; List.length steps + !agents - 1 in
  let new_object () = incr objects; !objects - 1 in
  let put b payload = Put (b, fun _ -> payload) in
  let count arrivals drop expect complete = Count (arrivals, drop, expect, complete) in
  let rec without_last n groups = match n, groups with 0, _ -> groups | _, [] -> [] | n, _ :: rest -> without_last (n - 1) rest in
  let wait_for = List.map (fun b -> Test (b, false)) in
  let newest results = List.hd results in
  let commands thread steps =
    let copies = ref [] and stores = ref [] in  (* the objects of groups, newest first *)
    List.concat_map (fun { kind; place = b; number = n } -> match kind with
      | 'a' -> [put b (count 1 0 0 0)]
      | 'd' -> [put b (count 1 1 0 0)]
      | 'x' -> [put b (count 1 0 n 0)]
      | 'e' -> if n = 0 then [] else [put b (count 0 0 n 0)]
      | 'w' | 'p' -> [Test (b, n = 1)]
      | 'T' -> [Fork (new_agent (), [Load 99; Save (n, newest); put b (count 0 0 0 16)])]
      | 'V' -> [Fork (new_agent (), [Load (n mod variables); Save (n / variables, newest); put b (count 0 0 0 16)])]
      | 'g' -> let group = new_object () in copies := group :: !copies;
        [Fork (new_agent (), [Load 99; Save (b, newest); put group (count 1 0 0 0)])]
      | 'n' -> [Fork (new_agent (), wait_for !copies @ [put b (count 1 0 0 0)])]
      | 'i' -> [put b (count 0 0 1 0); Fork (new_agent (), wait_for !copies @ [put b (count 0 0 0 1)])]
      | 'C' -> wait_for (without_last b !copies)
      | 'O' -> let read = new_object () in let written = new_object () in
        stores := (read, written) :: !stores;
        [Fork (new_agent (), [Load b; put read (count 1 0 0 0); Save (100 + 10 * thread + b, newest); put written (count 1 0 0 0)])]
      | 'G' -> wait_for (List.map snd (without_last b !stores))
      | 'Q' -> wait_for (List.map fst (without_last b !stores))
      | 'R' -> [Load b]
      | 'W' -> incr values; let v = !values in [Save (b, fun _ -> v)]
      | 'S' | 'Z' -> [Enter (4 + b, (fun _ -> Arrive (n, 0))); Await (4 + b, fun _ -> [])]
      | 'A' -> [put (4 + b) (Arrive (n, 0))]
      | 'P' -> []
      | c -> raise (Unsupported c)) steps in
  let programs = List.mapi commands steps in
  let kinds = List.init !objects (fun b ->
    if b >= 8 then IsMbarrier 1
    else match List.nth_opt counts b with Some n when b < 4 -> IsMbarrier n | _ -> IsNamed) in
  kinds, List.map (fun c -> Some (c, [])) programs @ List.init !agents (fun _ -> None)

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
    print_endline (try verdict line with Unsupported c -> Printf.sprintf "unsupported %c" c)
  done with End_of_file -> ()
