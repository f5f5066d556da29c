"""A Spark session that is set up as the ledger needs it, on this machine or on a cluster.

    session()                               local[*]: everything in this process and a JVM beside it
    session(master="spark://host:7077")     a cluster
    session(remote="sc://host:15002")       through Connect; the client needs no Java

A session that spark-submit, a notebook or a platform has made works as well: `require(spark)` sets what still can be.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, not another number
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",  # 3,000 files: 1 s instead of 18
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 would have no least and greatest
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # the sets of nodes are small
}
START: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.log.level": "ERROR",
}
SHUFFLE_PARTITIONS: Final = 8  # on one machine: 200 empty tasks take longer than the work of most runs


def session(*, master: str = "local[*]", remote: str = "", settings: Mapping[str, str] | None = None) -> Any:
    """Takes 5 to 15 s. `settings` are Spark's own, and weigh more than ours."""
    builder: Any = SparkSession.builder.appName("holdfast-ledger")
    if remote:
        return require(builder.remote(remote).getOrCreate())
    # Otherwise workers take the python3 of the PATH, which does not know Holdfast.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    chosen = START | SETTINGS | dict(settings or {})
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen = {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS), "spark.driver.memory": "1g"} | chosen
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.master(master).getOrCreate()


def require(spark: Any) -> Any:
    """What a session of somebody else has to be set to. Answers the session."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark
