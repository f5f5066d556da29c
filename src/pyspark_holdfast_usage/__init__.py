"""Spark looks for modules named `pyspark_*` and registers their `DefaultSource`: here the format `holdfast-usage`."""

from holdfast.spark.usage_source import UsageSource as DefaultSource

__all__ = ["DefaultSource"]
