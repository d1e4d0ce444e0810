"""Files of archives: their names, and the backends that read and write them, on this machine or on object storage."""
