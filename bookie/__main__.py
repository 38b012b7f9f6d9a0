"""`python -m bookie` is the command line."""

import sys

from bookie.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
