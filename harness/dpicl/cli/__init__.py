"""The verbs of `dpicl`, one module a group: annotated functions, of which commands.py makes the command line. Heavy
imports wait until a verb runs, so that `dpicl --help` answers at once."""
