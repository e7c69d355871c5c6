"""The mechanisms that ship with the benchmark, one file each."""

if __name__ != "dpicl.mechanisms":  # there must be one copy of every class
    raise ImportError(
        "This is a part of the package dpicl: write 'import dpicl.mechanisms' instead of 'import mechanisms'."
    )
