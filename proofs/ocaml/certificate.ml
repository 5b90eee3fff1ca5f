(* wsemu-certify FILE...: judge the certificates in each file (README.md has the format) with the checker of Certificate.v.

   This program reads text, numbers the ranges of bytes that accesses share, and prints.  The verdict is that of the extracted code.
   Exit codes: 0 all accepted, 1 one is refused, 2 a file is no certificate.  Nothing in a file is executed. *)
open Proven

exception Malformed of int * string

type access = { place : string; first : int; size : int; writes : bool }
type what = Access of access | Other of (unit, unit, payload0) operation
type line = { number : int; process : int; what : what; text : string; where : string }
type certificate = { at : int; name : string; processes : int; kinds : kind list; lines : line list }

let most_processes = 100_000
let number n text = match int_of_string_opt text with
  | Some k when k >= 0 && String.length text < 19 && String.for_all (fun c -> c >= '0' && c <= '9') text -> k
  | _ -> raise (Malformed (n, Printf.sprintf "%S is not a number" text))

let process n text = match number n text with
  | p when p < most_processes -> p
  | _ -> raise (Malformed (n, "more than 100,000 processes"))

let count arrivals drops expected completed = Count (arrivals, drops, expected, completed)

let parse_operation n words =
  let num = number n in
  let access writes place first size = match num size with
    | 0 -> raise (Malformed (n, "an access has 1 or more bytes"))
    | size -> Access { place; first = num first; size; writes } in
  match words with
  | ["read"; place; first; size] -> access false place first size
  | ["write"; place; first; size] -> access true place first size
  | ["bar"; b; k] -> Other (Register (num b, Arrive (num k, 0)))
  | ["leave"; b; m] -> Other (Register (num b, Leave (num m)))
  | ["count"; b; ar; dr; ex; co] -> Other (Register (num b, count (num ar) (num dr) (num ex) (num co)))
  | ["init"; b; k] -> Other (Register (num b, Init (num k)))
  | ["passed"; b; g] -> Other (Wait (num b, Over (num g)))
  | ["parity"; b; ("0" | "1" as p)] -> Other (Wait (num b, Parity (p = "1")))
  | ["start"; q] -> Other (Start (process n q, ()))
  | _ -> raise (Malformed (n, Printf.sprintf "no operation: %S" (String.concat " " words)))

let words text = List.filter (fun word -> word <> "") (String.split_on_char ' ' text)

let parse_line n text =
  let text, where = match String.index_opt text ';' with
    | Some k -> String.trim (String.sub text 0 k), String.trim (String.sub text (k + 1) (String.length text - k - 1))
    | None -> text, "" in
  match words text with
  | [first; "join"; b] ->  (* the member of a group is known by the number of its process *)
      let process = process n first in
      { number = n; process; what = Other (Register (number n b, Join (process, 0))); text; where }
  | first :: rest -> { number = n; process = process n first; what = parse_operation n rest; text; where }
  | [] -> raise (Malformed (n, "an empty line"))

let kind_of n = function
  | ["named"] -> IsNamed
  | ["copy"] -> IsMbarrier 1
  | ["group"; k] -> IsGroup (number n k)
  | ["mbarrier"; "0"] -> IsDead
  | ["mbarrier"; k] -> IsMbarrier (number n k)
  | _ -> raise (Malformed (n, "an object is `named`, `copy`, `group N` or `mbarrier N`"))

