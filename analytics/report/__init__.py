"""The report: one HTML page, its sections, their figures."""
