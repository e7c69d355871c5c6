"""Publishes results to Weights & Biases (docs/releases.md)."""
