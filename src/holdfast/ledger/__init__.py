"""The ledger's files: the spool it reads and the tables it keeps. Nothing here knows Spark, or needs a JVM."""
