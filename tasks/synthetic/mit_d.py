"""Invented sentences about films that name a director."""

from dpicl.tasks.synthetic.movies import sentences

records = sentences("mit_d", "director")
