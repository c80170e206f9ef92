"""identifiers."""
