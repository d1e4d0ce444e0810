"""Changes of an archive that leave its games as they are: fewer files, several archives as one, no garbage."""
