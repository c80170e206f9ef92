"""lake/sandbox."""
