"""Players: each is one file here, one yaml in ``conf/agent``, one test."""
