"""The sections of a report: a file for each question, with its data as a frame, its table and its figures."""
