"""lake/full."""
