"""`python -m dpicl` is `dpicl`."""

import os
import sys
from pathlib import Path

# `-m` puts the working folder first on the path: a `yaml.py` that lies there, in a submission say, would run. It goes
# last, unless it is the checkout that this code is from, whose other packages must come from there too.
if (
    not sys.flags.safe_path
    and sys.path
    and sys.path[0] in ("", os.getcwd())
    and Path.cwd() != Path(__file__).resolve().parent.parent
):
    sys.path.append(sys.path.pop(0))

from dpicl.cli import main

if __name__ == "__main__":
    sys.exit(main())
