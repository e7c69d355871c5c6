"""Seeded corpora that look like the real ones: for installation checks and fast tests, not for comparing methods."""
