"""app/cli."""
