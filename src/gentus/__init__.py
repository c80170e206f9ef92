"""GenTUS: table union search by generation."""

__version__ = "0.1.0"
