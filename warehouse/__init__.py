"""Records of experiments: one writer (`Store`), everybody else reads a published snapshot (`connect`)."""

from warehouse.catalog import TableDocument
from warehouse.errors import WarehouseError
from warehouse.export import export
from warehouse.lock import writer
from warehouse.outliers import Outlier, RunTiming, find_outliers
from warehouse.snapshot import connect, tables
from warehouse.store import Store, rebuild

__all__ = [
    "Outlier",
    "RunTiming",
    "Store",
    "TableDocument",
    "WarehouseError",
    "connect",
    "export",
    "find_outliers",
    "rebuild",
    "tables",
    "writer",
]
