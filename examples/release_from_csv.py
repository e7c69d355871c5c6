"""Private demonstrations from a table of one's own records, with their privacy card: about two minutes on two cores.

    python examples/release_from_csv.py tickets.csv billing technical refund --size 300
    python examples/release_from_csv.py tickets.csv billing technical refund --size 300 --model sim

The table has a column `text` and a column `label`. Every call pays again out of the budget of these records, which
`dpicl budget` shows; `--size` is the public number of records (about how many there are).
"""

import argparse
from pathlib import Path

import dpicl

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("labels", nargs="+")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--out", type=Path, default=Path("demonstrations.jsonl"))
    arguments = parser.parse_args()

    released = dpicl.release(
        "private_evolution",
        data=arguments.table,
        labels=arguments.labels,
        size=arguments.size,
        model=arguments.model,
        epsilon=1,
        out=arguments.out,
    )
    print(released.text("prompt"))
    guarantee = released.card["guarantee"]
    print(
        f"epsilon {guarantee['epsilon']:.3f} and delta {guarantee['delta']:g} for {guarantee['protects']}"
    )
    print(f"Written: {arguments.out}, and its card beside it.")
