"""What people see: boards, comparisons, the gate of submissions, publishing."""

if __name__ != "dpicl.leaderboards":  # a second copy of every class would be no good
    raise ImportError(
        "This is a part of the package dpicl: write 'import dpicl.leaderboards' instead of 'import leaderboards'."
    )
