"""The gate: checks submissions to the board. docs/submit.md is its reference.

`examination` has the list of what is checked, each a function of one parsed submission, and the two ways in:
`load_submissions`, the cheap checks for a board, and `examine`, all checks of one submission. They read data files;
code that was sent runs only where `run_code` is given.
"""
