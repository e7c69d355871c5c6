"""`python -m dpicl` is `dpicl`."""

import sys

from dpicl.program import main

if __name__ == "__main__":
    sys.exit(main())
