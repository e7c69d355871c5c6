"""Where results are published: Weights & Biases, Weave, a local trackio dashboard (docs/releases.md)."""
