"""The conformance kit (`dpicl check`): observes runs of a mechanism and checks them.

* `kit` runs the checks on every kind of task and at every setting (`variants`: options; `scales`: sizes, classes,
  tasks), each check one function in `checks`. `imports` watches the import of a mechanism's file, and the exit.
* `bench` makes one run: an execution like any other, in which everything is written down (`transcript`, `footprint`),
  a script may stand in for the noise, and `guard` limits what untrusted code can do.
* `checking` makes the runs that several checks share: ordinary ones, pairs of neighbours, and replays of the same noisy
  releases on other records. `adversaries` are the records; `dictionary` and `patterns` find what the code may look for.
* `hostile_model` is the model; `state` and `clock` tell whether a run depends on those before it, or on the time.
"""
