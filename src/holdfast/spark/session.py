"""A Spark session that is set up as the ledger needs it, on this machine or on a cluster.

    session()                               local[*]: everything in this process and a JVM beside it
    session(master="spark://host:7077")     a cluster
    session(remote="sc://host:15002")       through Connect; the client needs no Java

What Java and Spark say while they work is kept from the terminal: warnings that nobody can act on. If they do not start
it is told.

A session that spark-submit, a notebook or a platform has made works as well: `require(spark)` sets what still can be.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from holdfast.ledger.errors import LedgerError

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, not another number
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",  # with histograms 6 MB; several are held
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",  # 3,000 files: 1 s instead of 18
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 would have no least and greatest
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",  # lists of an hour's actions are short
}
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
START: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Of all collectors it needs the least; and what is free of its heap it gives back, instead of keeping most of it.
    JAVA_OPTIONS: "-Duser.timezone=UTC -XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40",
    "spark.log.level": "ERROR",
}
# For few rows: compiling plans and hot loops takes three times as long as what it saves. For many it is two to four
# times slower.
SMALL: Final = {
    JAVA_OPTIONS: "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.default.parallelism": "2",
}
TOLD_LINES: Final = 5  # of what Java said before it gave up
# Of workers here: what a batch took goes back to the system after it. Arrow's own pools keep it, in every process.
WORKERS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
}
DRIVER_MEMORY: Final = "576m"  # tasks keep rows in Python, and what Spark aggregates it can put on disk
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
        for name, value in (WORKERS | {"SPARK_LOCAL_IP": "127.0.0.1"}).items():
            os.environ.setdefault(name, value)
        chosen = {
            "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.autoBroadcastJoinThreshold": "-1",  # it cannot be put on disk, and the heap is small
        } | chosen
    _start(chosen | {"spark.master": master, "spark.app.name": "holdfast-ledger"})
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.master(master).getOrCreate()


def _start(settings: Mapping[str, str]) -> None:
    """The JVM and its context, as the builder would; only here can be said where what it writes goes to."""
    if SparkContext._active_spark_context is not None:  # of somebody else; the builder takes it
        return
    conf: Any = SparkConf().setAll(list(settings.items()))
    with tempfile.TemporaryFile() as told:
        try:
            gateway = SparkContext._gateway or launch_gateway(conf, {"stderr": told})
            SparkContext(conf=conf, gateway=gateway)
        except PySparkException as problem:
            told.seek(0)
            lines = told.read().decode(errors="replace").splitlines()[-TOLD_LINES:]
            raise LedgerError("Spark does not start: " + " ".join([str(problem), *lines])) from None


def require(spark: Any) -> Any:
    """What a session of somebody else has to be set to. Answers the session."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark
