"""The batch-aware test against a panel of control samples of other people."""
