"""Changes of an archive that leave its games as they are: compaction, merging, upgrades, removal of files."""
