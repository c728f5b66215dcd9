"""`gfs`, with a clock that a test can step: it goes by as many seconds as the file says that GFS_TEST_CLOCK names."""

import os
import time
from pathlib import Path

from gfs.cli.main import main

if named := os.environ.get("GFS_TEST_CLOCK"):
    _real = time.time
    time.time = lambda: _real() + float(Path(named).read_text() or 0)

if __name__ == "__main__":
    main()
