"""The cluster's own disks as a DataFrame, and the audit that compares all replicas on them."""
