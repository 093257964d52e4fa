"""`python -m quell`, for where the `quell` script is not on the path."""

import os
import signal
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]  # `-m` put it there; nothing that lies in the working directory, a run's say, shall be imported

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` is there to take care of it

from quell.cli import main  # noqa: E402

sys.exit(main())
