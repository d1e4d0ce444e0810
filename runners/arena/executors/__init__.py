"""Executors: what carries out large work, in this process or in many, on this machine or on a cluster."""
