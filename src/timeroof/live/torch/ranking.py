"""Which of several processes this one is."""

from __future__ import annotations

import os
import sys
from typing import Any


def rank_of_process() -> int | None:
    """The rank in the program's process group, or as a launcher has set it."""
    group: Any = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return int(group.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else None
