"""Players that attack whoever runs them, one of each kind; tests copy them into the folder of an entry."""
