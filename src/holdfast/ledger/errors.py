"""What can go wrong with the ledger and is told to an operator. Every text names the place and what to do."""


class LedgerError(Exception):
    """The run ends; what was committed stays, what was not is done by the next run."""


class Busy(LedgerError):
    """Another run works on the same ledger."""


class Conflict(LedgerError):
    """Another writer committed since this run looked at the table. Nothing of this run was committed to it."""


class BadFile(LedgerError):
    """A data file is not what its writer said. It was not committed."""


class Unbalanced(LedgerError):
    """Rows or sums differ from what the segments promise."""
