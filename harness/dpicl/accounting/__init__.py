"""Events, their accountants and their calibration: what an epsilon is, and what it costs. Imports the core alone."""