(* The certificates of a text, each from its header to `end`. *)
let parse lines =
  let rec before found = function
    | [] -> List.rev found
    | (_, "") :: rest -> before found rest
    | (n, "wsemu-certificate 1") :: rest when not (List.exists (fun (_, text) -> text = "end") rest) ->
        raise (Malformed (n, "the certificate has no `end`"))
    | (n, "wsemu-certificate 1") :: rest -> head found { at = n; name = ""; processes = -1; kinds = []; lines = [] } rest
    | (n, text) :: _ -> raise (Malformed (n, Printf.sprintf "`wsemu-certificate 1` expected, not %S" text))
  and head found c = function
    | (n, text) :: rest when String.length text > 0 && text.[0] = '#' ->
        head found { c with name = String.trim (String.sub text 1 (String.length text - 1)) } rest
    | (n, text) :: rest as all -> (match words text with
        | ["processes"; k] when c.processes < 0 ->
            let processes = number n k in
            if processes > most_processes then raise (Malformed (n, "more than 100,000 processes"));
            head found { c with processes } rest
        | _ when c.processes < 0 -> raise (Malformed (n, "`processes N` is missing"))
        | _ -> objects found c [] all)
    | [] -> raise (Malformed (c.at, "the certificate has no `end`"))
  and objects found c kinds = function
    | (n, text) :: rest as all -> (match words text with
        | "object" :: b :: kind when number n b = List.length kinds -> objects found c (kind_of n kind :: kinds) rest
        | "object" :: _ -> raise (Malformed (n, "objects are numbered from 0"))
        | _ -> body found { c with kinds = List.rev kinds } [] all)
    | [] -> raise (Malformed (c.at, "the certificate has no `end`"))
  and body found c lines = function
    | (_, "end") :: rest -> before ({ c with lines = List.rev lines } :: found) rest
    | (n, text) :: rest -> body found c (parse_line n text :: lines) rest
    | [] -> raise (Malformed (c.at, "the certificate has no `end`")) in
  before [] lines

(* Bytes that the same accesses touch are one address of the model; bytes that nothing writes are none: they cannot race. *)
let addresses c =
  let points = Hashtbl.create 64 in
  let of_place place = match Hashtbl.find_opt points place with
    | Some found -> found
    | None -> let made = Hashtbl.create 64 in Hashtbl.add points place made; made in
  List.iter (fun line -> match line.what with
    | Access a -> let found = of_place a.place in Hashtbl.replace found a.first (); Hashtbl.replace found (a.first + a.size) ()
    | Other _ -> ()) c.lines;
  let next = ref 0 in
  let numbered = Hashtbl.create 64 in
  Hashtbl.iter (fun place found ->
    let sorted = Array.of_seq (Hashtbl.to_seq_keys found) in
    Array.sort compare sorted;
    Hashtbl.add numbered place (sorted, !next);
    next := !next + Array.length sorted) points;
  let index sorted at =
    let low = ref 0 and high = ref (Array.length sorted - 1) in
    while !low < !high do
      let middle = (!low + !high) / 2 in
      if sorted.(middle) < at then low := middle + 1 else high := middle
    done;
    !low in
  let range a =
    let sorted, base = Hashtbl.find numbered a.place in
    base + index sorted a.first, base + index sorted (a.first + a.size) in
  let written = Bytes.make (!next + 1) '0' in
  List.iter (fun line -> match line.what with
    | Access a when a.writes -> let first, last = range a in Bytes.fill written first (last - first) '1'
    | _ -> ()) c.lines;
  fun a -> let first, last = range a in
    List.filter (fun k -> Bytes.get written k = '1') (List.init (last - first) (fun k -> first + k))

let rule_text = function
  | Rule1 -> "R1: a registrant of the phase before does not happen before this one"
  | Rule2 -> "R2: a registrant of the phase before last does not happen before this wait"
  | Rule3 -> "R3: this wait happens before no registrant of the phase after it"
  | Rule4 -> "R4: the initialization does not happen before this wait"
  | Rule5 -> "R5: this expectation happens before no arrival of its phase"
  | Rule6 -> "R6: the phase gets more bytes than it expects"
  | Empty_registrant -> "this operation adds nothing to its phase"
  | Race -> "race: an earlier conflicting access does not happen before this one"

