"""Publishes results to Weights & Biases and Weave (docs/releases.md)."""
