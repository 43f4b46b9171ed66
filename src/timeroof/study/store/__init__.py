"""The store of a study: one SQLite file, one transaction per case, shared by processes."""

from timeroof.study.store.cases import Kept, Verdict
from timeroof.study.store.database import STORE_SCHEMA, Store

__all__ = ["STORE_SCHEMA", "Kept", "Store", "Verdict"]
