"""Is everything what it claims to be; what crashes left behind."""
