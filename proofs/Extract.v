(** * The checkers as OCaml code: ocaml/main.ml reads programs, ocaml/certificate.ml reads certificates

    [Map.key]s and numbers are OCaml's integers.  Equality of addresses implies equality of maps, and only saves work. *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt List PArith Arith.
From Wsemu Require Import Machine Gpu Checker Programs Certificate.
Extraction Language OCaml.
Set Warnings "-extraction-opaque-accessed".
Extract Constant Coq.Arith.PeanoNat.Nat.max => "(fun (a : int) b -> if a < b then b else a)".
Extract Constant Coq.Arith.PeanoNat.Nat.odd => "(fun n -> n land 1 = 1)".
Extract Constant Pos.of_succ_nat => "Stdlib.succ".
Extract Constant Pos.to_nat => "(fun p -> p)".
Extract Constant same_tree => "(==)".
Extraction "ocaml/proven.ml" judge_program greedy start judge_certificate objects_of.
