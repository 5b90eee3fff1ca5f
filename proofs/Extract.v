(** * The checker as an OCaml program (ocaml/main.ml reads programs and prints verdicts) *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt List.
From Wsemu Require Import Machine Gpu Checker Programs.
Extraction Language OCaml.
Set Warnings "-extraction-opaque-accessed".
Extraction "ocaml/proven.ml" judge_program greedy start.
