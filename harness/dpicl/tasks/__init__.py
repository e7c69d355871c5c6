"""The tasks that ship with the benchmark, one folder each: the folder tasks/ of the repository."""

from dpicl.core.paths import content_folder

__path__ = [str(content_folder("tasks"))]
