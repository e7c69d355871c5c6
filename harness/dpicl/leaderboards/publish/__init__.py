"""Where results are published: Weights & Biases and Weave (docs/releases.md)."""
