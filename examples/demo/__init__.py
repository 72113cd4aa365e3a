"""The whole product in one go: brokers, a pipeline, a death in the middle, and the proofs."""
