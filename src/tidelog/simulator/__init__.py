"""Whole nodes in virtual time on a simulated network and disk, from one seed."""
