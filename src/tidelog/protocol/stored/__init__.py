"""What is kept in logs, or in bytes that others carry: one module for each log.

All but this file is generated, by `make messages`.
"""
