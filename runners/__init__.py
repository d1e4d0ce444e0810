"""Whatever plays, learns, computes or serves; the command line."""
