"""The gate: what a submission must be before it stands on the board. docs/add-a-method.md is its reference.

`dpicl.leaderboards.gate.examination` has the two ways in: `load_submissions`, the cheap checks for a board, and
`examine`, all checks of one submission. No check runs submitted code unless `run_code` is given, and then in a process
of its own.
"""
