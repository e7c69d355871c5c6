"""Runs the command line as `python -m dpicl`."""

import sys

from dpicl.program import main

if __name__ == "__main__":
    sys.exit(main())
