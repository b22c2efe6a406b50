"""``python -m dlojz.data``: make a folder of images."""

import sys

from .folders import main

if __name__ == "__main__":
    sys.exit(main())
