"""Topics, their partitions and settings."""
