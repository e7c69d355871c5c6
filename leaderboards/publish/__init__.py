"""Where results are published: Weights & Biases, Weave, a local trackio dashboard (docs/publishing.md).

`base` says what is sent and what a place to send it to must do; `published` makes that from results, without any of
these packages; `wandb_sink`, `trackio_sink`, `wandb_report` and `weave_board` each know one of them.
"""
