"""Attacks on released outputs, and audits of mechanisms. docs/attacks-and-audits.md says what they measure.

* An **attack** is one class in one file. `base` is its interface, `likelihood` the shortest example: it gives each
  candidate a score, and `membership.membership_finding` makes the numbers of them. What it may ask is `targets.Target`;
  `views` changes the question. `driver` draws members and has the one loop that makes all attacks and audits; `power`
  says whether an attack can find anything.
* A **sampled audit** (`audit_runs`) runs a mechanism with a canary (`audit_canaries`) and without, and makes
  epsilon of what was released (`lower_bounds`).
* An **exact audit** (`exact_audit`) runs it once in each of two worlds (`exact_worlds`), and makes
  epsilon of the clean values and the stated noise (`exact_pairs`; of several copies of a canary `exact_groups`).
* Statistics: `lower_bounds` (and limits of means), `rates` (AUC and the like), `one_run` (guesses).
* Files: `results` and `store`.
"""
