"""Players: each is one file here, one yaml in ``conf/agent``, one test. ``base`` and ``lift`` are their interfaces."""
