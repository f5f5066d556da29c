"""The ledger: from numbered segments to usage, audit, bills and service levels. Needs the extra: holdfast[spark]."""
