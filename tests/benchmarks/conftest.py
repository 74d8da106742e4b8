"""The benchmarks are a package of the workspace's root, which no test run puts on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
