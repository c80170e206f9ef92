"""lake/remote."""
