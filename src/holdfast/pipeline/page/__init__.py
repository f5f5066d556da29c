"""The report: one self-contained HTML page from the rows of the report tables, CSV and JSON beside it. No Spark."""
