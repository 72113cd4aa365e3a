"""Proofs of identity without IO: subjects of certificates, SASL mechanisms on both sides."""
