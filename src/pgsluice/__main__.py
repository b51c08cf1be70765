"""``python -m pgsluice`` is ``pgsluice``."""

import sys

from pgsluice.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
