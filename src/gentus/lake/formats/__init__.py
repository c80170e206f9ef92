"""lake/formats."""
