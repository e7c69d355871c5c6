"""The mechanisms that ship with the benchmark, one file each: the folder mechanisms/ of the repository."""

from dpicl.core.paths import content_folder

__path__ = [str(content_folder("mechanisms"))]
