"""Working examples that `dpicl new` writes: mechanisms of two kinds and a task, under a name of the user's.

They are real files that are linted, typed and tested as they are. Only names change: see
dpicl.scaffold.writing.
"""
