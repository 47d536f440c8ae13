"""The stages: what makes data, and what trains on it, each behind a gate."""
