"""The SQS wire as pure code: bytes in, core values out, and back. No I/O, no clock."""
