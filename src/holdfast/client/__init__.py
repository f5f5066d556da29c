"""A client of SQS for programs that wait for each answer: the command line."""
