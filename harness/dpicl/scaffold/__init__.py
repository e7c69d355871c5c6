"""Working examples that `dpicl new` copies under a user's name: two kinds of mechanism and a task.

They are real files that are linted, typed and tested as they are. Only names change: see
dpicl.scaffold.writing.
"""
