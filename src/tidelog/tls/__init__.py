"""TLS contexts from Kafka's settings, for the sockets of nodes and clients."""
