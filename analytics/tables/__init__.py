"""Work on the tables of an archive: deriving, compacting, merging and verifying them."""
