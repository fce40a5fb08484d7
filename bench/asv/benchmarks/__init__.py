"""Time and memory of the package from commit to commit: ``cd bench/asv && asv run``.

Inputs are those of the other benchmarks. Times depend on the machine; claims use ratios (`bench/ratios.py`).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
