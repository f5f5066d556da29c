"""Spark looks for modules named `pyspark_*` and registers their `DefaultSource`: here the format `holdfast-table`."""

from holdfast.spark.table_sink import TableSink as DefaultSource

__all__ = ["DefaultSource"]
