"""`python -m quell`, for where the `quell` script is not on the path."""

import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` is there to take care of it

from quell.cli import main  # noqa: E402

sys.exit(main())
