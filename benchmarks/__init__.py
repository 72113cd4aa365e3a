"""Measurements as commands with a table: one broker, stock clients, this machine."""
