"""Samples as plain records: a sample can be read only while it is open."""

from dpicl.harness.data.splits import Record


def contents(slots):
    """The same slots with records that stay."""
    return tuple(tuple(Record(record.text, record.label) for record in slot) for slot in slots)
