"""``python -m c7x.cli``."""

from __future__ import annotations

import sys

from c7x.cli import main

sys.exit(main())
