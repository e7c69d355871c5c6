"""The commands of `dpicl`, one module a group. Each module has `add(subparsers)`; heavy imports wait until a command
runs, so that `dpicl --help` answers at once."""
