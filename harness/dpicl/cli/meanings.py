"""What people mean who write the names that other programs have: for suggestions in messages."""

from __future__ import annotations

#: What people write for a command -> the command that does it.
COMMANDS = {
    **dict.fromkeys(("eval", "evaluate", "benchmark", "start", "exec", "train"), "run"),
    **dict.fromkeys(("leaderboard", "results", "show", "report", "table", "rank", "site"), "board"),
    **dict.fromkeys(("create", "init", "scaffold", "template"), "new"),
    **dict.fromkeys(("ls", "tasks", "mechanisms", "models", "suites", "attacks"), "list"),
    **dict.fromkeys(("test", "verify", "validate", "conformance"), "check"),
    **dict.fromkeys(("diff", "gate"), "compare"),
    **dict.fromkeys(("history", "trend"), "track"),
    **dict.fromkeys(("env", "info", "status", "setup", "install"), "doctor"),
    **dict.fromkeys(("dataset", "datasets", "inspect", "count"), "data"),
    **dict.fromkeys(("wandb", "upload", "export"), "publish"),
    **dict.fromkeys(("figure", "chart", "graph"), "plot"),
    **dict.fromkeys(("cost", "estimate", "dry-run"), "plan"),
    **dict.fromkeys(("epsilon", "accountant", "rdp"), "account"),
    **dict.fromkeys(("sigma", "noise"), "calibrate"),
    **dict.fromkeys(("lm_eval", "lmeval", "harness"), "lm-eval"),
    "diagnose": "It was removed; `dpicl compare` and the site's page of a row show what a method loses, and where.",
}
#: The same for flags; a flag is suggested where the command has it.
FLAGS = {
    **dict.fromkeys(("--eps", "--budget", "--target-epsilon", "-e"), "--epsilon"),
    **dict.fromkeys(("--method", "--methods", "--mechanisms", "--algorithm", "-m"), "--mechanism"),
    **dict.fromkeys(("--dataset", "--datasets", "--data", "--tasks", "-t"), "--task"),
    **dict.fromkeys(("--llm", "--models", "--pretrained", "--model_args"), "--model"),
    **dict.fromkeys(("--output", "--out", "--output-dir", "--output_path", "-o"), "--results"),
    **dict.fromkeys(("--num-fewshot", "--num_fewshot", "--k", "--examples", "--demonstrations"), "--shots"),
    **dict.fromkeys(("--samples", "--num-samples", "--test-records"), "--limit"),
    **dict.fromkeys(("--jobs", "-j", "--num-workers", "--processes"), "--workers"),
    **dict.fromkeys(("--seeds", "--random-seed", "-s"), "--seed"),
    **dict.fromkeys(("--set", "--options", "--hyperparameters"), "--option"),
    **dict.fromkeys(("--force", "--overwrite", "--rerun"), "--rerun-stale"),
    **dict.fromkeys(("--plugins", "--include_path", "--include-path"), "--plugin"),
    **dict.fromkeys(("--noise", "--secure", "--reveal-records", "--total-epsilon"), "Secure noise and its budget are"
                    " for records of your own: `dpicl release` (docs/own-records.md)."),
    **dict.fromkeys(("--delta", "--sizes", "--train-records"), "A suite says it, under the key of that name, in its"
                    " file (docs/suites.md)."),
    **dict.fromkeys(("--device", "--gpu", "--cuda"), "The GPU is used where there is one; CUDA_VISIBLE_DEVICES= hides"
                    " it."),
    **dict.fromkeys(("--verbose", "--debug", "--quiet", "-q"), "There is no such level: messages are on stderr, and"
                    " --json gives everything."),
}  # fmt: skip
#: A command and what followed it -> what is there in its place.
GONE = {
    "publish trackio": "Publishing to trackio was removed; use `dpicl publish wandb RESULTS --mode offline`.",
}
#: (command, former name of a flag) -> its name; taken for one more release.
RENAMED = {
    ("run", "--again"): "--rerun-stale",
    ("audit", "--deal"): "--other-records",
    ("audit", "--asked"): "--queries",
}
