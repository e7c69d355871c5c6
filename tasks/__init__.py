"""The tasks that ship with the benchmark, one folder each."""

if __name__ != "dpicl.tasks":  # a second copy of every class would be no good
    raise ImportError("'tasks' is a part of the package dpicl: import 'dpicl.tasks' instead.", name="tasks")
