"""Invented sentences about films that name a genre."""

from dpicl.tasks.synthetic.movies import sentences

records = sentences("mit_g", "genre")
