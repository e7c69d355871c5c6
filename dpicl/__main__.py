"""`python -m dpicl` is `dpicl`."""

import sys

from dpicl.cli import main

if __name__ == "__main__":
    sys.exit(main())
