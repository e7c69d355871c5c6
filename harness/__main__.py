"""`python -m harness` is `dpicl`."""

import os
import sys

# `-m` puts the working folder first on the path: a `yaml.py` that lies there, in a submission say, would run. It goes
# last, since `harness` itself is found there where it is not installed.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    sys.path.append(sys.path.pop(0))

from harness.cli import main

if __name__ == "__main__":
    sys.exit(main())