let judge c =
  let cells = addresses c in
  let operations = List.concat_map (fun line -> match line.what with
    | Other o -> [line, o]
    | Access a -> List.map (fun k -> line, if a.writes then Write (k, ()) else Read k) (cells a)) c.lines in
  let objects = objects_of c.kinds in
  let kinds = Array.of_list c.kinds in
  let objects b = if b < Array.length kinds then objects_of [kinds.(b)] 0 else objects b in
  let show line = Printf.sprintf "line %d, `%s`%s" line.number line.text (if line.where = "" then "" else " (" ^ line.where ^ ")") in
  match judge_certificate objects c.processes (List.map (fun (line, o) -> line.process, o) operations) with
  | Accepted -> None
  | Impossible n -> Some (Printf.sprintf "%s: no run does this here" (show (fst (List.nth operations n))))
  | Broken (rule, ((process, i), _)) ->
      let seen = ref 0 in
      let line, _ = List.find (fun (line, _) -> line.process = process && (incr seen; !seen > i)) operations in
      Some (Printf.sprintf "%s: %s" (show line) (rule_text rule))

let most_bytes = 256 lsl 20

let read file =
  let channel = open_in_bin file in
  let length = in_channel_length channel in
  if length > most_bytes then raise (Sys_error (Printf.sprintf "%s: more than %d MiB" file (most_bytes lsr 20)));
  let text = really_input_string channel length in
  close_in channel;
  List.mapi (fun n line -> n + 1, String.trim line) (String.split_on_char '\n' text)

(* A text without characters that could move a terminal's cursor: names come from the file that is judged. *)
let inert text =
  let shown = Buffer.create (String.length text) in
  let rec copy at =
    if at < String.length text then begin
      let c = text.[at] in
      let is_c1 = c = '\xc2' && at + 1 < String.length text && text.[at + 1] >= '\x80' && text.[at + 1] <= '\x9f' in
      if c < ' ' || c = '\x7f' || is_c1 then Buffer.add_string shown "\xef\xbf\xbd" else Buffer.add_char shown c;
      copy (if is_c1 then at + 2 else at + 1)
    end in
  copy 0;
  Buffer.contents shown

let judge_file path =
  let file = inert path in
  match parse (read path) with
  | exception Malformed (n, why) -> Printf.eprintf "%s:%d: %s\n" file n (inert why); 2
  | exception Stack_overflow -> Printf.eprintf "%s: too long for the stack: run `ulimit -s unlimited` first\n" file; 2
  | exception Sys_error why -> Printf.eprintf "%s\n" (inert why); 2
  | [] -> Printf.eprintf "%s: no certificate\n" file; 2
  | found ->
      List.fold_left (fun code c ->
        let title = if c.name = "" then Printf.sprintf "certificate at line %d" c.at else inert c.name in
        match judge c with
        | exception Stack_overflow ->
            Printf.eprintf "%s: %s is too long for the stack: run `ulimit -s unlimited` first\n" file title; 2
        | None -> Printf.printf "accepted: %s: %d operations\n" title (List.length c.lines); code
        | Some why -> Printf.printf "refused: %s\n  %s:%s\n" title file (inert why); max code 1) 0 found

(* The extracted code nests as deeply as a certificate is long: it gets all the stack that the system allows. *)
let with_deep_stack () =
  let enlarged = "WSEMU_CERTIFY_STACK" in
  if Sys.getenv_opt enlarged = None then begin
    Unix.putenv enlarged "1";
    let script = "ulimit -s unlimited 2>/dev/null || ulimit -s \"$(ulimit -H -s)\" 2>/dev/null; exec \"$0\" \"$@\"" in
    let arguments = Array.append [| "sh"; "-c"; script; Sys.executable_name |] (Array.sub Sys.argv 1 (Array.length Sys.argv - 1)) in
    try Unix.execv "/bin/sh" arguments with Unix.Unix_error _ -> ()
  end

let () =
  with_deep_stack ();
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 8 * 1024 * 1024 };  (* a collection scans the stack *)
  match List.tl (Array.to_list Sys.argv) with
  | [] | "-h" :: _ | "--help" :: _ -> prerr_endline "usage: wsemu-certify FILE..."; exit 2
  | files -> exit (List.fold_left (fun code file -> max code (judge_file file)) 0 files)
