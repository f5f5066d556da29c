"""The admin port: health, metrics and the admin API. Later the web console."""
