"""
``pgsluice`` that copies tables in small ranges and batches, all by the driver: a small table has many then.

    python -m tests.faults.small_copies run ...
"""

from __future__ import annotations

import sys

from pgsluice.cli.main import main
from pgsluice.pipeline import copy, copy_plan
from pgsluice.source.snapshot import ranges

assert ranges.cut.__kwdefaults__ is not None
ranges.cut.__kwdefaults__["range_bytes"] = 64 << 10
copy_plan.BATCH_BYTES, copy_plan.RAW_BATCHES = 128 << 10, 1  # type: ignore[misc]
copy.SMALL_BYTES = 1 << 30  # type: ignore[misc]
sys.exit(main(sys.argv[1:]))
