"""Data that tests make for themselves."""
