"""Holdfast: a durable, replicated message queue that speaks Amazon SQS."""

__version__ = "0.1.0"
