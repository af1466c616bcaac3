"""The entry point of `python -m wengert.cli`."""

import sys

from . import main

sys.exit(main())
