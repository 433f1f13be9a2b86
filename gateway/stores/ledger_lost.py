"""What whoever asks the ledger's tables has to reckon with."""


class LedgerLost(Exception):
    """The ledger's database is away, busy, or does not take what it is asked; later it may."""
