"""The reference server beside the tests, for which they import its files by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
