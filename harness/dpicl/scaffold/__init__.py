"""Working examples that `dpicl new` writes: one file (a folder for a task) of each kind, under a name of the user's.

They are real files that are linted, typed and tested as they are. Only names change: see
dpicl.scaffold.writing.
"""
