"""Pages about runs: the list, the page of a run, and comparisons."""
