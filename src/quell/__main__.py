"""`python -m quell`, for where the `quell` script is not on the path."""

import sys

from quell.cli import main

sys.exit(main())
