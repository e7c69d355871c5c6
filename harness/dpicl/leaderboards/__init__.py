"""Boards, comparisons, the gate of submissions, publishing."""
