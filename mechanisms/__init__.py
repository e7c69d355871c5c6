"""The mechanisms that ship with the benchmark, one file each."""

if __name__ != "dpicl.mechanisms":  # a second copy of every class would be no good
    raise ImportError(
        "This is a part of the package dpicl: write 'import dpicl.mechanisms' instead of 'import mechanisms'."
    )
